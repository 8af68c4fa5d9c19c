//! Pairs allocations with frees inside a process, and counts what is freed away from home.
//!
//! **For:** a hook that sees every allocation and every free: `libhomefree.so` in front of C programs,
//! `homefree::Recorded` in Rust ones. **Your duties:** call [`allocated`] after the real allocation has
//! returned and [`freed`] before the real free; pass the registers of the call. **Not for:** reading
//! profiles (`homefree-profile`) or sampling by signals.
//!
//! What happens at an event, and why no lock is needed, is told in `ARCHITECTURE.md`; in short: a
//! *shadow word* found by the block's address says who allocated it where (`shadow`), the stack is a
//! node of a tree that all threads share (`unwind`, `nodes`), and counts live in tables of the thread's
//! own, inside the mapped profile file (`arena`, `tables`). Threads that end leave their counts to
//! their role (`threads`, `roles`). A forked child gets a file of its own (`process`).
//!
//! Nothing here allocates, unwinds by the platform's unwinder, prints, panics, or changes `errno`.
#![no_std]

#[cfg(test)]
extern crate std;

mod arena;
mod clock;
mod config;
mod event;
mod modules;
mod nodes;
mod process;
mod roles;
mod sample;
mod shadow;
mod tables;
mod threads;
mod unwind;

use core::sync::atomic::{AtomicUsize, Ordering};
pub use event::{Moving, allocated, failed, freed, freed_by_outer, moved, moving, not_moved};
use homefree_thread::Slot;
use homefree_thread::slot::Access;
pub use unwind::Registers;

/// The artifact's way to the slot, as a function, for places that run once in a while.
static SLOT: AtomicUsize = AtomicUsize::new(0);

fn slot_of<A: Access>() -> *const Slot {
    A::slot()
}

/// The calling thread's slot; null before [`use_slot`].
fn current_slot() -> *const Slot {
    let slot = SLOT.load(Ordering::Relaxed);
    // SAFETY: 0, or stored by `use_slot` from a function of this type.
    let slot = unsafe { core::mem::transmute::<usize, Option<fn() -> *const Slot>>(slot) };
    slot.map_or(core::ptr::null(), |slot| slot())
}

/// Tells which access to the slot the artifact uses, and how its allocator places blocks. Call it
/// before the first event; calling it again is harmless.
///
/// `far_apart`: the allocator behind never starts two blocks within 32 bytes of each other (glibc's
/// malloc). Then the second shadow word of every block lies beside the first.
pub fn use_slot<A: Access>(far_apart: bool) {
    SLOT.store(slot_of::<A> as *const () as usize, Ordering::Relaxed);
    shadow::set_far_apart(far_apart);
}

/// Runs `f` with hooked calls made meanwhile passed through, not recorded, and puts `errno` back.
pub fn quietly<T>(slot: &Slot, f: impl FnOnce() -> T) -> T {
    let busy = slot.busy.replace(1);
    let result = process::keep_errno(f);
    slot.busy.set(busy);
    result
}

/// Starts recording now instead of at the first event.
pub fn start(slot: &Slot) {
    if slot.busy.get() == 0 {
        slot.busy.set(1);
        process::recording();
        slot.busy.set(0);
    }
}

/// Puts the module at `address` on record as the allocator that serves the program.
pub fn name_allocator(address: usize) {
    process::name_allocator(address);
}

/// The process ends in order: the file says so and is cut to what it needs. Recording may go on.
pub fn end(slot: &Slot) {
    if slot.busy.get() == 0 {
        slot.busy.set(1);
        process::keep_errno(|| process::end(slot));
        slot.busy.set(0);
    }
}

/// The artifact is being unloaded: no thread's end is to be told to it any more.
pub fn unload() {
    threads::forget_exit_hook();
}

/// The artifact does not see the calls that give threads their names: they are asked for again at some
/// events and when a thread ends.
pub fn names_are_not_seen() {
    threads::ask_for_names();
}

/// The calling thread was given a new name: its role changes.
pub fn renamed(slot: &Slot) {
    if slot.busy.get() == 0 {
        slot.busy.set(1);
        if process::recording() && !process::forked() {
            threads::renamed(slot);
        } else {
            slot.named.set(true);
        }
        slot.busy.set(0);
    }
}

/// Another thread was given a name (without the NUL).
pub fn renamed_other(slot: &Slot, pthread: libc::pthread_t, name: &[u8]) {
    if slot.busy.get() == 0 {
        slot.busy.set(1);
        if process::recording() && !process::forked() {
            threads::renamed_other(pthread, name);
        }
        slot.busy.set(0);
    }
}

/// A hook is about to call a function that may call further hooks (`operator new` calls `malloc`).
/// What they record gets the stack of this call, `regs`.
#[inline]
pub fn enter(slot: &Slot, regs: Registers) {
    if slot.busy.get() == 0 {
        slot.recorded.set(0);
        // Of operators that call each other the outermost is the program's call.
        if !event::inside_outer(slot, regs) {
            slot.outer.set([regs.pc, regs.sp, regs.fp]);
        }
    }
}

/// The call announced by [`enter`] returned `address`: whether the block was recorded by an inner hook.
/// (A call left by an exception never comes here; what [`enter`] noted is then void, as the stack shows.)
#[inline]
pub fn leave(slot: &Slot, address: usize) -> bool {
    if slot.busy.get() != 0 {
        return false;
    }
    slot.outer.set([0; 3]);
    address != 0 && slot.recorded.get() == address
}
