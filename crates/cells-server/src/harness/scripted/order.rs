//! What one prompt orders: the work of the turn, and whether and when its receipt is given.

use super::report::code_span;
use super::script::{ReceiptTime, Script, ScriptError, Step};

/// What a prompt orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    /// The turn is refused with this code, and nothing else happens.
    pub(super) reject: Option<&'static str>,
    /// When the receipt is given.
    pub(super) receipt: ReceiptTime,
    /// What the turn does.
    pub(super) work: Work,
}

/// What a turn does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// The steps of a script.
    Steps(Vec<Step>),
    /// One message.
    Answer(String),
    /// One plan.
    Plan(String),
}

impl Order {
    /// What `prompt` orders. Every prompt orders something: what cannot be understood is answered.
    pub(super) fn new(prompt: &str) -> Self {
        match Script::parse(prompt) {
            Ok(Some(Script { reject, receipt, steps })) => Self { reject, receipt, work: Work::Steps(steps) },
            Ok(None) => Self::from(Work::Answer(echo(prompt))),
            Err(error) => Self::from(Work::Answer(explain(&error))),
        }
    }

    /// What it would do, a numbered line for each step.
    pub(super) fn describe(&self) -> String {
        let receipt = match self.receipt {
            ReceiptTime::Start => None,
            ReceiptTime::After(duration) => Some(format!("Give the receipt after {} ms.", duration.as_millis())),
            ReceiptTime::End => Some("Give the receipt when the turn has ended.".to_owned()),
        };
        let steps = match (self.reject, &self.work) {
            (Some(code), _) => vec![format!("Refuse the turn with {code}.")],
            (None, Work::Steps(steps)) => steps.iter().map(describe).collect(),
            (None, Work::Answer(text) | Work::Plan(text)) => vec![format!("Answer: {text}")],
        };
        let lines = receipt.into_iter().chain(steps).enumerate();
        let lines: Vec<String> = lines.map(|(index, line)| format!("{}. {line}", index + 1)).collect();
        lines.join("\n")
    }
}

impl From<Work> for Order {
    /// Work whose receipt is given at its start.
    fn from(work: Work) -> Self {
        Self { reject: None, receipt: ReceiptTime::Start, work }
    }
}

/// The answer to ordinary text.
fn echo(prompt: &str) -> String {
    format!(
        "I am the scripted agent: I do what a prompt spells out, and nothing else. You wrote:\n\n{prompt}\n\n\
         Try a prompt such as `say hello` or `run ls`. The slash command `help` lists everything that I understand."
    )
}

/// The answer to a script with an error.
fn explain(error: &ScriptError) -> String {
    format!("I do not understand this script, so I did nothing. {error}.")
}

fn describe(step: &Step) -> String {
    match step {
        Step::Say(text) => format!("Say {}.", code_span(text)),
        Step::Stream { count, .. } => format!("Answer in {count} deltas."),
        Step::Think(text) => format!("Think {}.", code_span(text)),
        Step::Run(command) => format!("Ask for approval, then run {}.", code_span(command)),
        Step::Write { path, .. } => format!("Ask for approval, then write the file {}.", code_span(path)),
        Step::Ask { question, .. } => format!("Ask {} and repeat the answer.", code_span(question)),
        Step::Quote(name) => format!("Give the attachment {} back.", code_span(name)),
        Step::Listen => "Wait until somebody adds something, and repeat it.".to_owned(),
        Step::Spawn(prompt) => format!("Have another session answer {}.", code_span(prompt)),
        Step::Pace(pace) => format!("Wait {} ms before each delta from here on.", pace.as_millis()),
        Step::Sleep(duration) => format!("Wait {} ms.", duration.as_millis()),
        Step::Wait => "Wait until somebody interrupts.".to_owned(),
        Step::Fail(error) => format!("Fail with {}.", code_span(error)),
        Step::Die => "Die until the node is started again.".to_owned(),
        Step::Restart => "Die and start again.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_describes_what_it_would_do() {
        for (prompt, expected) in [
            (
                "slow-receipt 5\nrun ls\nwrite a.txt x\nask Well? | yes\nwait",
                "1. Give the receipt after 5 ms.\n2. Ask for approval, then run `ls`.\n\
                 3. Ask for approval, then write the file `a.txt`.\n4. Ask `Well?` and repeat the answer.\n\
                 5. Wait until somebody interrupts.",
            ),
            (
                "slow-receipt end\nreject EBUSY\nwait",
                "1. Give the receipt when the turn has ended.\n2. Refuse the turn with EBUSY.",
            ),
            ("say a\n  b", "1. Say `a…`."),
            (
                "stream 5\nthink x\npace 1\nsleep 2\nfail no\ndie\nrestart",
                "1. Answer in 5 deltas.\n2. Think `x`.\n3. Wait 1 ms before each delta from here on.\n4. Wait 2 ms.\n\
              5. Fail with `no`.\n6. Die until the node is started again.\n7. Die and start again.",
            ),
            ("say", "1. Answer: I do not understand this script, so I did nothing. Line 1: the form is `say TEXT`."),
        ] {
            assert_eq!(Order::new(prompt).describe(), expected, "{prompt:?}");
        }
    }
}
