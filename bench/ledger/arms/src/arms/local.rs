//! What everybody writes: a `thread_local!` with a destructor. The thread's drift is settled with the shared balance
//! when it is too large and when the thread ends. The threshold is ours, so that the error is the same.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

static BALANCE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
/// A variable for the sake of the case `always`; it is read only when a thread settles.
static THRESHOLD: AtomicI64 = AtomicI64::new(1 << 20);

struct Local {
    drift: Cell<i64>,
    threshold: Cell<i64>,
}

impl Drop for Local {
    fn drop(&mut self) {
        settle(self.drift.replace(0));
    }
}

thread_local! {
    static LOCAL: Local = const {
        Local { drift: Cell::new(0), threshold: Cell::new(0) }
    };
}

#[cold]
#[inline(never)]
fn settle(drift: i64) {
    let balance = BALANCE.fetch_add(drift, Relaxed) + drift;
    if balance > PEAK.load(Relaxed) {
        PEAK.fetch_max(balance, Relaxed);
    }
}

#[inline(always)]
fn track(change: i64) {
    let tracked = LOCAL.try_with(|local| {
        let drift = local.drift.get() + change;
        if drift.abs() < local.threshold.get() {
            local.drift.set(drift);
        } else {
            local.drift.set(0);
            local.threshold.set(THRESHOLD.load(Relaxed));
            settle(drift);
        }
    });
    if tracked.is_err() {
        settle(change);
    }
}

struct Counting;

#[global_allocator]
static A: Counting = Counting;

// SAFETY: every request is passed on to `System` as it is.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let p = unsafe { System.alloc(layout) };
        if !p.is_null() {
            track(layout.size() as i64);
        }
        p
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        track(-(layout.size() as i64));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) };
    }
}

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "local";

    fn held() -> Option<i64> {
        let drift = LOCAL.try_with(|local| local.drift.get()).unwrap_or(0);
        Some(BALANCE.load(Relaxed) + drift)
    }

    fn settle_always() -> bool {
        THRESHOLD.store(1, Relaxed);
        // A thread takes the threshold up when it settles; this one may not for long.
        LOCAL.with(|local| local.threshold.set(1));
        true
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[("balance", || BALANCE.load(Relaxed))]
    }
}
