//! `bench-record`: what recording costs.
//!
//! Runs the same workloads plain, plain once more (the null arm: what noise looks like), under
//! `libhomefree.so` in each of its stack modes and under heaptrack, interleaved in rounds, and prints
//! ratios to the plain program. It proves what it ran on: every arm says which library was loaded, and
//! a recorded profile must count what the workload counted itself. `docs/cost.md` defines every figure.

mod arm;
mod bars;
mod check;
mod child;
mod compile;
mod host;
mod instructions;
mod program;
mod quiet;
mod recorded;
mod redis;
mod results;
mod rounds;
mod stats;
mod table;
mod workload;

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

use arm::Arm;
use workload::{Build, Workload};

/// Measures what `homefree record` costs, beside the plain program and heaptrack.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "\
Examples:
  bench-record --lib target/preload/libhomefree.so --quick
  bench-record --lib target/preload/libhomefree.so --rounds 7 --json cost.json --markdown cost.md
  bench-record --workload maps --build fp --arm plain --arm null --arm heaptrack"
)]
pub struct Options {
    /// The recorder's library, libhomefree.so; without it only the plain arms and heaptrack run
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,
    /// A `homefree` binary: its `report --json` must give the same totals as the profile's own counters
    #[arg(long, value_name = "PATH")]
    homefree: Option<PathBuf>,
    /// Run only these workloads
    #[arg(long = "workload", value_enum, value_name = "NAME")]
    workloads: Vec<Workload>,
    /// Run only the programs built with (fp) or without (nofp) frame pointers
    #[arg(long = "build", value_enum, value_name = "BUILD")]
    builds: Vec<Build>,
    /// Run only these arms; the plain arm always runs
    #[arg(long = "arm", value_enum, value_name = "ARM")]
    arms: Vec<Arm>,
    /// Rounds; each runs every arm once, the order rotated
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Allocations and frees that each program makes, about
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,
    /// Requests of each kind (set, get, lpush) sent to redis
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// A smoke test: 2 rounds of 300,000 events and 20,000 requests. Its figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Leave out the instruction counts
    #[arg(long)]
    no_instructions: bool,
    /// Seconds after which a run is killed and counted as failed
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Write all results, every single run included, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Options {
    fn settle(mut self) -> Result<Self> {
        if self.quick {
            self.rounds = 2;
            self.events = 300_000;
            self.requests = 20_000;
        }
        for path in [&mut self.lib, &mut self.homefree].into_iter().flatten() {
            *path = std::fs::canonicalize(&*path)
                .with_context(|| format!("{}: cannot be used", path.display()))?;
        }
        if let Some(lib) = &self.lib
            && !lib.to_string_lossy().contains("libhomefree")
        {
            bail!(
                "{}: the library must keep its name libhomefree.so, by which the workloads know it",
                lib.display()
            );
        }
        if self.workloads.is_empty() {
            self.workloads = <Workload as clap::ValueEnum>::value_variants().to_vec();
        }
        if self.builds.is_empty() {
            self.builds = vec![Build::Fp, Build::Nofp];
        }
        if self.arms.is_empty() {
            self.arms = Arm::ALL.to_vec();
        }
        if !self.arms.contains(&Arm::Plain) {
            self.arms.insert(0, Arm::Plain);
        }
        if self.lib.is_none() {
            self.arms.retain(|a| a.stacks().is_none());
        }
        Ok(self)
    }
}

fn run(options: Options) -> Result<bool> {
    let mut options = options.settle()?;
    let host = host::Host::look(options.lib.as_deref());
    if host.heaptrack.is_none() {
        eprintln!("heaptrack is not installed: its arm is left out");
        options.arms.retain(|a| *a != Arm::Heaptrack);
    }
    if host.redis.is_none() && options.workloads.iter().any(Workload::is_redis) {
        eprintln!("redis-server or redis-benchmark is not installed: redis is left out");
        options.workloads.retain(|w| !w.is_redis());
    }
    let scratch = tempfile::Builder::new().prefix("bench-record.").tempdir()?;
    let programs = compile::Programs::build(&scratch.path().join("programs"), &options)?;

    let mut results = results::Results::new(host, &options);
    for &workload in &options.workloads {
        for &build in &options.builds {
            if !workload.builds().contains(&build) {
                continue;
            }
            results.tables.push(rounds::run(
                workload,
                build,
                &options,
                &programs,
                scratch.path(),
            )?);
        }
        // Redis has one build, Debian's, whichever builds of our own programs were asked for.
        if workload.is_redis() {
            let build = Build::Packaged;
            results.tables.push(rounds::run(
                workload,
                build,
                &options,
                &programs,
                scratch.path(),
            )?);
        }
    }
    if !options.no_instructions {
        results.instructions = instructions::count(&options, &programs, scratch.path())?;
    }

    print!("{}", table::text(&results));
    if let Some(path) = &options.json {
        let json = serde_json::to_vec_pretty(&results)?;
        std::fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &options.markdown {
        std::fs::write(path, table::markdown(&results))
            .with_context(|| path.display().to_string())?;
    }
    Ok(results.sound())
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!(
                "bench-record: some runs failed or did not run on what they should; see above"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench-record: {error:#}");
            ExitCode::from(2)
        }
    }
}
