//! A periodic line for the `log` facade: allocated next to reserved next to resident.

use crate::background::Background;
use crate::binary::Binary;
use crate::snapshot::Snapshot;
use std::fmt;
use std::io;
use std::time::Duration;

/// Logs one line a period, until it is dropped.
///
/// Target `homefree_ledger`, level info:
///
/// ```text
/// allocated 412.3 MiB (peak 1.2 GiB), reserved 640.0 MiB, resident 530.1 MiB (anonymous 512.0 MiB, swap 0 B)
/// ```
///
/// Requested, reserved and resident bytes are three measures, see [`crate::ProcessMemory`]; what one says against
/// the others is in `docs/pressure.md`.
#[derive(Debug)]
#[must_use = "it logs until it is dropped"]
pub struct LogLine {
    thread: Background,
}

impl LogLine {
    /// The first line comes after a period. A logger that panics is called again in the next. In fork's child
    /// nothing is logged: start another there.
    ///
    /// # Errors
    /// What the system says when it has no thread to give.
    pub fn every(period: Duration) -> io::Result<Self> {
        let period = period.max(Duration::from_millis(1));
        let thread = Background::start("homefree-log", move |orders| {
            while orders.pause(period) {
                orders.call(log_now);
            }
        })?;
        Ok(Self { thread })
    }

    /// Whether the thread is there and runs.
    pub fn runs(&self) -> bool {
        self.thread.runs()
    }

    /// Panics of the program's logger, which are caught.
    pub fn panics(&self) -> u64 {
        self.thread.panics()
    }
}

fn log_now() {
    if log::log_enabled!(target: "homefree_ledger", log::Level::Info) {
        log::info!(target: "homefree_ledger", "{}", Line(&Snapshot::take()));
    }
}

/// The line.
struct Line<'a>(&'a Snapshot);

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Snapshot {
            usage,
            process,
            refused,
            ..
        } = self.0;
        let (current, peak) = (Binary(usage.current), Binary(usage.peak));
        write!(out, "allocated {current} (peak {peak})")?;
        if let Some(process) = process {
            let reserved = Binary(process.reserved);
            let (resident, anon) = (Binary(process.resident), Binary(process.anon));
            let swap = Binary(process.swap);
            write!(
                out,
                ", reserved {reserved}, resident {resident} (anonymous {anon}, swap {swap})"
            )?;
        }
        if *refused > 0 {
            write!(out, ", {refused} requests refused")?;
        }
        Ok(())
    }
}
