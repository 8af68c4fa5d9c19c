//! Aligned forms.

use crate::{Here, Ptr, no_memory, or_no_memory, set_errno};
use core::ffi::{CStr, c_int};
use heart::malloc;

const PAGE: usize = 4096;

/// As glibc has it: an alignment that is no power of two counts as the next one.
fn rounded(align: usize, size: usize) -> Ptr {
    if align > usize::MAX / 2 + 1 {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    or_no_memory(malloc::aligned::<Here>(
        size,
        align.next_power_of_two(),
        false,
    ))
}

/// See the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> Ptr {
    rounded(align, size)
}

/// See the C library's function of this name. From 2.38 on, glibc refuses what is no power of two.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> Ptr {
    if !align.is_power_of_two() && refuses_odd_alignments() {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    rounded(align, size)
}

#[cold]
fn refuses_odd_alignments() -> bool {
    // SAFETY: glibc's constant string, "2.36".
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_bytes();
    let number = |text: &[u8]| {
        let digits = text.iter().take_while(|b| b.is_ascii_digit());
        digits.fold(0u32, |n, b| n.saturating_mul(10) + u32::from(b - b'0'))
    };
    let minor = version
        .iter()
        .position(|&b| b == b'.')
        .map_or(0, |dot| number(&version[dot + 1..]));
    (number(version), minor) >= (2, 38)
}

/// See the C library's function of this name. On failure the out-pointer stays as it was.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut Ptr, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<Ptr>()) {
        return libc::EINVAL;
    }
    // SAFETY: the calling thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    let p = malloc::aligned::<Here>(size, align, false);
    if p.is_null() {
        // It tells by its result alone.
        set_errno(errno);
        return libc::ENOMEM;
    }
    // SAFETY: the caller's out-pointer.
    unsafe { *out = p.cast() };
    0
}

/// See the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> Ptr {
    rounded(PAGE, size)
}

/// See the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> Ptr {
    match size.checked_next_multiple_of(PAGE) {
        Some(bytes) => rounded(PAGE, bytes),
        None => no_memory(),
    }
}
