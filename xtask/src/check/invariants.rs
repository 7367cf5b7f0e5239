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
        for (_, forbidden) in INDEPENDENT.iter().filter(|(folder, _)| path.starts_with(folder)) {
            for word in *forbidden {
                let shared = lines_with(&text, move |line| line.contains(word));
                wrong.extend(shared.map(|line| format!("{path}:{line}: it judges {word}, so it must not use it")));
            }
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

/// Code that judges other code, and what it must not share with that.
const INDEPENDENT: &[(&str, &[&str])] = &[
    ("crates/cells-testkit/src/old_node", &["cells_driver", "cells_protocol", "cells_server"]),
    ("crates/cells-testkit/src/conformance", &["cells_driver", "cells_protocol", "cells_server"]),
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
    use super::exclusive_methods;

    #[test]
    fn only_exported_blocks_are_judged() {
        let text = "struct A;\nimpl A {\n    fn a(&mut self) {}\n}\n#[wasm_bindgen]\nimpl A {\n    pub fn b(&self) {}\n    \
            pub fn c(&mut self) {}\n}\nimpl B for A {\n    fn d(&mut self) {}\n}\n";
        assert_eq!(exclusive_methods(text).collect::<Vec<_>>(), [8]);
    }
}
