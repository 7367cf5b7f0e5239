//! What is done to whole sessions, and turns with attachments: what is sent, what is refused before, what comes back.

use cells_driver::{
    AttachmentKind, ErrorKind, HarnessAttachment, HarnessClient, MutationOptions, Outcome, ProfileId, Recovery, Result,
    TurnOptions,
};
use cells_testkit::fake_host::{FakeHost, FakeReply, FakeRequest};
use serde_json::{Value, json};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::node::{harness, host, profile, receipt, sent, session};

/// What a mutation gave, as JSON, and its identity.
macro_rules! value {
    ($committed:expr) => {{
        let committed = $committed;
        Ok((json!(committed.value), committed.recovery))
    }};
}

/// Every mutation of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Fork,
    Rename,
    Archive,
    Unarchive,
    Delete,
    TurnWithText,
    TurnWithImage,
}

const CALLS: [Call; 7] =
    [Call::Fork, Call::Rename, Call::Archive, Call::Unarchive, Call::Delete, Call::TurnWithText, Call::TurnWithImage];

impl Call {
    fn tool(self) -> &'static str {
        match self {
            Self::Fork => "harness_fork",
            Self::Rename => "harness_rename",
            Self::Archive => "harness_archive",
            Self::Unarchive => "harness_unarchive",
            Self::Delete => "harness_delete",
            Self::TurnWithText | Self::TurnWithImage => "harness_turn",
        }
    }

    /// What a node does with it, and what the client makes of that.
    fn result(self) -> Value {
        match self {
            Self::Delete => json!({"deletedSessionIds": ["s-1", "s-2"]}),
            Self::TurnWithText | Self::TurnWithImage => json!({"turnId": "t-1"}),
            Self::Fork | Self::Rename | Self::Archive | Self::Unarchive => json!({"session": {
                "id": "s-2", "title": "Second", "cwd": null, "status": "idle", "createdAt": null, "updatedAt": null,
                "resumable": true, "archived": self == Self::Archive, "activeTurnId": null,
            }}),
        }
    }

    /// The arguments beside profile, epoch and request id.
    fn arguments(self) -> Value {
        match self {
            Self::Fork => json!({"sessionId": "s-1", "name": "try two"}),
            Self::Rename => json!({"sessionId": "s-1", "name": "Second"}),
            Self::Archive | Self::Unarchive | Self::Delete => json!({"sessionId": "s-1"}),
            Self::TurnWithText => json!({"sessionId": "s-1", "prompt": "look", "attachments": [
                {"kind": "text", "name": "notes.md", "content": "# Notes\n"},
            ]}),
            Self::TurnWithImage => json!({"sessionId": "s-1", "prompt": "look", "attachments": [
                {"kind": "image", "name": "a.png", "content": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png"},
            ]}),
        }
    }

    async fn run(self, harness: &HarnessClient, profile: &ProfileId) -> Result<(Value, Recovery)> {
        let options = MutationOptions::default;
        let attached = |attachment| TurnOptions { attachments: vec![attachment], ..TurnOptions::default() };
        match self {
            Self::Fork => value!(harness.fork(profile, &session(), Some(" try two "), options()).await?),
            Self::Rename => value!(harness.rename(profile, &session(), "Second\n", options()).await?),
            Self::Archive => value!(harness.archive(profile, &session(), true, options()).await?),
            Self::Unarchive => value!(harness.archive(profile, &session(), false, options()).await?),
            Self::Delete => value!(harness.delete(profile, &session(), options()).await?),
            Self::TurnWithText => {
                let text = HarnessAttachment {
                    mime_type: Some("x".to_owned()),
                    ..HarnessAttachment::text("notes.md", "# Notes\n")
                };
                value!(harness.turn(profile, &session(), "look", attached(text)).await?)
            }
            Self::TurnWithImage => {
                let image = HarnessAttachment::image("a.png", "image/png", b"\x89PNG\r\n\x1a\n");
                value!(harness.turn(profile, &session(), "look", attached(image)).await?)
            }
        }
    }
}

/// A node that answers the mutations with `reply`.
fn node(reply: impl Fn(&FakeRequest) -> Option<FakeReply> + Send + 'static) -> FakeHost {
    host(move |request| match request.tool()?.as_str() {
        "harness_profiles" => None,
        _ => reply(request),
    })
}

