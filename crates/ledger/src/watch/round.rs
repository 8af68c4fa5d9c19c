//! What the watcher's thread does.

use super::line::{Line, bytes};
use super::wanted::Wanted;
use super::{Amount, Pressure, Source};
use crate::background::{Orders, nanoseconds};
use crate::pressure::{Absent, Cgroup, CgroupMemory, Psi, PsiFile};
use crate::{alarm, ledger, reading};
use homefree_thread::sys;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::vec::Vec;

/// The lines and where their figures come from.
pub(super) struct Round {
    lines: Vec<Line>,
    root: PathBuf,
    cgroup: Result<Cgroup, Absent>,
    /// There was one when the watcher was started.
    has_cgroup: bool,
    system: PsiFile,
    absent: Arc<Mutex<Vec<(Source, Absent)>>>,
    /// What `absent` says, for comparison.
    known: Vec<(Source, Absent)>,
    /// The same of this round.
    missing: Vec<(Source, Absent)>,
}

/// Figures of one round. Read once, when the first line asks.
#[derive(Default)]
struct Figures {
    cgroup: Option<Result<CgroupMemory, Absent>>,
    psi: Option<Result<Psi, Absent>>,
}

impl Round {
    pub(super) fn new(
        lines: Vec<Line>,
        root: &Path,
        absent: Arc<Mutex<Vec<(Source, Absent)>>>,
    ) -> Self {
        let count = lines.len();
        let cgroup = Cgroup::of_process_in(root);
        Self {
            lines,
            root: root.into(),
            has_cgroup: cgroup.is_ok(),
            cgroup,
            system: PsiFile::of_system_in(root),
            absent,
            known: Vec::new(),
            // So that a round need not allocate, unless what is absent changes.
            missing: Vec::with_capacity(count),
        }
    }

    /// Looks at the sources other than the balance without telling anybody: to know which are absent.
    pub(super) fn look(&mut self) {
        let mut figures = Figures::default();
        for at in 0..self.lines.len() {
            let line = self.lines[at].clone();
            let _ = self.cross(at, &mut figures);
            self.lines[at] = line;
        }
        self.tell_absent();
    }

    /// Looks, waits for the alarm or the end of the period, and so on.
    pub(super) fn run(
        &mut self,
        orders: &Orders,
        period: Duration,
        callback: &mut dyn FnMut(Pressure),
    ) {
        let wanted = Wanted::new();
        let mut whole = 0;
        while !orders.stopped() {
            let seen = alarm::count();
            self.want(&wanted);
            let now = sys::clock(libc::CLOCK_MONOTONIC);
            let due = now >= whole;
            if due {
                whole = now + nanoseconds(period) as u64;
            }
            if self.tell(due, orders, callback) {
                // The trigger must be set anew, and callbacks take time: look again.
                continue;
            }
            let left = whole.saturating_sub(sys::clock(libc::CLOCK_MONOTONIC));
            if left > 0 && !orders.stopped() {
                alarm::wait(seen, left as i64);
            }
        }
    }

    /// Sets the alarm to where the balance would next cross a line.
    fn want(&self, wanted: &Wanted) {
        let balance = reading::usage().current;
        let lines = self
            .lines
            .iter()
            .filter(|line| line.source == Source::Balance);
        let (mut high, mut low) = (None::<u64>, None::<u64>);
        for line in lines {
            if line.above {
                low = low.max(Some(line.low as u64));
            } else {
                high = Some(high.map_or(line.high as u64, |high| high.min(line.high as u64)));
            }
        }
        // The cheap balance may be past a line that the exact one is not: wait for its next move then.
        wanted.set(
            high.map(|high| high.max(balance)),
            low.map(|low| low.min(balance)),
        );
    }

    /// Tells of each line that was crossed: whether there was one.
    fn tell(&mut self, due: bool, orders: &Orders, callback: &mut dyn FnMut(Pressure)) -> bool {
        let mut figures = Figures::default();
        let mut told = false;
        for at in 0..self.lines.len() {
            // The kernel's figures once a period, however often the alarm rings.
            if !due && self.lines[at].source != Source::Balance {
                continue;
            }
            if let Some(event) = self.cross(at, &mut figures) {
                told = true;
                orders.call(|| callback(event));
                if orders.stopped() {
                    break;
                }
            }
        }
        if due {
            self.tell_absent();
        }
        told
    }

    /// Looks at one line's figure.
    fn cross(&mut self, at: usize, figures: &mut Figures) -> Option<Pressure> {
        let source = self.lines[at].source;
        let result = match source {
            Source::Balance => {
                let value = reading::usage_exact().current as f64;
                return self.lines[at].cross(value, 1.0, bytes);
            }
            Source::Discrepancy => ledger().check().map(|found| {
                let found = found.map(|found| (found.balance, found.possible));
                self.lines[at].found(found)
            }),
            Source::CgroupAnon | Source::CgroupWorking => self
                .cgroup(figures)
                .and_then(|memory| memory.tightest.ok_or(Absent::NoLimit))
                .map(|tightest| {
                    let value = match source {
                        Source::CgroupAnon => tightest.figures.anon,
                        _ => tightest.figures.working(),
                    };
                    self.lines[at].cross(value as f64, tightest.limit as f64, bytes)
                }),
            Source::PsiSome | Source::PsiFull => self.psi(figures).map(|psi| {
                let stall = match source {
                    Source::PsiSome => psi.some,
                    _ => psi.full,
                };
                self.lines[at].cross(stall.avg10, 1.0, Amount::Percent)
            }),
        };
        result.unwrap_or_else(|why| {
            self.missing.push((source, why));
            None
        })
    }

    fn cgroup(&mut self, figures: &mut Figures) -> Result<CgroupMemory, Absent> {
        if let Some(read) = &figures.cgroup {
            return read.clone();
        }
        let read = |found: &Result<Cgroup, Absent>| match found {
            Ok(cgroup) => cgroup.read(),
            Err(why) => Err(why.clone()),
        };
        let mut memory = read(&self.cgroup);
        // The process may have been moved, and its old cgroup removed.
        if memory.is_err() && self.has_cgroup {
            self.cgroup = Cgroup::of_process_in(&self.root);
            memory = read(&self.cgroup);
        }
        figures.cgroup.insert(memory).clone()
    }

    fn psi(&self, figures: &mut Figures) -> Result<Psi, Absent> {
        let read = || match &self.cgroup {
            Ok(cgroup) => cgroup.psi().read().or_else(|_| self.system.read()),
            Err(_) => self.system.read(),
        };
        figures.psi.get_or_insert_with(read).clone()
    }

    /// Puts down which sources had no figure.
    fn tell_absent(&mut self) {
        if self.missing != self.known {
            self.known.clone_from(&self.missing);
            let mut absent = self
                .absent
                .lock()
                .unwrap_or_else(|error| error.into_inner());
            absent.clone_from(&self.missing);
        }
        self.missing.clear();
    }
}
