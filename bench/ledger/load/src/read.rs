//! What reading costs, beside many threads.

use crate::Arm;
use std::fmt::Write;
use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Small stacks: there may be ten thousand threads.
const STACK: usize = 64 << 10;

/// Lets `dead` threads come and go, then measures every reading beside `alive` parked ones, all of which have
/// allocated. Returns fields of JSON: nanoseconds of each.
pub fn measure<A: Arm>(alive: usize, dead: u64) -> String {
    // Not just once: the ledger counts a thread's first few events directly.
    let allocate = || (0..100).for_each(|_| drop(black_box(vec![0u8; 100])));
    let mut left = dead;
    while left > 0 {
        let some = left.min(64);
        let threads: Vec<_> = (0..some).filter_map(|_| start(allocate)).collect();
        threads.into_iter().for_each(|t| drop(t.join()));
        left -= some;
    }
    let gate = Arc::new((Mutex::new((0usize, false)), Condvar::new()));
    let threads: Vec<_> = (0..alive)
        .filter_map(|_| {
            let gate = Arc::clone(&gate);
            start(move || {
                allocate();
                let (state, changed) = &*gate;
                let Ok(mut state) = state.lock() else { return };
                state.0 += 1;
                changed.notify_all();
                drop(changed.wait_while(state, |state| !state.1));
            })
        })
        .collect();
    let (state, changed) = &*gate;
    if let Ok(state) = state.lock() {
        drop(changed.wait_while(state, |state| state.0 < threads.len()));
    }
    let mut fields = format!(r#","alive":{},"dead":{dead},"readings":{{"#, threads.len());
    for (index, (name, read)) in A::readings().iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(fields, r#"{comma}"{name}":{:.1}"#, nanoseconds(*read));
    }
    if let Ok(mut state) = state.lock() {
        state.1 = true;
    }
    changed.notify_all();
    threads.into_iter().for_each(|t| drop(t.join()));
    fields.push('}');
    fields
}

fn start(f: impl FnOnce() + Send + 'static) -> Option<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().stack_size(STACK).spawn(f).ok()
}

/// Median of several stretches.
fn nanoseconds(read: fn() -> i64) -> f64 {
    let mut each: Vec<f64> = (0..9)
        .map(|_| {
            let (start, mut count) = (Instant::now(), 0u32);
            while count < 3 || start.elapsed() < Duration::from_millis(5) {
                for _ in 0..16 {
                    black_box(read());
                }
                count += 16;
            }
            start.elapsed().as_nanos() as f64 / f64::from(count)
        })
        .collect();
    each.sort_by(f64::total_cmp);
    each[each.len() / 2]
}