#[test]
fn each_sends_its_arguments_once_and_gives_its_result() {
    for call in CALLS {
        let host = node(move |request| {
            (request.tool()? == call.tool()).then(|| receipt(request, "committed", &json!({"result": call.result()})))
        });
        let (value, recovery) = host.block_on(call.run(&harness(&host), &profile())).unwrap();
        assert_eq!(value, call.result(), "{call:?}");
        let sent = sent(&host, call.tool());
        let mut arguments = sent[0].arguments();
        for (name, expected) in [
            ("profileId", json!(recovery.profile_id)),
            ("epoch", json!(recovery.epoch)),
            ("requestId", json!(recovery.request_id)),
        ] {
            assert_eq!(arguments.as_object_mut().unwrap().remove(name), Some(expected), "{call:?}");
        }
        assert_eq!((arguments, sent.len()), (call.arguments(), 1), "{call:?}");
    }
}

#[test]
fn a_result_that_cannot_be_read_is_committed_all_the_same() {
    let bad = [
        json!(null),
        json!({}),
        json!({"session": {"id": "", "title": "x"}, "deletedSessionIds": [], "turnId": 7}),
        json!({"session": [], "deletedSessionIds": ["s-2"], "turnId": ""}),
        json!({"session": null, "deletedSessionIds": ["s-1", "s-1"], "turnId": null}),
        json!({"session": 1, "deletedSessionIds": ["s-1", 2], "turnId": {}}),
    ];
    for call in CALLS {
        for result in bad.clone() {
            let host = node(move |request| {
                (request.tool()? == call.tool()).then(|| receipt(request, "committed", &json!({"result": result})))
            });
            let error = host.block_on(call.run(&harness(&host), &profile())).unwrap_err();
            assert_eq!((error.outcome(), error.reason()), (Some(Outcome::Committed), Some("HARNESS_RESULT_INVALID")));
            assert!(error.recovery().is_some() && sent(&host, call.tool()).len() == 1, "{call:?}: {error}");
        }
    }
}

#[test]
fn a_lost_reply_is_unknown_and_says_what_to_ask() {
    for call in CALLS {
        let host = node(move |request| (request.tool()? == call.tool()).then(FakeReply::network_error));
        let error = host.block_on(call.run(&harness(&host), &profile())).unwrap_err();
        assert_eq!((error.outcome(), error.kind()), (Some(Outcome::Unknown), ErrorKind::Io), "{call:?}");
        host.run_for(600_000);
        let sent = sent(&host, call.tool());
        assert_eq!(sent.len(), 1, "{call:?} is not sent again");
        assert_eq!(sent[0].arguments()["requestId"], json!(error.recovery().unwrap().request_id));
    }
}

#[test]
fn what_a_profile_does_not_announce_is_not_sent() {
    let plain = ProfileId::new("plain").unwrap();
    for call in CALLS {
        let host = host(|_| None);
        let error = host.block_on(call.run(&harness(&host), &plain)).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unsupported, Some(Outcome::NotStarted)), "{call:?}");
        assert_eq!((sent(&host, call.tool()).len(), sent(&host, "harness_profiles").len()), (0, 1), "{call:?}");
    }
}

#[test]
fn a_deletion_names_at_most_16401_sessions() {
    for (n_sessions, fits) in [(16_401, true), (16_402, false)] {
        let ids: Vec<String> = (1..=n_sessions).map(|number| format!("s-{number}")).collect();
        let result = json!({"result": {"deletedSessionIds": ids}});
        let host =
            node(move |request| (request.tool()? == "harness_delete").then(|| receipt(request, "committed", &result)));
        let deleted = host.block_on(harness(&host).delete(&profile(), &session(), MutationOptions::default()));
        assert_eq!(deleted.is_ok(), fits, "{n_sessions}");
    }
}

