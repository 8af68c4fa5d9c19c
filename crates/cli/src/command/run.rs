//! `homefree run`.

use crate::failure::{Failure, status};
use crate::launch::{self, Nobody};
use crate::library;
use crate::program::{self, Program};
use crate::run::{self, Outputs, Session, Settings};
use crate::say::say;
use crate::size;
use clap::{Args, ValueEnum};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run a program on Homefree's allocator, or with --ledger keep the account of its memory
///
/// The program runs with its own terminal, signals and exit status, unchanged; nothing needs rebuilding. Without
/// options its memory comes from Homefree's thread-caching allocator, and what one thread frees for another goes home
/// in batches.
///
/// With --ledger it keeps the allocator it has, and every byte of its C and C++ heap is counted. At its end the account
/// is shown: what it allocated, freed, held and held at most, in usable bytes (as
/// malloc_usable_size says them; requested bytes are not known when a block is freed), next to what it had reserved
/// and resident. Counting costs some 20 instructions for each block. It may be killed; the account is then a little
/// less exact, and says how much.
#[derive(Debug, Args)]
#[command(
    override_usage = "homefree run [--stats] -- CMD [ARGS]...\n       homefree run --ledger [OPTIONS] -- CMD [ARGS]..."
)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{STATUS}"))]
pub struct Run {
    /// Keep the account of the allocator that the program has
    #[arg(long)]
    ledger: bool,
    /// Without --ledger: the allocator says at the end what it holds, and how often threads left their caches
    #[arg(long, conflicts_with = "ledger")]
    stats: bool,
    /// Say what is held so often while the program runs, a line on stderr: 5s, 500ms, 1m
    #[arg(long, value_name = "TIME", value_parser = time, requires = "ledger")]
    every: Option<Duration>,
    /// Write a page for Prometheus to FILE so often (5s unless --every says) and at the end, for a
    /// textfile collector; it is replaced whole. A pipe or a character device is written to
    #[arg(long, value_name = "FILE", requires = "ledger")]
    prometheus: Option<PathBuf>,
    /// Count allocations and frees, too; slower
    #[arg(long, requires = "ledger")]
    counts: bool,
    /// Answer requests that would bring what is held past SIZE with NULL and ENOMEM, in each process; slower.
    /// Those of at most 4 KiB may use a reserve beyond it, a 64th of SIZE, at least 64 KiB
    #[arg(long, value_name = "SIZE", value_parser = limit, requires = "ledger")]
    hard_limit: Option<u64>,
    /// Count the processes that the program starts, too, or the program alone
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "follow",
        requires = "ledger"
    )]
    children: Children,
    /// The account as JSON
    #[arg(long, requires = "ledger")]
    json: bool,
    /// Write the account to FILE instead of stderr
    #[arg(short, long, value_name = "FILE", requires = "ledger")]
    output: Option<PathBuf>,
    /// Do not show the account at the end (with -o, write it all the same); failures are still said
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// `--children`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Children {
    Follow,
    Ignore,
}

const EXAMPLES: &str = "\
Examples:
  homefree run -- ./server --port 8080
  homefree run --stats -- ./server --port 8080
  homefree run --ledger -- ./server --port 8080
  homefree run --ledger --every 5s -- python3 crawl.py
  homefree run --ledger --prometheus /var/lib/node_exporter/server.prom -- ./server
  homefree run --ledger --hard-limit 2GiB -- ./batch-job
  homefree run --ledger --json -o account.json -- make -j2";

const STATUS: &str = "\
Exit status:
  The program's own, or 128 + N where signal N ended it. Of homefree itself:
  1    the launcher failed, or -o FILE could not be written (if the program ended with 0)
  2    the command line is wrong; nothing was run
  3    not counted: the program was not run because it cannot be (static, setuid, another
       architecture, an allocator of its own), or it ended with 0 and the library was not in it
  126  CMD was found but cannot run
  127  CMD was not found";

