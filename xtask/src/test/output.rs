//! What a line of a test runner's output says. Known are cargo's harness, wasm-bindgen-test and node:test.

/// A line that matters to the sum.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// The next test program starts.
    Starts(&'a str),
    /// Tests of a program that ended.
    Sum { passed: u64, failed: u64 },
    /// One test that did not run, and why.
    Skipped { test: &'a str, reason: &'a str },
}

pub(crate) fn parse(line: &str) -> Option<Line<'_>> {
    let line = line.trim_end();
    let text = line.trim_start();
    if let Some(program) = text.strip_prefix("Running ").filter(|_| line != text) {
        let name = program.split_once(" (").map_or(program, |(_, file)| file.trim_end_matches(')'));
        return Some(Line::Starts(program_name(name)));
    }
    if let Some(package) = text.strip_prefix("Doc-tests ").filter(|_| line != text) {
        return Some(Line::Starts(package));
    }
    if let Some(counts) = text.strip_prefix("test result: ") {
        return Some(Line::Sum { passed: before(counts, " passed"), failed: before(counts, " failed") });
    }
    if let Some((test, reason)) = text.strip_prefix("test ").and_then(|test| test.split_once(" ... ignored")) {
        let reason = reason.trim_start_matches(", ").trim();
        return Some(Line::Skipped { test, reason: if reason.is_empty() { "ignored" } else { reason } });
    }
    let node = |word: &str| {
        let counted = text.strip_prefix("ℹ ").or_else(|| text.strip_prefix("# "))?;
        counted.strip_prefix(word)?.trim().parse::<u64>().ok()
    };
    if let Some(passed) = node("pass ") {
        return Some(Line::Sum { passed, failed: 0 });
    }
    if let Some(failed) = node("fail ").or_else(|| node("cancelled ")) {
        return Some(Line::Sum { passed: 0, failed });
    }
    if let Some(skipped) = text.strip_prefix("﹣ ") {
        let (test, reason) = skipped.split_once(" # ").unwrap_or((skipped, "skipped"));
        return Some(Line::Skipped { test: test.split_once(" (").map_or(test, |(name, _)| name), reason });
    }
    None
}

/// `target/debug/deps/cells_native-0123456789abcdef` → `cells_native`.
fn program_name(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".wasm").unwrap_or(name);
    match name.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => stem,
        Some(_) | None => name,
    }
}

/// The number before a word.
fn before(text: &str, word: &str) -> u64 {
    let digits = text.split_once(word).map_or("", |(before, _)| before).rsplit(' ').next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Line::*, parse};

    #[test]
    fn lines_of_each_runner_are_understood() {
        for (line, expected) in [
            (
                "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                Some(Sum { passed: 5, failed: 2 }),
            ),
            ("test result: ok. 7 passed; 0 failed; 0 ignored; 0 filtered out", Some(Sum { passed: 7, failed: 0 })),
            (
                "     Running unittests src/lib.rs (target/debug/deps/cells_native-0123456789abcdef)",
                Some(Starts("cells_native")),
            ),
            (
                "     Running tests/files.rs (target/wasm/wasm32-unknown-unknown/debug/deps/files-0123456789abcdef.wasm)",
                Some(Starts("files")),
            ),
            ("   Doc-tests cells_native", Some(Starts("cells_native"))),
            ("Running 3 steps", None),
            ("test a::b ... ok", None),
            ("test a::b ... ignored", Some(Skipped { test: "a::b", reason: "ignored" })),
            ("test a::b ... ignored, needs a network", Some(Skipped { test: "a::b", reason: "needs a network" })),
            ("ℹ pass 12", Some(Sum { passed: 12, failed: 0 })),
            ("# pass 12", Some(Sum { passed: 12, failed: 0 })),
            ("ℹ fail 3", Some(Sum { passed: 0, failed: 3 })),
            ("# cancelled 1", Some(Sum { passed: 0, failed: 1 })),
            ("# passing on", None),
            ("  ﹣ opens a page (0.2ms) # no Chromium", Some(Skipped { test: "opens a page", reason: "no Chromium" })),
            ("✔ reads a file (3.1ms)", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
