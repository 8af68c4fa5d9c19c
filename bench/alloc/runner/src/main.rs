//! Homefree's allocator and its peers side by side, pattern by pattern.
//!
//! Peers are run in turn, round by round, so that what disturbs the machine disturbs all; figures are
//! medians, and ratios to the best of the same pattern. Each run says which allocator served it, and is
//! thrown out if that is another one than asked for. `homefree` runs twice (`again`): the difference of the
//! two is what differences mean here.

mod arms;
mod table;

use anyhow::{Context, Result, ensure};
use arms::Arm;
use clap::Parser;
use serde::Serialize;
use std::path::PathBuf;

/// Runs patterns of allocation with Homefree and its peers, interleaved.
#[derive(Parser)]
struct Args {
    /// Patterns, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    patterns: Vec<String>,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Peers, separated by commas [default: all that build]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Rounds; a figure is the median of so many runs
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of a run: about a tenth of a second for each
    #[arg(long, default_value_t = 1)]
    scale: u64,
    /// libhomefree_alloc.so, to be run as a preload library too
    #[arg(long)]
    library: Option<PathBuf>,
    /// Writes all runs as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One run.
#[derive(Clone, Copy, Serialize)]
struct Run {
    /// Nanoseconds of wall time for an operation.
    nanoseconds: f64,
    /// Seconds of processor time in a second of wall time.
    processors: f64,
    peak_kib: u64,
}

/// All runs of a peer in a pattern.
#[derive(Serialize)]
struct Row {
    pattern: String,
    threads: usize,
    peer: String,
    runs: Vec<Run>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let arms = arms::build(&args.peers, args.library.as_deref())?;
    let patterns = if args.patterns.is_empty() {
        arms[0].patterns()?
    } else {
        args.patterns.clone()
    };
    let mut rows = Vec::new();
    for pattern in &patterns {
        for &threads in &args.threads {
            let mut of_pattern: Vec<Row> = arms
                .iter()
                .map(|arm| Row {
                    pattern: pattern.clone(),
                    threads,
                    peer: arm.name.clone(),
                    runs: Vec::new(),
                })
                .collect();
            for _ in 0..args.rounds {
                for (arm, row) in arms.iter().zip(&mut of_pattern) {
                    row.runs.push(run(arm, pattern, threads, args.scale)?);
                }
            }
            table::print_pattern(&of_pattern);
            rows.extend(of_pattern);
        }
    }
    table::print_means(&rows);
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string_pretty(&rows)?).context("writing the runs")?;
    }
    Ok(())
}

fn run(arm: &Arm, pattern: &str, threads: usize, scale: u64) -> Result<Run> {
    let output = arm
        .command()
        .args([pattern, &threads.to_string(), &scale.to_string()])
        .output()
        .with_context(|| format!("running {}", arm.name))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{} {pattern}: {} {error}",
        arm.name,
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let fields: Vec<&str> = text.split_whitespace().collect();
    ensure!(fields.len() == 5, "{} {pattern}: {text}", arm.name);
    ensure!(
        arm.served_by(fields[0]),
        "{} was served by {}",
        arm.name,
        fields[0]
    );
    let number = |i: usize| fields[i].parse::<f64>();
    Ok(Run {
        nanoseconds: number(2)? / number(1)?,
        processors: number(3)? / number(2)?,
        peak_kib: number(4)? as u64,
    })
}
