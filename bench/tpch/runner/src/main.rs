//! `bench-tpch`: what accounting costs a query engine.
//!
//! Each arm is a library with the same build of DataFusion and another allocator, which a process of its own
//! loads with `dlopen`. All processes of a round live at once and run a query in turn; the figures are ratios
//! over the library without accounting, with that same library once more (the null arm) beside them.

mod arm;
mod child;
mod compare;
mod elf;
mod grid;
mod host;
mod instructions;
mod library;
mod options;
mod process;
mod protocol;
mod quiet;
mod report;
mod rounds;
mod samples;
mod stats;
mod tls;

use anyhow::{Context, Result, bail};
use arm::Arm;
use clap::Parser;
use grid::Grid;
use options::{Command, Options};
use rounds::Plan;
use std::path::Path;
use std::process::ExitCode;

fn measure(
    plan: &Plan,
    rounds: u32,
    file: Option<&Path>,
    most: f64,
) -> Result<(Vec<String>, Vec<Grid>)> {
    let mut samples = file.map(samples::read).transpose()?.unwrap_or_default();
    let first = samples.iter().map(|s| s.round + 1).max().unwrap_or(0);
    let mut lines = host::lines();
    let mut tls = Vec::new();
    let mut left = Vec::new();
    for round in first..first + rounds {
        let result = rounds::run(plan, round).with_context(|| format!("round {round}"))?;
        if let Some(file) = file {
            samples::append(file, &result.samples)?;
        }
        samples.extend(result.samples);
        eprintln!("round {} of {rounds}", round + 1 - first);
        if round == first {
            lines.push(format!(
                "data: scale factor {}, {} worker threads",
                result.scale, plan.threads
            ));
            (tls, left) = (result.tls, result.left);
        }
    }
    for (arm, left) in left {
        if let Some(left) = left {
            lines.push(format!(
                "{}: {left} bytes on the account at the end",
                arm.name()
            ));
        }
    }
    samples::check(&samples)?;
    samples.retain(|s| plan.queries.contains(&s.query));
    let turns = compare::Turns::group(&samples, most);
    let mut grids = vec![report::libraries(&plan.arms, &plan.libraries, &tls)?];
    grids.extend(report::ratios(&turns, &plan.arms, &plan.queries));
    Ok((lines, grids))
}

fn run(options: Options) -> Result<()> {
    let (lines, grids, markdown) = match options.command {
        Command::Child {
            library,
            data,
            threads,
        } => return child::serve(&library, &data, threads),
        Command::Measure {
            on,
            rounds,
            turns,
            mut arms,
            samples,
            most,
            markdown,
        } => {
            if arms.is_empty() {
                arms = Arm::TIMED.to_vec();
            }
            arms.retain(|arm| *arm != Arm::Plain);
            arms.insert(0, Arm::Plain);
            if rounds == 0 && samples.is_none() {
                bail!("--rounds 0 prints what a file has: say which by --samples");
            }
            let plan = on.plan(arms, turns)?;
            let (lines, grids) = measure(&plan, rounds, samples.as_deref(), most)?;
            (lines, grids, markdown)
        }
        Command::Calls { on } => {
            let mut process = on.plan(vec![], 1)?.start(Arm::Calls, &[])?;
            let mut ran = Vec::new();
            for &query in &on.queries.0 {
                process.run(query)?;
                ran.push((query, process.run(query)?));
            }
            (Vec::new(), vec![report::calls(&ran)], None)
        }
        Command::Instructions { mut on, turns } => {
            on.threads = 1;
            let arms = [Arm::Plain, Arm::Three, Arm::One, Arm::Ours];
            let plan = on.plan(arms.to_vec(), turns)?;
            (Vec::new(), vec![instructions::count(&plan)?], None)
        }
        Command::Answers { on, out } => {
            std::fs::create_dir_all(&out)?;
            let mut process = on.plan(vec![], 1)?.start(Arm::Plain, &[])?;
            for query in 1..=22 {
                process.write(query, &out.join(format!("q{query}.txt")))?;
            }
            println!("scale {}", process.ready.scale);
            return Ok(());
        }
    };
    println!("{}", lines.join("\n"));
    for grid in &grids {
        print!("{}", grid.text());
    }
    if let Some(path) = markdown {
        let mut text: String = lines.iter().map(|line| format!("* {line}\n")).collect();
        text.extend(grids.iter().map(Grid::markdown));
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-tpch: {error:#}");
            ExitCode::FAILURE
        }
    }
}
