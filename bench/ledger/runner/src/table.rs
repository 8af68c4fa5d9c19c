//! Tables, as Markdown.

use crate::arms::{Arm, Kind};
use crate::instructions;
use crate::read;
use crate::soak::Soaked;
use crate::stats::Spread;
use crate::time::Cell;
use std::fmt::Write;

/// Above this much CPU of others, a cell is marked.
const DISTURBED: f64 = 0.05;

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {} |\n", cells.join(" | "))
}

fn header(cells: &[String]) -> String {
    line(cells.iter().cloned()) + &line(cells.iter().map(|_| "---".to_owned()))
}

/// Instructions, a row an arm.
pub fn instructions(rows: &[instructions::Row]) -> String {
    let mut kinds: Vec<Kind> = Vec::new();
    for row in rows {
        if !kinds.contains(&row.kind) {
            kinds.push(row.kind);
        }
    }
    let mut head = vec!["arm".to_owned()];
    head.extend(kinds.iter().map(|kind| kind.name().to_owned()));
    let mut text = header(&head);
    for arm in Arm::ALL {
        let of = |kind: Kind| rows.iter().find(|row| row.arm == arm && row.kind == kind);
        if kinds.iter().all(|&kind| of(kind).is_none()) {
            continue;
        }
        let cell = |kind: Kind| {
            let Some(row) = of(kind) else {
                return String::new();
            };
            if arm == Arm::System {
                return format!("{:.0} in all", row.pair);
            }
            let mut cell = format!("+{:.1}", row.added.max(0.0));
            if arm.has_bar(kind) {
                let verdict = if row.added <= kind.bar() {
                    "reached"
                } else {
                    "missed"
                };
                let _ = write!(cell, " (bar {:.0}: {verdict})", kind.bar());
            }
            if row.constant == Some(false) {
                cell += " (no constant distance)";
            }
            cell
        };
        let mut cells = vec![format!("`{}`", arm.name())];
        cells.extend(kinds.iter().map(|&kind| cell(kind)));
        text += &line(cells);
    }
    text
}

fn ratio(spread: Option<Spread>) -> String {
    match spread {
        Some(s) => format!("{:.2} ({:.2}–{:.2})", s.median, s.min, s.max),
        None => "–".into(),
    }
}

/// Times of one kind and case: a table for each number of threads, a column for each size.
pub fn times(cells: &[Cell]) -> String {
    let mut text = String::new();
    let mut done: Vec<(Kind, crate::Case, usize)> = Vec::new();
    for cell in cells {
        let key = (cell.kind, cell.case, cell.threads);
        if done.contains(&key) {
            continue;
        }
        done.push(key);
        let row: Vec<&Cell> = cells
            .iter()
            .filter(|c| (c.kind, c.case, c.threads) == key)
            .collect();
        let plural = if cell.threads == 1 { "" } else { "s" };
        let _ = write!(
            text,
            "\n{}, {}, {} thread{plural}:\n\n",
            cell.kind.name(),
            cell.case.title(),
            cell.threads
        );
        text += &table(&row);
    }
    text
}

fn table(row: &[&Cell]) -> String {
    let mut head = vec!["arm".to_owned()];
    head.extend(row.iter().map(|cell| {
        let mark = cell.others.is_some_and(|others| others > DISTURBED);
        bytes(cell.size) + if mark { " DISTURBED" } else { "" }
    }));
    let mut text = header(&head);
    for arm in Arm::ALL {
        let figures: Vec<_> = row
            .iter()
            .map(|cell| cell.arms.iter().find(|f| f.arm == arm))
            .collect();
        if figures.iter().all(Option::is_none) {
            continue;
        }
        let knob = figures.iter().flatten().any(|f| f.knob == Some(true));
        let note = if knob { " (told to)" } else { "" };
        let mut cells = vec![format!("`{}`{note}", arm.name())];
        cells.extend(figures.iter().map(|figures| match figures {
            Some(f) if arm == Arm::System => f.nanoseconds.map_or("–".into(), |s| {
                format!("{:.1} ns ({:.1}–{:.1})", s.median, s.min, s.max)
            }),
            Some(f) => ratio(f.ratio),
            None => String::new(),
        }));
        text += &line(cells);
    }
    let rejected: usize = row.iter().map(|cell| cell.rejected).sum();
    if rejected > 0 {
        let _ = writeln!(
            text,
            "\n{rejected} runs rejected: their threads shared a processor."
        );
    }
    text
}

