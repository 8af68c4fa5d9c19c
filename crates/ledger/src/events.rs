//! What happens when a slot asks: its credit is used up, or the thread has none.

use crate::account::{Account, Settling};
use crate::shared::{SHARED, Sums};
use crate::{limit, registry, state};
use core::cell::Cell;
use core::sync::atomic::Ordering;
use homefree_thread::counter::{self, CounterSlot};
use homefree_thread::sys;

/// The calling thread's slot.
pub(crate) fn slot() -> &'static CounterSlot {
    // SAFETY: never null, and alive while the calling thread runs; the reference does not leave it.
    unsafe { &*counter::slot() }
}

/// The calling thread's account, opened if it has none yet. `None` where it has to count directly.
fn account(slot: &CounterSlot) -> Option<&'static Account> {
    if slot.state.get() == state::NEW {
        registry::register(slot);
    }
    known_account(slot)
}

/// The calling thread's account, if it has one.
fn known_account(slot: &CounterSlot) -> Option<&'static Account> {
    if slot.state.get() != state::LIVE {
        return None;
    }
    // SAFETY: null, or an account, which is never unmapped.
    unsafe { slot.account.get().cast::<Account>().as_ref() }
}

/// The calling thread's account, for a change of it.
pub(crate) fn settling() -> Option<(&'static Account, Settling<'static>)> {
    let account = account(slot())?;
    Some((account, account.begin()?))
}

/// As [`settling`], but while another thread forks, or sets the ledger up, it waits for that. `None` where the thread
/// can have no account, or this is a signal handler's call that came while it settled.
pub(crate) fn settling_in_time() -> Option<(&'static Account, Settling<'static>)> {
    let slot = slot();
    for _ in 0..100_000 {
        match account(slot) {
            Some(account) => match account.begin() {
                Some(settling) => return Some((account, settling)),
                None if account.is_busy() => return None,
                None => {}
            },
            None if slot.state.get() != state::NEW => return None,
            None => {}
        }
        sys::yield_now();
    }
    None
}

/// Settles the calling thread now.
pub(crate) fn settle_here() {
    if let Some((account, settling)) = settling() {
        account.settle(&settling);
    }
}

/// While it lives, the thread's events are counted directly, and it opens no account: for a thread that holds
/// a lock of ours, so that a signal's handler does not wait for it.
pub(crate) struct Quiet {
    slot: &'static CounterSlot,
    old: u64,
}

impl Quiet {
    pub(crate) fn begin() -> Self {
        let slot = slot();
        let old = slot.state.replace(slot.state.get() | state::HOLDS);
        Self { slot, old }
    }

    /// The calling thread's slot.
    pub(crate) fn slot(&self) -> &'static CounterSlot {
        self.slot
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.slot.state.set(self.old);
    }
}

/// Counts what the slot did not.
pub(crate) fn count(sums: &Sums) {
    match settling() {
        Some((account, settling)) => account.rebase(&settling, sums),
        None => SHARED.direct(sums),
    }
}

/// An allocation of `bytes` that has succeeded and was not counted.
#[cold]
#[inline(never)]
pub fn allocated<const COUNT: bool>(bytes: usize) {
    if !counter::add_slowly::<{ counter::ALLOCATED }, COUNT>(bytes) {
        count_event(&Sums {
            allocated: bytes as u64,
            allocations: u64::from(COUNT),
            ..Sums::default()
        });
    }
}

/// A free of `bytes` that was not counted.
#[cold]
#[inline(never)]
pub fn freed<const COUNT: bool>(bytes: usize) {
    if !counter::add_slowly::<{ counter::FREED }, COUNT>(bytes) {
        count_event(&Sums {
            freed: bytes as u64,
            frees: u64::from(COUNT),
            ..Sums::default()
        });
    }
}

fn count_event(sums: &Sums) {
    if is_among_the_first(sums) {
        SHARED.direct(sums);
    } else {
        count(sums);
    }
}

/// Events that a thread counts directly before it opens an account. Who does no more needs none; and what the C
/// library frees at the very end of a thread, when nobody would be told of its end any more, opens none.
const FIRST_EVENTS: usize = 16;
/// In the place of their number: the thread's end will be told.
const ANNOUNCED: usize = 1 << 8;

/// Whether this is one of the thread's first events. Until there is an account, its place in the slot has their
/// number, and the places for numbers of events have their bytes.
fn is_among_the_first(sums: &Sums) -> bool {
    let slot = slot();
    // What a signal's handler does meanwhile is counted directly, and leaves these places alone.
    if !state::change(slot, state::NEW, state::REGISTERING) {
        return false;
    }
    let mut so_far = slot.account.get() as usize;
    let first = so_far % ANNOUNCED < FIRST_EVENTS;
    if first {
        if so_far & ANNOUNCED == 0 && registry::announce() {
            so_far |= ANNOUNCED;
        }
        slot.account.set((so_far + 1) as *mut ());
        let add = |place: &Cell<u64>, bytes: u64| place.set(place.get().wrapping_add(bytes));
        add(&slot.allocations, sums.allocated);
        add(&slot.frees, sums.freed);
    }
    slot.state.set(state::NEW);
    first
}

/// Whether a thread without an account was promised to be told of its end.
pub(crate) fn was_announced(slot: &CounterSlot) -> bool {
    slot.account.get() as usize & ANNOUNCED != 0
}

/// What a thread without an account has counted directly, in bytes; its places in the slot are free then.
pub(crate) fn take_first(slot: &CounterSlot) -> Sums {
    slot.account.set(core::ptr::null_mut());
    Sums {
        allocated: slot.allocations.take(),
        freed: slot.frees.take(),
        ..Sums::default()
    }
}

/// Room for an allocation that the slot has no credit for: `None` if a limit forbids it. Give it back with
/// [`limit::give_back`] after the allocation was counted or has failed.
pub(crate) fn ask(bytes: usize) -> Option<i64> {
    if !limit::is_set() {
        return Some(0);
    }
    let slot = slot();
    // Settle first: the thread's own frees may be the room it needs, and what is left of its credit goes back.
    let may_lock = match known_account(slot).map(|account| (account, account.begin())) {
        Some((account, Some(settling))) => {
            account.surrender(&settling);
            true
        }
        Some((_, None)) => false,
        None => matches!(slot.state.get(), state::NEW | state::DIRECT),
    };
    limit::ask(bytes, may_lock)
}

/// An allocation that was counted by the slot has failed after all.
#[cold]
#[inline(never)]
pub(crate) fn failed<const COUNT: bool>(bytes: usize) {
    let slot = slot();
    CounterSlot::word(&slot.allocated).fetch_sub(bytes as i64, Ordering::Relaxed);
    if COUNT {
        CounterSlot::count(&slot.allocations).fetch_sub(1, Ordering::Relaxed);
    }
}
