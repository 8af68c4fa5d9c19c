//! The same loop on several threads at once, each tied to a processor.

use crate::clock::{Took, time};
use crate::pairs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs `work` on `threads` threads (a single one is this one), again and again until `least` is over, timed from when
/// all are ready until all are done. Also returns how often it ran.
///
/// Each thread holds blocks of `size` bytes meanwhile, see [`pairs::hold`].
pub fn run(threads: usize, size: usize, least: Duration, work: impl Fn() + Sync) -> (Took, u64) {
    let repeat = || {
        let start = Instant::now();
        let mut stretches = 0;
        loop {
            work();
            stretches += 1;
            if start.elapsed() >= least {
                return stretches;
            }
        }
    };
    if threads <= 1 {
        return time(repeat);
    }
    let (start, end) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for index in 0..threads {
            let (start, end, repeat, total) = (&start, &end, &repeat, &total);
            scope.spawn(move || {
                tie(index);
                let _held = pairs::hold(size);
                start.wait();
                total.fetch_add(repeat(), Ordering::Relaxed);
                end.wait();
            });
        }
        start.wait();
        let (took, _) = time(|| end.wait());
        (took, total.load(Ordering::Relaxed))
    })
}

/// Ties the calling thread to one of the processors that the process may use: two threads that share one never
/// contend.
fn tie(index: usize) {
    // SAFETY: all-zero is a valid set: none.
    let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a valid place of that size.
    if unsafe { libc::sched_getaffinity(0, size, &raw mut all) } != 0 {
        return;
    }
    let ours: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: within the set.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &all) })
        .collect();
    if let Some(&cpu) = ours.get(index % ours.len().max(1)) {
        // SAFETY: within the set.
        unsafe { libc::CPU_SET(cpu, &mut one) };
        // SAFETY: a valid set of that size.
        unsafe { libc::sched_setaffinity(0, size, &raw const one) };
    }
}
