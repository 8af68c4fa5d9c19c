//! `libhomefree_alloc.so`: every function of the C library that allocates or frees, served by
//! `homefree-alloc`. For `LD_PRELOAD` or the link line.
//!
//! Results, `errno` and edge cases are glibc's ([`family`], [`aligned`]). Built with the profile
//! `preload` (`panic = "abort"`); other profiles link `std` only so that they build.
#![cfg_attr(panic = "abort", no_std)]

mod aligned;
mod family;
mod information;

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // There is no code that panics; if that should be wrong, the program ends as by `abort`.
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

use core::ffi::{c_int, c_void};

type Ptr = *mut c_void;

/// The artifact is loaded at start-up, so the initial-exec model is right for it.
type Here = heart::slot::InitialExec;

fn set_errno(errno: c_int) {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// Null, with the C library's word for it.
#[cold]
fn no_memory() -> Ptr {
    set_errno(libc::ENOMEM);
    core::ptr::null_mut()
}

/// What the heart returned, as C programs expect it.
#[inline(always)]
fn or_no_memory(p: *mut u8) -> Ptr {
    if p.is_null() { no_memory() } else { p.cast() }
}
