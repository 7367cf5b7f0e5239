//! What readers of the files trip over, and what must not leave a machine.

use std::env;

use anyhow::{Context as _, bail};

use crate::repo;

/// Lines without inline tests: more than [`SOFT_LIMIT`] is listed, more than [`HARD_LIMIT`] fails.
pub(crate) fn file_sizes() -> anyhow::Result<()> {
    let mut sizes = Vec::new();
    for path in sources()? {
        sizes.push((lines_without_tests(&repo::read(&path)?), path));
    }
    sizes.sort_by(|a, b| b.cmp(a));
    let median = sizes.get(sizes.len() / 2).map_or(0, |(lines, _)| *lines);
    println!("{} source files, median {median} lines", sizes.len());
    for (lines, path) in sizes.iter().filter(|(lines, _)| *lines > SOFT_LIMIT) {
        println!("long: {path}: {lines} lines");
    }
    match sizes.first() {
        Some((lines, path)) if *lines > HARD_LIMIT => {
            bail!("{path} has {lines} lines, more than {HARD_LIMIT}: split it by concept")
        }
        Some(_) | None => Ok(()),
    }
}

/// No placeholder ships, and no test is switched off.
pub(crate) fn unfinished_code() -> anyhow::Result<()> {
    // Written in two parts, so that this file does not contain them.
    let words = [
        ["todo", "!("],
        ["unimplemented", "!("],
        ["#[ig", "nore"],
        ["test.sk", "ip("],
        ["test.to", "do("],
        ["it.sk", "ip("],
        ["describe.sk", "ip("],
        ["test.on", "ly("],
        ["describe.on", "ly("],
        ["@ts-no", "check"],
    ]
    .map(|parts| parts.concat());
    refuse(sources()?, |line| words.iter().find(|word| line.contains(word.as_str())).cloned())
}

/// Nothing names the machine it was written on, or where packages come from.
pub(crate) fn machine_paths() -> anyhow::Result<()> {
    let mut words = [
        ["/ro", "ot/"],
        ["/wo", "rk/"],
        ["registry", ".npmjs"],
        ["index.", "crates.io"],
        ["static.", "crates.io"],
        ["deb.", "debian.org"],
        ["static.rust", "-lang"],
    ]
    .map(|parts| parts.concat())
    .to_vec();
    words.extend(env::var("HOME").ok().filter(|home| home.matches('/').count() > 1));
    words.push(repo::root().display().to_string());
    refuse(repo::files()?, |line| words.iter().find(|word| begins_in(line, word)).cloned())
}

/// Whether `word` stands in the line and is not the rest of a longer name, as in `/v1/root/file`.
fn begins_in(line: &str, word: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.*}".contains(c));
    line.match_indices(word).any(|(at, _)| begins(at))
}

/// Lock files pin by version and digest; where to download from is the machine's business.
pub(crate) fn lock_files() -> anyhow::Result<()> {
    let locks = repo::files()?.into_iter().filter(|path| {
        matches!(path.rsplit('/').next(), Some("Cargo.lock" | "package-lock.json" | "npm-shrinkwrap.json"))
    });
    let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
    refuse(locks.collect(), |line| {
        let named = line.find("://").is_some_and(|_| !line.contains(crates_io));
        // Sites of authors stand in npm's lock file, too; only these two members are fetched.
        let fetched = line.contains("\"resolved\"") || line.trim_start().starts_with("source = ");
        (named && fetched).then(|| "a download address".to_owned())
    })
}

/// Fails with each line in which `finds` finds something.
fn refuse(files: Vec<String>, finds: impl Fn(&str) -> Option<String>) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for path in files {
        let bytes = std::fs::read(repo::root().join(&path)).with_context(|| format!("cannot read {path}"))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for (index, line) in text.lines().enumerate() {
            if let Some(what) = finds(line) {
                found.push(format!("{path}:{}: {what}", index + 1));
            }
        }
    }
    if !found.is_empty() {
        bail!("{}", found.join("\n"));
    }
    Ok(())
}

fn sources() -> anyhow::Result<Vec<String>> {
    let mut files = repo::files()?;
    files.retain(|path| path.rsplit_once('.').is_some_and(|(_, extension)| SOURCES.contains(&extension)));
    Ok(files)
}

/// Inline tests stand last in a file.
fn lines_without_tests(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{')) {
            break;
        }
        count += 1;
    }
    count
}

const SOFT_LIMIT: usize = 400;
const HARD_LIMIT: usize = 800;
const SOURCES: &[&str] = &["rs", "js", "mjs", "cjs", "ts", "sh"];

#[cfg(test)]
mod tests {
    use super::{begins_in, lines_without_tests};

    #[test]
    fn a_path_inside_of_another_is_no_machine_path() {
        for (line, expected) in [("cd /a/b", true), ("\"/a/b\"", true), ("GET /v1/a/b", false), ("x=/a/b", true)] {
            assert_eq!(begins_in(line, "/a/"), expected, "{line}");
        }
    }

    #[test]
    fn inline_tests_do_not_count() {
        for (text, expected) in [
            ("a\nb\n", 2),
            ("a\n#[cfg(test)]\nmod tests {\nb\n}\n", 1),
            ("a\n#[cfg(test)]\nmod tests;\n", 3),
            ("a\n#[cfg(test)]\nfn helper() {}\n", 3),
        ] {
            assert_eq!(lines_without_tests(text), expected, "{text}");
        }
    }
}
