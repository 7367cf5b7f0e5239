//! Completions are scripts that shells can use.

use tokio::process::Command;

use crate::stage::{Ran, Stage};

/// The commands that a help lists.
fn commands(help: &Ran) -> Vec<String> {
    let lines = help.stdout().lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[tokio::test]
async fn every_shell_gets_a_script_that_names_all_verbs() {
    let stage = Stage::new().await;
    // As the help lists them, with all options of each.
    let mut words = Vec::new();
    for verb in commands(&stage.run(&["--help"]).await) {
        let help = stage.run(&[&verb, "--help"]).await;
        words.extend(commands(&help));
        let is_outside = |character: char| !character.is_ascii_lowercase() && character != '-';
        let options = help.stdout().split(is_outside).filter_map(|word| word.strip_prefix("--"));
        words.extend(options.filter(|option| !option.is_empty()).map(str::to_owned));
        words.push(verb);
    }
    for word in ["put", "op", "wait", "exec", "mount", "purge", "recursive"] {
        assert!(words.iter().any(|known| known == word), "{word}: {words:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let ran = stage.run(&["completions", shell]).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        for word in &words {
            assert!(ran.stdout().contains(word.as_str()), "{shell}: {word}");
        }
    }
    stage
        .check(&[(&["completions", "cmd"], 2, "", "cells: invalid value 'cmd' for '<SHELL>' [possible values: *]\n")])
        .await;
}

#[tokio::test]
async fn bash_completes_verbs_and_options() {
    let stage = Stage::new().await;
    let script = stage.run(&["completions", "bash"]).await.stdout;
    std::fs::write(stage.path("completions"), script).unwrap();
    for (line, expected) in [
        ("cells se", "send\nserve\nsessions\n"),
        ("cells send --app", "--approve\n"),
        ("cells send --approve ", "no\nyes\n"),
        ("cells op w", "wait\n"),
        ("cells exec --mo", "--mount\n"),
    ] {
        let program = "source completions; COMP_WORDS=($1); [[ $1 == *' ' ]] && COMP_WORDS+=(''); \
                       COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                       _cells cells \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                       printf '%s\\n' \"${COMPREPLY[@]}\" | sort";
        let mut bash = Command::new("bash");
        bash.args(["-c", program, "bash", line]).current_dir(stage.path(""));
        Ran::of(&mut bash).await.check(line, 0, expected, "");
    }
}
