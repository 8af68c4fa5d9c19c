//! Figures for metrics and logs.

mod held;

use datafusion_execution::memory_pool::GreedyMemoryPool;
use held::{alone, consumer};
use homefree_datafusion::{Difference, LedgerPool, ProcessMemory};
use std::sync::Arc;

fn some() -> Difference {
    Difference {
        declared: 10 << 20,
        declared_peak: 20 << 20,
        real: 30 << 20,
        real_peak: 40 << 20,
        baseline: 5 << 20,
        undeclared_peak: 25 << 20,
        unused_peak: 3 << 20,
        error: 1 << 20,
        refused: 7,
        declined: 2,
        resident: Some(ProcessMemory {
            anon: 50 << 20,
            resident: 60 << 20,
            ..ProcessMemory::default()
        }),
    }
}

#[test]
fn a_line_holds_the_three_numbers_apart() {
    assert_eq!(
        some().to_string(),
        "declared 10.0 MB (peak 20.0 MB), really held 30.0 MB (peak 40.0 MB) above a baseline of 5.0 MB, \
         undeclared at most 25.0 MB, unused at most 3.0 MB, refused 7 on the real number and 2 by the pool, \
         resident 60.0 MB (anonymous 50.0 MB)"
    );
}

#[test]
fn prometheus_reads_every_figure() {
    let text = some().prometheus("a \"b\"\\");
    let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(samples.len(), some().figures().len());
    assert_eq!(
        samples[2],
        r#"homefree_datafusion_real_bytes{pool="a \"b\"\\"} 31457280"#
    );
    assert!(text.contains("# TYPE homefree_datafusion_refused_total counter\n"));
    assert_eq!(
        text.lines().filter(|l| l.starts_with("# HELP")).count(),
        samples.len()
    );
}

#[test]
fn a_report_names_who_is_there_and_who_has_ended() {
    let _alone = alone();
    let pool = Arc::new(LedgerPool::new(GreedyMemoryPool::new(100)));
    let sort = consumer(&pool, "sort", true);
    sort.grow(60);
    {
        let scan = consumer(&pool, "scan", false);
        scan.grow(30);
        scan.try_grow(30).unwrap_err();
    }
    let report = pool.report();
    let lines: Vec<_> = report.lines().collect();
    assert!(lines[0].starts_with("ledger(greedy("), "{report}");
    let id = sort.consumer().id();
    assert_eq!(
        lines[1],
        format!("  sort#{id} (can spill): declared 60.0 B, peak 60.0 B, refused 0")
    );
    assert_eq!(
        lines[2],
        "  scan (ended, 1): largest peak 30.0 B, refused 1"
    );
}
