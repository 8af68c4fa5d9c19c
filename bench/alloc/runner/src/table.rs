//! Medians and ratios as text.

use crate::{Row, Run};
use std::collections::BTreeMap;

fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn time(row: &Row) -> f64 {
    median(&row.runs, |r| r.nanoseconds)
}

/// Prints a pattern's peers, best first. `x` is the ratio to the best one; in front of it how far the
/// runs of this one spread (largest by smallest).
pub fn print_pattern(rows: &[Row]) {
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let Some(first) = order.first() else { return };
    let best = time(first);
    let busy = median(&first.runs, |r| r.processors);
    println!(
        "{} at {} threads ({busy:.1} processors)",
        first.pattern, first.threads
    );
    for row in order {
        let spread = row.runs.iter().map(|r| r.nanoseconds).fold(0.0, f64::max)
            / row
                .runs
                .iter()
                .map(|r| r.nanoseconds)
                .fold(f64::INFINITY, f64::min);
        println!(
            "  {:<12} {:>12.1} ns  {:>5.2}x  spread {spread:>4.2}  {:>8.1} MiB",
            row.peer,
            time(row),
            time(row) / best,
            median(&row.runs, |r| r.peak_kib as f64) / 1024.0
        );
    }
}

/// Prints each peer's geometric mean over all patterns of its time by the best of the pattern (the null arm
/// is no candidate for that), and of its peak by the leanest.
pub fn print_means(rows: &[Row]) {
    let peak = |row: &Row| median(&row.runs, |r| r.peak_kib as f64);
    let mut patterns: BTreeMap<(&str, usize), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        patterns
            .entry((&row.pattern, row.threads))
            .or_default()
            .push(row);
    }
    let mut means: BTreeMap<&str, (f64, f64, u32)> = BTreeMap::new();
    for of_pattern in patterns.values() {
        let least = |of: &dyn Fn(&Row) -> f64| {
            let rows = of_pattern.iter().filter(|r| r.peer != "again");
            rows.map(|r| of(r)).fold(f64::INFINITY, f64::min)
        };
        let (best, leanest) = (least(&time), least(&peak));
        for row in of_pattern {
            let mean = means.entry(&row.peer).or_default();
            mean.0 += (time(row) / best).ln();
            mean.1 += (peak(row) / leanest).ln();
            mean.2 += 1;
        }
    }
    println!(
        "geometric means over {} rows: time by the best's, peak by the leanest's",
        patterns.len()
    );
    let mut means: Vec<_> = means.into_iter().collect();
    means.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    for (peer, (time, peak, n)) in means {
        let n = f64::from(n);
        println!(
            "  {peer:<12} {:>5.2}  {:>5.2}",
            (time / n).exp(),
            (peak / n).exp()
        );
    }
}
