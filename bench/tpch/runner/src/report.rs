//! The figures as tables.

use crate::arm::Arm;
use crate::compare::{Figure, Turns};
use crate::elf;
use crate::grid::Grid;
use crate::protocol::Ran;
use crate::stats::Median;
use anyhow::Result;
use std::path::Path;

/// What the libraries are: their thread-locals, and where their code lies.
///
/// # Errors
/// A file cannot be read, or the libraries' code does not lie alike.
pub fn libraries(arms: &[Arm], directory: &Path, tls: &[(Arm, bool, Vec<bool>)]) -> Result<Grid> {
    let mut grid = Grid::new(
        "Libraries",
        &[
            "arm",
            "PT_TLS bytes",
            "align",
            "by __tls_get_addr",
            "by descriptor",
            "initial-exec",
            "placed",
            "resolver",
        ],
    );
    for &arm in arms.iter().filter(|&&arm| arm != Arm::Null) {
        let facts = elf::read(&arm.library(directory))?;
        if facts.page_offset != 0 {
            anyhow::bail!("{}: the engine's code does not start on a page", arm.name());
        }
        let run = tls.iter().find(|(of, ..)| *of == arm);
        grid.rows.push(vec![
            arm.name().to_owned(),
            facts.tls_size.to_string(),
            facts.tls_align.to_string(),
            facts.modules.to_string(),
            facts.descriptors.len().to_string(),
            facts.initial_exec.to_string(),
            match run {
                Some((_, true, _)) => "static",
                Some((_, false, _)) => "dynamic",
                None => "",
            }
            .to_owned(),
            match run.map(|(.., plain)| plain.as_slice()) {
                None | Some([]) => "",
                Some(plain) if plain.iter().all(|p| *p) => "returns an offset",
                Some(_) => "looks up",
            }
            .to_owned(),
        ]);
    }
    grid.notes.push(
        "relocations of each kind; placed: where the loader put the library's thread-locals, in the static block of \
         every thread or in one of their own"
            .to_owned(),
    );
    Ok(grid)
}

/// The arms against plain: one table a query, or one of the total and one of all queries.
pub fn ratios(turns: &Turns, arms: &[Arm], queries: &[u32]) -> Vec<Grid> {
    let head = [
        "arm",
        "wall s",
        "wall ×",
        "95 % from",
        "to",
        "CPU s",
        "CPU ×",
        "95 % from",
        "to",
    ];
    let mut grids = Vec::new();
    if let [query] = queries {
        let mut grid = Grid::new(format!("Q{query}"), &head);
        for &arm in arms {
            let figures = [Figure::Wall, Figure::Cpu]
                .map(|f| (turns.seconds(arm, *query, f), turns.ratio(arm, *query, f)));
            grid.rows.push(row(arm, figures));
        }
        note(&mut grid, turns);
        grids.push(grid);
    } else {
        let mut grid = Grid::new(format!("Sum over {} queries", queries.len()), &head);
        for &arm in arms {
            let figures = [Figure::Wall, Figure::Cpu].map(|f| turns.total(arm, queries, f));
            grid.rows.push(row(arm, figures));
        }
        note(&mut grid, turns);
        grids.push(grid);

        let mut head = vec!["query", "plain CPU s"];
        head.extend(arms.iter().skip(1).map(|arm| arm.name()));
        let mut grid = Grid::new("CPU × of each query", &head);
        for &query in queries {
            let mut row = vec![
                format!("Q{query}"),
                seconds(turns.seconds(Arm::Plain, query, Figure::Cpu)),
            ];
            row.extend(arms.iter().skip(1).map(|&arm| {
                turns
                    .ratio(arm, query, Figure::Cpu)
                    .map_or_else(String::new, |m| format!("{:.4}", m.value))
            }));
            grid.rows.push(row);
        }
        grids.push(grid);
    }
    grids
}

/// How often each query calls its allocator.
pub fn calls(ran: &[(u32, Ran)]) -> Grid {
    let mut grid = Grid::new(
        "Calls of the allocator",
        &[
            "query",
            "allocs",
            "frees",
            "reallocs",
            "MiB asked for",
            "≥ 64 KiB",
            "calls a second",
        ],
    );
    for (query, ran) in ran {
        let Some(calls) = ran.calls else { continue };
        let sum = calls.allocs + calls.frees + calls.reallocs;
        grid.rows.push(vec![
            format!("Q{query}"),
            calls.allocs.to_string(),
            calls.frees.to_string(),
            calls.reallocs.to_string(),
            (calls.bytes >> 20).to_string(),
            calls.large.to_string(),
            format!("{:.0}", sum as f64 / ran.wall),
        ]);
    }
    grid.notes.push(
        "seconds of the counting library, which is slower than the others; ≥ 64 KiB: calls that change the balance by \
         as much, each of which settles a drift with that threshold"
            .to_owned(),
    );
    grid
}

fn row(arm: Arm, figures: [(Option<Median>, Option<Median>); 2]) -> Vec<String> {
    let mut row = vec![arm.name().to_owned()];
    for (time, ratio) in figures {
        row.push(seconds(time));
        match ratio {
            Some(ratio) if arm != Arm::Plain => {
                row.push(format!("{:.4}", ratio.value));
                row.push(format!("{:.4}", ratio.low));
                row.push(format!("{:.4}", ratio.high));
            }
            _ => row.extend(["", "", ""].map(str::to_owned)),
        }
    }
    row
}

fn note(grid: &mut Grid, turns: &Turns) {
    let rounds = turns.rounds();
    grid.notes.push(format!(
        "{} turns in {rounds} rounds; {} turns more were left out, since something else used the machine",
        turns.len(),
        turns.disturbed
    ));
    grid.notes.push(if rounds < 6 {
        "fewer than six rounds: from and to are the smallest and the largest round".to_owned()
    } else {
        "from and to: interval of the median over the rounds, by the sign test".to_owned()
    });
}

fn seconds(median: Option<Median>) -> String {
    median.map_or_else(String::new, |m| format!("{:.3}", m.value))
}
