//! Instructions of a query, counted by valgrind's cachegrind without its cache model.
//!
//! A run of cachegrind counts a process from its first instruction to its last. Of two processes that do the
//! same, but run the query once and several times more, the difference is that of the queries alone. With one
//! worker thread it is the same to some hundredths of a per cent each time.

use crate::arm::Arm;
use crate::grid::Grid;
use crate::protocol::Calls;
use crate::rounds::Plan;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::PathBuf;

/// What one query takes.
struct Count {
    query: u32,
    calls: Calls,
    /// Instructions of each arm, plain first.
    arms: Vec<(Arm, f64)>,
}

/// Counts the plan's queries on its arms: the details of a single query, or a table of all.
///
/// # Errors
/// There is no valgrind, or a process fails under it.
pub fn count(plan: &Plan) -> Result<Grid> {
    let mut counts = Vec::new();
    for &query in &plan.queries {
        let mut counter = plan.start(Arm::Calls, &[])?;
        counter.run(query)?;
        let calls = counter.run(query)?.calls.context("no calls counted")?;
        let mut arms = Vec::new();
        for &arm in &plan.arms {
            eprintln!("Q{query} on {}", arm.name());
            let once = process(plan, arm, query, 1)?;
            let more = process(plan, arm, query, 1 + plan.turns)?;
            arms.push((arm, (more - once) as f64 / f64::from(plan.turns)));
        }
        counts.push(Count { query, calls, arms });
    }
    Ok(match counts.as_slice() {
        [count] => details(count),
        counts => overview(counts),
    })
}

/// Instructions of a whole process that runs the query so many times.
fn process(plan: &Plan, arm: Arm, query: u32, times: u32) -> Result<i64> {
    let file = Scratch(std::env::temp_dir().join(format!(
        "bench-tpch-{}-{}-{times}.cachegrind",
        std::process::id(),
        arm.name()
    )));
    let mut out = OsString::from("--cachegrind-out-file=");
    out.push(&file.0);
    let mut under: Vec<OsString> = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        "--log-file=/dev/null",
    ]
    .map(OsString::from)
    .to_vec();
    under.push(out);
    let mut process = plan.start(arm, &under)?;
    for _ in 0..times {
        process.run(query)?;
    }
    process.close()?;
    let text = std::fs::read_to_string(&file.0).with_context(|| file.0.display().to_string())?;
    let summary = text
        .lines()
        .find_map(|line| line.strip_prefix("summary:")?.split_whitespace().next());
    match summary.and_then(|count| count.parse().ok()) {
        Some(count) => Ok(count),
        None => bail!("{}: no summary", file.0.display()),
    }
}

/// A file that is removed in the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A process that has failed may not have written it.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn details(count: &Count) -> Grid {
    let mut grid = Grid::new(
        format!("Q{}, instructions", count.query),
        &["arm", "millions", "added", "added %", "added a pair"],
    );
    let calls = &count.calls;
    let plain = count.arms.first().map_or(0.0, |(_, plain)| *plain);
    let pairs = (calls.allocs + calls.frees) as f64 / 2.0 + calls.reallocs as f64;
    for &(arm, own) in &count.arms {
        let mut row = vec![arm.name().to_owned(), format!("{:.1}", own / 1e6)];
        if arm == Arm::Plain {
            row.extend(["", "", ""].map(str::to_owned));
        } else {
            row.push(format!("{:.1}", (own - plain) / 1e6));
            row.push(format!("{:+.2}", (own / plain - 1.0) * 100.0));
            row.push(format!("{:.0}", (own - plain) / pairs));
        }
        grid.rows.push(row);
    }
    grid.notes.push(format!(
        "one worker thread; {} allocations, {} frees, {} reallocations a run; a pair: an allocation and its free, or a \
         reallocation",
        calls.allocs, calls.frees, calls.reallocs
    ));
    grid
}

fn overview(counts: &[Count]) -> Grid {
    let mut head = vec!["query", "allocs", "plain, millions"];
    let arms = counts.first().map_or(&[][..], |count| &count.arms);
    let added: Vec<String> = arms
        .iter()
        .skip(1)
        .map(|(arm, _)| format!("{} %", arm.name()))
        .collect();
    head.extend(added.iter().map(String::as_str));
    let mut grid = Grid::new("Instructions, and what each arm adds", &head);
    let mut sums = vec![0.0; arms.len()];
    let mut allocs = 0;
    for count in counts {
        let own: Vec<f64> = count.arms.iter().map(|(_, own)| *own).collect();
        for (sum, own) in sums.iter_mut().zip(&own) {
            *sum += own;
        }
        allocs += count.calls.allocs;
        let name = format!("Q{}", count.query);
        grid.rows.push(overview_row(name, count.calls.allocs, &own));
    }
    grid.rows
        .push(overview_row("all".to_owned(), allocs, &sums));
    grid.notes.push("one worker thread".to_owned());
    grid
}

fn overview_row(name: String, allocs: u64, arms: &[f64]) -> Vec<String> {
    let plain = arms.first().copied().unwrap_or_default();
    let mut row = vec![name, allocs.to_string(), format!("{:.1}", plain / 1e6)];
    row.extend(
        arms.iter()
            .skip(1)
            .map(|own| format!("{:+.2}", (own / plain - 1.0) * 100.0)),
    );
    row
}
