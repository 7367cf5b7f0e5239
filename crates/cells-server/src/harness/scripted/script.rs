//! The prompt language: from the text of a prompt to the steps of a turn. Pure; the manual is `docs/scripted-agent.md`.

use std::fmt;
use std::time::Duration;

use cells_protocol::paths::check_path;

/// What a prompt says to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Script {
    /// When the receipt of the turn is given.
    pub(super) receipt: ReceiptTime,
    /// The turn is refused with this code, and nothing else happens.
    pub(super) reject: Option<&'static str>,
    /// What the turn does, in this order.
    pub(super) steps: Vec<Step>,
}

/// When the receipt of a turn is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ReceiptTime {
    /// As soon as the turn has started.
    #[default]
    Start,
    /// This long after the turn was asked for.
    After(Duration),
    /// When the turn has ended.
    End,
}

/// One directive that takes place inside the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// An agent message, streamed word by word.
    Say(String),
    /// An agent message of exactly `count` deltas.
    Stream {
        /// 1 to 100,000.
        count: usize,
        /// The text of each delta; its number when empty.
        text: String,
    },
    /// Reasoning.
    Think(String),
    /// A shell command, after approval.
    Run(String),
    /// A file that is made or replaced, after approval.
    Write {
        /// Relative to the workspace.
        path: String,
        /// Its whole new content.
        text: String,
    },
    /// A question to the user.
    Ask {
        /// The question.
        question: String,
        /// Answers to choose from; none = free text.
        options: Vec<String>,
    },
    /// The pause before each delta from here on.
    Pace(Duration),
    /// A pause.
    Sleep(Duration),
    /// A pause until somebody interrupts.
    Wait,
    /// An attachment of the prompt, given back as an agent message.
    Quote(String),
    /// A pause until the user adds something to the turn, which is repeated.
    Listen,
    /// Another session that answers this prompt.
    Spawn(String),
    /// The turn fails with this message.
    Fail(String),
    /// The agent process dies for good.
    Die,
    /// The agent process dies and is started again at once.
    Restart,
}

/// A line of a script that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScriptError {
    /// Counted from 1.
    pub(super) line: usize,
    /// What is wrong with it and what is right.
    pub(super) problem: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line {}: {}", self.line, self.problem)
    }
}

impl Script {
    /// Parses a prompt. `None` when it is ordinary text: its first line does not start with the name of a directive.
    ///
    /// # Errors
    /// The first line that cannot be understood.
    pub(super) fn parse(prompt: &str) -> Result<Option<Self>, ScriptError> {
        let lines = statements(prompt);
        if !lines.first().is_some_and(|first| DIRECTIVES.iter().any(|(name, _)| *name == first.name)) {
            return Ok(None);
        }
        let mut script = Self::default();
        for statement in &lines {
            script.add(statement).map_err(|problem| ScriptError { line: statement.line, problem })?;
        }
        Ok(Some(script))
    }

    fn add(&mut self, statement: &Statement<'_>) -> Result<(), String> {
        let Statement { name, text, .. } = statement;
        if matches!(*name, "slow-receipt" | "reject") && !self.steps.is_empty() {
            return Err(format!("`{name}` must stand before what the turn does"));
        }
        if self.steps.len() == STEPS_MAX {
            return Err(format!("a script has at most {STEPS_MAX} directives"));
        }
        let step = match *name {
            "slow-receipt" => {
                self.receipt = match text.as_str() {
                    "end" => ReceiptTime::End,
                    text => ReceiptTime::After(milliseconds(text).ok_or_else(|| usage(name))?),
                };
                return Ok(());
            }
            "reject" => {
                let code = REJECT_CODES.iter().find(|code| *code == text);
                self.reject = Some(code.ok_or_else(|| format!("`reject` takes one of {}", REJECT_CODES.join(", ")))?);
                return Ok(());
            }
            "say" => Step::Say(some(name, text)?),
            "stream" => stream(text).ok_or_else(|| usage(name))?,
            "think" => Step::Think(some(name, text)?),
            "run" => Step::Run(some(name, text)?),
            "write" => write(text)?,
            "ask" => ask(&some(name, text)?),
            "quote" => Step::Quote(some(name, text)?),
            "listen" => Step::Listen,
            "spawn" => Step::Spawn(some(name, text)?),
            "pace" => Step::Pace(milliseconds(text).ok_or_else(|| usage(name))?),
            "sleep" => Step::Sleep(milliseconds(text).ok_or_else(|| usage(name))?),
            "wait" => Step::Wait,
            "fail" => Step::Fail(some(name, text)?),
            "die" => Step::Die,
            "restart" => Step::Restart,
            _ => return Err(unknown(name)),
        };
        if matches!(step, Step::Wait | Step::Listen | Step::Die | Step::Restart) && !text.is_empty() {
            return Err(usage(name));
        }
        self.steps.push(step);
        Ok(())
    }
}