/// Parses a time: `5s`, `500ms`, `1m`, `2h`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("`{text}` is not a time; write a number with a unit, as in 500ms, 5s, 1m");
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .ok_or_else(wrong)?;
    let number: f64 = text[..split].parse().map_err(|_| wrong())?;
    let seconds = match text[split..].trim() {
        "ms" => number / 1000.0,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time >= Duration::from_millis(10) => Ok(time),
        _ => Err(format!(
            "`{text}` is too short or too long; write 10ms or more"
        )),
    }
}

/// Parses a limit: any size but 0, which would be none.
fn limit(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err(format!(
            "`{text}` is too little; leave the option out for no limit"
        )),
        bytes => Ok(bytes),
    }
}

impl Run {
    /// Runs the program and returns its exit status.
    pub fn run(self) -> Result<u8, Failure> {
        if !self.ledger {
            return self.allocate();
        }
        if let Some(path) = &self.prometheus {
            run::check_place(path)?;
        }
        if let Some(path) = &self.output {
            try_writing(path)?;
        }
        let name = &self.command[0];
        let program = examine(name)?;
        for note in &program.notes {
            say!("homefree: note: {}", counted(note));
        }
        let outputs = Outputs {
            every: self.every,
            prometheus: self.prometheus.clone(),
        };
        let recording = Session::run(&program, &self.command, self.settings(), outputs)?;
        let failure = uncounted(&name.to_string_lossy(), &recording.report, recording.became);
        if let Some(failure) = &failure {
            say!("{failure}");
        }
        let written = self.write(&recording.report);
        // A program's own failure tells more than ours.
        match (recording.ending.status(), failure) {
            (0, Some(failure)) => Ok(failure.status),
            (0, None) => written.map(|()| 0),
            (status, _) => {
                if let Err(failure) = written {
                    say!("{failure}");
                }
                Ok(status)
            }
        }
    }

    /// Runs the program on the allocator.
    fn allocate(&self) -> Result<u8, Failure> {
        let program = examine(&self.command[0]).map_err(|mut failure| {
            for part in [&mut failure.what, &mut failure.why, &mut failure.advice] {
                *part = part
                    .replace("not counted", "not run on the allocator")
                    .replace(
                        "can count by itself: `homefree_ledger::Accounted`",
                        "can bring it: `homefree::Alloc`",
                    );
            }
            failure
        })?;
        let library = library::unpack(&library::ALLOCATOR)?;
        let others = env::var_os("LD_PRELOAD");
        let environment = [
            (
                "LD_PRELOAD",
                Some(library::preload_value(&library, others.as_deref())),
            ),
            ("HOMEFREE_STATS", self.stats.then(|| "1".into())),
        ];
        let environment: Vec<_> = environment
            .into_iter()
            .filter(|(_, v)| v.is_some())
            .collect();
        let ending = launch::run(&program.path, &self.command, &environment, &mut Nobody)?;
        Ok(ending.status())
    }

    fn settings(&self) -> Settings {
        let word = |set: bool| set.then(|| OsString::from("1"));
        let children = (self.children == Children::Ignore).then(|| OsString::from("ignore"));
        vec![
            ("HOMEFREE_LEDGER_COUNTS", word(self.counts)),
            (
                "HOMEFREE_LEDGER_LIMIT",
                self.hard_limit.map(|bytes| bytes.to_string().into()),
            ),
            ("HOMEFREE_LEDGER_CHILDREN", children),
        ]
    }

    fn write(&self, report: &run::Report) -> Result<(), Failure> {
        let text = match self.json {
            true => run::json(report),
            false => run::text(report),
        };
        match &self.output {
            Some(path) => std::fs::write(path, &text).map_err(|error| {
                // It is all that is left of the run.
                crate::say::text(&text);
                let what = format!("cannot write {}: {error}", path.display());
                Failure::new(status::FAILED, what).why("the account is above instead")
            }),
            None => {
                if !self.quiet {
                    crate::say::text(&text);
                }
                Ok(())
            }
        }
    }
}