/// A size with its unit.
fn bytes(size: usize) -> String {
    match size {
        0..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{} KiB", size / 1024),
        _ if size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        _ => format!("{:.2} MiB", size as f64 / 1_048_576.0),
    }
}

/// What reading costs.
pub fn readings(rows: &[read::Row]) -> String {
    let mut loads: Vec<(usize, u64)> = Vec::new();
    for row in rows {
        if !loads.contains(&(row.alive, row.dead)) {
            loads.push((row.alive, row.dead));
        }
    }
    let mut head = vec!["arm".to_owned(), "reading".to_owned()];
    head.extend(loads.iter().map(|(alive, dead)| match (alive, dead) {
        (0, 0) => "alone".to_owned(),
        (0, dead) => format!("{dead} threads ended"),
        (alive, _) => format!("{alive} threads parked"),
    }));
    let mut text = header(&head);
    for arm in Arm::ALL {
        let Some(first) = rows.iter().find(|row| row.arm == arm) else {
            continue;
        };
        for name in first.nanoseconds.keys() {
            let mut cells = vec![format!("`{}`", arm.name()), name.clone()];
            cells.extend(loads.iter().map(|load| {
                rows.iter()
                    .find(|row| row.arm == arm && (row.alive, row.dead) == *load)
                    .and_then(|row| row.nanoseconds.get(name))
                    .map_or(String::new(), |ns| duration(*ns))
            }));
            text += &line(cells);
        }
    }
    text
}

fn duration(nanoseconds: f64) -> String {
    if nanoseconds < 1000.0 {
        format!("{nanoseconds:.1} ns")
    } else {
        format!("{:.1} µs", nanoseconds / 1000.0)
    }
}

/// The soak.
pub fn soak(kind: Kind, soaked: &Soaked) -> String {
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    format!(
        "{}: {} threads, {} at a time, {:.1} s. Balance before {} B, after {} B: off by {} B; the cheap reading is off by \
         {} B of at most {}. Accounts left: {}. {} blocks were freed after their thread was settled. Resident size {:.1} MiB after \
         a tenth of the threads, {:.1} MiB after all.\n",
        kind.name(),
        soaked.threads,
        soaked.alive,
        soaked.seconds,
        soaked.before,
        soaked.after,
        soaked.difference,
        soaked.cheap,
        soaked.error,
        soaked.living,
        soaked.late,
        mib(soaked.resident_first),
        mib(soaked.resident_last),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_their_units() {
        assert_eq!(
            [64, 4096, 1 << 21, (1 << 20) + (64 << 10)].map(bytes),
            ["64 B", "4 KiB", "2 MiB", "1.06 MiB"]
        );
        assert_eq!(duration(1.24), "1.2 ns");
        assert_eq!(duration(210_000.0), "210.0 µs");
    }

    #[test]
    fn a_missed_bar_and_a_slot_at_no_constant_distance_are_said() {
        let row = |arm, kind, added, constant| instructions::Row {
            arm,
            kind,
            pair: 154.0 + added,
            added,
            constant,
        };
        let text = instructions(&[
            row(Arm::System, Kind::Executable, 0.0, None),
            row(Arm::OursExecutable, Kind::Executable, 12.5, Some(true)),
            row(Arm::OursLargeTls, Kind::Cdylib, 80.0, Some(false)),
        ]);
        assert!(text.contains("| `ours-executable` | +12.5 (bar 12: missed) |  |"));
        assert!(text.contains("+80.0 (no constant distance)"));
    }
}
