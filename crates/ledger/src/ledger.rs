//! The ledger's face.

use crate::limit::{self, HardLimit};
use crate::peaks::Mark;
use crate::reading::{self, ThreadFlow, Totals, Usage};
use crate::scope::{self, Entered, Scope, ScopeUsage};
use crate::shared::SHARED;
use crate::{events, margin};
use core::sync::atomic::Ordering;

/// The account book of one executable or library: see [`crate::ledger`].
#[derive(Debug)]
pub struct Ledger(());

pub(crate) static LEDGER: Ledger = Ledger(());

impl Ledger {
    /// What is held and was held at most. A few loads; may be called from a signal's handler and from inside an
    /// allocator. Off by at most [`Usage::error`].
    pub fn usage(&self) -> Usage {
        reading::usage()
    }

    /// As [`Ledger::usage`], with what every living thread has not settled yet: exact if no thread allocates or
    /// frees meanwhile, else as of some moment of the call for each thread. (The peak stays within the error.)
    ///
    /// Takes a lock and looks at every thread's counters, and whether it is there: some 20 ns a thread. Not for handlers of signals.
    pub fn usage_exact(&self) -> Usage {
        reading::usage_exact()
    }

    /// Bytes and events over all time, exact as [`Ledger::usage_exact`] is, and at its cost.
    pub fn totals(&self) -> Totals {
        reading::totals()
    }

    /// This moment, for [`Ledger::peak_since`]. Exact as [`Ledger::usage_exact`] is, and at its cost.
    pub fn mark(&self) -> Mark {
        events::settle_here();
        let current = self.usage_exact().current;
        let _quiet = events::Quiet::begin();
        let balance = i64::try_from(current).unwrap_or(i64::MAX);
        let one_at_a_time = MARKING.lock();
        let mark = SHARED.peaks.mark(balance);
        drop(one_at_a_time);
        mark
    }

    /// The most that was held since a mark, bytes; off by at most [`Usage::error`]. Exact in that sense while at
    /// most 255 marks were made since; later it may count what happened up to 256 marks before, and after
    /// about 65,000 marks it is the peak of all time.
    pub fn peak_since(&self, mark: Mark) -> u64 {
        events::settle_here();
        let current = SHARED.balance.load(Ordering::Relaxed);
        SHARED.peaks.since(mark).max(current).max(0) as u64
    }

    /// What every living thread has allocated and freed, and last, under the id 0, all that have ended, and threads with
    /// fewer than 17 events.
    pub fn for_each_thread(&self, mut f: impl FnMut(ThreadFlow)) {
        reading::for_each_thread(&mut f);
    }

    /// Enters the scope of this name, which is made if no one uses it, until the guard is dropped. Names are cut
    /// to 64 bytes.
    pub fn scope(&self, name: &str) -> Entered {
        self.open_scope(name).enter()
    }

    /// The scope of this name, without entering it.
    pub fn open_scope(&self, name: &str) -> Scope {
        Scope::open(name)
    }

    /// Calls `f` with the name and the counters of every scope that is in use.
    pub fn for_each_scope(&self, mut f: impl FnMut(&str, ScopeUsage)) {
        scope::for_each(&mut f);
    }

    /// How far all threads together may be ahead of the balance, bytes, beside 8 KiB each: the error of
    /// [`Ledger::usage`]. A thread takes a 64th of what others have left of it, at most 1 MiB. 64 MiB unless set.
    /// Each thread takes it up when it next settles. Less is more exact and slower.
    pub fn set_drift_budget(&self, bytes: u64) {
        margin::set_budget(bytes);
    }

    /// Settles the calling thread now, so that [`Ledger::usage`] has its part.
    pub fn settle(&self) {
        events::settle_here();
    }

    /// Refuses requests that would bring the balance past a limit; `None` takes the limit away.
    ///
    /// The decision falls before the allocator behind is called, and the answer is null: in Rust `try_reserve`
    /// fails, other allocations abort the program by `handle_alloc_error`. Never more than `bytes` are held, and for
    /// small requests `bytes + reserve`; a request is refused too early by at most what other threads hold as
    /// unused credit: together a 32nd of the limit and 1 KiB each, and until they next settle the credit that they
    /// had when the limit was set. What is freed is room before the allocator behind has it back.
    pub fn set_hard_limit(&self, limit: Option<HardLimit>) {
        limit::set(limit);
    }

    /// The hard limit in bytes, if there is one.
    pub fn hard_limit(&self) -> Option<u64> {
        limit::of_process().map(|limit| limit.max(0) as u64)
    }

    /// Requests that the hard limit refused.
    pub fn refused(&self) -> u64 {
        limit::refused()
    }
}

static MARKING: homefree_thread::Lock<()> = homefree_thread::Lock::new(());

/// In fork's child: a thread that is not here may have been making a mark. (What it left is whole at every step: the
/// epoch moves last.)
///
/// # Safety
/// No other thread exists, and this one is not making a mark.
pub(crate) unsafe fn open_marks_in_child() {
    // SAFETY: the caller's promise.
    unsafe { MARKING.force_open() };
}
