//! The Prometheus text, read back by a parser that is not ours.

use homefree_ledger::{Accounted, Counts, process_memory};
use prometheus_parse::{Sample, Scrape, Value};
use std::alloc::System;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

#[global_allocator]
static A: Accounted<System, Counts> = Accounted::new(System);

fn main() {
    // SAFETY: plain call. A child that hangs fails the test.
    unsafe { libc::alarm(120) };
    the_figures_are_of_one_reading();
    every_line_is_of_the_format();
    odd_names_of_scopes_come_back_as_they_were();
    control_characters_in_names_are_written_out();
    a_writer_that_fails_is_told_of();
}

fn scrape() -> Scrape {
    let text = A.prometheus();
    let lines = text.lines().map(|line| Ok(line.to_owned()));
    Scrape::parse(lines).expect("text of the exposition format")
}

fn samples<'a>(scrape: &'a Scrape, name: &str) -> Vec<&'a Sample> {
    scrape
        .samples
        .iter()
        .filter(|sample| sample.metric == name)
        .collect()
}

fn value(scrape: &Scrape, name: &str) -> f64 {
    let [sample] = samples(scrape, name)[..] else {
        panic!("one sample of {name}");
    };
    let is_counter = matches!(sample.value, Value::Counter(_));
    assert_eq!(is_counter, name.ends_with("_total"), "{name}");
    match sample.value {
        Value::Counter(value) | Value::Gauge(value) => value,
        ref other => panic!("{name}: {other:?}"),
    }
}

/// Other threads allocate meanwhile: what was allocated less what was freed is what is held, in every text.
fn the_figures_are_of_one_reading() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    thread::scope(|scope| {
        for n in 0..3usize {
            let stop = &stop;
            scope.spawn(move || {
                let mut held: Vec<Vec<u8>> = Vec::new();
                while !stop.load(relaxed) {
                    held.push(Vec::with_capacity(1000 + n));
                    if held.len() == 500 {
                        held.clear();
                    }
                }
            });
        }
        let (mut allocated, mut freed) = (0.0, 0.0);
        for _ in 0..200 {
            let scrape = scrape();
            let figure = |name: &str| value(&scrape, &format!("homefree_ledger_{name}"));
            let now = (figure("allocated_bytes_total"), figure("freed_bytes_total"));
            assert_eq!(now.0 - now.1, figure("current_bytes"));
            assert!(now.0 > allocated && now.1 >= freed, "counters only go up");
            (allocated, freed) = now;
            assert!(figure("peak_bytes") >= figure("current_bytes"));
            assert!(figure("error_bytes") > 0.0);
            assert!(figure("allocations_total") > figure("frees_total"));
        }
        stop.store(true, relaxed);
    });
    let scrape = scrape();
    let resident = value(&scrape, "homefree_process_resident_bytes");
    let now = process_memory().unwrap().resident as f64;
    assert!((resident - now).abs() < 64e6);
    assert!(value(&scrape, "homefree_process_reserved_bytes") > 0.0);
    assert_eq!(value(&scrape, "homefree_ledger_refused_total"), 0.0);
}

/// What the parser above would let pass.
fn every_line_is_of_the_format() {
    let _scope = A.scope("one");
    let _other = A.scope("two");
    let text = A.prometheus();
    assert!(text.ends_with('\n') && !text.contains("\n\n"));
    let (mut families, mut family) = (HashSet::new(), "");
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap();
            assert!(families.insert(family.to_owned()), "{family} in two groups");
            assert!(help.len() > family.len() + 1);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let counter = family.ends_with("_total");
            let kinds = if counter { "counter" } else { "gauge" };
            assert_eq!(kind, format!("{family} {kinds}"));
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            assert_eq!(name, family, "a sample outside of its group");
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        }
    }
    assert!(families.contains("homefree_ledger_scope_current_bytes"));
}

