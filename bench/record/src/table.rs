//! The results as text and as Markdown.

use crate::results::{ArmResult, BUSY, DISTURBED, Results, Table};
use crate::stats::Spread;
use std::fmt::Write;

const MIB: f64 = 1024.0 * 1024.0;
const HEAD: [&str; 11] = [
    "arm",
    "wall s",
    "wall ×",
    "CPU s",
    "CPU ×",
    "+ns/event",
    "CPU/wall",
    "peak MiB",
    "+MiB",
    "profile KiB",
    "frames",
];

/// A table ready to be laid out: head, rows, and lines below.
struct Grid {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

/// All results for a terminal.
pub fn text(results: &Results) -> String {
    let mut out = String::new();
    for line in preamble(results) {
        let _ = writeln!(out, "{line}");
    }
    for grid in grids(results) {
        let _ = writeln!(out, "\n{}", grid.title);
        let mut widths: Vec<usize> = grid.head.iter().map(|c| c.chars().count()).collect();
        for row in &grid.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in std::iter::once(&grid.head).chain(&grid.rows) {
            let mut line = String::new();
            for (index, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if index == 0 {
                    let _ = write!(line, "  {cell:<width$}");
                } else {
                    let _ = write!(line, "  {cell:>width$}");
                }
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        for note in grid.notes {
            let _ = writeln!(out, "  {note}");
        }
    }
    out
}

/// All results for a document.
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    for line in preamble(results) {
        let _ = writeln!(out, "* {line}");
    }
    for grid in grids(results) {
        let _ = writeln!(out, "\n### {}\n", grid.title);
        let _ = writeln!(out, "| {} |", grid.head.join(" | "));
        let _ = writeln!(out, "|:--{}", "|--:".repeat(grid.head.len() - 1) + "|");
        for row in grid.rows {
            let _ = writeln!(out, "| {} |", row.join(" | "));
        }
        if !grid.notes.is_empty() {
            let _ = writeln!(out);
        }
        for note in grid.notes {
            let _ = writeln!(out, "* {note}");
        }
    }
    out
}

fn preamble(results: &Results) -> Vec<String> {
    let mut lines = results.host.lines();
    lines.push(format!("rounds: {}", results.rounds));
    if results.quick {
        lines.push("a smoke test: the figures mean nothing".to_owned());
    }
    lines
}

fn grids(results: &Results) -> Vec<Grid> {
    let mut grids: Vec<Grid> = results.tables.iter().map(table).collect();
    if let Some(counts) = &results.instructions {
        let rows = counts.rows.iter().map(|row| {
            vec![
                format!(
                    "{} {}, {}",
                    row.workload.name(),
                    row.build.name(),
                    row.arm.name()
                ),
                format!("{:.1}", row.per_event),
                row.added.map_or_else(dash, |a| format!("{a:+.1}")),
            ]
        });
        grids.push(Grid {
            title: format!("Instructions per event ({})", counts.counter),
            head: ["run", "instructions", "added"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
            notes: failures(&counts.failures),
        });
    }
    grids
}

fn dash() -> String {
    "–".to_owned()
}

/// `median [min..max]`.
fn range(s: Spread, digits: usize) -> String {
    format!(
        "{:.digits$} [{:.digits$}..{:.digits$}]",
        s.median, s.min, s.max
    )
}

fn table(table: &Table) -> Grid {
    let mut notes = Vec::new();
    if let Some(plain) = table
        .arms
        .iter()
        .find_map(|a| a.samples.iter().flatten().next())
    {
        let from = match plain.events {
            Some(_) => "counted by the workload",
            None => "counted by the recorder",
        };
        if let Some(events) = table.events {
            notes.push(format!("events in a run: {events}, {from}"));
        }
        if !plain.malloc.is_empty() {
            notes.push(format!("malloc of the first arm: {}", plain.malloc));
        }
    }
    if let Some(figures) = table.arms.iter().find_map(|a| a.figures.as_ref()) {
        notes.push(format!("touched heap: {:.1} MiB", figures.touched / MIB));
    }
    if let Some(others) = table.others.filter(|o| *o > DISTURBED) {
        notes.push(format!(
            "DISTURBED: other processes took {others:.2} CPU seconds a wall second; measure again"
        ));
    }
    for arm in &table.arms {
        about(arm, &mut notes);
    }
    Grid {
        title: format!(
            "{}, {}: {}",
            table.workload.name(),
            table.build.name(),
            table.workload.about()
        ),
        head: HEAD.map(str::to_owned).to_vec(),
        rows: table.arms.iter().map(row).collect(),
        notes,
    }
}

/// What a row has no column for.
fn about(arm: &ArmResult, notes: &mut Vec<String>) {
    let name = arm.arm.name();
    if let Some(figures) = &arm.figures {
        if let Some(ratio) = figures
            .throughput_ratio
            .filter(|_| arm.arm != crate::Arm::Plain)
        {
            notes.push(format!("{name}: requests a second × {}", range(ratio, 2)));
        }
        if figures.idle_runs > 0 {
            notes.push(format!(
                "{name}: {} of {} runs had less than {BUSY} CPU seconds a wall second, so two threads shared a core or waited",
                figures.idle_runs,
                arm.samples.iter().flatten().count()
            ));
        }
        if let Some(stack) = figures
            .added_ns_per_stack
            .filter(|_| arm.arm.stacks().is_some())
        {
            notes.push(format!(
                "{name}: {:+.1} ns a stack, {:.1}% of stacks cut",
                stack.median,
                figures.cut.unwrap_or(0.0) * 100.0
            ));
        }
        for verdict in &figures.verdicts {
            let says = if verdict.reached { "reached" } else { "MISSED" };
            let amount = |v: f64| {
                if verdict.bar.ends_with("bytes") {
                    format!("{:.2} MiB", v / MIB)
                } else {
                    format!("{v:.2}")
                }
            };
            notes.push(format!(
                "{name}: {says}: {} {}, at most {}",
                verdict.bar,
                amount(verdict.figure),
                amount(verdict.most)
            ));
        }
    }
    notes.extend(failures(&arm.failures));
}

fn failures(failures: &[String]) -> Vec<String> {
    failures.iter().map(|f| format!("FAILED: {f}")).collect()
}

fn row(arm: &ArmResult) -> Vec<String> {
    let mut row = vec![arm.arm.name().to_owned()];
    let Some(f) = &arm.figures else {
        row.extend(std::iter::repeat_with(dash).take(HEAD.len() - 1));
        return row;
    };
    let plain = arm.arm == crate::Arm::Plain;
    let unless_plain = |text: String| if plain { dash() } else { text };
    row.extend([
        format!("{:.3}", f.wall.median),
        unless_plain(range(f.wall_ratio, 2)),
        format!("{:.3}", f.cpu.median),
        unless_plain(range(f.cpu_ratio, 2)),
        f.added_ns.map_or_else(dash, |s| range(s, 1)),
        format!("{:.2}", f.utilisation.median) + if f.idle_runs > 0 { "!" } else { "" },
        format!("{:.1}", f.peak / MIB),
        unless_plain(format!("{:+.1}", f.added_memory / MIB)),
        f.profile
            .map_or_else(dash, |p| format!("{:.0}", p as f64 / 1024.0)),
        f.frames.map_or_else(dash, |n| format!("{n:.1}")),
    ]);
    row
}
