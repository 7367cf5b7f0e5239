//! Who may depend on whom, as crates/README.md draws it.

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::shell;

/// The workspace crates that each crate may use in what it ships. A crate that is not named here fails the check.
const ARROWS: &[(&str, &[&str])] = &[
    ("cells-protocol", &[]),
    ("cells-machines", &["cells-protocol"]),
    ("cells-driver", &["cells-machines", "cells-protocol"]),
    ("cells-native", &["cells-driver"]),
    ("cells-wasm", &["cells-driver"]),
    ("cells-server", &["cells-protocol"]),
    ("cells-cli", &["cells-native", "cells-server"]),
    ("cells-testkit", &["cells-driver", "cells-protocol"]),
    ("wasm-tests", &["cells-wasm", "cells-driver"]),
    ("xtask", &[]),
];

/// Crates with a closed list of libraries: what they hold must stay pure.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("cells-protocol", &["base64", "serde", "serde_json", "thiserror"]),
    ("cells-machines", &["serde", "serde_json", "sha2", "thiserror"]),
];

/// What no path of shipped dependencies may reach, with any feature, on the given platform.
const UNREACHABLE: &[(&str, &str, &[&str])] = &[
    ("cells-protocol", "all", &["tokio", "futures-core", "reqwest", "getrandom"]),
    ("cells-machines", "all", &["tokio", "futures-core", "reqwest", "getrandom", "rand"]),
    ("cells-driver", "all", &["tokio", "reqwest", "web-sys", "js-sys", "wasm-bindgen", "rusqlite"]),
    ("cells-server", "all", &["cells-driver", "cells-machines", "cells-native"]),
    ("cells-wasm", "wasm32-unknown-unknown", &["tokio", "reqwest"]),
    ("cells-native", "all", &["cells-server", "cells-testkit", "rusqlite"]),
    ("cells-cli", "all", &["cells-testkit"]),
];

pub(crate) fn dependency_arrows() -> anyhow::Result<()> {
    let metadata = shell::capture(&mut shell::cargo(["metadata", "--format-version", "1", "--no-deps", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let shipped: Vec<&str> = shipped_dependencies(package).collect();
        wrong.extend(direct(name, &shipped));
    }
    for (package, platform, targets) in UNREACHABLE {
        for target in *targets {
            // cargo succeeds also when only a dev-dependency reaches the target: then it prints nothing.
            let tree = shell::cargo(["tree", "--locked", "--edges", "normal", "--all-features", "--target", platform])
                .args(["--package", package, "--invert", target])
                .output()?;
            if !tree.stdout.is_empty() {
                let path = String::from_utf8_lossy(&tree.stdout);
                wrong.push(format!("{package} must not reach {target}:\n{}", path.trim_end()));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

fn shipped_dependencies(package: &Value) -> impl Iterator<Item = &str> {
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    dependencies.iter().filter(|dependency| dependency["kind"].is_null()).filter_map(|one| one["name"].as_str())
}

fn direct(package: &str, shipped: &[&str]) -> Vec<String> {
    let of = |list: &[(&'static str, &'static [&'static str])]| {
        list.iter().find(|(name, _)| *name == package).map(|(_, allowed)| *allowed)
    };
    let Some(arrows) = of(ARROWS) else { return vec![format!("{package} has no arrows in xtask/src/check/arrows.rs")] };
    let libraries = of(LIBRARIES);
    shipped
        .iter()
        .filter(|name| match ARROWS.iter().any(|(member, _)| member == *name) {
            true => !arrows.contains(name),
            false => libraries.is_some_and(|allowed| !allowed.contains(name)),
        })
        .map(|name| format!("{package} must not depend on {name}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_is_not_drawn_is_named() {
        assert_eq!(direct("cells-driver", &["cells-machines", "bytes"]), [""; 0]);
        assert_eq!(direct("cells-server", &["cells-driver"]), ["cells-server must not depend on cells-driver"]);
        assert_eq!(direct("cells-machines", &["futures"]), ["cells-machines must not depend on futures"]);
        assert_eq!(direct("cells-native", &["cells-testkit"]), ["cells-native must not depend on cells-testkit"]);
        assert_eq!(direct("new-crate", &[]), ["new-crate has no arrows in xtask/src/check/arrows.rs"]);
    }
}
