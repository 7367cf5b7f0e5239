//! Writes what happens: for people, answers on standard output and everything else on standard error; for programs, one
//! JSON object a line on standard output.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cells_native::cells_driver::{CommandResult, NativeId, NativeMessage, ProfileId, Recovery};
use serde_json::{Value, json};

use super::{Shown, TurnEnd, item, text};
use crate::failure::Failure;
use crate::text::{one_line, visible};

/// The one place that writes while a turn runs. Clones write to the same place.
#[derive(Clone)]
pub(crate) struct Printer(Arc<Mutex<Inner>>);

struct Inner {
    json: bool,
    /// Answers are shown by a terminal: they must not steer it, and share it with everything else.
    is_terminal: bool,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// The message whose text stands on the last line of the answers, if that line has no end yet.
    open_line: Option<String>,
    /// A prompt waits for what is typed behind it.
    open_prompt: bool,
}

impl Printer {
    /// A printer on the standard streams.
    pub(crate) fn new(json: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self::with(json, is_terminal, Box::new(io::stdout()), Box::new(io::stderr()))
    }

    fn with(json: bool, is_terminal: bool, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(Inner { json, is_terminal, out, err, open_line: None, open_prompt: false })))
    }

    /// The session that is talked to.
    pub(crate) fn session(&self, profile_id: &ProfileId, session_id: &NativeId) -> Result<(), Failure> {
        self.write(|inner| match inner.json {
            true => inner.object(&json!({"type": "session", "profileId": profile_id, "sessionId": session_id})),
            false => inner.line(&format!("session {session_id}")),
        })
    }

    /// A mutation goes out now.
    pub(crate) fn dispatched(&self, operation: &str, recovery: &Recovery) -> Result<(), Failure> {
        let Recovery { profile_id, epoch, request_id, .. } = recovery;
        self.write(|inner| match inner.json {
            true => inner.object(&json!({
                "type": "dispatch", "operation": operation,
                "profileId": profile_id, "epoch": epoch, "requestId": request_id,
            })),
            false => {
                inner.line(&format!("epoch   {epoch}")).and_then(|()| inner.line(&format!("request {request_id}")))
            }
        })
    }

    /// What an event says.
    pub(crate) fn show(&self, shown: &Shown) -> Result<(), Failure> {
        self.write(|inner| if inner.json { inner.object(&to_json(shown)) } else { inner.show(shown) })
    }

    /// The agent asks for something.
    pub(crate) fn asked(&self, message: &NativeMessage) -> Result<(), Failure> {
        let NativeMessage { id, method, params } = message;
        self.write(|inner| match inner.json {
            true => inner.object(&json!({"type": "request", "id": id, "method": method, "params": params})),
            false => Ok(()),
        })
    }

    /// The agent got an answer. What was typed is not repeated.
    pub(crate) fn answered(&self, id: &Value, response: &Value) -> Result<(), Failure> {
        self.write(|inner| match inner.json {
            true => inner.object(&json!({"type": "answer", "id": id, "decision": response.get("decision")})),
            false => Ok(()),
        })
    }

    /// Something a person should know.
    pub(crate) fn notice(&self, notice: &str) -> Result<(), Failure> {
        self.write(|inner| match inner.json {
            true => inner.object(&json!({"type": "notice", "message": notice})),
            false => inner.line(&format!("cells: {}", one_line(notice))),
        })
    }

    /// Asks a person; the cursor stays behind the prompt.
    pub(crate) fn prompt(&self, prompt: &str) -> Result<(), Failure> {
        self.write(|inner| {
            inner.end_line_on_terminal()?;
            inner.open_prompt = !prompt.ends_with('\n');
            inner.err.write_all(prompt.as_bytes())
        })
    }

    /// Something was typed behind the prompt; `needs_end` if the terminal did not show the end of its line.
    pub(crate) fn typed(&self, needs_end: bool) -> Result<(), Failure> {
        self.write(|inner| {
            inner.open_prompt = false;
            if needs_end { writeln!(inner.err) } else { Ok(()) }
        })
    }

    fn write(&self, write: impl FnOnce(&mut Inner) -> io::Result<()>) -> Result<(), Failure> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        write(inner)
            .and_then(|()| inner.out.flush())
            .and_then(|()| inner.err.flush())
            .map_err(|error| Failure::stdout(&error))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn object(&mut self, object: &Value) -> io::Result<()> {
        writeln!(self.out, "{object}")
    }

    /// One line beside the answers.
    fn line(&mut self, line: &str) -> io::Result<()> {
        self.end_line_on_terminal()?;
        writeln!(self.err, "{line}")
    }

    fn show(&mut self, shown: &Shown) -> io::Result<()> {
        match shown {
            Shown::Text { item_id, delta } => self.text(item_id, delta),
            Shown::Message { item_id, missing, .. } => {
                self.text(item_id, missing)?;
                if self.open_line.as_ref() == Some(item_id) { self.end_line() } else { Ok(()) }
            }
            Shown::Item { is_complete, item } => {
                let Some(note) = item::note(item) else { return Ok(()) };
                let status = text(item, "status").filter(|status| *status != "completed");
                match (is_complete, status) {
                    (false, _) => self.line(&one_line(&note)),
                    (true, Some(status)) => self.line(&format!("{}: {}", one_line(&note), one_line(status))),
                    (true, None) => Ok(()),
                }
            }
            Shown::Command(result) => self.command(result),
            Shown::Ended(_) => self.end_line(),
        }
    }

    fn text(&mut self, item_id: &str, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open_line.as_deref().is_some_and(|open| open != item_id) {
            self.end_line()?;
        }
        self.answer(text)?;
        self.open_line = (!text.ends_with('\n')).then(|| item_id.to_owned());
        Ok(())
    }

    /// The output of a command is passed on byte by byte, so that it can be piped.
    fn command(&mut self, result: &CommandResult) -> io::Result<()> {
        let text = result.output.as_deref().or(result.preview.as_deref()).unwrap_or_default();
        self.answer(text)?;
        if self.is_terminal && !text.is_empty() && !text.ends_with('\n') {
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn answer(&mut self, text: &str) -> io::Result<()> {
        self.end_prompt()?;
        let text = if self.is_terminal { visible(text) } else { text.into() };
        self.out.write_all(text.as_bytes())
    }

    fn end_line(&mut self) -> io::Result<()> {
        match self.open_line.take() {
            Some(_) => writeln!(self.out),
            None => Ok(()),
        }
    }

    fn end_prompt(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.open_prompt) { writeln!(self.err) } else { Ok(()) }
    }

    /// Elsewhere, what goes to standard error does not touch the answers.
    fn end_line_on_terminal(&mut self) -> io::Result<()> {
        self.end_prompt()?;
        if !self.is_terminal {
            return Ok(());
        }
        self.end_line()?;
        self.out.flush()
    }
}

