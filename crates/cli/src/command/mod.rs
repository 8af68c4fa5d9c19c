//! The subcommands, one a file.

mod completions;
mod demo;
mod lib;
mod man;
mod record;
mod report;
mod run;

use crate::demo_server;
use crate::failure::{Failure, status};
use clap::{Parser, Subcommand};
use std::io;

/// See which memory is allocated on one thread and freed on another
///
/// Memory that one thread allocates and another frees is slow on every allocator, hard to see, and hard
/// to account for. homefree records a program (nothing needs rebuilding) and reports which memory
/// that is: where it is allocated, where it is freed, by which threads, and how much of it.
#[derive(Debug, Parser)]
#[command(name = "homefree", version, max_term_width = 100, after_help = EXAMPLES)]
#[command(propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  homefree demo                        see what it is about, in two seconds
  homefree record -- ./server --port 1 record a program of yours
  homefree report homefree.server.*    and see its remote frees, ranked
  homefree run --ledger -- ./server    count every byte it holds, at almost no cost

`homefree COMMAND --help` says more about each, with examples and exit statuses.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Record(record::Record),
    Report(report::Report),
    Run(run::Run),
    Demo(demo::Demo),
    Lib(lib::Lib),
    Completions(completions::Completions),
    Man(man::Man),
    #[command(name = demo_server::NAME, hide = true)]
    DemoServer(demo_server::DemoServer),
}

impl Command {
    /// Does it, and returns the exit status.
    ///
    /// # Errors
    /// What to tell the user, and the exit status that goes with it.
    pub fn run(self) -> Result<u8, Failure> {
        match self {
            Command::Record(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Run(command) => command.run(),
            Command::Demo(command) => command.run(),
            Command::Lib(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(),
            Command::DemoServer(command) => command.run(),
        }
    }
}

/// Success, also where the reader of our output has had enough (`| head`).
fn written(result: io::Result<()>) -> Result<u8, Failure> {
    match result {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(Failure::new(
            status::FAILED,
            format!("cannot write the output: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_reader_that_leaves_is_no_failure() {
        assert_eq!(written(Err(io::ErrorKind::BrokenPipe.into())), Ok(0));
        assert_eq!(
            written(Err(io::ErrorKind::StorageFull.into()))
                .unwrap_err()
                .status,
            status::FAILED
        );
    }
}
