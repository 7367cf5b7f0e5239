//! Asking a person, line by line: a pure function of the request and of what was typed.

use serde_json::{Value, json};

use super::request::{Kind, Question, Request};
use crate::text::{one_line, visible};

/// A request that a person is being asked.
#[derive(Debug)]
pub(super) struct Dialogue {
    request: Request,
    answers: serde_json::Map<String, Value>,
}

/// What comes after a line.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Another prompt.
    Ask,
    /// The answer is complete.
    Answer(Value),
    /// The person wants the turn to end.
    Cancel,
}

impl Dialogue {
    /// Starts to ask.
    pub(super) fn new(request: Request) -> Self {
        Self { request, answers: serde_json::Map::new() }
    }

    /// The request.
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// What is shown before the first prompt.
    pub(super) fn introduction(&self) -> String {
        match &self.request.kind {
            Kind::Approval { action, subject, reason } => {
                let mut text = format!("\nThe agent asks to {action}:\n");
                for line in subject.lines() {
                    text.push_str(&format!("    {}\n", one_line(line)));
                }
                if let Some(reason) = reason {
                    text.push_str(&format!("Reason: {}\n", one_line(reason)));
                }
                text
            }
            Kind::Questions(_) => "\nThe agent asks:\n".to_owned(),
            Kind::Other { .. } => String::new(),
        }
    }

    /// What the person is asked now.
    pub(super) fn prompt(&self) -> String {
        match (&self.request.kind, self.question()) {
            (_, Some(question)) => {
                let mut text = format!("{}\n", visible(&question.question));
                for (index, option) in question.options.iter().enumerate() {
                    text.push_str(&format!("  {}  {}\n", index + 1, one_line(option)));
                }
                text.push_str("> ");
                text
            }
            (Kind::Approval { .. }, None) => "Allow it? [y]es, [n]o, [c]ancel the turn: ".to_owned(),
            (Kind::Questions(_) | Kind::Other { .. }, None) => String::new(),
        }
    }

    /// Whether what is typed now must not be shown.
    pub(super) fn is_secret(&self) -> bool {
        self.question().is_some_and(|question| question.is_secret)
    }

    /// Takes a line; `None` is the end of what can be typed.
    pub(super) fn handle_line(&mut self, line: Option<&str>) -> Step {
        let Some(line) = line else { return Step::Cancel };
        let Some(question) = self.question() else { return decide(line) };
        let Some(answer) = chosen(question, line) else { return Step::Ask };
        self.answers.insert(question.id.clone(), json!({"answers": [answer]}));
        match self.question() {
            Some(_) => Step::Ask,
            None => Step::Answer(json!({"answers": std::mem::take(&mut self.answers)})),
        }
    }

    /// The first question without an answer.
    fn question(&self) -> Option<&Question> {
        match &self.request.kind {
            Kind::Questions(questions) => questions.iter().find(|question| !self.answers.contains_key(&question.id)),
            Kind::Approval { .. } | Kind::Other { .. } => None,
        }
    }
}

/// An answer to an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is done.
    Accept,
    /// It is not done, and the turn goes on.
    Decline,
    /// It is not done, and the turn ends.
    Cancel,
}

impl Decision {
    /// The response that says so.
    pub(super) fn response(self) -> Value {
        let word = match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        };
        json!({"decision": word})
    }
}

fn decide(line: &str) -> Step {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Step::Answer(Decision::Accept.response()),
        "n" | "no" => Step::Answer(Decision::Decline.response()),
        "c" | "cancel" => Step::Cancel,
        _ => Step::Ask,
    }
}

/// The number or the text of an offered answer, or free text where that is allowed.
fn chosen(question: &Question, line: &str) -> Option<String> {
    let typed = line.trim();
    let number = typed.parse::<usize>().ok().and_then(|number| question.options.get(number.checked_sub(1)?));
    let offered = number.or_else(|| question.options.iter().find(|option| *option == typed));
    match offered {
        Some(option) => Some(option.clone()),
        None if question.options.is_empty() => Some(line.to_owned()),
        None => (question.is_open && !typed.is_empty()).then(|| line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval(subject: &str) -> Dialogue {
        let kind =
            Kind::Approval { action: "run", subject: subject.to_owned(), reason: Some("It is needed.".to_owned()) };
        Dialogue::new(Request { id: json!(1), kind })
    }

    fn question(id: &str, options: &[&str], is_open: bool) -> Question {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Question { id: id.to_owned(), question: format!("{id}?"), options, is_open, is_secret: false }
    }

    #[test]
    fn an_approval_shows_the_whole_command_and_takes_only_clear_answers() {
        let mut dialogue = approval("rm -r x\nls \u{1b}[8m");
        assert_eq!(
            dialogue.introduction(),
            "\nThe agent asks to run:\n    rm -r x\n    ls \\u{1b}[8m\nReason: It is needed.\n"
        );
        for (line, expected) in [
            (Some("y"), Step::Answer(json!({"decision": "accept"}))),
            (Some(" YES "), Step::Answer(json!({"decision": "accept"}))),
            (Some("no"), Step::Answer(json!({"decision": "decline"}))),
            (Some("c"), Step::Cancel),
            (Some(""), Step::Ask),
            (Some("yep"), Step::Ask),
            (None, Step::Cancel),
        ] {
            assert_eq!(dialogue.handle_line(line), expected, "{line:?}");
        }
    }

    #[test]
    fn questions_are_asked_one_by_one() {
        let questions = vec![
            question("color", &["red", "blue"], true),
            question("size", &["S", "M"], false),
            question("name", &[], true),
        ];
        let mut dialogue = Dialogue::new(Request { id: json!("q"), kind: Kind::Questions(questions) });
        assert_eq!(dialogue.prompt(), "color?\n  1  red\n  2  blue\n> ");
        assert_eq!(dialogue.handle_line(Some("")), Step::Ask);
        assert_eq!(dialogue.handle_line(Some("green")), Step::Ask);
        assert_eq!(dialogue.prompt(), "size?\n  1  S\n  2  M\n> ");
        assert_eq!(dialogue.handle_line(Some("XL")), Step::Ask);
        assert_eq!(dialogue.handle_line(Some("0")), Step::Ask);
        assert_eq!(dialogue.handle_line(Some("2")), Step::Ask);
        assert_eq!(dialogue.prompt(), "name?\n> ");
        let answers = json!({"color": {"answers": ["green"]}, "size": {"answers": ["M"]}, "name": {"answers": [""]}});
        assert_eq!(dialogue.handle_line(Some("")), Step::Answer(json!({"answers": answers})));
        assert_eq!(dialogue.handle_line(None), Step::Cancel);
    }
}
