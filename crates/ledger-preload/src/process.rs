//! Figures of this process alone: what it did before its fork is its parent's.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use homefree_ledger::{Mark, Totals, ledger};

#[derive(Clone, Copy)]
struct Before {
    totals: Totals,
    inherited: u64,
    mark: Option<Mark>,
}

struct Once(UnsafeCell<Before>);
// SAFETY: written in fork's child, by the only thread there is.
unsafe impl Sync for Once {}

static BEFORE: Once = Once(UnsafeCell::new(Before {
    totals: Totals {
        allocated: 0,
        freed: 0,
        allocations: 0,
        frees: 0,
    },
    inherited: 0,
    mark: None,
}));
static FORKED: AtomicBool = AtomicBool::new(false);

fn before() -> Before {
    // SAFETY: written before there was any other thread.
    unsafe { *BEFORE.0.get() }
}

/// In fork's child, by the only thread there is: from here on it counts.
pub(crate) fn begin_anew() {
    let usage = ledger().usage_exact();
    let before = Before {
        totals: ledger().totals(),
        inherited: usage.current,
        mark: Some(ledger().mark()),
    };
    // SAFETY: by the only thread there is.
    unsafe { *BEFORE.0.get() = before };
    FORKED.store(true, Ordering::Release);
}

/// What the process held when it was forked, if it was.
pub(crate) fn inherited() -> Option<u64> {
    FORKED.load(Ordering::Acquire).then(|| before().inherited)
}

/// Whether it has allocated or freed anything since. Exact, as [`totals`] is.
pub(crate) fn has_done_anything() -> bool {
    let totals = totals();
    totals.allocated != 0 || totals.freed != 0
}

/// All it did. Takes the ledger's lock.
pub(crate) fn totals() -> Totals {
    let (all, before) = (ledger().totals(), before().totals);
    Totals {
        allocated: all.allocated.wrapping_sub(before.allocated),
        freed: all.freed.wrapping_sub(before.freed),
        allocations: all.allocations.wrapping_sub(before.allocations),
        frees: all.frees.wrapping_sub(before.frees),
    }
}

/// The most it held; `all` is the peak that the ledger tells.
pub(crate) fn peak(all: u64) -> u64 {
    match before().mark {
        Some(mark) => ledger().peak_since(mark),
        None => all,
    }
}
