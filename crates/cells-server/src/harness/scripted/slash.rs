//! The slash commands of the agent (`cells-0.4.md` §5).

use cells_protocol::commands::{Command, CommandCatalog, CommandKind};
use cells_protocol::ids::CommandName;
use cells_protocol::text::is_code;

use super::order::{Order, Work};
use super::output::{OUTPUT_BYTES_MAX, SEED_MAX_BYTES};
use super::script::DIRECTIVES;

/// What a slash command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slash {
    /// It starts a turn.
    Turn(Order),
    /// It shows what the session is.
    Status,
    /// It gives this text.
    Text(String),
    /// It gives the text of `output::generate`.
    Output {
        /// Size of the text.
        bytes: usize,
        /// Makes the text another one.
        seed: String,
    },
    /// It fails with this code.
    Fail(String),
}

impl Slash {
    /// What the command `name` with `args` does; `None` when there is no such command.
    pub(super) fn parse(name: &str, args: &str) -> Option<Self> {
        let slash = match name {
            "help" => Self::Text(help()),
            "status" => Self::Status,
            "echo" => Self::Text(args.to_owned()),
            "output" => output(args).unwrap_or_else(|| Self::Fail("EINVAL".to_owned())),
            "fail" => match args.trim() {
                "" => Self::Fail("COMMAND_FAILED".to_owned()),
                code if is_code(code) => Self::Fail(code.to_owned()),
                _ => Self::Fail("EINVAL".to_owned()),
            },
            "plan" => Self::Turn(Order::from(Work::Plan(Order::new(args).describe()))),
            "do" => Self::Turn(Order::new(args)),
            _ => return None,
        };
        Some(slash)
    }
}

/// The catalog, in the order of the manual.
pub(super) fn catalog() -> CommandCatalog {
    let commands = COMMANDS.iter().filter_map(|(name, kind, description, hint)| {
        Some(Command {
            name: CommandName::new(*name).ok()?,
            kind: *kind,
            description: Some((*description).to_owned()),
            argument_hint: Some((*hint).to_owned()).filter(|hint| !hint.is_empty()),
        })
    });
    CommandCatalog { commands: commands.collect() }
}

fn help() -> String {
    let mut help =
        "A prompt is ordinary text, or one directive a line. Indented lines continue the line above.\n\n".to_owned();
    for (_, usage) in DIRECTIVES {
        help.push_str(&format!("  {usage}\n"));
    }
    help.push_str("\nSlash commands:\n\n");
    for (name, _, description, hint) in COMMANDS {
        help.push_str(&format!("  {:<25} {description}\n", format!("{name} {hint}").trim()));
    }
    help
}

fn output(args: &str) -> Option<Slash> {
    let mut words = args.split_whitespace();
    let bytes = words.next()?.parse().ok().filter(|bytes| *bytes <= OUTPUT_BYTES_MAX)?;
    let seed = words.next().unwrap_or("0");
    let is_seed = seed.len() <= SEED_MAX_BYTES && seed.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_seed && words.next().is_none()).then(|| Slash::Output { bytes, seed: seed.to_owned() })
}

/// Name, kind, description and hint of each command.
const COMMANDS: &[(&str, CommandKind, &str, &str)] = &[
    ("help", CommandKind::Action, "Explain the prompt language", ""),
    ("status", CommandKind::Action, "Show what this session is", ""),
    ("echo", CommandKind::Action, "Give TEXT back", "TEXT"),
    ("output", CommandKind::Action, "Give exactly BYTES bytes of text, at most 64 MiB", "BYTES [SEED]"),
    ("fail", CommandKind::Action, "Fail with CODE", "[CODE]"),
    ("plan", CommandKind::Prompt, "Show what PROMPT would do, without doing it", "PROMPT"),
    ("do", CommandKind::Prompt, "Do what PROMPT says", "PROMPT"),
];

#[cfg(test)]
mod tests {
    use cells_protocol::json::{Object, to_vec};

    use super::*;
    use crate::harness::scripted::script::Step;

    #[test]
    fn commands_do_what_the_catalog_says() {
        let text = |text: &str| Some(Slash::Text(text.to_owned()));
        let fail = |code: &str| Some(Slash::Fail(code.to_owned()));
        let output = |bytes, seed: &str| Some(Slash::Output { bytes, seed: seed.to_owned() });
        let turn = |work| Some(Slash::Turn(Order::from(work)));
        for (name, args, expected) in [
            ("echo", " two  words ", text(" two  words ")),
            ("status", "ignored", Some(Slash::Status)),
            ("output", "8388608", output(8_388_608, "0")),
            ("output", "67108864 abc9", output(67_108_864, "abc9")),
            ("output", "67108865", fail("EINVAL")),
            ("output", "many", fail("EINVAL")),
            ("output", "5 a b", fail("EINVAL")),
            ("output", "5 ä", fail("EINVAL")),
            ("fail", "", fail("COMMAND_FAILED")),
            ("fail", "EFBIG", fail("EFBIG")),
            ("fail", "not a code", fail("EINVAL")),
            ("do", "wait", turn(Work::Steps(vec![Step::Wait]))),
            ("plan", "wait", turn(Work::Plan("1. Wait until somebody interrupts.".to_owned()))),
            ("Help", "", None),
            ("nothing", "", None),
        ] {
            assert_eq!(Slash::parse(name, args), expected, "{name} {args}");
        }
    }

    #[test]
    fn the_catalog_is_valid_and_every_command_in_it_exists() {
        let catalog = catalog();
        assert_eq!(catalog.commands.len(), COMMANDS.len());
        let text = to_vec(&catalog);
        let mut read = Object::parse("the catalog", &text).unwrap();
        assert_eq!(CommandCatalog::read(&mut read).as_ref(), Ok(&catalog));
        for command in &catalog.commands {
            let slash = Slash::parse(command.name.as_str(), "").unwrap();
            assert_eq!(matches!(slash, Slash::Turn(_)), command.kind == CommandKind::Prompt, "{}", command.name);
        }
    }

    #[test]
    fn help_and_manual_name_everything() {
        let manual =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripted-agent.md")).unwrap();
        let help = help();
        let directives = DIRECTIVES.iter().map(|(name, _)| *name);
        for name in directives.chain(COMMANDS.iter().map(|(name, ..)| *name)) {
            assert!(help.contains(&format!("  {name} ")), "{name}");
            assert!(manual.contains(&format!("`{name}")), "{name}");
        }
    }
}
