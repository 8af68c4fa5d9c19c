//! The counting slot: what the ledger adds to at every allocation and free, and the ways to reach it.
//!
//! Two words hold *credit, negated*: a thread that may allocate another 100 bytes before it has to settle
//! has −100 in its first word. An allocation adds its size; a result that is not negative means "ask".
//! One add and one branch on its sign, and a thread that was never seen, or has ended, has 0 there and so
//! asks at every call: no state is tested on the way.
//!
//! The add is one instruction, so a signal handler that allocates comes before or after it.
//!
//! * [`Anywhere`]: for any artifact. The block's distance from the thread pointer is read from a variable
//!   that the first call fills in; where the loader gave the block no constant distance (a library that is
//!   `dlopen`ed when the surplus of static TLS is used up) it stays 0 and [`add_slowly`] does the work
//!   through the TLS descriptor. `dlopen` never fails for it.
//! * [`InitialExec`]: for executables, in which the linker turns the look-up into a constant, and for what
//!   is loaded at start-up.
//!
//! Elsewhere than on x86-64 Linux both are a `thread_local!` without destructor.

use crate::slot::InitialExec;
use core::cell::Cell;
use core::sync::atomic::{AtomicI64, AtomicU64};

/// A thread's counters. All zero until the thread is first seen and after it has ended.
#[repr(C, align(16))]
pub struct CounterSlot {
    /// Bytes that may be allocated before asking, negated.
    pub allocated: Cell<i64>,
    /// Bytes that may be freed before asking, negated.
    pub freed: Cell<i64>,
    /// Allocations, where they are counted.
    pub allocations: Cell<u64>,
    /// Frees, where they are counted.
    pub frees: Cell<u64>,
    /// What the ledger knows of the thread; null before and after.
    pub account: Cell<*mut ()>,
    /// The ledger's own state of the thread.
    pub state: Cell<u64>,
}

impl CounterSlot {
    /// A word of bytes, as others read it, and as its thread changes it off the short way.
    pub fn word(cell: &Cell<i64>) -> &AtomicI64 {
        // SAFETY: same size and alignment. The thread's own adds are single instructions on it.
        unsafe { AtomicI64::from_ptr(cell.as_ptr()) }
    }

    /// A word of events, or the state, in the same way.
    pub fn count(cell: &Cell<u64>) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(cell.as_ptr()) }
    }
}

/// The word that an allocation adds to.
pub const ALLOCATED: usize = core::mem::offset_of!(CounterSlot, allocated);
/// The word that a free adds to.
pub const FREED: usize = core::mem::offset_of!(CounterSlot, freed);
/// From a word of bytes to the word of events.
const EVENTS: usize = core::mem::offset_of!(CounterSlot, allocations);
const _: () = assert!(core::mem::offset_of!(CounterSlot, frees) == FREED + EVENTS);

/// How to reach the counting slot; chosen by the artifact as a type.
pub trait Reach: 'static {
    /// Adds `bytes` to the word at `WORD` ([`ALLOCATED`] or [`FREED`]), and 1 to its events if `COUNT`.
    /// False if nothing was added, events included: ask, by way of [`slot`].
    ///
    /// Budget: an executable 3 instructions (the constant, the add, the branch), [`Anywhere`] 5.
    fn add<const WORD: usize, const COUNT: bool>(bytes: usize) -> bool;
}

/// Reaches the slot from any artifact, also from a library that is `dlopen`ed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anywhere;

/// The calling thread's slot, by whatever way there is. Valid until the thread is gone; never null.
///
/// Also notes the block's constant distance, if it has one, for [`Anywhere`].
#[cold]
#[inline(never)]
pub fn slot() -> *const CounterSlot {
    imp::slot()
}

/// [`Reach::add`] by whatever way there is. For slow paths; the way of a thread with credit in a library whose
/// block has no constant distance.
#[inline]
pub fn add_slowly<const WORD: usize, const COUNT: bool>(bytes: usize) -> bool {
    imp::add_slowly::<WORD, COUNT>(bytes)
}

