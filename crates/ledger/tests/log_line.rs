//! The periodic log line.

use homefree_ledger::{Accounted, LogLine, ledger};
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::alloc::System;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

const LIMIT: Duration = Duration::from_secs(60);
static LINES: Mutex<Option<Sender<(Level, String)>>> = Mutex::new(None);
static PANICS: AtomicBool = AtomicBool::new(false);

struct Logger;

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        if record.target() != "homefree_ledger" {
            return;
        }
        if PANICS.swap(false, Ordering::Relaxed) {
            panic!("a fault of the logger's");
        }
        if let Some(lines) = &*LINES.lock().unwrap() {
            let _ = lines.send((record.level(), record.args().to_string()));
        }
    }
    fn flush(&self) {}
}

fn lines() -> Receiver<(Level, String)> {
    let (send, receive) = channel();
    *LINES.lock().unwrap() = Some(send);
    receive
}

/// One test: there is one logger.
#[test]
fn a_line_a_period_until_it_is_dropped() {
    log::set_logger(&Logger).unwrap();
    log::set_max_level(LevelFilter::Info);
    let held: Vec<u8> = Vec::with_capacity(3 << 30);
    let received = lines();
    let thread = LogLine::every(Duration::from_millis(1)).unwrap();
    let (level, line) = received.recv_timeout(LIMIT).unwrap();
    assert_eq!(level, Level::Info);
    assert!(
        line.starts_with("allocated 3.0 GiB (peak 3.0 GiB), reserved 3."),
        "{line}"
    );
    assert!(
        line.contains(", resident ") && line.contains("(anonymous "),
        "{line}"
    );
    assert!(!line.contains('\n'), "{line}");
    drop(held);
    loop {
        let (_, line) = received.recv_timeout(LIMIT).unwrap();
        if !line.starts_with("allocated 3.0 GiB") {
            assert!(line.contains("(peak 3.0 GiB)"), "{line}");
            break;
        }
    }

    // A logger that panics once is called again.
    std::panic::set_hook(Box::new(|_| {}));
    PANICS.store(true, Ordering::Relaxed);
    while thread.panics() == 0 {
        received.recv_timeout(LIMIT).ok();
    }
    assert!(thread.runs());
    received.recv_timeout(LIMIT).unwrap();

    drop(thread);
    let received = lines();
    std::thread::sleep(Duration::from_millis(20));
    assert!(received.try_recv().is_err(), "it has ended");

    // It ends at once, whatever the period.
    drop(LogLine::every(Duration::MAX).unwrap());

    // ClickHouse#83607: what a line allocates is freed, and counted once.
    let drift = || {
        let thread = LogLine::every(Duration::from_millis(1)).unwrap();
        for _ in 0..50 {
            received.recv_timeout(LIMIT).unwrap();
        }
        drop(thread);
        while received.try_recv().is_ok() {}
        ledger().usage_exact().current
    };
    let (first, second) = (drift(), drift());
    assert!(second <= first + 4096, "{first} {second}");
}
