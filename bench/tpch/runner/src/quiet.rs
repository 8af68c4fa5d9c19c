//! How much of the machine did not go to us.

use std::time::Instant;

/// A look at the machine's use of its processors.
pub struct Watch {
    at: Instant,
    busy: Option<f64>,
}

impl Watch {
    /// Starts to watch.
    pub fn start() -> Self {
        Self {
            at: Instant::now(),
            busy: busy(),
        }
    }

    /// CPU seconds per wall second since the start, less the `own` seconds that the measured process used: what
    /// other processes used and what the hypervisor took; `None` where the kernel does not say. The kernel
    /// counts in hundredths of a second.
    pub fn others(&self, own: f64) -> Option<f64> {
        let busy = busy()? - self.busy?;
        Some(((busy - own) / self.at.elapsed().as_secs_f64()).max(0.0))
    }
}

/// CPU seconds that are gone: all of the first line of /proc/stat but idle and waiting, guests being counted
/// with their hosts.
fn busy() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: u64 = fields
        .split_whitespace()
        .enumerate()
        .filter(|(index, _)| !matches!(index, 3 | 4 | 8..))
        .filter_map(|(_, field)| field.parse::<u64>().ok())
        .sum();
    // SAFETY: no memory is involved.
    let second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(ticks as f64 / second as f64)
}
