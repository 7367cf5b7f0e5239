//! What crates/README.md says must be absent, where neither cargo nor clippy sees it.

use anyhow::bail;

use crate::repo;

pub(crate) fn invariants() -> anyhow::Result<()> {
    let files = repo::files()?;
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| path.ends_with("/Cargo.toml") && path.as_str() != "tools/Cargo.toml") {
        if !repo::read(path)?.contains("[lints]\nworkspace = true\n") {
            wrong.push(format!("{path}: the lints of the workspace are missing ([lints] workspace = true)"));
        }
    }
    for path in files.iter().filter(|path| path.starts_with("crates/") && path.ends_with(".rs")) {
        let text = repo::read(path)?;
        let globs = lines_with(&text, |line| line.trim_start().starts_with("pub use ") && line.contains("::*"));
        wrong.extend(globs.map(|line| format!("{path}:{line}: a glob hides what is public; list the names")));
        for rule in ABSENT.iter().filter(|rule| rule.folders.iter().any(|folder| path.starts_with(folder))) {
            let found = lines_with(&text, |line| rule.finds(line));
            wrong.extend(found.map(|line| format!("{path}:{line}: {}", rule.reason)));
        }
        if path.starts_with("crates/cells-wasm/") {
            let exclusive = exclusive_methods(&text);
            wrong.extend(exclusive.map(|line| {
                format!("{path}:{line}: an exported `&mut self` method throws when JavaScript calls it while it runs")
            }));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

/// What must not stand in the sources of some folders.
struct Absent {
    folders: &'static [&'static str],
    parts: &'static [&'static str],
    /// Taken out of a line before it is judged.
    allowed: &'static [&'static str],
    reason: &'static str,
}

impl Absent {
    fn finds(&self, line: &str) -> bool {
        let judged = self.allowed.iter().fold(line.to_owned(), |line, allowed| line.replace(allowed, ""));
        self.parts.iter().any(|part| judged.contains(part))
    }
}

const ABSENT: &[Absent] = &[
    Absent {
        folders: &["crates/cells-protocol/src/", "crates/cells-machines/src/"],
        // The last one would hide the others.
        parts: &["std::env", "std::fs", "std::net", "std::process", "std::thread", "std::time", "std::{"],
        allowed: &["std::net::Ipv6Addr"],
        reason: "this crate does no I/O and reads no clock",
    },
    Absent {
        folders: &["crates/cells-testkit/src/conformance/", "crates/cells-testkit/src/old_node/"],
        parts: &["cells_"],
        allowed: &["cells_testkit"],
        reason: "what judges a node or stands for another one shares no code with the workspace",
    },
];

/// Numbers of the lines for which `finds` is true, counted from 1.
fn lines_with<'a>(text: &'a str, finds: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
    text.lines().enumerate().filter(move |(_, line)| finds(line)).map(|(index, _)| index + 1)
}

/// Lines with `&mut self` in blocks that wasm-bindgen exports: from `impl` after its attribute to the closing brace.
fn exclusive_methods(text: &str) -> impl Iterator<Item = usize> + '_ {
    let (mut attribute, mut exported) = (false, false);
    text.lines().enumerate().filter_map(move |(index, line)| {
        match line {
            "}" => exported = false,
            _ if line.starts_with("#[wasm_bindgen") => attribute = true,
            _ if line.starts_with("impl") => exported = std::mem::take(&mut attribute),
            _ if !line.starts_with('#') => attribute = false,
            _ => {}
        }
        (exported && line.contains("&mut self")).then_some(index + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, exclusive_methods};

    #[test]
    fn only_exported_blocks_are_judged() {
        let text = "struct A;\nimpl A {\n    fn a(&mut self) {}\n}\n#[wasm_bindgen]\nimpl A {\n    pub fn b(&self) {}\n    \
            pub fn c(&mut self) {}\n}\nimpl B for A {\n    fn d(&mut self) {}\n}\n";
        assert_eq!(exclusive_methods(text).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn what_must_be_absent_is_found() {
        for (rule, line, expected) in [
            (0, "use std::time::Instant;", true),
            (0, "use std::{fmt, fs};", true),
            (0, "address.parse::<std::net::Ipv6Addr>()", false),
            (0, "std::net::TcpStream::connect(std::net::Ipv6Addr::LOCALHOST)", true),
            (0, "use std::fmt;", false),
            (1, "use cells_protocol::limits;", true),
            (1, "//! use cells_testkit::conformance::run;", false),
        ] {
            assert_eq!(ABSENT[rule].finds(line), expected, "{line}");
        }
    }
}