/// Every directive with its usage, in the order of the manual.
pub(super) const DIRECTIVES: &[(&str, &str)] = &[
    ("say", "say TEXT                  answer with TEXT, word by word"),
    ("stream", "stream COUNT [TEXT]       answer in COUNT deltas (1 to 100000; at most 1 MiB in all)"),
    ("think", "think TEXT                show TEXT as reasoning"),
    ("run", "run COMMAND               ask for approval, then run COMMAND with sh in the workspace"),
    ("write", "write PATH TEXT           ask for approval, then make or replace the file PATH"),
    ("ask", "ask QUESTION [| OPTION]   ask the user and repeat the answer"),
    ("quote", "quote NAME                give the attachment NAME of the prompt back"),
    ("listen", "listen                    wait until somebody adds something to the turn, and repeat it"),
    ("spawn", "spawn PROMPT              make a session below this one that tells what PROMPT would do"),
    ("pace", "pace MS                   wait MS milliseconds before each delta from here on"),
    ("sleep", "sleep MS                  wait MS milliseconds"),
    ("wait", "wait                      wait until somebody interrupts"),
    ("fail", "fail TEXT                 end the turn as failed, for the reason TEXT"),
    ("die", "die                       the agent process dies until the node is started again"),
    ("restart", "restart                   the agent process dies and is started again"),
    ("slow-receipt", "slow-receipt MS|end       give the receipt after MS milliseconds, or when the turn has ended"),
    ("reject", "reject CODE               refuse the turn with CODE"),
];

/// One directive with its text: the rest of its line and the indented lines below it.
#[derive(Debug)]
struct Statement<'a> {
    line: usize,
    name: &'a str,
    text: String,
}

fn statements(prompt: &str) -> Vec<Statement<'_>> {
    let mut statements: Vec<Statement<'_>> = Vec::new();
    let mut indentation = None;
    let mut blank_lines = 0;
    for (index, line) in prompt.lines().enumerate() {
        if line.trim().is_empty() {
            blank_lines += 1;
            continue;
        }
        let own_indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
        match statements.last_mut() {
            Some(statement) if own_indentation > 0 => {
                let first = indentation.is_none();
                let removed = own_indentation.min(*indentation.get_or_insert(own_indentation));
                if !(first && statement.text.is_empty()) {
                    statement.text.push('\n');
                }
                if !first {
                    statement.text.extend(std::iter::repeat_n('\n', blank_lines));
                }
                statement.text.push_str(&line[removed..]);
            }
            _ => {
                let (name, text) = line.split_once([' ', '\t']).unwrap_or((line, ""));
                statements.push(Statement { line: index + 1, name, text: text.trim().to_owned() });
                indentation = None;
            }
        }
        blank_lines = 0;
    }
    statements
}

fn some(name: &str, text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err(usage(name)) } else { Ok(text.to_owned()) }
}

fn milliseconds(text: &str) -> Option<Duration> {
    let value = text.parse().ok().filter(|value| *value <= PAUSE_MAX_MS)?;
    Some(Duration::from_millis(value))
}

