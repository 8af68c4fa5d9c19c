//! `homefree completions`.

use super::Cli;
use crate::failure::Failure;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

/// Print the completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  homefree completions bash > ~/.local/share/bash-completion/completions/homefree
  homefree completions zsh > ~/.zfunc/_homefree
  homefree completions fish > ~/.config/fish/completions/homefree.fish";

impl Completions {
    /// Prints the script.
    pub fn run(self) -> Result<u8, Failure> {
        super::written(std::io::stdout().write_all(&script(self.shell)))
    }
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "homefree", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_shell_completes_the_subcommands() {
        for shell in Shell::value_variants() {
            let text = String::from_utf8(script(*shell)).unwrap();
            assert!(
                text.contains("record") && text.contains("report"),
                "{shell}"
            );
        }
    }
}
