//! What hosts rely on at the wire, over real connections to a node that a test scripts: stat batches, ranges, what a write
//! became, names with colons, Basic credentials in UTF-8, and cancelled calls that end at the node too.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cells_driver::{
    Cancellation, Client, Connection, ErrorKind, FileConnection, FileMutationOptions, FileStorage, OperationId,
    OperationOptions, Outcome, ReadOptions, ReplaceCondition, Secret, Upload,
};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a node was asked.
#[derive(Clone)]
struct Asked {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The paths of a request for attributes.
    fn paths(&self) -> Vec<String> {
        serde_json::from_value(serde_json::from_slice::<Value>(&self.body).unwrap()["paths"].take()).unwrap()
    }
}

/// What a node answers.
enum Answer {
    /// Status, headers and body.
    Reply(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Nothing, until the client leaves.
    Never,
    /// The connection is closed.
    Close,
}

fn reply(status: u16, body: &Value) -> Answer {
    Answer::Reply(status, Vec::new(), body.to_string().into_bytes())
}

/// A node that answers what a function says.
struct Wire {
    endpoint: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The requests that got no answer, and whose client has left.
    left: Arc<Mutex<Vec<Asked>>>,
}

impl Wire {
    /// `answer` is asked first; what it has no answer for is answered as by a node with the writable export `notes`.
    async fn start(answer: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (asked, left) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<Mutex<Vec<Asked>>>::default());
        let (known, gone, answer) = (Arc::clone(&asked), Arc::clone(&left), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, Arc::clone(&known), Arc::clone(&gone), Arc::clone(&answer)));
            }
        });
        Self { endpoint, asked, left }
    }

    fn client(&self) -> (Client, FileConnection) {
        let client = cells_native::spawn(Default::default()).unwrap();
        client.set_credential("office", Secret::new("key-0123456789"));
        (client, FileConnection::new(Connection::new(&self.endpoint, "office"), "notes"))
    }

    async fn storage(&self) -> FileStorage {
        let (client, connection) = self.client();
        client.file_storage(&connection, OperationOptions::default()).await.unwrap()
    }

    fn asked(&self, part: &str) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.target.contains(part)).cloned().collect()
    }

    /// Waits until a request for `part` came.
    async fn until_asked(&self, part: &str) {
        while self.asked(part).is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the client has left a request for `part`.
    async fn until_left(&self, part: &str) {
        while !self.left.lock().unwrap().iter().any(|asked| asked.target.contains(part)) {
            tokio::task::yield_now().await;
        }
    }
}

async fn serve(
    mut connection: TcpStream,
    known: Arc<Mutex<Vec<Asked>>>,
    gone: Arc<Mutex<Vec<Asked>>>,
    answer: Arc<impl Fn(&Asked) -> Option<Answer>>,
) {
    while let Some(asked) = read_request(&mut connection).await {
        known.lock().unwrap().push(asked.clone());
        match answer(&asked).unwrap_or_else(|| ordinary(&asked)) {
            Answer::Reply(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} x\r\n");
                for (name, value) in &headers {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
                let _ = connection.write_all(&[head.as_bytes(), &body].concat()).await;
            }
            Answer::Never => {
                let _ = connection.read(&mut [0]).await;
                gone.lock().unwrap().push(asked);
                return;
            }
            Answer::Close => return,
        }
    }
}

