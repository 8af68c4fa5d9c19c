//! The soft limit's trigger: a settlement that brings the balance past it wakes the watcher, which does the
//! rest outside of the allocator.

use core::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use homefree_thread::sys;

/// Wake when the balance is above this; no alarm while it is the largest number.
static HIGH: AtomicI64 = AtomicI64::new(i64::MAX);
/// Wake when the balance is below this; none while it is the smallest.
static LOW: AtomicI64 = AtomicI64::new(i64::MIN);
/// Changes when the watcher is to look. It waits on this word.
static BELL: AtomicU32 = AtomicU32::new(0);

/// After an addition to the balance.
#[inline]
pub(crate) fn check(balance: i64) {
    if balance > HIGH.load(Ordering::Relaxed) {
        ring(&HIGH, i64::MAX);
    }
}

/// After a subtraction.
#[inline]
pub(crate) fn check_low(balance: i64) {
    if balance < LOW.load(Ordering::Relaxed) {
        ring(&LOW, i64::MIN);
    }
}

/// Wakes the watcher once; it sets the trigger again.
#[cold]
fn ring(trigger: &AtomicI64, off: i64) {
    if trigger.swap(off, Ordering::AcqRel) != off {
        BELL.fetch_add(1, Ordering::Release);
        sys::wake(&BELL);
    }
}

/// Sets the triggers. `None`: not this one.
pub fn set(high: Option<u64>, low: Option<u64>) {
    let clamp = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
    HIGH.store(high.map_or(i64::MAX, clamp), Ordering::Release);
    LOW.store(low.map_or(i64::MIN, clamp), Ordering::Release);
}

/// The bell's count, for [`wait`].
pub fn count() -> u32 {
    BELL.load(Ordering::Acquire)
}

/// Waits until the bell's count is not `seen` any more, or `nanoseconds` have passed.
pub fn wait(seen: u32, nanoseconds: i64) {
    sys::wait(&BELL, seen, nanoseconds);
}

/// Rings in any case: for the watcher's end.
pub fn ring_now() {
    BELL.fetch_add(1, Ordering::Release);
    sys::wake(&BELL);
}
