//! States of a thread, in its counting slot.

use core::sync::atomic::Ordering;
use homefree_thread::counter::CounterSlot;

/// Never seen.
pub(crate) const NEW: u64 = 0;
/// Its account is being opened, or its first attempt failed in passing: counts directly meanwhile.
pub(crate) const REGISTERING: u64 = 1;
/// It has an account.
pub(crate) const LIVE: u64 = 2;
/// It has ended, or can have no account: every event is counted directly.
pub(crate) const DIRECT: u64 = 3;
/// Added to the others while the thread holds the registry's lock.
pub(crate) const HOLDS: u64 = 8;

/// Changes a thread's state from one to another in one step, which a signal's handler comes before or after. False if it
/// was not the first.
pub(crate) fn change(slot: &CounterSlot, from: u64, to: u64) -> bool {
    CounterSlot::count(&slot.state)
        .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}
