//! `libhomefree.so`: every function that allocates or frees, in front of the program's own allocator.
//!
//! Set in `LD_PRELOAD`, it records (see `homefree-record`) and forwards to the next allocator in link
//! order, whichever that is: glibc's, or one that the program brings. Each hook is a stub of three
//! instructions that hands the call's registers to a Rust function ([`hooks`]); nothing is changed of
//! what the program sees: results, `errno`, exceptions, the order of calls.
//!
//! No `std`, no allocation of its own, no unwinding, nothing printed. Built with the profile `preload`
//! (`panic = "abort"`); other profiles link `std` only so that they build.
#![cfg_attr(panic = "abort", no_std)]

mod cxx;
mod hooks;
mod life;
mod names;
mod next;

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // There is no code that panics; if that should be wrong, the program ends as by `abort`.
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

use homefree_record::Registers;
use homefree_thread::Slot;

/// The slot: the library is loaded at start-up, so the initial-exec model is right for it.
#[inline(always)]
fn slot() -> &'static Slot {
    // SAFETY: never null, and alive while the calling thread runs; the reference does not leave it.
    unsafe { &*homefree_thread::slot::initial_exec() }
}

/// Registers of the hooked call, from what its stub saw at entry: the stack pointer (where the return
/// address is) and `rbp`.
///
/// # Safety
/// `entry` is the stack pointer at the entry of a hook that has not returned yet.
#[inline(always)]
unsafe fn registers(entry: *const usize, fp: usize) -> Registers {
    // SAFETY: the return address of a call that is under way.
    let pc = unsafe { *entry };
    Registers {
        pc,
        sp: entry as usize + 8,
        fp,
    }
}
