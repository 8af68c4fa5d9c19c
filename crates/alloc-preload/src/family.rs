//! `malloc` and its kin.

use crate::{Here, Ptr, no_memory, or_no_memory};
use core::ptr::null_mut;
use heart::malloc;

/// See the C library's function of this name. Budget: twelve instructions up to 1 KiB.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> Ptr {
    malloc::malloc::<Here>(size).cast()
}

/// See the C library's function of this name. Budget: fifteen instructions for a block of the calling
/// thread's.
///
/// # Safety
/// As the C library demands; an address that is not ours is counted and left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(p: Ptr) {
    // SAFETY: the caller's promise.
    unsafe { malloc::free::<Here>(p.cast()) }
}

/// As `free`.
///
/// # Safety
/// As `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(p: Ptr) {
    // SAFETY: the caller's promise.
    unsafe { malloc::free::<Here>(p.cast()) }
}

/// C23's. The size is not needed: the block's page knows it. (Checked mode compares it.)
///
/// # Safety
/// As `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(p: Ptr, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { malloc::free_sized::<Here>(p.cast(), size) }
}

/// C23's. Alignment and size are not needed.
///
/// # Safety
/// As `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(p: Ptr, _: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { malloc::free_sized::<Here>(p.cast(), size) }
}

/// See the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(n: usize, size: usize) -> Ptr {
    match n.checked_mul(size) {
        Some(bytes) => or_no_memory(malloc::calloc::<Here>(bytes)),
        None => no_memory(),
    }
}

/// See the C library's function of this name. To nothing: frees, and returns null, as glibc does.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(p: Ptr, size: usize) -> Ptr {
    if p.is_null() {
        return malloc(size);
    }
    if size == 0 {
        // SAFETY: the caller's promise.
        unsafe { free(p) };
        return null_mut();
    }
    // SAFETY: the caller's promise.
    or_no_memory(unsafe { malloc::realloc::<Here>(p.cast(), size, 16) })
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(p: Ptr, n: usize, size: usize) -> Ptr {
    match n.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(bytes) => unsafe { realloc(p, bytes) },
        None => no_memory(),
    }
}

/// See the C library's function of this name. All of it may be used, and stays the block's for its life.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(p: Ptr) -> usize {
    // SAFETY: the caller's promise.
    unsafe { malloc::usable_size(p.cast()) }
}
