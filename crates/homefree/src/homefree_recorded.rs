//! [`Recorded`]: a global allocator that records.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicBool, Ordering};
use homefree_record::{self as record, Registers};
use homefree_thread::{Slot, slot};

/// Tells `homefree record` that the program records itself: it needs no preloaded library. Not `#[used]`: a
/// program that has this crate for something else must not say so. [`prepare`] looks at it.
#[unsafe(link_section = ".homefree_recorded")]
static MARK: u8 = 0;

/// Passes every request on to `A` and records it.
///
/// A thread's role is its name when it was first seen or when it ended, whichever is newer: the calls
/// that give names can not be seen from here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorded<A> {
    inner: A,
}

impl<A> Recorded<A> {
    /// Records what `inner` serves.
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }

    /// The allocator behind.
    pub const fn inner(&self) -> &A {
        &self.inner
    }
}

/// The calling thread's slot, ready for events.
#[inline(always)]
fn ready_slot() -> &'static Slot {
    // SAFETY: never null, and alive while the calling thread runs; the reference does not leave it.
    let slot = unsafe { &*slot::descriptor() };
    if slot.record.get().is_null() {
        prepare(slot);
    }
    slot
}

#[cold]
#[inline(never)]
fn prepare(slot: &Slot) {
    static DONE: AtomicBool = AtomicBool::new(false);
    core::hint::black_box(&MARK);
    if slot.busy.get() != 0 || DONE.swap(true, Ordering::AcqRel) {
        return;
    }
    // Any allocator may stand behind: one that places blocks 8 bytes apart too.
    record::use_slot::<slot::Descriptor>(false);
    record::names_are_not_seen();
    // SAFETY: plain call. In a library that is closed again, the C library runs it then.
    record::quietly(slot, || unsafe { libc::atexit(at_exit) });
    record::start(slot);
}

extern "C" fn at_exit() {
    // SAFETY: as in `ready_slot`.
    record::end(unsafe { &*slot::descriptor() });
    #[cfg(not(target_feature = "crt-static"))]
    record::unload();
}

/// The registers here, as the unwinder takes them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn registers() -> Registers {
    let (pc, sp, fp): (usize, usize, usize);
    // SAFETY: reads three registers.
    unsafe {
        core::arch::asm!(
            "lea {pc}, [rip]",
            "mov {sp}, rsp",
            "mov {fp}, rbp",
            pc = out(reg) pc,
            sp = out(reg) sp,
            fp = out(reg) fp,
            options(nomem, nostack, preserves_flags),
        );
    }
    Registers { pc, sp, fp }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
fn registers() -> Registers {
    Registers {
        pc: registers as *const () as usize,
        sp: 0,
        fp: 0,
    }
}

#[inline(always)]
fn note(p: *mut u8, size: usize) -> *mut u8 {
    let slot = ready_slot();
    if p.is_null() {
        record::failed(slot, registers());
    } else {
        record::allocated(slot, p as usize, size, registers());
    }
    p
}

// SAFETY: every request is passed on as it is, and what the inner allocator answers is returned.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Recorded<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's own promise, passed on.
        note(unsafe { self.inner.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's own promise, passed on.
        note(unsafe { self.inner.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        record::freed(ready_slot(), p as usize, registers());
        // SAFETY: the caller's own promise, passed on.
        unsafe { self.inner.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let slot = ready_slot();
        let moving = record::moving(slot, p as usize);
        // SAFETY: the caller's own promise, passed on.
        let new = unsafe { self.inner.realloc(p, layout, new_size) };
        if new.is_null() {
            record::not_moved(slot, p as usize, moving);
            record::failed(slot, registers());
        } else {
            record::moved(
                slot,
                p as usize,
                moving,
                new as usize,
                new_size,
                registers(),
            );
        }
        new
    }
}
