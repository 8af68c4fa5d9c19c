//! The rounds: every arm once in each, the order rotated.

use crate::arm::Arm;
use crate::compile::Programs;
use crate::results::{ArmResult, Sample, Table};
use crate::workload::{Build, Workload};
use crate::{Options, check, program, quiet, redis};
use anyhow::{Context, Result};
use std::path::Path;

/// Measures one workload in one build.
///
/// # Errors
/// The scratch directory cannot be used. A run that fails is a result, not an error.
pub fn run(
    workload: Workload,
    build: Build,
    options: &Options,
    programs: &Programs,
    scratch: &Path,
) -> Result<Table> {
    let mut arms: Vec<ArmResult> = options
        .arms
        .iter()
        .map(|&arm| ArmResult {
            arm,
            samples: Vec::new(),
            failures: Vec::new(),
            figures: None,
        })
        .collect();
    let watch = quiet::Watch::start();
    for round in 0..options.rounds as usize {
        for step in 0..arms.len() {
            let index = (round + step) % arms.len();
            let result = &mut arms[index];
            let arm = result.arm;
            let label = format!("{} {}, {}", workload.name(), build.name(), arm.name());
            eprint!("round {}/{}: {label} … ", round + 1, options.rounds);
            let dir = scratch.join("run");
            std::fs::create_dir_all(&dir)?;
            let run = one(arm, workload, build, options, programs, &dir);
            match &run {
                Ok(sample) => eprintln!("{:.2} s, CPU {:.2} s", sample.wall, sample.cpu),
                Err(error) => {
                    eprintln!("failed: {error:#}");
                    result.failures.push(format!("{label}: {error:#}"));
                }
            }
            result.samples.push(run.ok());
            std::fs::remove_dir_all(&dir).context("cannot clear the scratch directory")?;
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut table = Table::conclude(workload, build, cores, arms);
    table.others = watch.others();
    Ok(table)
}

/// One run, checked. A run that is not what it should be gives no figures.
fn one(
    arm: Arm,
    workload: Workload,
    build: Build,
    options: &Options,
    programs: &Programs,
    dir: &Path,
) -> Result<Sample> {
    let sample = match workload.program() {
        Some((stem, more)) => {
            let mut args = vec![options.events.to_string()];
            args.extend(more.iter().map(ToString::to_string));
            program::run(arm, options, dir, &programs.path(stem, build), &args)?
        }
        None => redis::run(arm, options, dir, workload == Workload::RedisIo2)?,
    };
    check::sample(arm, &sample)?;
    if let (Some(homefree), Some(recorded)) = (&options.homefree, &sample.recorded) {
        check::report(homefree, &dir.join("bench.hfp"), recorded)?;
    }
    Ok(sample)
}
