//! The soft limit: a thread that watches, and a call when a line is crossed.

mod line;
mod round;
mod source;
mod wanted;

pub use source::{Amount, Edge, Pressure, Share, SoftLimit, Source};

use crate::Ledger;
use crate::background::Background;
use crate::pressure::Absent;
use line::Line;
use round::Round;
use std::boxed::Box;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::vec::Vec;
use std::{fmt, io};

/// What to watch; start with [`Watch::new`], then name the sources.
///
/// ```
/// use homefree_ledger::{Share, SoftLimit, Watch};
///
/// let watcher = Watch::new()
///     .balance(SoftLimit { high: 900 << 20, low: 800 << 20 })
///     .cgroup_anon(Share { high: 0.9, low: 0.8 })
///     .start(|event| eprintln!("{event}"))?;
/// // … until it is dropped.
/// # drop(watcher);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Watch {
    lines: Vec<Line>,
    period: Duration,
    root: PathBuf,
}

impl Watch {
    /// Nothing watched yet; looks every 100 ms.
    pub fn new() -> Self {
        Self {
            lines: Vec::new(),
            period: Duration::from_millis(100),
            root: "/".into(),
        }
    }

    fn line(mut self, source: Source, high: f64, low: f64) -> Self {
        self.lines.push(Line::new(source, high, low));
        self
    }

    /// The ledger's balance: bytes requested and not freed. Besides the period, a settlement that crosses the line
    /// wakes the watcher at once.
    pub fn balance(self, limit: SoftLimit) -> Self {
        self.line(Source::Balance, limit.high as f64, limit.low as f64)
    }

    /// Anonymous memory of the tightest limited cgroup, as a share of its limit. Where there is no limit, or no
    /// cgroup v2, the line is not crossed, and [`Watcher::absent`] says why.
    pub fn cgroup_anon(self, share: Share) -> Self {
        self.line(Source::CgroupAnon, share.high, share.low)
    }

    /// The same for all memory that can not be given up: [`crate::pressure::CgroupFigures::working`].
    pub fn cgroup_working(self, share: Share) -> Self {
        self.line(Source::CgroupWorking, share.high, share.low)
    }

    /// The share of the last 10 seconds in which some task of the cgroup (without one: of the system) waited for
    /// memory.
    pub fn psi_some(self, share: Share) -> Self {
        self.line(Source::PsiSome, share.high * 100.0, share.low * 100.0)
    }

    /// The same for all tasks at once: nothing else was done.
    pub fn psi_full(self, share: Share) -> Self {
        self.line(Source::PsiFull, share.high * 100.0, share.low * 100.0)
    }

    /// The ledger itself: [`Ledger::check`], in two periods one after the other.
    pub fn check(self) -> Self {
        self.line(Source::Discrepancy, 0.0, 0.0)
    }

    /// How often to look. At least a millisecond.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.max(Duration::from_millis(1));
        self
    }

    /// Where `/proc` and the cgroup's mount point are looked for, instead of `/`: for tests.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = root.into();
        self
    }

    /// Starts the thread `homefree-watch`, which calls `callback` once for each crossing, in each direction.
    ///
    /// The callback runs outside of the allocator and may do anything that a thread may do; other crossings wait
    /// until it returns. If it panics, that crossing counts as told, and watching goes on: see
    /// [`Watcher::panics`].
    ///
    /// # Errors
    /// `InvalidInput` where a line's `low` is above its `high`, or nothing is watched; else what the system says
    /// when it has no thread to give.
    pub fn start(self, callback: impl FnMut(Pressure) + Send + 'static) -> io::Result<Watcher> {
        if self.lines.is_empty() {
            let why = "name at least one source to watch";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if !self.lines.iter().all(Line::is_sound) {
            let why = "a limit's `low` must not be above its `high`, and both must be numbers";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let absent = Arc::new(Mutex::new(Vec::new()));
        let mut round = Round::new(self.lines, &self.root, absent.clone());
        let mut callback: Box<dyn FnMut(Pressure) + Send> = Box::new(callback);
        let period = self.period;
        // Before the thread: what is absent can be asked for as soon as this returns.
        round.look();
        let thread = Background::start("homefree-watch", move |orders| {
            round.run(orders, period, &mut callback);
        })?;
        Ok(Watcher { thread, absent })
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// Watches the balance: `callback` is called on a thread of its own, once when it rises above `high` and once
    /// when it has fallen below `low` again. Short for [`Watch::balance`] and [`Watch::start`].
    ///
    /// # Errors
    /// As [`Watch::start`].
    pub fn watch(
        &self,
        limit: SoftLimit,
        callback: impl FnMut(Pressure) + Send + 'static,
    ) -> io::Result<Watcher> {
        Watch::new().balance(limit).start(callback)
    }
}

/// Watches until it is dropped.
///
/// Dropping it ends the thread and waits for that, a callback that is under way included; dropped by the callback
/// itself it only ends it. A library that can be unloaded drops it first. In fork's child there is no thread:
/// nothing is watched there ([`Watcher::runs`] is false), dropping does nothing, and the child starts a watcher of its
/// own if it wants one.
#[must_use = "it watches until it is dropped"]
pub struct Watcher {
    thread: Background,
    absent: Arc<Mutex<Vec<(Source, Absent)>>>,
}

impl Watcher {
    /// Whether the thread is there and runs.
    pub fn runs(&self) -> bool {
        self.thread.runs()
    }

    /// Times that the callback has panicked.
    pub fn panics(&self) -> u64 {
        self.thread.panics()
    }

    /// Sources that had no figure when the watcher last looked, and why. Empty in fork's child.
    pub fn absent(&self) -> Vec<(Source, Absent)> {
        if !self.runs() {
            return Vec::new();
        }
        let absent = self.absent.lock();
        absent.map_or_else(|error| error.into_inner().clone(), |list| list.clone())
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Watcher")
            .field("runs", &self.runs())
            .field("panics", &self.panics())
            .finish()
    }
}
