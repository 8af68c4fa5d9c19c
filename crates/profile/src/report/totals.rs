//! The sums above the table.

use crate::merge::{Asides, Merged, Tally};
use std::collections::HashMap;

/// Sums over all profiles. With sampling they are estimates, see [`Totals::errors`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Allocations.
    pub allocations: u64,
    /// Bytes requested by them.
    pub allocated_bytes: u64,
    /// Frees on the allocating thread.
    pub frees_home: u64,
    /// Bytes of those.
    pub frees_home_bytes: u64,
    /// Frees on another thread.
    pub frees_remote: u64,
    /// Bytes of those.
    pub frees_remote_bytes: u64,
    /// Frees of blocks with no recorded allocation.
    pub frees_unknown: u64,
    /// Threads ever seen.
    pub threads: u64,
    /// Blocks allocated and not freed.
    pub live: u64,
    /// Bytes of those.
    pub live_bytes: u64,
    /// True where all programs ended in order and all profiles are whole: only then `live` is what was
    /// live at exit. Otherwise frees may be missing.
    pub live_at_exit: bool,
    /// Half of the 95 % intervals; `None` where every event was recorded.
    pub errors: Option<Errors>,
    /// Allocation calls that failed.
    pub failed: u64,
    /// Events after a thread's end (they are recorded like others).
    pub late: u64,
    /// Calls from inside the recorder or another hooked call; not recorded.
    pub reentrant: u64,
    /// Events whose site or flow had no room in the file; they are in the sums, but at no site.
    pub lost: u64,
    /// Allocations that could not be recorded.
    pub untracked: u64,
}

/// Half of the 95 % interval of sampled figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Of [`Totals::allocations`].
    pub allocations: f64,
    /// Of [`Totals::frees_home`].
    pub frees_home: f64,
    /// Of [`Totals::frees_remote`].
    pub frees_remote: f64,
}

impl Totals {
    pub(crate) fn of(merged: &Merged, whole: bool, sampled: bool) -> Totals {
        let (mut allocated, mut home, mut remote) = Default::default();
        // Live blocks per allocating stack: a site whose frees were counted twice hides no other's blocks.
        let mut live: HashMap<u32, (Tally, Tally)> = HashMap::new();
        for ((_, stack), sums) in &merged.sites {
            Tally::add(&mut allocated, sums.allocated);
            Tally::add(&mut home, sums.home);
            let (made, freed) = live.entry(*stack).or_default();
            made.add(sums.allocated);
            freed.add(sums.home);
        }
        for (key, sums) in merged.flows.iter().filter(|(k, _)| !k.home) {
            Tally::add(&mut remote, sums.freed);
            live.entry(key.alloc_stack).or_default().1.add(sums.freed);
        }
        let left = live.values().fold((0u64, 0u64), |left, (made, freed)| {
            (
                left.0
                    .saturating_add(made.count.saturating_sub(freed.count)),
                left.1
                    .saturating_add(made.bytes.saturating_sub(freed.bytes)),
            )
        });
        let Asides {
            unknown_frees,
            reentrant,
            untracked,
            lost,
            lost_allocs,
            lost_bytes,
            lost_remote,
            late,
            failed,
        } = merged.asides;
        Totals {
            allocations: allocated.count.saturating_add(lost_allocs),
            allocated_bytes: allocated.bytes.saturating_add(lost_bytes),
            frees_home: home.count,
            frees_home_bytes: home.bytes,
            frees_remote: remote.count.saturating_add(lost_remote),
            frees_remote_bytes: remote.bytes,
            frees_unknown: unknown_frees,
            threads: merged.threads,
            live: left.0,
            live_bytes: left.1,
            live_at_exit: whole,
            errors: sampled.then(|| Errors {
                allocations: allocated.error().unwrap_or(0.0),
                frees_home: home.error().unwrap_or(0.0),
                frees_remote: remote.error().unwrap_or(0.0),
            }),
            failed,
            late,
            reentrant,
            lost,
            untracked,
        }
    }

    /// All frees.
    pub fn frees(&self) -> u64 {
        self.frees_home
            .saturating_add(self.frees_remote)
            .saturating_add(self.frees_unknown)
    }

    /// Remote frees among the frees of recorded blocks; 0 when there are none.
    pub fn remote_share(&self) -> f64 {
        let known = self.frees_home.saturating_add(self.frees_remote);
        if known == 0 {
            0.0
        } else {
            self.frees_remote as f64 / known as f64
        }
    }
}
