//! The program `homefree`: see which memory is allocated on one thread and freed on another.
//!
//! **For:** the command line. **Not for:** use as a library; nothing here is stable but the
//! program's own options, output and exit statuses (`docs/exit-codes.md`).
//!
//! Each subcommand is a file in `command/`: its options (clap derive, from which the help, the shell
//! completions and the man pages are all made) and what it does. What they share:
//!
//! | module | job |
//! | --- | --- |
//! | `program` | look at CMD before it is started: can it be recorded? |
//! | `library` | unpack the libraries that the program carries inside |
//! | `launch` | run a program as if we were not there: terminal, signals, exit status |
//! | `record` | one recording: where profiles go, which they are, what to say at the end |
//! | `run` | one run under the ledger: the account, while it runs and at its end |
//! | `say` | lines on stderr, wherever that leads |
//! | `demo_server` | the program that `homefree demo` records |
//! | `status` | the status line of a running recording |

mod command;
mod demo_server;
mod failure;
mod launch;
mod library;
mod program;
mod record;
mod run;
mod say;
mod size;
mod status;
mod terminal;

use clap::Parser;
use say::say;
use std::process::ExitCode;

/// Runs the program with the process's arguments and returns its exit status.
pub fn main() -> ExitCode {
    // Prints help and errors itself, and exits with 0 or 2.
    let cli = command::Cli::parse();
    match cli.command.run() {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            say!("{failure}");
            ExitCode::from(failure.status)
        }
    }
}
