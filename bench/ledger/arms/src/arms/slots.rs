//! Rejected: every thread adds to a slot of its own, and whoever reads adds up all slots. No settling, but each event
//! loads the slot's address, and slots of threads that have ended are kept for what they have counted.

use ledger_arms::{Count, Counted, distance, get, set};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering::*};

/// A thread's counters.
#[repr(C, align(64))]
struct Slot {
    allocated: AtomicI64,
    freed: AtomicI64,
    next: *mut Slot,
}

/// The thread-local word with the slot's address; 0 in a thread never seen.
const SLOT: usize = 0;

static FIRST: AtomicPtr<Slot> = AtomicPtr::new(null_mut());

#[global_allocator]
static A: Counted<Slots> = Counted::new();

struct Slots;

#[inline(always)]
fn slot() -> &'static Slot {
    let place = get::<SLOT>(distance()) as *const Slot;
    if place.is_null() {
        return fresh();
    }
    // SAFETY: slots are kept for ever.
    unsafe { &*place }
}

#[cold]
#[inline(never)]
fn fresh() -> &'static Slot {
    // SAFETY: not of size 0. Slots come from `System`, past the counting.
    let place = unsafe { System.alloc_zeroed(Layout::new::<Slot>()) }.cast::<Slot>();
    if place.is_null() {
        std::process::abort();
    }
    let mut first = FIRST.load(Relaxed);
    loop {
        // SAFETY: ours alone until it is in the list.
        unsafe { (*place).next = first };
        match FIRST.compare_exchange_weak(first, place, Release, Relaxed) {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    set::<SLOT>(distance(), place as i64);
    // SAFETY: kept for ever, zeroed.
    unsafe { &*place }
}

/// Adds without a read-modify-write of more than this thread's: one instruction, not atomic between processors.
#[inline(always)]
fn add(counter: &AtomicI64, bytes: i64) {
    // SAFETY: the calling thread's own counter.
    unsafe {
        core::arch::asm!(
            "add qword ptr [{counter}], {bytes}",
            counter = in(reg) counter.as_ptr(),
            bytes = in(reg) bytes,
            options(nostack),
        );
    }
}

impl Count for Slots {
    #[inline(always)]
    fn allocated(bytes: usize) {
        add(&slot().allocated, bytes as i64);
    }

    #[inline(always)]
    fn freed(bytes: usize) {
        add(&slot().freed, bytes as i64);
    }
}

fn sum() -> i64 {
    let (mut sum, mut next) = (0, FIRST.load(Acquire).cast_const());
    while !next.is_null() {
        // SAFETY: slots are kept for ever.
        let slot = unsafe { &*next };
        sum += slot.allocated.load(Relaxed) - slot.freed.load(Relaxed);
        next = slot.next;
    }
    sum
}

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "slots";

    fn held() -> Option<i64> {
        Some(sum())
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[("sum", sum)]
    }
}
