//! The figures in the `metrics` facade.

use homefree_ledger::{Accounted, MetricsRecorder, ledger};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::alloc::System;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

fn recorder() -> &'static Snapshotter {
    static INSTALLED: OnceLock<Snapshotter> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        recorder.install().unwrap();
        snapshotter
    })
}

/// Name with labels, kind, unit, whether it is described, value.
type Seen = HashMap<String, (MetricKind, Option<metrics::Unit>, bool, f64)>;

fn seen() -> Seen {
    let metrics = recorder().snapshot().into_vec();
    metrics
        .into_iter()
        .map(|(key, unit, description, value)| {
            let labels = key
                .key()
                .labels()
                .map(|label| format!("|{}={}", label.key(), label.value()));
            let name = key.key().name().to_owned() + &labels.collect::<String>();
            let value = match value {
                DebugValue::Counter(value) => value as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(_) => panic!("{name} is a histogram"),
            };
            (name, (key.kind(), unit, description.is_some(), value))
        })
        .collect()
}

/// One test: a snapshot takes the counters' values away.
#[test]
fn the_facade_gets_the_figures() {
    figures_are_described_and_recorded();
    the_recorder_records_until_it_is_dropped();
}

fn figures_are_described_and_recorded() {
    recorder();
    let scope = ledger().scope("query 42");
    let held: Vec<u8> = Vec::with_capacity(8 << 20);
    ledger().describe_metrics();
    ledger().record_metrics();
    let before = ledger().totals();
    let first = seen();
    let (kind, unit, described, current) = first["homefree_ledger_current_bytes"];
    assert_eq!(
        (kind, unit, described),
        (MetricKind::Gauge, Some(metrics::Unit::Bytes), true)
    );
    assert!(current >= (8 << 20) as f64);
    let (kind, _, described, allocated) = first["homefree_ledger_allocated_bytes_total"];
    assert_eq!((kind, described), (MetricKind::Counter, true));
    assert!(allocated > 0.0 && allocated <= before.allocated as f64);
    let (kind, .., of_scope) = first["homefree_ledger_scope_current_bytes|scope=query 42"];
    assert_eq!(kind, MetricKind::Gauge);
    assert!(of_scope >= (8 << 20) as f64);
    assert!(first["homefree_process_resident_bytes"].3 > 0.0);
    // Where nothing counts events there is no figure of them.
    assert!(!first.contains_key("homefree_ledger_allocations_total"));

    // Absolute, not added up.
    drop((held, scope));
    ledger().record_metrics();
    ledger().record_metrics();
    let allocated = seen()["homefree_ledger_allocated_bytes_total"].3;
    assert!(allocated <= ledger().totals().allocated as f64);
}

fn the_recorder_records_until_it_is_dropped() {
    recorder();
    let current = || seen()["homefree_ledger_current_bytes"].3;
    let thread = MetricsRecorder::every(Duration::from_millis(1)).unwrap();
    assert!(thread.runs());
    let wait = |done: &dyn Fn() -> bool| {
        while !done() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait(&|| seen().contains_key("homefree_ledger_current_bytes"));
    let held: Vec<u8> = Vec::with_capacity(512 << 20);
    wait(&|| current() > (512 << 20) as f64);
    drop(held);
    wait(&|| current() < (500 << 20) as f64);
    assert_eq!(thread.panics(), 0);
    drop(thread);
}
