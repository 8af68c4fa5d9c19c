//! Exact byte accounting around any allocator, for one slot access an event.
//!
//! **For:** libraries and programs that want to know at any moment, in production, how many bytes they really
//! hold: to spill, to refuse work, to bill a query, to find out who leaks. **Not for:** seeing who frees whose
//! memory (`homefree record` does), nor memory that does not come through the allocator (`mmap`; C libraries,
//! unless `homefree run --ledger` counts the whole process).
//!
//! ```
//! use homefree_ledger::Accounted;
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static A: Accounted<System> = Accounted::new(System);
//!
//! fn main() {
//!     let before = A.usage_exact().current;
//!     let block = vec![0u8; 1 << 20];
//!     assert_eq!(A.usage_exact().current - before, 1 << 20);
//!     drop(block);
//!     assert_eq!(A.usage_exact().current, before);
//! }
//! ```
//!
//! Each thread counts in two words of its own, by one add and one branch. When it has used up its credit it
//! settles with the shared balance; when it ends, all of it is settled. A reader that wants to know exactly adds
//! up what every thread has not settled yet. `docs/ledger.md` is the contract: what holds, the bound of each error,
//! and what happens at exit, after teardown, across `fork`, in signal handlers and under `dlclose`.
//!
//! **Your duties:** none. Nothing here allocates, unwinds, prints, or takes a lock on the way of an event that is
//! within its thread's credit.
//!
//! # Where to look
//!
//! | for | see |
//! | --- | --- |
//! | what is held, its peak, who allocates and frees; limits | [`Ledger`]: an [`Accounted`] has all its methods |
//! | numbers of allocations and frees | [`Counts`], as in `Accounted<System, Counts>` |
//! | a query's or a task's share, futures included | [`Ledger::open_scope`], [`Scope`] |
//! | refusing past a limit | [`Ledger::set_hard_limit`]; set it before there are other threads |
//! | being told past a limit, or when the surroundings are short | `Ledger::watch`, `Watch`, module `pressure` |
//! | pages, metrics, logs | `Ledger::prometheus`; `MetricsRecorder` and `LogLine` behind features |
//!
//! In an executable, `Accounted<System, Bytes, InitialExec>` saves three of the twelve instructions that an allocation
//! and its free take. Never in a library that may be opened with `dlopen`: the loader can run out of room for that
//! model.
//!
//! # Features
//!
//! * `std`, on by default: `Watch`, `pressure`, `process_memory`, `check` and Prometheus text. Without it the crate
//!   is `no_std`.
//! * `metrics`: the figures through the `metrics` facade, version 0.24.
//! * `log`: a line through the `log` facade every so often.
#![no_std]

#[cfg(any(feature = "std", test))]
extern crate std;

mod account;
mod accounted;
#[cfg_attr(not(feature = "std"), allow(dead_code))]
mod alarm;
mod events;
mod ledger;
mod life;
mod limit;
mod margin;
mod peaks;
mod pool;
mod reading;
mod registry;
mod scope;
mod shared;
mod state;

#[cfg(feature = "std")]
mod background;
#[cfg(feature = "std")]
mod binary;
#[cfg(feature = "std")]
mod check;
#[cfg(feature = "std")]
mod families;
#[cfg(feature = "metrics")]
mod gauges;
#[cfg(feature = "log")]
mod log_line;
#[cfg(feature = "std")]
pub mod pressure;
#[cfg(feature = "std")]
mod process;
#[cfg(feature = "std")]
mod prometheus;
#[cfg(feature = "std")]
mod snapshot;
#[cfg(feature = "std")]
mod watch;

pub use accounted::{Accounted, Bytes, Counts, Mode};
pub use homefree_thread::counter::{Anywhere, Reach};
pub use homefree_thread::slot::InitialExec;
pub use ledger::Ledger;
pub use limit::HardLimit;
pub use peaks::Mark;
pub use reading::{ThreadFlow, Totals, Usage};
pub use scope::{Entered, InScope, Scope, ScopeUsage};

#[cfg(feature = "std")]
pub use check::Discrepancy;
#[cfg(feature = "metrics")]
pub use gauges::MetricsRecorder;
#[cfg(feature = "log")]
pub use log_line::LogLine;
#[cfg(feature = "std")]
pub use process::{
    ProcessMemory, lazy_free_bytes, lazy_free_bytes_in, process_memory, process_memory_in,
};
#[cfg(feature = "std")]
pub use watch::{Amount, Edge, Pressure, Share, SoftLimit, Source, Watch, Watcher};

/// The ledger of this executable or library: one for all [`Accounted`] in it.
pub fn ledger() -> &'static Ledger {
    &ledger::LEDGER
}

/// For hooks around C functions, which know a block's size only after the call.
pub mod raw {
    use crate::events;
    use homefree_thread::counter::{ALLOCATED, FREED, Reach};

    /// Counts an allocation that has succeeded.
    #[inline(always)]
    pub fn allocated<R: Reach, const COUNT: bool>(bytes: usize) {
        if !R::add::<ALLOCATED, COUNT>(bytes) {
            events::allocated::<COUNT>(bytes);
        }
    }

    /// Counts a free, before it happens.
    #[inline(always)]
    pub fn freed<R: Reach, const COUNT: bool>(bytes: usize) {
        if !R::add::<FREED, COUNT>(bytes) {
            events::freed::<COUNT>(bytes);
        }
    }

    /// Room under the hard limit for a request of `bytes`, before it is made. `None`: refuse it. Give it to
    /// [`done`] after the request was counted or has failed.
    pub fn ask(bytes: usize) -> Option<i64> {
        events::ask(bytes)
    }

    /// See [`ask`].
    pub fn done(room: i64) {
        crate::limit::give_back(room);
    }

    pub use crate::limit::is_set as has_limit;

    /// Has `f` called by every thread that has counted, at its end, with what it allocated and freed. It must
    /// not allocate.
    pub fn when_a_thread_ends(f: fn(crate::ThreadFlow)) {
        crate::registry::when_a_thread_ends(f);
    }

    /// This library stays until the process is gone: the ledger can be read exactly to the very end. Before anything is
    /// counted.
    pub fn never_unloaded() {
        crate::registry::never_unloaded();
    }

    /// The process confines itself: from now on no thread is asked for its id, which then is told as 0.
    pub fn confine() {
        crate::account::confine();
    }

    /// Whether the calling thread has a lock of the ledger's: this is a signal's handler then, and it must not read
    /// exactly.
    pub fn holds_a_lock() -> bool {
        events::slot().state.get() & crate::state::HOLDS != 0
    }
}
