//! A thread's account: what its slot counted, taken over from time to time.

use crate::life::Life;
use crate::pool::Pooled;
use crate::scope::ScopeNode;
use crate::shared::{SHARED, Sums};
use crate::{limit, margin};
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use homefree_thread::counter::{self, CounterSlot};
use homefree_thread::sys;

/// Scopes that a thread can have entered at once.
pub(crate) const SCOPES: usize = 16;

/// What the ledger knows of a living thread. Written by its thread; read by others under the registry's lock,
/// with `turn` telling whether it was being written.
#[repr(C, align(128))]
pub(crate) struct Account {
    /// The thread's counters. Set and cleared under the registry's lock.
    slot: Cell<*const CounterSlot>,
    /// The next and the previous of the registry's list, or the next free one.
    pub(crate) next: Cell<*mut Account>,
    pub(crate) previous: Cell<*mut Account>,
    /// Grows from account to account, used again or not.
    pub(crate) serial: Cell<u64>,
    /// The kernel's id.
    pub(crate) tid: AtomicU32,
    /// Its thread is there.
    life: Life,
    /// [`PRESENT`], [`LEAVING`] or [`GONE`].
    gone: AtomicU32,
    /// How many look at the slot.
    read: AtomicU32,
    /// What the slot held when the thread left: its words and its events.
    left: ([AtomicI64; 2], [AtomicU64; 2]),
    /// Odd while the sums and the credits change.
    turn: AtomicU32,
    /// Not zero while the thread settles.
    busy: AtomicU32,
    /// Taken over from the slot.
    allocated: AtomicU64,
    freed: AtomicU64,
    /// Credits last given: with the slot's words, what has been counted since.
    credit: AtomicI64,
    free_credit: AtomicI64,
    /// Taken over, but not in the balance yet.
    pending: AtomicI64,
    /// How much of `limit`'s room the credit has.
    granted: AtomicI64,
    /// The margin in force.
    margin: AtomicI64,
    /// Scopes that the thread is in, the innermost last. For its thread only.
    scopes: [AtomicPtr<ScopeNode>; SCOPES],
    depth: AtomicU32,
}

// SAFETY: all zero bytes are valid for cells of pointers and atomics.
unsafe impl Pooled for Account {
    fn link(&self) -> &Cell<*mut Self> {
        &self.next
    }
}

/// The slot may be looked at, by readers of a living thread's account.
const PRESENT: u32 = 0;
/// It may not be any more; the thread is still busy with the account.
const LEAVING: u32 = 1;
/// The thread has left, or is gone: the account is to be closed.
const GONE: u32 = 2;

/// There are accounts to be closed: see [`Account::is_gone`].
pub(crate) static ANY_GONE: AtomicBool = AtomicBool::new(false);

/// Threads are not to be asked for their ids any more.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// See [`crate::raw::confine`].
pub(crate) fn confine() {
    CONFINED.store(true, Ordering::Relaxed);
}

fn thread_id() -> u32 {
    if CONFINED.load(Ordering::Relaxed) {
        return 0;
    }
    sys::thread_id()
}

/// Marks the account as being settled until dropped.
pub(crate) struct Settling<'a>(&'a Account);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.busy.store(0, Ordering::Release);
    }
}

impl Account {
    /// Makes a fresh one of whatever it was before. Under the registry's lock, before it is in the list.
    pub(crate) fn open(&self, slot: &CounterSlot, serial: u64) {
        self.slot.set(slot);
        self.serial.set(serial);
        self.life.begin();
        self.gone.store(PRESENT, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
        // It may have been closed for a thread that never came to the end of a settlement.
        self.busy.store(0, Ordering::Relaxed);
        self.turn.store(
            self.turn.load(Ordering::Relaxed).wrapping_add(1) & !1,
            Ordering::Relaxed,
        );
        self.tid.store(thread_id(), Ordering::Relaxed);
        for place in [&self.allocated, &self.freed] {
            place.store(0, Ordering::Relaxed);
        }
        for place in [
            &self.credit,
            &self.free_credit,
            &self.pending,
            &self.granted,
            &self.margin,
        ] {
            place.store(0, Ordering::Relaxed);
        }
        self.depth.store(0, Ordering::Relaxed);
    }

    /// Takes over what the thread counted before, and has settled. Before the account is in the list.
    pub(crate) fn begin_with(&self, before: &Sums) {
        self.allocated.store(before.allocated, Ordering::Relaxed);
        self.freed.store(before.freed, Ordering::Relaxed);
    }

    /// The thread's counters.
    ///
    /// # Safety
    /// By the thread itself, or under the registry's lock while the account is in the list.
    pub(crate) unsafe fn slot(&self) -> &CounterSlot {
        // SAFETY: set by `open`; the thread clears it from the list before its storage goes.
        unsafe { &*self.slot.get() }
    }

    /// Begins to settle. `None` where this thread is at it already (this is a signal handler's call), and
    /// while another thread forks, whose child must not find it half done.
    pub(crate) fn begin(&self) -> Option<Settling<'_>> {
        if self.busy.swap(1, Ordering::SeqCst) != 0 {
            return None;
        }
        let settling = Settling(self);
        (!crate::registry::another_forks(self.slot.get())).then_some(settling)
    }

