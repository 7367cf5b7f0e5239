use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::Cli;
use crate::failure::{Exit, Failure};
use crate::output::print;

/// Print completions for a shell.
///
/// bash: source <(cells completions bash). zsh: write it to a file _cells in a folder of your fpath.
/// fish: cells completions fish > ~/.config/fish/completions/cells.fish
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "cells", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