fn stream(text: &str) -> Option<Step> {
    let (count, text) = text.split_once([' ', '\t', '\n']).unwrap_or((text, ""));
    let count: usize = count.parse().ok()?;
    let delta_bytes = if text.is_empty() { STREAM_COUNT_DIGITS } else { text.len() } + 1;
    let fits = (1..=STREAM_COUNT_MAX).contains(&count) && count * delta_bytes <= STREAM_MAX_BYTES;
    fits.then(|| Step::Stream { count, text: text.to_owned() })
}

fn write(text: &str) -> Result<Step, String> {
    let (path, text) = text.split_once([' ', '\t', '\n']).ok_or_else(|| usage("write"))?;
    check_path(path).map_err(|problem| problem.to_string())?;
    let mut text = some("write", text)?;
    text.push('\n');
    Ok(Step::Write { path: path.to_owned(), text })
}

fn ask(text: &str) -> Step {
    let mut parts = text.split('|').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
    Step::Ask { question: parts.next().unwrap_or_default(), options: parts.collect() }
}

fn usage(name: &str) -> String {
    let usage = DIRECTIVES.iter().find(|(directive, _)| *directive == name).map_or(name, |(_, usage)| usage);
    format!("the form is `{}`", usage.split("  ").next().unwrap_or(usage))
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = DIRECTIVES.iter().map(|(name, _)| *name).collect();
    let name = cells_protocol::text::prefix(name, 40);
    format!("`{name}` is not a directive; there are {} (indent a line to continue the one above)", names.join(", "))
}

