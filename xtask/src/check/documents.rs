//! Documents name what exists, and show code that is tested.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};

use crate::repo;

/// Every path and every type that a document names exists, and `crates/README.md` names every crate.
pub(crate) fn name_what_exists() -> anyhow::Result<()> {
    let files = repo::files()?;
    let top: BTreeSet<&str> = files.iter().filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect();
    let mut wrong = Vec::new();
    for document in files.iter().filter(|path| path.ends_with(".md") && path.as_str() != "CHANGELOG.md") {
        let text = repo::read(document)?;
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        for path in named_paths(&text, &top) {
            if !exists(&files, path) {
                wrong.push(format!("{document} names `{path}`, which does not exist"));
            }
        }
        for link in relative_links(&text) {
            if !exists(&files, &join(folder, link)) {
                wrong.push(format!("{document} links to {link}, which does not exist"));
            }
        }
    }

    let code_map = repo::read("crates/README.md")?;
    let crates = files.iter().filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"));
    wrong.extend(crates.filter(|name| !code_map.contains(name)).map(|name| format!("crates/README.md misses {name}")));
    let mut sources = String::new();
    for path in files.iter().filter(|path| path.ends_with(".rs")) {
        sources.push_str(&repo::read(path)?);
    }
    wrong.extend(
        named_types(&code_map)
            .filter(|name| !defines(&sources, name))
            .map(|name| format!("crates/README.md names the type `{name}`, which does not exist")),
    );
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

/// Code in README.md is the text of a file that tests compile and run. A comment before the block names the file.
pub(crate) fn readme_shows_tested_code() -> anyhow::Result<()> {
    let readme = repo::read("README.md")?;
    let mut wrong = Vec::new();
    for Block { line, file, code } in code_blocks(&readme) {
        let Some(file) = file else {
            wrong.push(format!(
                "README.md:{line}: a comment with the name of the shown file is missing before the code"
            ));
            continue;
        };
        let shown = repo::read(file).with_context(|| format!("README.md:{line} shows {file}"))?;
        if shown.trim() != code.trim() {
            wrong.push(format!("README.md:{line}: the code differs from {file}, which is what the tests run"));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

fn exists(files: &[String], path: &str) -> bool {
    let path = path.trim_end_matches('/');
    files.iter().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Texts in backticks that look like a path from the top of the repository.
fn named_paths<'a>(text: &'a str, top: &BTreeSet<&str>) -> Vec<&'a str> {
    let is_path = |span: &&str| {
        let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        let in_top = span.split_once('/').is_some_and(|(folder, _)| top.contains(folder));
        plain && in_top
    };
    backticked(text).filter(is_path).collect()
}

/// Texts in backticks that look like the name of a Rust type.
fn named_types(text: &str) -> impl Iterator<Item = &str> {
    backticked(text).filter(|span| {
        span.starts_with(|c: char| c.is_ascii_uppercase())
            && span.chars().all(|c| c.is_ascii_alphanumeric())
            && span.contains(|c: char| c.is_ascii_lowercase())
    })
}

fn defines(sources: &str, name: &str) -> bool {
    ["struct", "enum", "trait", "type"].iter().any(|word| {
        let definition = format!("{word} {name}");
        sources
            .match_indices(&definition)
            .any(|(at, _)| !sources[at + definition.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

/// What stands between single backticks, outside code blocks.
fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// Targets of links that stay in the repository, without their anchors.
fn relative_links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|prose| prose.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link.split_once('#').map_or(link, |(path, _)| path))
        .filter(|link| !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:"))
        .collect()
}

fn join(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

struct Block<'a> {
    line: usize,
    file: Option<&'a str>,
    code: String,
}

/// The Rust, JavaScript and TypeScript blocks, each with the comment `<!-- path -->` right before it.
fn code_blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut comment = None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let code: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            if ["rust", "js", "ts", "html"].contains(&language.trim()) {
                blocks.push(Block { line: index + 1, file: comment, code: code.join("\n") });
            }
        }
        if !line.trim().is_empty() {
            comment = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_types_and_links_are_found_in_prose_only() {
        let text = "See `crates/a/src`, `cargo test`, `a/b`, `Client` and `EACCES`; [one](../b.md#x), [two](https://x).\n\
            ```\n`crates/none`\n[three](none.md)\n```\nAlso `crates/b.md`.";
        let top = BTreeSet::from(["crates"]);
        assert_eq!(named_paths(text, &top), ["crates/a/src", "crates/b.md"]);
        assert_eq!(named_types(text).collect::<Vec<_>>(), ["Client"]);
        assert_eq!(relative_links(text), ["../b.md"]);
        assert_eq!(join("crates/x", "../b.md"), "crates/b.md");
    }

    #[test]
    fn a_folder_exists_by_its_files_and_a_prefix_of_a_name_does_not() {
        let files = ["crates/cells-cli/src/main.rs".to_owned()];
        for (path, expected) in [
            ("crates", true),
            ("crates/cells-cli/", true),
            ("crates/cells-cli/src/main.rs", true),
            ("crates/cells", false),
        ] {
            assert_eq!(exists(&files, path), expected, "{path}");
        }
    }

    #[test]
    fn a_type_is_defined_by_its_whole_name() {
        assert!(defines("pub struct Client<T> {", "Client"));
        assert!(!defines("pub struct ClientConfig {", "Client"));
    }

    #[test]
    fn a_block_takes_the_comment_before_it() {
        let text = "<!-- a.rs -->\n\n```rust\nfn a() {}\n```\n\n```js\n1\n```\n```sh\nls\n```\n";
        let blocks: Vec<_> = code_blocks(text).into_iter().map(|block| (block.line, block.file, block.code)).collect();
        assert_eq!(blocks, [(3, Some("a.rs"), "fn a() {}".to_owned()), (7, None, "1".to_owned())]);
    }
}
