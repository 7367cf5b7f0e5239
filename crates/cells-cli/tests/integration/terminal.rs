//! A person at a terminal: approvals, questions, what is shown.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use cells_native::cells_driver::{ClientConfig, Connection, MutationOptions, ProfileId, Secret};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;
use tokio::process::Child;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::stage::{KEY, Stage, matches};

/// A terminal on which a command runs.
struct Person {
    child: Child,
    keyboard: File,
    screen: UnboundedReceiver<Vec<u8>>,
    seen: Vec<u8>,
    /// Keeps the terminal open when the command has ended.
    terminal: File,
}

impl Person {
    fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let side = || terminal.try_clone().unwrap();
        let mut command = stage.cells(arguments);
        let child = command.env("TERM", "xterm").stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().unwrap();
        let (sender, screen) = unbounded_channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n_bytes @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..n_bytes].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, seen: Vec::new(), terminal }
    }

    /// Waits until the screen shows something that ends so.
    async fn sees(&mut self, end: &str) {
        while !self.text().ends_with(end) {
            tokio::select! {
                Some(bytes) = self.screen.recv() => self.seen.extend(bytes),
                status = self.child.wait() => panic!("it ended with {status:?} and this: {}", self.text()),
            }
        }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).replace("\r\n", "\n")
    }

    /// Waits for the end of the command; the exit code and all that the screen showed after the ids.
    async fn leaves(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().await.unwrap().code();
        // What the command wrote last comes before this.
        self.terminal.write_all(b"\x04END").unwrap();
        while !self.text().ends_with("\x04END") {
            let bytes = self.screen.recv().await.unwrap();
            self.seen.extend(bytes);
        }
        let text = self.text();
        let after_ids = text.split_once("\nrequest ").unwrap().1.split_once('\n').unwrap().1;
        (code, after_ids.strip_suffix("\x04END").unwrap().to_owned())
    }
}

const ALLOW: &str = "Allow it? [y]es, [n]o, [c]ancel the turn: ";

#[tokio::test]
async fn approvals_are_asked_until_the_answer_is_clear() {
    let stage = Stage::new().await;
    let mut person = Person::start(&stage, &["send", "say Wait.\nrun echo one\nrun echo two"]);
    person.sees(ALLOW).await;
    person.types("maybe\n");
    person.sees(&format!("maybe\n{ALLOW}")).await;
    person.types("y\n");
    person.sees(&format!("    echo two\nReason: The prompt asks for it.\n{ALLOW}")).await;
    person.types("no\n");
    let (code, shown) = person.leaves().await;
    assert_eq!(code, Some(0));
    let expected = format!(
        "Wait.\n$ echo one\n\nThe agent asks to run:\n    echo one\nReason: The prompt asks for it.\n{ALLOW}maybe\n{ALLOW}y\n\
         $ echo two\n\nThe agent asks to run:\n    echo two\nReason: The prompt asks for it.\n{ALLOW}no\n\
         $ echo two: declined\nCommand `echo one` exited with 0:\n```\none\n```\n\nCommand `echo two` was declined.\n"
    );
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn what_was_typed_before_a_question_is_not_its_answer() {
    let stage = Stage::new().await;
    let mut person = Person::start(&stage, &["send", "say Wait.\nrun touch never\nrun touch ever"]);
    person.types("y\ny\ny\n");
    person.sees(ALLOW).await;
    person.types("n\n");
    person.sees(&format!("touch ever\nReason: The prompt asks for it.\n{ALLOW}")).await;
    person.types("y\n");
    let (code, _) = person.leaves().await;
    assert_eq!(code, Some(0));
    assert_eq!((stage.path("notes/never").exists(), stage.path("notes/ever").exists()), (false, true));
}

#[tokio::test]
async fn cancelling_ends_the_turn_and_the_program() {
    for keys in ["c\n", "\u{4}"] {
        let stage = Stage::new().await;
        let mut person = Person::start(&stage, &["send", "run touch never\nsay done"]);
        person.sees(ALLOW).await;
        person.types(keys);
        let (code, shown) = person.leaves().await;
        assert_eq!(code, Some(130), "{shown}");
        assert!(!stage.path("notes/never").exists());
        assert_eq!(stage.json(&["sessions"]).await["sessions"][0]["lastTurnResult"], "cancelled");
    }
}

#[tokio::test]
async fn questions_take_a_number_a_label_or_free_text() {
    let stage = Stage::new().await;
    let mut person =
        Person::start(&stage, &["send", "ask Which color? | red | blue\nask Which size? | S | M\nask Why?"]);
    person.sees("Which color?\n  1  red\n  2  blue\n> ").await;
    person.types("2\n");
    person.sees("Which size?\n  1  S\n  2  M\n> ").await;
    person.types("S\n");
    person.sees("Why?\n> ").await;
    person.types("Because – ü.\n");
    let (code, shown) = person.leaves().await;
    assert_eq!(code, Some(0));
    for answer in ["You answered: blue\n", "You answered: S\n", "You answered: Because – ü.\n"] {
        assert!(shown.contains(answer), "{shown}");
    }
}

#[tokio::test]
async fn a_question_that_somebody_else_answers_is_not_asked_any_longer() {
    let stage = Stage::new().await;
    let mut person = Person::start(&stage, &["send", "run echo hi"]);
    person.sees(ALLOW).await;
    let other = cells_native::spawn(ClientConfig::default()).unwrap();
    other.set_credential("other", Secret::new(KEY.to_owned()));
    let harness = other.harness(&Connection::new(stage.proxy.url(), "other")).unwrap();
    let profile_id = ProfileId::new("scripted").unwrap();
    let mut events = harness.subscribe(&profile_id);
    let request_id = loop {
        if let Some(request) = events.snapshot(None).requests.first() {
            break request.id.clone().unwrap();
        }
        events.changed().await.unwrap();
    };
    let yes = json!({"decision": "accept"});
    harness.respond(&profile_id, request_id, yes, MutationOptions::default()).await.unwrap();
    let (code, shown) = person.leaves().await;
    assert_eq!(code, Some(0));
    let notice = "\ncells: it was answered elsewhere, or is not asked any longer\n";
    let expected = format!("*{ALLOW}{notice}Command `echo hi` exited with 0:\n```\nhi\n```\n");
    assert!(matches(&expected, &shown), "{shown}");
}

#[tokio::test]
async fn text_of_an_agent_does_not_steer_the_terminal() {
    let stage = Stage::new().await;
    let person = Person::start(&stage, &["send", "say a\u{1b}[2Jb\u{7}c"]);
    assert_eq!(person.leaves().await, (Some(0), "a\\u{1b}[2Jb\\u{7}c\n".to_owned()));
}

#[tokio::test]
async fn a_download_to_a_file_shows_its_progress() {
    let stage = Stage::new().await;
    stage.write("big", vec![b'x'; 5_000_000]);
    let mut person = Person::start(&stage, &["cat", "notes/big", "-o", "copy"]);
    let code = person.child.wait().await.unwrap().code();
    person.terminal.write_all(b"\x04END").unwrap();
    while !person.text().ends_with("\x04END") {
        let bytes = person.screen.recv().await.unwrap();
        person.seen.extend(bytes);
    }
    assert_eq!((code, std::fs::metadata(stage.path("copy")).unwrap().len()), (Some(0), 5_000_000));
    assert!(person.text().contains("4.77 MiB"), "{}", person.text());
    assert!(tcgetattr(&person.terminal).unwrap().local_modes.contains(LocalModes::ECHO));
}