/// Codes that `reject` takes. `EIO` and `ETIMEDOUT` leave the outcome unknown.
const REJECT_CODES: &[&str] = &[
    "EINVAL",
    "EACCES",
    "EROFS",
    "ENOENT",
    "EBUSY",
    "ECAPABILITY",
    "ENOSPC",
    "EFBIG",
    "EIO",
    "ETIMEDOUT",
    "HARNESS_RPC_ERROR",
    "HARNESS_SESSION_BUSY",
    "HARNESS_SESSION_NOT_OWNED",
    "HARNESS_CALL_LIMIT",
];
const STEPS_MAX: usize = 256;
/// One hour.
const PAUSE_MAX_MS: u64 = 3_600_000;
const STREAM_COUNT_MAX: usize = 100_000;
const STREAM_COUNT_DIGITS: usize = 6;
/// A message must fit on one page of history, also when JSON escapes some of it.
const STREAM_MAX_BYTES: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prompt: &str, expected: &[Step]) {
        let script = Script::parse(prompt).unwrap_or_else(|error| panic!("{prompt:?}: {error}"));
        assert_eq!(script.map(|script| script.steps).as_deref(), Some(expected), "{prompt:?}");
    }

    fn say(text: &str) -> Step {
        Step::Say(text.to_owned())
    }

    #[test]
    fn each_directive_gives_its_step() {
        let ask = |question: &str, options: &[&str]| Step::Ask {
            question: question.to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        };
        let write = |path: &str, text: &str| Step::Write { path: path.to_owned(), text: text.to_owned() };
        let stream = |count, text: &str| Step::Stream { count, text: text.to_owned() };
        for (prompt, expected) in [
            ("say hello  world", say("hello  world")),
            ("stream 3", stream(3, "")),
            ("stream 3 ab c", stream(3, "ab c")),
            ("think hm", Step::Think("hm".to_owned())),
            ("run echo 'a | b'", Step::Run("echo 'a | b'".to_owned())),
            ("write a/b.txt one two", write("a/b.txt", "one two\n")),
            ("ask Which colour?", ask("Which colour?", &[])),
            ("ask Which? | red | dark blue", ask("Which?", &["red", "dark blue"])),
            ("quote a b.txt", Step::Quote("a b.txt".to_owned())),
            ("listen", Step::Listen),
            ("spawn say hi", Step::Spawn("say hi".to_owned())),
            ("pace 5", Step::Pace(Duration::from_millis(5))),
            ("sleep 3600000", Step::Sleep(Duration::from_secs(3600))),
            ("wait", Step::Wait),
            ("fail no luck", Step::Fail("no luck".to_owned())),
            ("die", Step::Die),
            ("restart", Step::Restart),
        ] {
            check(prompt, &[expected]);
        }
    }

    #[test]
    fn indented_lines_belong_to_the_directive_above() {
        check("say\n  one\n\n    two\n three\nsay next", &[say("one\n\n  two\nthree"), say("next")]);
        check("\n\nsay one\r\n\ttwo\r\n\r\nwait\r\n", &[say("one\ntwo"), Step::Wait]);
        check("run cat <<END\n  a\n  END", &[Step::Run("cat <<END\na\nEND".to_owned())]);
        let text = "first\n second\n".to_owned();
        check("write notes.md\n  first\n   second", &[Step::Write { path: "notes.md".to_owned(), text }]);
    }

    #[test]
    fn receipt_and_refusal_stand_before_the_steps() {
        let parse = |prompt: &str| Script::parse(prompt).unwrap().unwrap();
        assert_eq!(parse("slow-receipt 20\nsay x").receipt, ReceiptTime::After(Duration::from_millis(20)));
        assert_eq!(parse("slow-receipt end\nwait").receipt, ReceiptTime::End);
        assert_eq!(parse("slow-receipt 5\nreject EBUSY").reject, Some("EBUSY"));
        assert_eq!(parse("say x").receipt, ReceiptTime::Start);
    }

    #[test]
    fn ordinary_text_is_not_a_script() {
        for prompt in ["", "  \n", "Hello!", "Say hello", "  say indented", "please\nrun ls", "running late", "say, hi"]
        {
            assert_eq!(Script::parse(prompt), Ok(None), "{prompt:?}");
        }
    }

    #[test]
    fn errors_name_the_line_and_what_is_right() {
        for (prompt, line, problem) in [
            ("say", 1, "the form is `say TEXT`"),
            ("say hi\n\nrnu ls", 3, "`rnu` is not a directive; there are say, stream,"),
            ("run", 1, "the form is `run COMMAND`"),
            ("write a.txt", 1, "the form is `write PATH TEXT`"),
            ("write ../a.txt x", 1, "the path has a `.` or `..` segment"),
            ("write /etc/passwd x", 1, "the path starts with `/`"),
            ("sleep soon", 1, "the form is `sleep MS`"),
            ("sleep 3600001", 1, "the form is `sleep MS`"),
            ("sleep -1", 1, "the form is `sleep MS`"),
            ("stream 0", 1, "the form is `stream COUNT [TEXT]`"),
            ("stream 100001", 1, "the form is `stream COUNT [TEXT]`"),
            ("stream 99999 much too much text", 1, "the form is `stream COUNT [TEXT]`"),
            ("wait a bit", 1, "the form is `wait`"),
            ("slow-receipt later", 1, "the form is `slow-receipt MS|end`"),
            ("reject EWHAT", 1, "`reject` takes one of EINVAL,"),
            ("say hi\nreject EBUSY", 2, "`reject` must stand before what the turn does"),
        ] {
            let error = Script::parse(prompt).expect_err(prompt);
            assert_eq!(error.line, line, "{prompt:?}");
            assert!(error.problem.starts_with(problem), "{prompt:?}: {error}");
        }
    }

    #[test]
    fn a_script_is_bounded() {
        let lines = |count| "say x\n".repeat(count);
        assert!(Script::parse(&lines(256)).is_ok());
        assert_eq!(Script::parse(&lines(257)).unwrap_err().line, 257);
    }

    proptest::proptest! {
        #[test]
        fn no_prompt_panics(lines in proptest::collection::vec("(say|run|write|ask|stream|sleep|reject|[a-z ]{0,5})[ \\t|]{0,2}[^\\n]{0,12}", 0..12)) {
            let _ = Script::parse(&lines.join("\n"));
        }
    }
}
