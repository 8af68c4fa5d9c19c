//! The account as Prometheus text, exposition format 0.0.4: for a node exporter's textfile collector.

use super::account::{Process, Report};
use std::fmt::Write as _;

type Figure = fn(&Process) -> Option<u64>;

/// Name, kind, help, figure; the names are the ledger's own where it has the figure.
const FAMILIES: [(&str, &str, &str, Figure); 11] = [
    (
        "homefree_ledger_current_bytes",
        "gauge",
        "Usable bytes allocated and not freed yet; off by at most homefree_ledger_error_bytes.",
        |p| Some(p.figures.current),
    ),
    (
        "homefree_ledger_peak_bytes",
        "gauge",
        "The most usable bytes that were held.",
        |p| Some(p.figures.peak),
    ),
    (
        "homefree_ledger_error_bytes",
        "gauge",
        "Bytes that all threads together may count before they settle.",
        |p| Some(p.figures.error),
    ),
    (
        "homefree_ledger_allocated_bytes_total",
        "counter",
        "Usable bytes allocated; once the process has ended.",
        |p| p.ended().then_some(p.figures.allocated),
    ),
    (
        "homefree_ledger_freed_bytes_total",
        "counter",
        "Usable bytes freed; once the process has ended.",
        |p| p.ended().then_some(p.figures.freed),
    ),
    (
        "homefree_ledger_allocations_total",
        "counter",
        "Allocations; once the process has ended, with --counts.",
        |p| (p.ended() && p.counts()).then_some(p.figures.allocations),
    ),
    (
        "homefree_ledger_frees_total",
        "counter",
        "Frees; once the process has ended, with --counts.",
        |p| (p.ended() && p.counts()).then_some(p.figures.frees),
    ),
    (
        "homefree_ledger_limit_bytes",
        "gauge",
        "The hard limit.",
        |p| (p.figures.limit != 0).then_some(p.figures.limit),
    ),
    (
        "homefree_ledger_refused_total",
        "counter",
        "Requests that the hard limit refused.",
        |p| Some(p.figures.refused),
    ),
    (
        "homefree_process_resident_anon_bytes",
        "gauge",
        "Resident anonymous memory of the process.",
        |p| (p.memory.resident != 0).then_some(p.memory.resident),
    ),
    (
        "homefree_process_reserved_bytes",
        "gauge",
        "Private writable memory of the process, resident or not.",
        |p| (p.memory.reserved != 0).then_some(p.memory.reserved),
    ),
];

/// The page.
pub fn page(report: &Report) -> String {
    let mut out = String::new();
    let processes: Vec<_> = report.main.iter().chain(&report.others).collect();
    for (name, kind, help, figure) in FAMILIES {
        let samples: Vec<_> = processes
            .iter()
            .filter_map(|process| Some((labels(process), figure(process)?)))
            .collect();
        if samples.is_empty() {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "{name}{{{labels}}} {value}");
        }
    }
    out
}

/// A process image is one of its process number and its beginning.
fn labels(process: &Process) -> String {
    let mut command = String::new();
    for c in process.name().chars() {
        match c {
            '\\' => command.push_str("\\\\"),
            '"' => command.push_str("\\\""),
            '\n' => command.push_str("\\n"),
            // Written out, as `\u{1}`: some readers take no NUL, or take others for the end of a line.
            c if c.is_control() => {
                let _ = write!(command, "\\{}", c.escape_unicode());
            }
            c => command.push(c),
        }
    }
    let started = process.figures.started as f64 / 1e9;
    format!(
        "pid=\"{}\",started=\"{started:.3}\",command=\"{command}\"",
        process.figures.pid
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Ending;

    fn report() -> Report {
        let process = Process {
            command: vec!["/opt/a \"b\"".into()],
            ..Process::default()
        };
        Report {
            main: Some(process),
            others: Vec::new(),
            ending: Some(Ending::Exit(0)),
            seconds: 1.0,
        }
    }

    #[test]
    fn a_family_is_declared_once_and_only_with_samples() {
        let page = page(&report());
        assert_eq!(
            page.matches("# TYPE homefree_ledger_current_bytes gauge")
                .count(),
            1
        );
        assert!(page.contains("command=\"a \\\"b\\\"\"} 0\n"), "{page}");
        assert!(!page.contains("allocations_total"));
    }

    #[test]
    fn control_characters_are_written_out() {
        let mut report = report();
        report.main.as_mut().unwrap().command = vec!["a\u{1}\r\n\u{85}ü".into()];
        let page = page(&report);
        let said = r#"command="a\\u{1}\\u{d}\n\\u{85}ü"} 0"#;
        assert!(page.contains(said), "{page}");
    }
}
