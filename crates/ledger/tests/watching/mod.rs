//! What the tests of the watcher share.

#![allow(dead_code, reason = "not every test needs all of it")]

use homefree_ledger::{Amount, Edge, Pressure, SoftLimit, Source, Watch, Watcher, ledger};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

pub const MIB: usize = 1 << 20;
/// Longer than any wait here: who is told at once is told by the alarm.
pub const NEVER: Duration = Duration::from_secs(3600);
pub const SOON: Duration = Duration::from_millis(1);
pub const LIMIT: Duration = Duration::from_secs(60);

/// Watches the balance from where it is now, and hands on what it is told.
pub fn watch(period: Duration, high: usize, low: usize) -> (Watcher, Receiver<Pressure>) {
    let (send, receive) = channel();
    let now = ledger().usage_exact().current;
    let limit = SoftLimit {
        high: now + high as u64,
        low: now + low as u64,
    };
    let watcher = Watch::new()
        .balance(limit)
        .period(period)
        .start(move |event| send.send(event).unwrap())
        .unwrap();
    (watcher, receive)
}

pub fn edge(events: &Receiver<Pressure>) -> Edge {
    let event = events.recv_timeout(LIMIT).expect("the crossing is told");
    assert_eq!(event.source, Source::Balance);
    let (Amount::Bytes(value), Amount::Bytes(limit)) = (event.value, event.limit) else {
        panic!("not in bytes");
    };
    match event.edge {
        Edge::Above => assert!(value > limit),
        Edge::Below => assert!(value < limit),
    }
    event.edge
}

pub fn block(size: usize) -> Vec<u8> {
    Vec::with_capacity(size)
}

/// The exact balance once this is the only thread: one that was not joined may still have its last frees to make,
/// after its account was closed.
pub fn alone() -> u64 {
    while std::fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        thread::yield_now();
    }
    ledger().usage_exact().current
}
