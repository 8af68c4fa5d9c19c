//! `libhomefree_ledger.so`: every function that allocates or frees, in front of the program's own allocator,
//! counting usable bytes.
//!
//! Set in `LD_PRELOAD` (by `homefree run --ledger`), it asks the next allocator in link order for each block, and adds
//! the block's usable size to two words of the calling thread. Nothing is changed of what the program sees: results,
//! `errno`, exceptions, output, exit status.
//!
//! * [`hot`]: `malloc` and `free` over the C library's own allocator, whose block headers say the size. The whole of it
//!   is on one screen of assembly.
//! * [`hooks`]: all other functions, and what is out of the ordinary of those two.
//! * [`careful`]: the same for any other allocator, for counts of events, and under a limit.
//! * [`cxx`]: operators, forwarded by a jump; counted only where they belong to an allocator that keeps them to itself.
//! * [`page`]: where the launcher reads the account, also of a process that was killed.
//! * [`own`], [`confined`]: how forks and filters of system calls are known without a system call.
//!
//! No `std`, no allocation of its own, nothing printed. Built with the profile `preload` (`panic = "abort"`); other
//! profiles link `std` only so that they build.
#![cfg_attr(panic = "abort", no_std)]

mod api;
mod careful;
mod confined;
mod cxx;
mod environment;
mod hooks;
mod hot;
mod life;
mod next;
mod own;
mod page;
mod process;
mod roles;
mod size;

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // There is no code that panics; if that should be wrong, the program ends as by `abort`.
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// Runs `f` and puts `errno` back.
fn keep_errno<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: the calling thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    let result = f();
    // SAFETY: as above.
    unsafe { *errno = saved };
    result
}

/// As a failed allocation says it.
fn no_memory() -> homefree_next::Ptr {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    core::ptr::null_mut()
}
