//! Licences of everything that is linked, or used to build and test it.

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::shell;

/// Licences that let this work be used under MIT OR Apache-2.0.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(crate) fn licences() -> anyhow::Result<()> {
    let metadata =
        shell::capture(&mut shell::cargo(["metadata", "--format-version", "1", "--all-features", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(allowed))
        .map(|package| format!("{} {}: licence {}", package["name"], package["version"], package["license"]))
        .collect();
    if !refused.is_empty() {
        bail!("{}\nreplace the package, or add its licence to xtask/src/check/licences.rs", refused.join("\n"));
    }
    Ok(())
}

/// Whether one choice of the SPDX expression is allowed as a whole. Older crates write `/` for OR.
fn allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    // AND binds more tightly than OR.
    match outer_split(&expression, " OR ") {
        Some((left, right)) => allowed(left) || allowed(right),
        None => match outer_split(&expression, " AND ") {
            Some((left, right)) => allowed(left) && allowed(right),
            None => match expression.trim().strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
                Some(inner) => allowed(inner),
                None => ALLOWED.contains(&expression.trim()),
            },
        },
    }
}

/// Splits at the first `operator` outside parentheses.
fn outer_split<'a>(expression: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let mut depth = 0;
    for (at, character) in expression.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(operator) => {
                return Some((&expression[..at], &expression[at + operator.len()..]));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn an_expression_is_allowed_when_one_choice_is() {
        for (expression, expected) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR MIT", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR GPL-3.0) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT AND OpenSSL", false),
            ("MIT OR ISC AND OpenSSL", true),
            ("AGPL-3.0", false),
            ("", false),
        ] {
            assert_eq!(allowed(expression), expected, "{expression}");
        }
    }
}
