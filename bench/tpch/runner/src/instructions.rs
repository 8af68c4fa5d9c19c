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

/// Counts the plan's queries on its arms: one table a query.
///
/// # Errors
/// There is no valgrind, or a process fails under it.
pub fn count(plan: &Plan) -> Result<Vec<Grid>> {
    let mut grids = Vec::new();
    for &query in &plan.queries {
        let mut counter = plan.start(Arm::Calls, &[])?;
        counter.run(query)?;
        let calls = counter.run(query)?.calls.context("no calls counted")?;
        let mut counts = Vec::new();
        for &arm in &plan.arms {
            eprintln!("Q{query} on {}", arm.name());
            let once = process(plan, arm, query, 1)?;
            let more = process(plan, arm, query, 1 + plan.turns)?;
            counts.push((arm, (more - once) as f64 / f64::from(plan.turns)));
        }
        grids.push(table(query, &calls, &counts));
    }
    Ok(grids)
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

fn table(query: u32, calls: &Calls, counts: &[(Arm, f64)]) -> Grid {
    let mut grid = Grid::new(
        format!("Q{query}, instructions"),
        &["arm", "millions", "added", "added %", "added a pair"],
    );
    let plain = counts.first().map_or(0.0, |(_, count)| *count);
    let pairs = (calls.allocs + calls.frees) as f64 / 2.0 + calls.reallocs as f64;
    for &(arm, count) in counts {
        let mut row = vec![arm.name().to_owned(), format!("{:.1}", count / 1e6)];
        if arm == Arm::Plain {
            row.extend(["", "", ""].map(str::to_owned));
        } else {
            let added = count - plain;
            row.push(format!("{:.1}", added / 1e6));
            row.push(format!("{:+.2}", added / plain * 100.0));
            row.push(format!("{:.0}", added / pairs));
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
