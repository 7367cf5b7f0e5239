//! Completions are scripts that shells can use.

use tokio::process::Command;

use crate::stage::{Ran, Stage};

#[tokio::test]
async fn every_shell_gets_a_script_that_names_all_verbs() {
    let stage = Stage::new().await;
    for shell in ["bash", "zsh", "fish"] {
        let ran = stage.run(&["completions", shell]).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        for word in [
            "serve", "discover", "exports", "stat", "sessions", "send", "output", "receipt", "receipts", "purge",
            "approve",
        ] {
            assert!(ran.stdout().contains(word), "{shell}: {word}");
        }
    }
    stage.check(&[(&["completions", "cmd"], 2, "", "error: invalid value 'cmd'*")]).await;
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