    /// Whether its thread is settling. Once a fork is announced, one that is not will not begin.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) != 0
    }

    /// Takes over what the slot counted and `more`, which it did not, and gives it new credit. A small drift stays
    /// pending. By its thread.
    pub(crate) fn rebase(&self, settling: &Settling<'_>, more: &Sums) {
        self.take_over(settling, more, true, true);
    }

    /// As [`Account::rebase`], and leaves nothing pending.
    pub(crate) fn settle(&self, settling: &Settling<'_>) {
        self.take_over(settling, &Sums::default(), false, true);
    }

    /// As [`Account::settle`], and under a limit leaves no credit either: what is left of it is room for the
    /// request that the thread is about to make.
    pub(crate) fn surrender(&self, settling: &Settling<'_>) {
        self.take_over(settling, &Sums::default(), false, false);
    }

    fn take_over(&self, _: &Settling<'_>, more: &Sums, may_keep: bool, may_grant: bool) {
        // SAFETY: by the thread itself.
        let slot = unsafe { self.slot() };
        self.turn
            .store(self.turn.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        // With no credit a handler of a signal that comes now finds nothing to add to, and asks.
        let old = |place: &Cell<i64>, credit: &AtomicI64| {
            (counter::take(place) + credit.load(Ordering::Relaxed)) as u64
        };
        let allocated = old(&slot.allocated, &self.credit).wrapping_add(more.allocated);
        let freed = old(&slot.freed, &self.free_credit).wrapping_add(more.freed);
        for (cell, more) in [
            (&slot.allocations, more.allocations),
            (&slot.frees, more.frees),
        ] {
            if more != 0 {
                CounterSlot::count(cell).fetch_add(more, Ordering::Relaxed);
            }
        }
        let add = |place: &AtomicU64, more: u64| {
            place.store(
                place.load(Ordering::Relaxed).wrapping_add(more),
                Ordering::Relaxed,
            );
        };
        add(&self.allocated, allocated);
        add(&self.freed, freed);
        self.attribute(allocated, freed);

        let in_scope = self.depth.load(Ordering::Relaxed) != 0;
        let margin = margin::of_a_thread(self.margin.load(Ordering::Relaxed), in_scope);
        let pending = self.pending.load(Ordering::Relaxed) + (allocated.wrapping_sub(freed)) as i64;
        // Under a limit the room is counted from the balance, which therefore is kept up to date.
        let keep = may_keep && !limit::is_set() && pending.abs() < margin / 2;
        if !keep && pending != 0 {
            SHARED.settle(pending);
        }
        let pending = if keep { pending } else { 0 };
        let granted = limit::exchange(
            self.granted.swap(0, Ordering::AcqRel),
            if may_grant { margin - pending } else { 0 },
            SHARED.balance.load(Ordering::Relaxed),
        );
        // Inside a scope not more than the margin either way, so that its peak is seen.
        let most = if in_scope { margin } else { i64::MAX };
        let credit = granted.unwrap_or(margin - pending).min(most);
        let free_credit = (margin + pending).min(most);
        self.pending.store(pending, Ordering::Relaxed);
        self.granted
            .fetch_add(granted.unwrap_or(0), Ordering::Release);
        self.set_margin(margin);
        self.credit.store(credit, Ordering::Relaxed);
        self.free_credit.store(free_credit, Ordering::Relaxed);
        CounterSlot::word(&slot.allocated).store(-credit, Ordering::Relaxed);
        CounterSlot::word(&slot.freed).store(-free_credit, Ordering::Relaxed);
        // Odd to even: the next turn.
        self.turn.store(
            self.turn.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Release,
        );
    }

    fn set_margin(&self, margin: i64) {
        let old = self.margin.load(Ordering::Relaxed);
        if old != margin {
            self.margin.store(margin, Ordering::Relaxed);
            SHARED.margins.fetch_add(margin - old, Ordering::Relaxed);
        }
    }

    /// Adds to the scopes that the thread is in, to each once.
    fn attribute(&self, allocated: u64, freed: u64) {
        let depth = self.depth.load(Ordering::Relaxed) as usize;
        for (index, place) in self.scopes.iter().take(depth).enumerate() {
            let node = place.load(Ordering::Relaxed);
            let again = self.scopes[..index]
                .iter()
                .any(|other| other.load(Ordering::Relaxed) == node);
            if !again && !node.is_null() {
                // SAFETY: whoever has entered a scope keeps it.
                unsafe { &*node }.add(allocated, freed);
            }
        }
    }

    /// Enters a scope. False if the thread is in [`SCOPES`] already. While settling.
    pub(crate) fn enter(&self, settling: &Settling<'_>, node: *mut ScopeNode) -> bool {
        self.rebase(settling, &Sums::default());
        let depth = self.depth.load(Ordering::Relaxed);
        let Some(place) = self.scopes.get(depth as usize) else {
            return false;
        };
        place.store(node, Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
        // The smaller margin of a thread in a scope holds from now on.
        self.rebase(settling, &Sums::default());
        true
    }

    /// Leaves a scope, the innermost of them if it was entered more than once. While settling.
    pub(crate) fn leave(&self, settling: &Settling<'_>, node: *mut ScopeNode) {
        self.rebase(settling, &Sums::default());
        let depth = self.depth.load(Ordering::Relaxed) as usize;
        let scopes = &self.scopes[..depth.min(SCOPES)];
        let Some(at) = scopes
            .iter()
            .rposition(|place| place.load(Ordering::Relaxed) == node)
        else {
            return;
        };
        for index in at..scopes.len() - 1 {
            let inner = scopes[index + 1].load(Ordering::Relaxed);
            scopes[index].store(inner, Ordering::Relaxed);
        }
        self.depth.store(scopes.len() as u32 - 1, Ordering::Relaxed);
    }

    /// What the thread has counted so far, and how much credit it has left. Under the registry's lock.
    pub(crate) fn read(&self) -> Reading {
        if self.gone.load(Ordering::Acquire) == PRESENT && self.life.is_over() {
            // What it had not settled has gone with it.
            let credits = [&self.credit, &self.free_credit];
            for (left, credit) in self.left.0.iter().zip(credits) {
                let nothing = credit.load(Ordering::Relaxed).wrapping_neg();
                left.store(nothing, Ordering::Relaxed);
            }
            self.gone.store(GONE, Ordering::SeqCst);
            ANY_GONE.store(true, Ordering::Release);
        }
        // Who leaves waits until nobody looks.
        self.read.fetch_add(1, Ordering::SeqCst);
        let reading = if self.gone.load(Ordering::SeqCst) != PRESENT {
            let [allocated, freed] = &self.left.0;
            let words = (
                allocated.load(Ordering::Relaxed),
                freed.load(Ordering::Relaxed),
            );
            let events = self.left.1.each_ref();
            self.reading_of(words, events.map(|n| n.load(Ordering::Relaxed)))
        } else {
            self.read_slot()
        };
        self.read.fetch_sub(1, Ordering::Release);
        reading
    }

    /// Whether its thread has left, or was found gone: it is to be closed.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst) == GONE
    }

    /// Whether it is the account of a slot's thread.
    pub(crate) fn is_of(&self, slot: &CounterSlot) -> bool {
        core::ptr::eq(self.slot.get(), slot)
    }

    /// In fork's child: its thread goes on there.
    pub(crate) fn go_on_in_child(&self) {
        self.tid.store(thread_id(), Ordering::Relaxed);
        self.life.begin();
    }

    /// Its thread ends, and the registry's lock can not be waited for: what the slot holds is kept here, for whoever
    /// has the lock to close it. By its thread.
    pub(crate) fn depart(&self) {
        // SAFETY: by the thread itself.
        let slot = unsafe { self.slot() };
        for (left, cell) in self.left.0.iter().zip([&slot.allocated, &slot.freed]) {
            left.store(
                CounterSlot::word(cell).load(Ordering::Relaxed),
                Ordering::Relaxed,
            );
        }
        for (left, cell) in self.left.1.iter().zip([&slot.allocations, &slot.frees]) {
            left.store(
                CounterSlot::count(cell).load(Ordering::Relaxed),
                Ordering::Relaxed,
            );
        }
        self.gone.store(LEAVING, Ordering::SeqCst);
        while self.read.load(Ordering::SeqCst) != 0 {
            core::hint::spin_loop();
        }
        for cell in [&slot.allocated, &slot.freed] {
            CounterSlot::word(cell).store(0, Ordering::Relaxed);
        }
        slot.account.set(null_mut());
        self.life.end();
        // The last: from now on it may be another thread's.
        self.gone.store(GONE, Ordering::SeqCst);
        ANY_GONE.store(true, Ordering::Release);
    }

    fn read_slot(&self) -> Reading {
        // SAFETY: under the registry's lock, and its thread is there.
        let slot = unsafe { self.slot() };
        for attempt in 0u32.. {
            let turn = self.turn.load(Ordering::Acquire);
            if turn & 1 == 0 {
                let (reading, at_rest) = self.read_once(slot);
                fence(Ordering::Acquire);
                if at_rest && self.turn.load(Ordering::Relaxed) == turn {
                    return reading;
                }
            }
            match attempt {
                0..64 => core::hint::spin_loop(),
                64..1000 => sys::yield_now(),
                1000..3000 => sys::sleep(50_000),
                // A thread that was stopped while it settled, for ever as it seems.
                _ => return self.read_once(slot).0,
            }
        }
        self.read_once(slot).0
    }

    /// A reading, and whether the thread was at rest: a word that is not negative though there is credit has a request
    /// in it that is about to be taken back, and may be any size.
    fn read_once(&self, slot: &CounterSlot) -> (Reading, bool) {
        let words = (
            CounterSlot::word(&slot.allocated).load(Ordering::Relaxed),
            CounterSlot::word(&slot.freed).load(Ordering::Relaxed),
        );
        let rests = |word: i64, credit: &AtomicI64| {
            word < 0 || (word == 0 && credit.load(Ordering::Relaxed) <= 0)
        };
        let at_rest = rests(words.0, &self.credit) && rests(words.1, &self.free_credit);
        let events = [&slot.allocations, &slot.frees];
        let events = events.map(|cell| CounterSlot::count(cell).load(Ordering::Relaxed));
        (self.reading_of(words, events), at_rest)
    }

    fn reading_of(
        &self,
        (allocated, freed): (i64, i64),
        [allocations, frees]: [u64; 2],
    ) -> Reading {
        let left = allocated.wrapping_neg().max(0);
        let used = allocated.wrapping_add(self.credit.load(Ordering::Relaxed));
        let freed = freed.wrapping_add(self.free_credit.load(Ordering::Relaxed));
        Reading {
            sums: Sums {
                allocated: self
                    .allocated
                    .load(Ordering::Relaxed)
                    .wrapping_add(used as u64),
                freed: self
                    .freed
                    .load(Ordering::Relaxed)
                    .wrapping_add(freed as u64),
                allocations,
                frees,
            },
            left,
            unspent: self.granted.load(Ordering::Relaxed).min(left),
            granted: self.granted.load(Ordering::Relaxed),
        }
    }

    /// A limit is set: takes room for what the thread may already have allocated beyond the balance, and for what
    /// it may still allocate without asking, less what it was granted already; it gives it back when it next settles.
    /// Returns that room. Under the registry's lock.
    pub(crate) fn take_room(&self) -> i64 {
        let reading = self.read();
        let ahead = reading.sums.net() - self.settled();
        let room = (ahead.max(0) + reading.left - reading.granted).max(0);
        self.granted.fetch_add(room, Ordering::AcqRel);
        room
    }

    /// Closes the account: returns what the thread has counted, and settles what was pending. Under the
    /// registry's lock, by its thread, or by fork's child for a thread that it does not have.
    pub(crate) fn close(&self, own: bool) -> Sums {
        let reading = if own {
            // SAFETY: by the thread itself.
            let slot = unsafe { self.slot() };
            // What a signal's handler does from now on finds no credit, and is counted directly.
            let words = (counter::take(&slot.allocated), counter::take(&slot.freed));
            let events = [&slot.allocations, &slot.frees];
            let events = events.map(|cell| CounterSlot::count(cell).swap(0, Ordering::Relaxed));
            self.life.end();
            self.reading_of(words, events)
        } else {
            self.read()
        };
        let unsettled = reading.sums.net().wrapping_sub(self.settled());
        self.attribute(
            reading
                .sums
                .allocated
                .wrapping_sub(self.allocated.load(Ordering::Relaxed)),
            reading
                .sums
                .freed
                .wrapping_sub(self.freed.load(Ordering::Relaxed)),
        );
        SHARED.settle(unsettled);
        limit::give_back(self.granted.swap(0, Ordering::Relaxed));
        self.set_margin(0);
        self.slot.set(core::ptr::null());
        for place in &self.scopes {
            place.store(null_mut(), Ordering::Relaxed);
        }
        reading.sums
    }

    /// What was taken over from the slot.
    pub(crate) fn taken_over(&self) -> Sums {
        Sums {
            allocated: self.allocated.load(Ordering::Relaxed),
            freed: self.freed.load(Ordering::Relaxed),
            ..Sums::default()
        }
    }

    /// What of the account is in the balance.
    pub(crate) fn settled(&self) -> i64 {
        let taken = self
            .allocated
            .load(Ordering::Relaxed)
            .wrapping_sub(self.freed.load(Ordering::Relaxed)) as i64;
        taken - self.pending.load(Ordering::Relaxed)
    }
}

/// What [`Account::read`] found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) sums: Sums,
    /// Bytes that the thread may still allocate without asking.
    pub(crate) left: i64,
    /// That part of them which was granted under a limit.
    pub(crate) unspent: i64,
    /// Credit under a limit that it was given.
    pub(crate) granted: i64,
}
