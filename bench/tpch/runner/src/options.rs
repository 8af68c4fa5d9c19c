//! The command line.

use crate::arm::Arm;
use crate::rounds::Plan;
use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What accounting costs DataFusion in a library loaded with dlopen, on TPC-H.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "\
Examples:
  bench-tpch measure --data /tmp/tpch --rounds 8
  bench-tpch measure --data /tmp/tpch --queries all --turns 1 --samples all.jsonl --markdown all.md
  bench-tpch instructions --data /tmp/tpch
  bench-tpch calls --data /tmp/tpch --queries all
  bench-tpch answers --data /tmp/tpch --out /tmp/answers"
)]
pub struct Options {
    #[command(subcommand)]
    /// What to do
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Measure the arms side by side
    Measure {
        #[command(flatten)]
        on: On,
        /// Rounds, each with fresh processes; 0 to print what --samples has
        #[arg(long, default_value_t = 6)]
        rounds: u32,
        /// Times that each query is run in a round, after one run that is not counted
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        turns: u32,
        /// Run only these arms; plain always runs
        #[arg(long = "arm", value_enum, value_name = "ARM")]
        arms: Vec<Arm>,
        /// Keep every run in this file, and take into the figures what is in it from before
        #[arg(long, value_name = "FILE")]
        samples: Option<PathBuf>,
        /// Leave out turns in which others used more than so many CPU seconds a second
        #[arg(long, default_value_t = 0.1, value_name = "CPUS")]
        most: f64,
        /// Write the tables as Markdown too
        #[arg(long, value_name = "FILE")]
        markdown: Option<PathBuf>,
    },
    /// Count how often each query calls its allocator
    Calls {
        #[command(flatten)]
        on: On,
    },
    /// Count the instructions of each query, under valgrind's cachegrind, with one worker thread
    Instructions {
        #[command(flatten)]
        on: On,
        /// Times that each query is run, besides once without being counted
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
        turns: u32,
    },
    /// Write the rows of all queries, to be checked by check.py
    Answers {
        #[command(flatten)]
        on: On,
        /// Directory for q1.txt to q22.txt
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Load a library and serve standard input
    #[command(hide = true)]
    Child {
        library: PathBuf,
        data: PathBuf,
        threads: usize,
    },
}

#[derive(Args, Debug)]
pub struct On {
    /// Directory of customer.parquet to supplier.parquet
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Directory of the libraries; without it that of this program
    #[arg(long, value_name = "DIR")]
    pub lib_dir: Option<PathBuf>,
    /// Queries, by comma, or `all`
    #[arg(long, default_value = "21", value_parser = queries)]
    pub queries: Queries,
    /// Worker threads of the engine
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Seconds after which a process that does not answer is killed
    #[arg(long, default_value_t = 300)]
    pub timeout: u64,
}

/// Query numbers.
#[derive(Clone, Debug)]
pub struct Queries(pub Vec<u32>);

fn queries(text: &str) -> Result<Queries, String> {
    if text == "all" {
        return Ok(Queries((1..=22).collect()));
    }
    text.split(',')
        .map(|n| match n.trim().parse() {
            Ok(n @ 1..=22) => Ok(n),
            _ => Err(format!("{n:?} is no query from 1 to 22")),
        })
        .collect::<Result<Vec<u32>, String>>()
        .map(Queries)
}

impl On {
    fn libraries(&self) -> Result<PathBuf> {
        let directory = match &self.lib_dir {
            Some(directory) => directory.clone(),
            None => std::env::current_exe()?
                .parent()
                .map(Path::to_owned)
                .unwrap_or_default(),
        };
        std::fs::canonicalize(&directory).with_context(|| directory.display().to_string())
    }

    /// The plan for these arms.
    ///
    /// # Errors
    /// A directory is not there.
    pub fn plan(&self, arms: Vec<Arm>, turns: u32) -> Result<Plan> {
        Ok(Plan {
            arms,
            queries: self.queries.0.clone(),
            turns,
            libraries: self.libraries()?,
            data: std::fs::canonicalize(&self.data)
                .with_context(|| self.data.display().to_string())?,
            threads: self.threads,
            timeout: Duration::from_secs(self.timeout),
        })
    }
}