fn odd_names_of_scopes_come_back_as_they_were() {
    let names = [
        "query 42",
        r#"a "quoted" one"#,
        r"back\slash\n",
        "two\nlines",
        "Füße 🦀 {a=\"b\", c} 1",
        "",
        "\\",
        "\"",
        "comma,equals=brace}",
    ];
    let held: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let scope = A.scope(name);
            let block: Vec<u8> = Vec::with_capacity(1000 * (n + 1));
            (scope.handle(), block)
        })
        .collect();
    let text = A.prometheus();
    let of_scopes: HashMap<String, u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("homefree_ledger_scope_current_bytes{scope=\""))
        .map(|rest| {
            let (name, rest) = label(rest);
            let value = rest.strip_prefix("} ").expect("one label, then a value");
            (name, value.parse().unwrap())
        })
        .collect();
    assert_eq!(of_scopes.len(), names.len());
    for (n, name) in names.iter().enumerate() {
        let bytes = of_scopes[*name];
        assert!(bytes >= 1000 * (n as u64 + 1), "{name:?}: {bytes}");
    }
    match reference(&text) {
        Some(read) => assert_eq!(read, of_scopes),
        None => {
            eprintln!("skipped: the reference parser (python3 with prometheus_client) is not here")
        }
    }
    drop(held);
    let text = A.prometheus();
    assert!(
        !text.contains("query 42"),
        "a scope that nobody uses any more"
    );
}

/// A label's value as the format defines it, and what comes after its closing quote.
fn label(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next().expect("a closing quote") {
            '"' => return (value, rest.as_str()),
            '\\' => value.push(match rest.next() {
                Some('n') => '\n',
                Some(same @ ('"' | '\\')) => same,
                other => panic!("an escape that the format has not: {other:?}"),
            }),
            other => value.push(other),
        }
    }
}

/// The same figures as Prometheus' own parser for Python reads them. `None` where it is not installed.
fn reference(text: &str) -> Option<HashMap<String, u64>> {
    const SCRIPT: &str = "
import sys
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.buffer.read().decode()):
    assert family.documentation, family
    for sample in family.samples:
        if sample.name == 'homefree_ledger_scope_current_bytes':
            print(sample.labels['scope'].encode().hex() + ' ' + str(int(sample.value)))
";
    let python = |which: &str, script: &str| {
        let mut command = Command::new(which);
        command
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.stderr(Stdio::null());
        command
    };
    // The distribution's own has its packages, whatever else is first in PATH.
    let which = ["python3", "/usr/bin/python3"].into_iter().find(|which| {
        let here = python(which, "import prometheus_client").spawn();
        here.is_ok_and(|mut child| child.wait().is_ok_and(|status| status.success()))
    })?;
    let mut child = python(which, SCRIPT).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "the reference parser refuses the text"
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    let read = lines.lines().map(|line| {
        let (hex, value) = line.split_once(' ').unwrap();
        let bytes = (0..hex.len()).step_by(2);
        let name = bytes
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        (String::from_utf8(name).unwrap(), value.parse().unwrap())
    });
    Some(read.collect())
}

/// Some readers refuse a NUL, or take a form feed for the end of a line.
fn control_characters_in_names_are_written_out() {
    let names = ["a\0b", "\x01", "\r", "\t\x0c\x1b[0m", "\x7f", "\u{85}\n"];
    let scopes = names.map(|name| A.scope(name));
    let held = vec![0u8; 100_000];
    let text = A.prometheus();
    let odd = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(odd), "{text:?}");
    for said in [
        r"a\\u{0}b",
        r"\\u{1}",
        r"\\u{d}",
        r"\\u{9}\\u{c}\\u{1b}[0m",
        r"\\u{7f}",
        r"\\u{85}\n",
    ] {
        let line = format!("homefree_ledger_scope_current_bytes{{scope=\"{said}\"}} ");
        assert_eq!(text.matches(&line).count(), 1, "{text}");
    }
    if let Some(read) = reference(&text) {
        for name in [r"a\u{0}b", r"\u{d}", "\\u{85}\n"] {
            assert!(read.contains_key(name), "{read:?}");
        }
    }
    drop((scopes, held));
}

fn a_writer_that_fails_is_told_of() {
    struct Short(usize);
    impl fmt::Write for Short {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    let length = A.prometheus().len();
    assert!(A.write_prometheus(&mut Short(length / 2)).is_err());
    assert!(A.write_prometheus(&mut Short(length * 2)).is_ok());
}
