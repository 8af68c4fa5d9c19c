//! How much of the machine went to processes that are not ours.

use std::time::Instant;

/// A look at the machine's and our own use of the processor.
pub struct Watch {
    at: Instant,
    machine: Option<f64>,
    own: f64,
}

impl Watch {
    /// Starts to watch.
    pub fn start() -> Self {
        Self {
            at: Instant::now(),
            machine: machine_cpu(),
            own: own_cpu(libc::RUSAGE_SELF) + own_cpu(libc::RUSAGE_CHILDREN),
        }
    }

    /// CPU seconds per wall second since the start that neither we nor our children (those that were
    /// waited for) used; `None` where the kernel does not say.
    pub fn others(&self) -> Option<f64> {
        let now = Self::start();
        let machine = now.machine? - self.machine?;
        let wall = now.at.duration_since(self.at).as_secs_f64();
        Some(((machine - (now.own - self.own)) / wall).max(0.0))
    }
}

/// CPU seconds that all processes have used: user, nice and system of the first line of /proc/stat.
fn machine_cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: u64 = fields
        .split_whitespace()
        .take(3)
        .filter_map(|f| f.parse::<u64>().ok())
        .sum();
    // SAFETY: no memory is involved.
    let second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(ticks as f64 / second as f64)
}

fn own_cpu(who: libc::c_int) -> f64 {
    // SAFETY: all-zero is a valid `rusage`, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::getrusage(who, &raw mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