/// Whether an account can be written there, before anything runs.
fn try_writing(path: &Path) -> Result<(), Failure> {
    let existed = path.exists();
    // A fifo would wait for its reader here.
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return Ok(());
    }
    let tried = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    match tried {
        Ok(_) => {
            if !existed {
                let _ = std::fs::remove_file(path);
            }
            Ok(())
        }
        Err(error) => Err(Failure::new(
            status::USAGE,
            format!("cannot write the account to {}", path.display()),
        )
        .why(error.to_string())
        .advice("name a file in a folder that is there and writable; nothing was run")),
    }
}

/// As `record` looks at a program, in the words of `run`.
fn examine(name: &OsString) -> Result<Program, Failure> {
    let program =
        program::examine(name, env::var_os("PATH").as_deref()).map_err(|mut failure| {
            for part in [&mut failure.what, &mut failure.why, &mut failure.advice] {
                *part = counted(part);
            }
            failure
        })?;
    if program.is_static {
        return Err(Failure::new(
            status::NOT_RECORDED,
            format!(
                "not counted: {} is statically linked",
                program.path.display()
            ),
        )
        .why("there is no loader in it that would read LD_PRELOAD")
        .advice(
            "link it dynamically; a Rust program can count by itself: `homefree_ledger::Accounted`",
        ));
    }
    Ok(program)
}

/// What was said of recording, said of counting.
fn counted(text: &str) -> String {
    text.replace("homefree record", "homefree run --ledger")
        .replace("recorded", "counted")
        .replace("the recorder", "the ledger")
}

/// The answer where the library was not in the program to its end; none where it was.
fn uncounted(name: &str, report: &run::Report, became: Option<String>) -> Option<Failure> {
    let new = |what| Failure::new(status::NOT_RECORDED, what);
    if let Some(other) = became {
        return Some(
            new(format!("not counted: {name} turned into {other}, which ran without the ledger"))
                .why("it was started with a cleaned environment, without LD_PRELOAD (env -i, sudo and the like do that), or it is a program that cannot be counted")
                .advice(format!("put it the other way round: {name} … homefree run --ledger -- {other}")),
        );
    }
    if report.main.is_some() {
        return None;
    }
    Some(
        new(format!("not counted: {name} ran, but no account appeared"))
            .why("the loader did not load libhomefree_ledger.so (it says why on stderr, if it tried), or the program changed its user before it began to count")
            .advice("see whether LD_PRELOAD=$(homefree lib --ledger) can be loaded"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Cli, Command};
    use clap::Parser;

    fn parse(line: &str) -> Result<Run, clap::Error> {
        match Cli::try_parse_from(line.split(' '))?.command {
            Command::Run(run) => Ok(run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_ledgers_options_go_with_it_and_the_allocators_without() {
        assert!(!parse("homefree run -- prog").unwrap().ledger);
        assert!(parse("homefree run --stats -- prog").unwrap().stats);
        assert!(parse("homefree run --every 5s -- prog").is_err());
        assert!(parse("homefree run --ledger --stats -- prog").is_err());
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let run = parse("homefree run --ledger prog --json -o x").unwrap();
        assert_eq!(run.command, ["prog", "--json", "-o", "x"]);
        assert!(!run.json && run.output.is_none());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        for text in ["5", "s", "0s", "1d", "-1s", "1e9h", ""] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        for size in ["0", "0KiB", "0.0", "0.1"] {
            let line = format!("homefree run --ledger --hard-limit {size} -- prog");
            assert_eq!(parse(&line).unwrap_err().exit_code(), 2, "{size}");
        }
    }

    #[test]
    fn only_what_was_asked_for_reaches_the_library() {
        let set = |line| {
            let settings = parse(line).unwrap().settings().into_iter();
            settings
                .filter_map(|(name, value)| Some(format!("{name}={}", value?.to_str()?)))
                .collect::<Vec<_>>()
        };
        assert!(set("homefree run --ledger -- prog").is_empty());
        assert_eq!(
            set("homefree run --ledger --counts --hard-limit 1KiB --children ignore -- prog"),
            [
                "HOMEFREE_LEDGER_COUNTS=1",
                "HOMEFREE_LEDGER_LIMIT=1024",
                "HOMEFREE_LEDGER_CHILDREN=ignore",
            ]
        );
    }
}