#[test]
fn names_out_of_bounds_are_refused_before_anything_is_sent() {
    let long = ["é".repeat(256), "é".repeat(257), "x".repeat(512), "x".repeat(513)];
    let names = [("", [false, false]), (" \t", [false, false]), ("a\u{7}b", [false, false]), (" ok ", [true, true])];
    let names = names.into_iter().chain([
        (long[0].as_str(), [true, true]),
        (long[1].as_str(), [false, false]),
        (long[2].as_str(), [false, true]),
        (long[3].as_str(), [false, false]),
    ]);
    for (name, fits) in names {
        for (call, fits) in [(Call::Fork, fits[0]), (Call::Rename, fits[1])] {
            let host = node(move |request| Some(receipt(request, "committed", &json!({"result": call.result()}))));
            let harness = harness(&host);
            let options = MutationOptions::default();
            let result = match call {
                Call::Fork => host.block_on(harness.fork(&profile(), &session(), Some(name), options)).map(drop),
                _ => host.block_on(harness.rename(&profile(), &session(), name, options)).map(drop),
            };
            match result {
                Ok(()) => assert!(fits, "{call:?} {name:?}"),
                Err(error) => {
                    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotStarted)));
                    assert!(!fits && host.requests().is_empty(), "{call:?} {name:?}: {error}");
                }
            }
        }
    }
}

/// `n_bytes` bytes that begin as a picture of the type does.
fn picture(magic: &[u8], n_bytes: usize) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.resize(n_bytes, 0);
    bytes
}

#[test]
fn attachments_that_break_a_rule_are_refused_before_anything_is_sent() {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
    let text = |content: &str| HarnessAttachment::text("a.txt", content);
    let named = |name: &str| HarnessAttachment::text(name, "x");
    let image = |mime_type, bytes: &[u8]| HarnessAttachment::image("a", mime_type, bytes);
    let raw = |content: &str| HarnessAttachment {
        kind: AttachmentKind::Image,
        name: "a".to_owned(),
        content: content.to_owned(),
        mime_type: Some("image/png".to_owned()),
    };
    let cases: Vec<(&str, Vec<HarnessAttachment>, bool)> = vec![
        ("five", vec![text("x"); 5], true),
        ("six", vec![text("x"); 6], false),
        ("no content", vec![text("")], true),
        ("64 KiB of text", vec![text(&"x".repeat(65_536))], true),
        ("more text", vec![text(&"x".repeat(65_537))], false),
        ("line ends and tabs", vec![text("a\tb\r\nc")], true),
        ("a control character", vec![text("a\u{1b}[31m")], false),
        ("a NUL", vec![text("\0")], false),
        ("a long name", vec![named(&"n".repeat(256))], true),
        ("a longer name", vec![named(&"n".repeat(257))], false),
        ("no name", vec![named("")], false),
        ("a path", vec![named("a/b")], false),
        ("a path of Windows", vec![named("a\\b")], false),
        ("a name of two lines", vec![named("a\nb")], false),
        ("a PNG", vec![image("image/png", PNG)], true),
        ("a JPEG", vec![image("image/jpeg", b"\xff\xd8\xff\xe0")], true),
        ("a WebP", vec![image("image/webp", b"RIFF\x04\0\0\0WEBP")], true),
        ("a WAV", vec![image("image/webp", b"RIFF\x04\0\0\0WAVE")], false),
        ("a GIF", vec![image("image/gif", b"GIF89a")], false),
        ("a JPEG called PNG", vec![image("image/png", b"\xff\xd8\xff\xe0")], false),
        ("256 KiB of image", vec![image("image/png", &picture(PNG, 262_144))], true),
        ("more image", vec![image("image/png", &picture(PNG, 262_145))], false),
        ("two images of 256 KiB", vec![image("image/png", &picture(PNG, 262_144)); 2], false),
        ("an address", vec![raw("https://example.com/a.png")], false),
        ("another type than it says", vec![raw("data:image/jpeg;base64,iVBORw0KGgo=")], false),
        ("base64 without padding", vec![raw("data:image/png;base64,iVBORw0KGgo")], false),
        ("no base64", vec![raw("data:image/png,iVBORw0KGgo=")], false),
        ("no type", vec![HarnessAttachment { mime_type: None, ..image("image/png", PNG) }], false),
    ];
    for (case, attachments, fits) in cases {
        let host = node(|request| Some(receipt(request, "committed", &json!({"result": {"turnId": "t-1"}}))));
        let options = TurnOptions { attachments, ..TurnOptions::default() };
        match host.block_on(harness(&host).turn(&profile(), &session(), "look", options)) {
            Ok(_) => assert!(fits, "{case}"),
            Err(error) => {
                assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Some(Outcome::NotStarted)), "{case}");
                assert!(!fits && host.requests().is_empty(), "{case}: {error}");
            }
        }
    }
}
