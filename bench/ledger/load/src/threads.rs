//! The same loop on several threads at once, each tied to a processor.

use crate::clock::{Took, time};
use std::sync::Barrier;

/// Runs `work` on `threads` threads, the first of them this one where it is the only one; times from when all are
/// ready until all are done.
pub fn run(threads: usize, work: impl Fn() + Sync) -> Took {
    if threads <= 1 {
        return time(work);
    }
    let (start, end) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    std::thread::scope(|scope| {
        for index in 0..threads {
            let (start, end, work) = (&start, &end, &work);
            scope.spawn(move || {
                tie(index);
                start.wait();
                work();
                end.wait();
            });
        }
        start.wait();
        time(|| {
            end.wait();
        })
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