fn to_json(shown: &Shown) -> Value {
    match shown {
        Shown::Text { item_id, delta } => json!({"type": "text", "itemId": item_id, "delta": delta}),
        Shown::Message { item_id, text, .. } => json!({"type": "message", "itemId": item_id, "text": text}),
        Shown::Item { is_complete, item } => json!({"type": "item", "isComplete": is_complete, "item": item}),
        Shown::Command(result) => {
            let mut object = json!(result);
            object["type"] = "command".into();
            object
        }
        Shown::Ended(end) => {
            let (status, message) = match end {
                TurnEnd::Completed => ("completed", None),
                TurnEnd::Failed(message) => ("failed", Some(message)),
                TurnEnd::Cancelled => ("cancelled", None),
                TurnEnd::AgentDied => ("agentDied", None),
                TurnEnd::Untold => ("unknown", None),
            };
            match message {
                Some(message) => json!({"type": "end", "status": status, "message": message}),
                None => json!({"type": "end", "status": status}),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both streams in one, as on a terminal, or one of them.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn text(item_id: &str, delta: &str) -> Shown {
        Shown::Text { item_id: item_id.to_owned(), delta: delta.to_owned() }
    }

    fn message(item_id: &str, missing: &str) -> Shown {
        Shown::Message { item_id: item_id.to_owned(), text: "all of it".to_owned(), missing: missing.to_owned() }
    }

    fn command(is_complete: bool, status: &str) -> Shown {
        let item = json!({"type": "commandExecution", "commandPreview": "ls\u{7}", "status": status});
        Shown::Item { is_complete, item }
    }

    fn a_turn() -> Vec<Shown> {
        vec![
            text("1", "Hel"),
            text("1", "lo"),
            command(false, "inProgress"),
            command(true, "completed"),
            text("1", " you"),
            message("1", "!"),
            text("2", "\u{1b}[2J"),
            text("3", "between\n"),
            message("3", ""),
            message("2", ""),
            command(true, "declined"),
            Shown::Ended(TurnEnd::Completed),
        ]
    }

    #[test]
    fn on_a_terminal_notes_stand_on_lines_of_their_own() {
        let screen = Screen::default();
        let printer = Printer::with(false, true, Box::new(screen.clone()), Box::new(screen.clone()));
        for shown in a_turn() {
            printer.show(&shown).unwrap();
        }
        printer.notice("done\n").unwrap();
        assert_eq!(
            screen.text(),
            "Hello\n$ ls\\u{7}\n you!\n\\u{1b}[2J\nbetween\n$ ls\\u{7}: declined\ncells: done\\n\n"
        );
    }

    #[test]
    fn what_comes_while_a_prompt_waits_stands_on_a_line_of_its_own() {
        let screen = Screen::default();
        let printer = Printer::with(false, true, Box::new(screen.clone()), Box::new(screen.clone()));
        printer.show(&text("1", "Hello")).unwrap();
        printer.prompt("Why?\n> ").unwrap();
        printer.show(&text("1", " you")).unwrap();
        printer.prompt("> ").unwrap();
        printer.typed(false).unwrap();
        printer.prompt("Password? ").unwrap();
        printer.typed(true).unwrap();
        printer.prompt("And? ").unwrap();
        printer.notice("late").unwrap();
        assert_eq!(screen.text(), "Hello\nWhy?\n> \n you\n> Password? \nAnd? \ncells: late\n");
    }

    #[test]
    fn in_a_pipe_answers_are_nothing_but_answers() {
        let (out, err) = (Screen::default(), Screen::default());
        let printer = Printer::with(false, false, Box::new(out.clone()), Box::new(err.clone()));
        for shown in a_turn() {
            printer.show(&shown).unwrap();
        }
        assert_eq!(out.text(), "Hello you!\n\u{1b}[2J\nbetween\n");
        assert_eq!(err.text(), "$ ls\\u{7}\n$ ls\\u{7}: declined\n");
    }

    #[test]
    fn programs_get_one_object_a_line_and_nothing_else() {
        let (out, err) = (Screen::default(), Screen::default());
        let printer = Printer::with(true, false, Box::new(out.clone()), Box::new(err.clone()));
        let turn = [text("1", "a\nb"), message("1", ""), Shown::Ended(TurnEnd::Failed("no".to_owned()))];
        for shown in turn {
            printer.show(&shown).unwrap();
        }
        printer.answered(&json!(7), &json!({"answers": {"password": {"answers": ["geheim"]}}})).unwrap();
        printer.answered(&json!(8), &json!({"decision": "accept"})).unwrap();
        printer.notice("careful").unwrap();
        let objects: Vec<Value> = out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            objects,
            [
                json!({"type": "text", "itemId": "1", "delta": "a\nb"}),
                json!({"type": "message", "itemId": "1", "text": "all of it"}),
                json!({"type": "end", "status": "failed", "message": "no"}),
                json!({"type": "answer", "id": 7, "decision": null}),
                json!({"type": "answer", "id": 8, "decision": "accept"}),
                json!({"type": "notice", "message": "careful"}),
            ]
        );
        assert_eq!(err.text(), "");
    }
}
