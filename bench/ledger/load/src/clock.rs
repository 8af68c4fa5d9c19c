//! Clocks.

use std::time::{Duration, Instant};

/// CPU time that all threads of the process have used.
pub fn cpu() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place. The clock exists on Linux since 2.6.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// By the wall.
    pub wall: Duration,
    /// CPU time of all threads.
    pub cpu: Duration,
}

/// Times `f`.
pub fn time<T>(f: impl FnOnce() -> T) -> (Took, T) {
    let (wall, before) = (Instant::now(), cpu());
    let value = f();
    let took = Took {
        wall: wall.elapsed(),
        cpu: cpu() - before,
    };
    (took, value)
}