/// Takes what a word of the calling thread holds and leaves 0. One instruction makes the change, so a handler of a
/// signal comes before or after it; it is not atomic for other threads, which only read.
#[inline]
pub fn take(word: &Cell<i64>) -> i64 {
    imp::take(word)
}

/// Whether this code is part of an executable, which is never unloaded. (False where that can not be told.)
pub fn is_executable() -> bool {
    imp::is_executable()
}

/// Whether [`Anywhere`] goes the short way: the block lies at a constant distance from the thread pointer.
pub fn has_constant_distance() -> bool {
    imp::has_constant_distance()
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod imp {
    use super::{Anywhere, CounterSlot, EVENTS, InitialExec, Reach};
    use core::arch::{asm, global_asm};
    use core::cell::Cell;

    global_asm!(
        ".pushsection .tbss.homefree_counter_v1,\"awT\",@nobits",
        ".hidden homefree_counter_v1",
        ".globl homefree_counter_v1",
        ".type homefree_counter_v1,@object",
        ".size homefree_counter_v1,{size}",
        ".p2align 4",
        "homefree_counter_v1:",
        ".zero {size}",
        ".popsection",
        ".pushsection .bss.homefree_counter_distance_v1,\"aw\",@nobits",
        ".hidden homefree_counter_distance_v1",
        ".globl homefree_counter_distance_v1",
        ".type homefree_counter_distance_v1,@object",
        ".size homefree_counter_distance_v1,8",
        ".p2align 3",
        "homefree_counter_distance_v1:",
        ".zero 8",
        ".popsection",
        size = const size_of::<CounterSlot>(),
    );

    /// The distance of the slot from the thread pointer, by the initial-exec model.
    #[inline(always)]
    fn initial_exec() -> usize {
        let distance: usize;
        // SAFETY: reads a GOT entry that the linker or the loader filled.
        unsafe {
            asm!(
                "mov {distance}, qword ptr [rip + homefree_counter_v1@GOTTPOFF]",
                distance = out(reg) distance,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        distance
    }

    /// The distance of the slot from the thread pointer as noted by [`slot`]; 0 if it is not known.
    #[inline(always)]
    fn noted() -> usize {
        let distance: usize;
        // SAFETY: reads a word that is written whole.
        unsafe {
            asm!(
                "mov {distance}, qword ptr [rip + homefree_counter_distance_v1]",
                distance = out(reg) distance,
                options(readonly, nostack, preserves_flags),
            );
        }
        distance
    }

    /// # Safety
    /// `distance` is the slot's.
    #[inline(always)]
    unsafe fn add_at<const WORD: usize, const COUNT: bool>(distance: usize, bytes: usize) -> bool {
        // SAFETY: the two words are the calling thread's own; the thread pointer is the base of `fs`.
        unsafe {
            if COUNT {
                asm!(
                    "inc qword ptr fs:[{distance} + {events}]",
                    distance = in(reg) distance,
                    events = const WORD + EVENTS,
                    options(nostack),
                );
            }
            asm!(
                "add qword ptr fs:[{distance} + {word}], {bytes}",
                "jns {ask}",
                distance = in(reg) distance,
                bytes = in(reg) bytes,
                word = const WORD,
                ask = label {
                    // SAFETY: as above.
                    unsafe { take_back::<WORD, COUNT>(distance, bytes) };
                    return false
                },
                options(nostack),
            );
        }
        true
    }

    /// # Safety
    /// As [`add_at`], which has added.
    #[cold]
    #[inline(always)]
    unsafe fn take_back<const WORD: usize, const COUNT: bool>(distance: usize, bytes: usize) {
        // SAFETY: as in `add_at`.
        unsafe {
            asm!(
                "sub qword ptr fs:[{distance} + {word}], {bytes}",
                distance = in(reg) distance,
                bytes = in(reg) bytes,
                word = const WORD,
                options(nostack),
            );
            if COUNT {
                asm!(
                    "dec qword ptr fs:[{distance} + {events}]",
                    distance = in(reg) distance,
                    events = const WORD + EVENTS,
                    options(nostack),
                );
            }
        }
    }

    impl Reach for InitialExec {
        #[inline(always)]
        fn add<const WORD: usize, const COUNT: bool>(bytes: usize) -> bool {
            // SAFETY: the slot's own distance.
            unsafe { add_at::<WORD, COUNT>(initial_exec(), bytes) }
        }
    }

    impl Reach for Anywhere {
        #[inline(always)]
        fn add<const WORD: usize, const COUNT: bool>(bytes: usize) -> bool {
            let distance = noted();
            if distance == 0 {
                return false;
            }
            // SAFETY: the slot's own distance.
            unsafe { add_at::<WORD, COUNT>(distance, bytes) }
        }
    }

    crate::tls_descriptor!(descriptor, "homefree_counter_v1");

    /// Where the linker left a descriptor: its address, which is positive. Where it knew the distance, as in
    /// an executable, it has put that in place of the address: it is negative on x86-64.
    fn descriptor_or_distance() -> isize {
        let place: isize;
        // SAFETY: takes an address, or a constant that the linker put in its place.
        unsafe {
            asm!(
                "lea {place}, [rip + homefree_counter_v1@TLSDESC]",
                place = out(reg) place,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        place
    }

    #[inline]
    pub(super) fn add_slowly<const WORD: usize, const COUNT: bool>(bytes: usize) -> bool {
        // SAFETY: the slot's own distance.
        unsafe { add_at::<WORD, COUNT>(descriptor(), bytes) }
    }

    #[inline]
    pub(super) fn take(word: &Cell<i64>) -> i64 {
        let mut held = word.get();
        loop {
            let found: i64;
            // SAFETY: a word that is written by this thread only.
            unsafe {
                asm!(
                    "cmpxchg qword ptr [{word}], {zero}",
                    word = in(reg) word.as_ptr(),
                    zero = in(reg) 0i64,
                    inout("rax") held => found,
                    options(nostack),
                );
            }
            if found == held {
                return held;
            }
            held = found;
        }
    }

    pub(super) fn slot() -> *const CounterSlot {
        let distance = descriptor();
        if noted() == 0 && is_constant(distance as isize) {
            // SAFETY: the one writer of a word that is read whole; every thread writes the same.
            unsafe {
                asm!(
                    "mov qword ptr [rip + homefree_counter_distance_v1], {distance}",
                    distance = in(reg) distance,
                    options(nostack, preserves_flags),
                );
            }
        }
        let thread: usize;
        // SAFETY: the thread pointer's first word is its own address.
        unsafe {
            asm!(
                "mov {thread}, qword ptr fs:[0]",
                thread = out(reg) thread,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        thread.wrapping_add(distance) as *const CounterSlot
    }

    /// Whether the distance that a descriptor gave here holds for all threads. The descriptor of a block in
    /// static TLS keeps the distance itself as its argument, which is negative; that of any other keeps a
    /// pointer there.
    fn is_constant(distance: isize) -> bool {
        let place = descriptor_or_distance();
        if place < 0 {
            return place == distance;
        }
        // SAFETY: a descriptor is two words in the GOT: a function and its argument. The call that returned
        // `distance` has resolved it.
        let argument = unsafe { *(place as *const isize).add(1) };
        distance < 0 && argument == distance
    }

    pub(super) fn is_executable() -> bool {
        descriptor_or_distance() < 0
    }

    pub(super) fn has_constant_distance() -> bool {
        slot();
        noted() != 0
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod imp {
    extern crate std;
    use super::{ALLOCATED, Anywhere, CounterSlot, InitialExec, Reach};
    use core::cell::Cell;
    use core::sync::atomic::Ordering;

    std::thread_local! {
        static SLOT: CounterSlot = const {
            CounterSlot {
                allocated: Cell::new(0),
                freed: Cell::new(0),
                allocations: Cell::new(0),
                frees: Cell::new(0),
                account: Cell::new(core::ptr::null_mut()),
                state: Cell::new(0),
            }
        };
    }

    pub(super) fn slot() -> *const CounterSlot {
        SLOT.with(|s| core::ptr::from_ref(s))
    }

    pub(super) fn add_slowly<const WORD: usize, const COUNT: bool>(bytes: usize) -> bool {
        SLOT.with(|slot| {
            let (word, events) = match WORD {
                ALLOCATED => (&slot.allocated, &slot.allocations),
                _ => (&slot.freed, &slot.frees),
            };
            // Atomic, so that a signal's handler comes before or after.
            let (word, events) = (CounterSlot::word(word), CounterSlot::count(events));
            let relaxed = Ordering::Relaxed;
            let within = |word: i64| Some(word.wrapping_add(bytes as i64)).filter(|sum| *sum < 0);
            if word.fetch_update(relaxed, relaxed, within).is_err() {
                return false;
            }
            if COUNT {
                events.fetch_add(1, relaxed);
            }
            true
        })
    }

    pub(super) fn take(word: &Cell<i64>) -> i64 {
        CounterSlot::word(word).swap(0, Ordering::Relaxed)
    }

    impl Reach for InitialExec {
        #[inline(always)]
        fn add<const WORD: usize, const COUNT: bool>(bytes: usize) -> bool {
            add_slowly::<WORD, COUNT>(bytes)
        }
    }

    impl Reach for Anywhere {
        #[inline(always)]
        fn add<const WORD: usize, const COUNT: bool>(bytes: usize) -> bool {
            add_slowly::<WORD, COUNT>(bytes)
        }
    }

    pub(super) fn is_executable() -> bool {
        false
    }

    pub(super) fn has_constant_distance() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn mine() -> &'static CounterSlot {
        // SAFETY: the calling thread's slot; the reference does not leave the thread.
        unsafe { &*slot() }
    }

    fn every_way<R: Reach>() {
        thread::spawn(|| {
            slot();
            // A new thread asks, and nothing is added.
            assert!(!R::add::<ALLOCATED, true>(7));
            assert!(!R::add::<FREED, true>(0));
            let words = |s: &CounterSlot| {
                (
                    s.allocated.get(),
                    s.freed.get(),
                    s.allocations.get(),
                    s.frees.get(),
                )
            };
            assert_eq!(words(mine()), (0, 0, 0, 0));
            mine().allocated.set(-10);
            mine().freed.set(-20);
            assert!(R::add::<ALLOCATED, true>(7));
            assert!(R::add::<FREED, false>(19));
            assert_eq!(words(mine()), (-3, -1, 1, 0));
            // The byte that uses the credit up asks.
            assert!(!R::add::<ALLOCATED, true>(3));
            assert!(R::add::<ALLOCATED, true>(2));
            assert!(!R::add::<FREED, true>(1));
            assert_eq!(words(mine()), (-1, -1, 2, 0));
            // Sizes at the end of the range ask too.
            assert!(!R::add::<ALLOCATED, false>(isize::MAX as usize));
            assert_eq!(words(mine()), (-1, -1, 2, 0));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_event_within_the_credit_is_added_and_one_beyond_it_asks() {
        every_way::<InitialExec>();
        every_way::<Anywhere>();
    }

    #[test]
    fn the_slow_way_adds_the_same() {
        thread::spawn(|| {
            assert!(!add_slowly::<ALLOCATED, true>(1));
            mine().allocated.set(-2);
            assert!(add_slowly::<ALLOCATED, true>(1));
            assert!(!add_slowly::<ALLOCATED, true>(1));
            assert_eq!((mine().allocated.get(), mine().allocations.get()), (-1, 1));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_taken_leaves_nothing() {
        let word = Cell::new(-7);
        assert_eq!((take(&word), word.get()), (-7, 0));
    }

    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[test]
    fn an_executable_has_a_constant_distance() {
        assert!(has_constant_distance());
        assert!(is_executable());
    }
}
