//! `homefree record`.

use crate::failure::{Failure, status};
use crate::launch::{self, Nobody};
use crate::program::{self, Program};
use crate::record::{Output, Session, Variables, summary, unrecorded};
use crate::say::say;
use crate::size;
use clap::{Args, ValueEnum};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a program and record which memory its threads free for each other
///
/// The program runs with its own terminal, signals and exit status, unchanged, and leaves a profile:
/// homefree.CMD.PID.hfp in the current folder unless -o says otherwise, one for each process it
/// starts. It may be killed; what was counted until then can be read.
#[derive(Debug, Args)]
#[command(override_usage = "homefree record [OPTIONS] -- CMD [ARGS]...")]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{STATUS}"))]
pub struct Record {
    /// Write the first process's profile here; it must not exist. Its children's profiles get its
    /// name with theirs added
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to take stacks: call-frame information where a module has it and frame pointers where not
    /// (auto), one of them alone, or the immediate caller only (none). [default: auto]
    #[arg(long, value_name = "HOW")]
    stacks: Option<Stacks>,
    /// Frames kept of a stack, the innermost first, 1 to 128. [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    depth: Option<u32>,
    /// Take the stack of a free only where it crosses threads, or of every free. [default: cross]
    #[arg(long, value_name = "WHICH")]
    free_stacks: Option<FreeStacks>,
    /// Record only a sample, one event in SIZE bytes on average; the report then gives the error of
    /// the counts of allocations and frees. 0 records everything. [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    sample: Option<u64>,
    /// Record the processes that the program starts, too, or the program alone. [default: follow]
    #[arg(long, value_name = "WHAT")]
    children: Option<Children>,
    /// No status line and no closing summary; failures are still said
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// `--stacks`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Stacks {
    Auto,
    Fp,
    Dwarf,
    None,
}

/// `--free-stacks`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum FreeStacks {
    Cross,
    All,
}

/// `--children`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Children {
    Follow,
    Ignore,
}

const EXAMPLES: &str = "\
Examples:
  homefree record -- ./server --port 8080
  homefree record -o before.hfp -- python3 crawl.py
  homefree record --stacks fp --children ignore -- make -j2
  homefree record --sample 512KiB -- ./busy-server";

const STATUS: &str = "\
Exit status:
  The program's own, or 128 + N where signal N ended it. Of homefree itself:
  1    the launcher failed
  2    the command line is wrong, or -o FILE exists or names no file; nothing was run
  3    not recorded: the program was not run because it cannot be (static, setuid, another
       architecture, an allocator of its own), or it ended with 0 and the recorder was not in it
  126  CMD was found but cannot run
  127  CMD was not found

Environment:
  HOMEFREE_DIR names another folder for profiles. HOMEFREE_STACKS, HOMEFREE_DEPTH,
  HOMEFREE_FREE_STACKS, HOMEFREE_SAMPLE and HOMEFREE_CHILDREN hold where the option is not given.";

impl Record {
    /// Runs the program and returns its exit status.
    pub fn run(self) -> Result<u8, Failure> {
        let output = Output::choose(self.output.as_deref(), env::var_os("HOMEFREE_DIR"))?;
        let name = &self.command[0];
        let program = program::examine(name, env::var_os("PATH").as_deref())?;
        if let Err(reason) = output.try_writing() {
            return unharmed(&program, &self.command, &reason);
        }
        for note in &program.notes {
            say!("homefree: note: {note}");
        }
        let recording = Session::run(
            &program,
            &self.command,
            &output,
            self.variables(),
            !self.quiet,
        )?;
        let failure = unrecorded(&name.to_string_lossy(), &recording.outcome);
        if let Some(failure) = &failure {
            say!("{failure}");
        }
        if !self.quiet {
            let folder = env::current_dir().unwrap_or_default();
            crate::say::text(&summary(&recording, &folder));
        }
        // A program's own failure tells more than ours.
        Ok(match (recording.ending.status(), failure) {
            (0, Some(failure)) => failure.status,
            (status, _) => status,
        })
    }

    fn variables(&self) -> Variables {
        fn word<T: ValueEnum>(value: Option<T>) -> Option<OsString> {
            Some(value?.to_possible_value()?.get_name().into())
        }
        let number = |value: Option<u64>| value.map(|n| n.to_string().into());
        vec![
            ("HOMEFREE_STACKS", word(self.stacks)),
            ("HOMEFREE_DEPTH", number(self.depth.map(u64::from))),
            ("HOMEFREE_FREE_STACKS", word(self.free_stacks)),
            ("HOMEFREE_SAMPLE", number(self.sample)),
            ("HOMEFREE_CHILDREN", word(self.children)),
        ]
    }
}

/// Runs the program without the recorder: whoever wants a server up wants it up.
fn unharmed(program: &Program, args: &[OsString], reason: &str) -> Result<u8, Failure> {
    let said = Failure::new(
        status::NOT_RECORDED,
        "not recorded: the profile cannot be written; the program runs without the recorder",
    )
    .why(reason)
    .advice("name a writable place with -o FILE or HOMEFREE_DIR, with 2 MiB and more to spare");
    say!("{said}");
    let ending = launch::run(&program.path, args, &[], &mut Nobody)?;
    Ok(ending.status())
}

#[cfg(test)]
mod tests {
    use crate::command::{Cli, Command};
    use clap::Parser;

    fn parse(line: &str) -> Result<super::Record, clap::Error> {
        match Cli::try_parse_from(line.split(' '))?.command {
            Command::Record(record) => Ok(record),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_end_where_the_program_begins() {
        for line in [
            "homefree record -o x.hfp -- prog -o y --depth 3",
            "homefree record -o x.hfp prog -o y --depth 3",
        ] {
            let record = parse(line).unwrap();
            assert_eq!(record.command, ["prog", "-o", "y", "--depth", "3"]);
            assert_eq!(record.depth, None);
        }
        assert!(parse("homefree record").is_err());
        assert!(parse("homefree record --no-such -- prog").is_err());
    }

    #[test]
    fn only_options_that_were_given_reach_the_library() {
        let variables = |line| {
            let set = parse(line).unwrap().variables().into_iter();
            set.filter_map(|(name, value)| Some(format!("{name}={}", value?.to_str()?)))
                .collect::<Vec<_>>()
        };
        assert!(variables("homefree record -- prog").is_empty());
        assert_eq!(
            variables(
                "homefree record --stacks fp --depth 9 --free-stacks all --sample 512KiB --children ignore -- prog"
            ),
            [
                "HOMEFREE_STACKS=fp",
                "HOMEFREE_DEPTH=9",
                "HOMEFREE_FREE_STACKS=all",
                "HOMEFREE_SAMPLE=524288",
                "HOMEFREE_CHILDREN=ignore",
            ]
        );
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for line in [
            "homefree record --depth 0 -- prog",
            "homefree record --depth 129 -- prog",
            "homefree record --sample much -- prog",
            "homefree record --stacks all -- prog",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
