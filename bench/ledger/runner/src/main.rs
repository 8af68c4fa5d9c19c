//! `bench-ledger`: what exact byte accounting costs, beside its peers and beside nothing.
//!
//! Every arm is an artifact of its own (executable, library for `dlopen`) with its own global allocator, runs the same
//! loop, and proves what it ran on before it is believed: its counters moved by what was allocated, and its `malloc` is
//! the C library's, or the preload library's. `docs/ledger-cost.md` defines every figure.

mod arms;
mod artifacts;
mod calls;
mod child;
mod instructions;
#[path = "../../../record/src/quiet.rs"]
mod quiet;
mod read;
mod soak;
#[path = "../../../record/src/stats.rs"]
mod stats;
mod table;
mod time;

use anyhow::{Context, Result};
use arms::{Arm, Kind};
use artifacts::Artifacts;
use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures what the ledger costs, beside other ways of counting and beside none.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "\
Examples:
  cargo run --release -p bench-ledger -- instructions --preload-lib ../target/preload/libhomefree_ledger.so
  cargo run --release -p bench-ledger -- time --case pairs --kind cdylib --markdown pairs.md
  cargo run --release -p bench-ledger -- soak --threads 1000000"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Instructions added to an allocation of 64 bytes and its free (needs valgrind and objdump)
    Instructions,
    /// CPU time of an allocation and its free, all arms interleaved
    Time {
        /// What to do
        #[arg(long = "case", value_enum, value_name = "CASE")]
        cases: Vec<Case>,
        /// Bytes of a block, for pairs
        #[arg(long = "size", value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
        sizes: Vec<u64>,
        /// Threads
        #[arg(long = "threads", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
        threads: Vec<u16>,
    },
    /// What reading costs, beside many threads
    Read,
    /// Threads come and go and leave their blocks to others; the balance must return to the byte
    Soak {
        /// How many come and go
        #[arg(long, default_value_t = 1_000_000)]
        threads: u64,
        /// How many are there at a time
        #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
        alive: u64,
    },
}

/// Options of all commands.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only these kinds of artifact
    #[arg(long = "kind", value_enum, value_name = "KIND", global = true)]
    kinds: Vec<Kind>,
    /// Only these arms; the arm `system` always runs
    #[arg(long = "arm", value_enum, value_name = "ARM", global = true)]
    arms: Vec<Arm>,
    /// The preload library, libhomefree_ledger.so; without it that kind of artifact is left out
    #[arg(long, value_name = "PATH", global = true)]
    preload_lib: Option<PathBuf>,
    /// Rounds; each runs every arm once, the order rotated
    #[arg(long, default_value_t = 9, global = true)]
    rounds: usize,
    /// Time of one run
    #[arg(long, default_value_t = 25, global = true)]
    milliseconds: u64,
    /// The artifacts are built already
    #[arg(long, global = true)]
    no_build: bool,
    /// Write the tables to a file as well
    #[arg(long, value_name = "FILE", global = true)]
    markdown: Option<PathBuf>,
    /// Write all figures, every single run included, as JSON
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<PathBuf>,
}

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// Allocate, free, again
    Pairs,
    /// The same with blocks of 1 and 2 MiB, each of which settles; the heap kept by glibc
    Large,
    /// Up by a little more than a margin in blocks of 4 KiB, and down again; the heap kept by glibc
    Climb,
    /// Pairs, with every event settled: what threads share is written to all the time
    Always,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Large => "large",
            Self::Climb => "climb",
            Self::Always => "always",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Large => "large blocks",
            Self::Climb => "up and down by a little more than a margin",
            Self::Always => "every event settled",
        }
    }

    /// Pairs or climbs between two looks at the clock.
    fn stretch(self, size: usize) -> u64 {
        match self {
            Self::Climb => 10,
            _ if size < 1 << 20 => 5_000,
            _ => 1_000,
        }
    }

    fn sizes(self) -> &'static [usize] {
        match self {
            Self::Pairs => &[16, 64, 256, 1 << 10, 4 << 10, 64 << 10],
            Self::Large => &[1 << 20, 2 << 20],
            Self::Climb => &[(1 << 20) + (64 << 10)],
            Self::Always => &[64],
        }
    }
}

impl Options {
    fn settle(&mut self) {
        if self.kinds.is_empty() {
            self.kinds = vec![Kind::Cdylib, Kind::Executable, Kind::Preload];
        }
        if self.arms.is_empty() {
            self.arms = Arm::ALL.to_vec();
        }
        self.arms.retain(|arm| *arm != Arm::System);
        self.arms.insert(0, Arm::System);
    }
}

fn run(cli: Cli) -> Result<()> {
    let mut options = cli.options;
    options.settle();
    let artifacts = Artifacts::build(options.preload_lib.as_deref(), !options.no_build)?;
    options.kinds.retain(|&kind| {
        let can = artifacts.can_run(kind);
        if !can {
            eprintln!("no --preload-lib: the preload library is left out");
        }
        can
    });
    let (text, json) = match cli.command {
        Command::Instructions => {
            let rows = instructions::count(&options, &artifacts)?;
            (
                table::instructions(&rows),
                serde_json::to_vec_pretty(&rows)?,
            )
        }
        Command::Time {
            cases,
            sizes,
            threads,
        } => {
            let cells = times(&options, &artifacts, &cases, &sizes, &threads)?;
            (table::times(&cells), serde_json::to_vec_pretty(&cells)?)
        }
        Command::Read => {
            let rows = read::measure(&options, &artifacts)?;
            (table::readings(&rows), serde_json::to_vec_pretty(&rows)?)
        }
        Command::Soak { threads, alive } => {
            let mut text = String::new();
            let mut all = Vec::new();
            for kind in options.kinds.iter().filter(|kind| **kind != Kind::Preload) {
                let soaked = soak::run(&artifacts, *kind, threads, alive)?;
                text += &table::soak(*kind, &soaked);
                all.push(soaked);
            }
            (text, serde_json::to_vec_pretty(&all)?)
        }
    };
    print!("{text}");
    if let Some(path) = &options.markdown {
        std::fs::write(path, &text).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &options.json {
        std::fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn times(
    options: &Options,
    artifacts: &Artifacts,
    cases: &[Case],
    sizes: &[u64],
    threads: &[u16],
) -> Result<Vec<time::Cell>> {
    let all = [Case::Pairs, Case::Large, Case::Climb, Case::Always];
    let cases = if cases.is_empty() { &all[..] } else { cases };
    let threads = if threads.is_empty() {
        &[1, 2, 4, 8][..]
    } else {
        threads
    };
    let mut cells = Vec::new();
    for &kind in &options.kinds {
        for &case in cases {
            let chosen: Vec<usize> = match sizes {
                [] => case.sizes().to_vec(),
                _ => sizes.iter().map(|&size| size as usize).collect(),
            };
            for &threads in threads {
                for &size in &chosen {
                    let threads = usize::from(threads);
                    cells.push(time::measure(
                        options, artifacts, kind, case, size, threads,
                    )?);
                }
            }
        }
    }
    Ok(cells)
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-ledger: {error:#}");
            ExitCode::FAILURE
        }
    }
}