async fn read_request(connection: &mut TcpStream) -> Option<Asked> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if connection.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(read[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let headers: Vec<_> = lines.filter_map(header).collect();
    let mut asked = Asked { method: first.next()?, target: first.next()?, headers, body: read.split_off(end + 4) };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    while asked.body.len() < length {
        if connection.read_buf(&mut asked.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(asked)
}

fn ordinary(asked: &Asked) -> Answer {
    match asked.target.split('?').next().unwrap() {
        "/v1/exports" => {
            let export = json!({"alias": "notes", "access": "rw", "nameSemantics": "source", "strongRevision": true});
            reply(200, &json!({"version": 1, "exports": [export]}))
        }
        "/v1/fs/notes/stat" => {
            let stat = |path: &String| match path.as_str() {
                "gone" => json!({"stat": null}),
                "denied" => json!({"error": "EACCES"}),
                path => json!({"stat": {"kind": "file", "size": path.len(), "revision": "\"a:1\""}}),
            };
            reply(200, &json!({"results": asked.paths().iter().map(stat).collect::<Vec<_>>()}))
        }
        "/v1/fs/notes/content" if asked.method == "PUT" => {
            reply(200, &json!({"outcome": "committed", "result": {"kind": "file", "size": asked.body.len()}}))
        }
        "/v1/fs/notes/content" => Answer::Reply(200, Vec::new(), b"0123456789".to_vec()),
        path if path.ends_with("/cancel") => reply(200, &json!({"outcome": "not-committed", "code": "ECANCELLED"})),
        _ => reply(404, &json!({"code": "ENOENT"})),
    }
}

#[tokio::test]
async fn stat_calls_of_one_turn_are_batches_of_distinct_paths() {
    let node = Wire::start(|_| None).await;
    let storage = node.storage().await;
    let files = storage.files();
    let stat = |path: &str| files.stat(path, OperationOptions::default());
    let paths: Vec<String> = (0..600).map(|n| format!("{:0width$}", n % 300, width = 3 + n % 300 % 5)).collect();
    for (path, result) in paths.iter().zip(join_all(paths.iter().map(|path| stat(path))).await) {
        assert_eq!(result.unwrap().unwrap().size, Some(path.len() as u64));
    }
    let batches: Vec<_> = node.asked("/stat").iter().map(Asked::paths).collect();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [256, 44]);
    assert_eq!(batches.concat(), paths[..300], "each path once, in the order of the calls");

    let (gone, denied, file) = futures::join!(stat("gone"), stat("denied"), stat("file"));
    assert_eq!((gone.unwrap(), file.unwrap().unwrap().size), (None, Some(4)));
    assert_eq!(denied.unwrap_err().kind(), ErrorKind::AccessDenied, "one path fails for itself");
    stat("file").await.unwrap();
    assert_eq!(node.asked("/stat").len(), 4, "nothing is kept for the next turn");
}

#[tokio::test]
async fn a_range_is_exactly_what_was_asked_for_or_refused() {
    type Case = (u64, Option<u64>, u16, &'static str, &'static [u8], Result<&'static [u8], ErrorKind>);
    let cases: [Case; 9] = [
        (4, Some(3), 206, "bytes 4-6/10", b"456", Ok(b"456")),
        (8, Some(9), 206, "bytes 8-9/10", b"89", Ok(b"89")),
        (4, None, 206, "bytes 4-9/10", b"456789", Ok(b"456789")),
        (4, Some(3), 200, "", b"0123456789", Ok(b"456")),
        (4, Some(3), 206, "bytes 3-5/10", b"345", Err(ErrorKind::Io)),
        (4, Some(3), 206, "bytes 4-5/10", b"45", Err(ErrorKind::Io)),
        (4, Some(3), 206, "bytes 4-6/10", b"4567", Err(ErrorKind::Io)),
        (4, Some(3), 206, "", b"456", Err(ErrorKind::Io)),
        (40, Some(3), 416, "bytes */10", b"", Err(ErrorKind::Invalid)),
    ];
    for (offset, length, status, content_range, body, expected) in cases {
        let node = Wire::start(move |asked| {
            let ranges =
                if content_range.is_empty() { vec![] } else { vec![("content-range", content_range.to_owned())] };
            asked.target.contains("/content").then(|| Answer::Reply(status, ranges, body.to_vec()))
        });
        let node = node.await;
        let options = ReadOptions { offset, length, ..ReadOptions::default() };
        let read = node.storage().await.files().read("a", options).await;
        let case = format!("{offset} {length:?} {status} {content_range}");
        assert_eq!(
            read.map(|content| content.data.to_vec()).map_err(|error| error.kind()),
            expected.map(<[u8]>::to_vec),
            "{case}"
        );
        let last = length.map(|length| (offset + length - 1).to_string()).unwrap_or_default();
        assert_eq!(
            node.asked("/content")[0].header("range"),
            Some(format!("bytes={offset}-{last}").as_str()),
            "{case}"
        );
    }
}

#[tokio::test]
async fn a_definite_rejection_is_told_from_an_unknown_outcome_and_nothing_is_sent_twice() {
    let bare = |status: u16, code: &str| (status, json!({"code": code}).to_string());
    let receipt =
        |status: u16, outcome: &str, code: &str| (status, json!({"outcome": outcome, "code": code}).to_string());
    let cases = [
        (Some(bare(403, "EROFS")), Outcome::NotCommitted, ErrorKind::ReadOnly),
        (Some(bare(409, "EBUSY")), Outcome::NotCommitted, ErrorKind::Busy),
        (Some(receipt(412, "not-committed", "ECONFLICT")), Outcome::NotCommitted, ErrorKind::Conflict),
        (Some(receipt(507, "not-committed", "ENOSPC")), Outcome::NotCommitted, ErrorKind::NoSpace),
        (Some(bare(409, "OPERATION_ID_REUSED")), Outcome::Unknown, ErrorKind::Conflict),
        (Some(receipt(504, "unknown", "ETIMEDOUT")), Outcome::Unknown, ErrorKind::TimedOut),
        (Some((502, "bad gateway".to_owned())), Outcome::Unknown, ErrorKind::Io),
        (Some((200, "not JSON".to_owned())), Outcome::Unknown, ErrorKind::Io),
        (None, Outcome::Unknown, ErrorKind::Io),
    ];
    for (answer, outcome, kind) in cases {
        let case = format!("{answer:?}");
        let node = Wire::start(move |asked| {
            (asked.method == "PUT").then(|| match &answer {
                Some((status, body)) => Answer::Reply(*status, Vec::new(), body.clone().into_bytes()),
                None => Answer::Close,
            })
        });
        let node = node.await;
        let storage = node.storage().await;
        let write = storage.mutations().unwrap().replace(
            "a",
            Upload::bytes("new"),
            ReplaceCondition::CreateOnly,
            FileMutationOptions::default(),
        );
        let error = write.await.unwrap_err();
        assert_eq!((error.outcome(), error.kind()), (Some(outcome), kind), "{case}: {error}");
        let puts = node.asked("/content");
        assert_eq!((puts.len(), &puts[0].body[..]), (1, &b"new"[..]), "{case}");
        assert_eq!(error.operation_id().map(OperationId::as_str), puts[0].header("x-operation-id"), "{case}");
        assert_eq!(error.file_recovery().is_some(), outcome == Outcome::Unknown, "{case}");
    }
}

#[tokio::test]
async fn a_colon_in_a_name_is_a_character_and_a_drive_is_refused() {
    let node = Wire::start(|_| None).await;
    let storage = node.storage().await;
    for path in ["2024:Q1.md", "notes/a:b", "ü:ö", "ab:c/d"] {
        assert!(storage.files().stat(path, OperationOptions::default()).await.unwrap().is_some(), "{path}");
        storage.files().read(path, ReadOptions::default()).await.unwrap();
        let asked = node.asked("/content").pop().unwrap();
        let url = reqwest::Url::parse(&format!("{}{}", node.endpoint, asked.target)).unwrap();
        assert_eq!(url.query_pairs().collect::<Vec<_>>(), [("path".into(), path.into())]);
    }
    let n_asked = node.asked("").len();
    for path in ["C:", "c:/x", "z:file"] {
        let error = storage.files().stat(path, OperationOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}: {error}");
        let error = storage.files().read(path, ReadOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}: {error}");
    }
    assert_eq!(node.asked("").len(), n_asked, "nothing was sent");
}

#[tokio::test]
async fn a_user_name_and_a_password_are_sent_as_basic_in_utf_8() {
    let node = Wire::start(|_| None).await;
    let (client, connection) = node.client();
    client.set_credential("office", Secret::new("päss:wörd 密"));
    let connection = Connection { username: Some("jürgen".to_owned()), ..connection.connection };
    client.exports(&connection, OperationOptions::default()).await.unwrap();
    let sent = node.asked("/v1/exports")[0].header("authorization").unwrap().to_owned();
    assert_eq!(sent, format!("Basic {}", STANDARD.encode("jürgen:päss:wörd 密")));
    for username in ["a:b", ""] {
        let connection = Connection { username: Some(username.to_owned()), ..connection.clone() };
        let error = client.exports(&connection, OperationOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{username}: {error}");
    }
    assert_eq!(node.asked("").len(), 1);
}

#[tokio::test]
async fn a_cancelled_read_ends_at_the_node_too() {
    let held = |asked: &Asked| (asked.method == "GET" || asked.target.contains("/stat")).then_some(Answer::Never);
    let node = Wire::start(move |asked| if asked.target.contains("/v1/fs/") { held(asked) } else { None }).await;
    let storage = node.storage().await;
    let files = storage.files();
    for part in ["/entries", "/content", "/stat"] {
        let (cancel, token) = Cancellation::new();
        let operation = OperationOptions { timeout_ms: None, cancel: Some(token) };
        let call = async {
            match part {
                "/entries" => files.list("a", None, operation).await.map(drop),
                "/content" => files.read("a", ReadOptions { operation, ..ReadOptions::default() }).await.map(drop),
                _ => files.stat("a", operation).await.map(drop),
            }
        };
        let leave = async {
            node.until_asked(part).await;
            cancel.cancel();
        };
        let (result, ()) = futures::join!(call, leave);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled, "{part}");
        node.until_left(part).await;
    }
}

#[tokio::test]
async fn a_cancelled_write_is_stopped_at_the_node_and_tells_its_outcome() {
    for (receipt, outcome) in [
        (json!({"outcome": "not-committed", "code": "ECANCELLED"}), Some(Outcome::NotCommitted)),
        (json!({"outcome": "committed", "result": {"kind": "file", "size": 3}}), None),
    ] {
        let case = receipt.to_string();
        let node = Wire::start(move |asked| match asked.target.as_str() {
            path if path.ends_with("/cancel") => Some(reply(200, &receipt)),
            // Its receipts are durable, so that it knows what it never saw.
            "/v1/capabilities" => Some(reply(200, &capabilities())),
            _ => (asked.method == "PUT").then_some(Answer::Never),
        });
        let node = node.await;
        let storage = node.storage().await;
        let (cancel, token) = Cancellation::new();
        let operation = OperationOptions { timeout_ms: None, cancel: Some(token) };
        let options = FileMutationOptions { operation, ..FileMutationOptions::default() };
        let write =
            storage.mutations().unwrap().replace("a", Upload::bytes("new"), ReplaceCondition::CreateOnly, options);
        let leave = async {
            node.until_asked("/content").await;
            cancel.cancel();
        };
        let (result, ()) = futures::join!(write, leave);
        let id = node.asked("/content")[0].header("x-operation-id").unwrap().to_owned();
        match (result, outcome) {
            (Ok(written), None) => assert_eq!(written.value.size, Some(3), "{case}"),
            (Err(error), Some(outcome)) => {
                assert_eq!((error.kind(), error.outcome()), (ErrorKind::Cancelled, Some(outcome)), "{case}: {error}");
            }
            (result, _) => panic!("{case}: {result:?}"),
        }
        node.until_left("/content").await;
        let cancels = node.asked("/cancel");
        assert_eq!(cancels.len(), 1, "{case}");
        assert_eq!(cancels[0].target, format!("/v1/fs/notes/operations/{id}/cancel"), "{case}");
    }
}

fn capabilities() -> Value {
    json!({
        "version": 1, "serverId": "n", "processEpoch": "e",
        "files": {"read": true, "write": true, "receipts": {"version": 1, "durable": true}},
        "sync": {"push": false}, "process": {"exec": false}, "terminal": {"pty": false},
        "executionModel": "none", "workspaceConsistency": "none", "readOnlyEnforcement": "none", "pathModel": "none",
    })
}
