//! All functions but the short ways of `malloc` and `free`.
//!
//! An allocation is counted after it has succeeded, a free before it happens, so no other thread can have the block
//! meanwhile. A `realloc` books the difference of the sizes before and after; one that failed books nothing.

use crate::hot::HOT;
use crate::next::{self, NEXT, Ptr};
use crate::{careful, page, size};
use core::ffi::c_int;
use homefree_ledger::raw;
use homefree_next::bootstrap;
use homefree_thread::counter::{ALLOCATED, FREED, Reach};
use homefree_thread::slot::InitialExec;

/// Counts bytes allocated.
#[inline]
pub(crate) fn count_allocated(bytes: usize) {
    if !InitialExec::add::<ALLOCATED, false>(bytes) {
        settle_allocated(bytes);
    }
}

/// Counts bytes freed.
#[inline]
pub(crate) fn count_freed(bytes: usize) {
    if !InitialExec::add::<FREED, false>(bytes) {
        settle_freed(bytes);
    }
}

#[cold]
#[inline(never)]
fn settle_allocated(bytes: usize) {
    crate::keep_errno(|| {
        raw::allocated::<InitialExec, false>(bytes);
        page::publish();
    });
}

#[cold]
#[inline(never)]
fn settle_freed(bytes: usize) {
    crate::keep_errno(|| {
        raw::freed::<InitialExec, false>(bytes);
        page::publish();
    });
}

/// Counts a block that was allocated, if it is one of the next allocator's.
#[inline]
fn counted(p: Ptr) -> Ptr {
    if !p.is_null() && !bootstrap::owns(p) {
        count_allocated(size::of(p));
    }
    p
}

/// In place of the next `malloc` until that is known.
pub(crate) unsafe extern "C" fn first_malloc(size: usize) -> Ptr {
    if next::prepare() {
        HOT.malloc(size)
    } else {
        bootstrap::malloc(size)
    }
}

/// In place of the next `free` until that is known. The block is none that we gave out, and was not counted.
pub(crate) unsafe extern "C" fn first_free(p: Ptr) {
    if next::prepare() {
        // SAFETY: the program's own call, passed on.
        unsafe { NEXT.free.get()(p) }
    }
}

/// Where the short way of `malloc` ends if it is not to go on: after the call.
#[cold]
pub(crate) unsafe extern "C" fn malloc_slowly(p: Ptr) -> Ptr {
    // Whoever allocated has counted, where this is not glibc's.
    if HOT.is_inline() { counted(p) } else { p }
}

/// Where the short way of `free` ends if it is not to go on.
#[cold]
pub(crate) unsafe extern "C" fn free_slowly(p: Ptr) {
    if p.is_null() || bootstrap::owns(p) {
        return;
    }
    if HOT.is_inline() {
        count_freed(size::of(p));
    }
    HOT.free(p);
}

/// Makes sure that the next functions are known. False: the loader asks, from inside of that.
#[inline]
fn ready() -> bool {
    NEXT.is_resolved() || next::prepare()
}

/// Allocates by `call`, a next function; `bytes` is what was asked for. `None`: a limit forbids it.
#[inline]
fn try_allocate(bytes: usize, call: impl FnOnce() -> Ptr) -> Option<Ptr> {
    if !ready() {
        return Some(call());
    }
    if HOT.is_inline() {
        return Some(counted(call()));
    }
    careful::allocate(bytes, call)
}

/// As [`try_allocate`]; refuses as functions do that return a block.
#[inline]
fn allocate(bytes: usize, call: impl FnOnce() -> Ptr) -> Ptr {
    try_allocate(bytes, call).unwrap_or_else(crate::no_memory)
}

/// What `p`, fresh from a function that takes an alignment, is to be exchanged for, if it has to be.
#[inline]
fn aligned(p: Ptr, bytes: usize) -> Ptr {
    if ready() && size::is_unknown_to_free(p) {
        return exchange(p, bytes);
    }
    p
}

/// Exchanges a fresh block that `free` would misjudge for one aligned to a page.
#[cold]
#[inline(never)]
fn exchange(p: Ptr, bytes: usize) -> Ptr {
    // SAFETY: a fresh block, which nobody has seen.
    unsafe {
        let other = NEXT.memalign.get()(4096, bytes);
        if other.is_null() {
            return p;
        }
        NEXT.free.get()(p);
        other
    }
}

// Safety of all that follows: called by the program with its own arguments, which are passed on.

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(p: Ptr) {
    // SAFETY: see above.
    unsafe { crate::hot::free(p) }
}

/// C23: what it knows besides the address is not needed.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(p: Ptr, _: usize) {
    // SAFETY: see above.
    unsafe { crate::hot::free(p) }
}

/// C23: what it knows besides the address is not needed.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(p: Ptr, _: usize, _: usize) {
    // SAFETY: see above.
    unsafe { crate::hot::free(p) }
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(n: usize, size: usize) -> Ptr {
    // SAFETY: see above.
    allocate(n.saturating_mul(size), || unsafe {
        NEXT.calloc.get()(n, size)
    })
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> Ptr {
    // SAFETY: see above.
    let call = || unsafe { NEXT.memalign.get()(align, size) };
    allocate(size, || aligned(call(), size))
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> Ptr {
    // SAFETY: see above.
    let call = || unsafe { NEXT.aligned_alloc.get()(align, size) };
    allocate(size, || aligned(call(), size))
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(size: usize) -> Ptr {
    // SAFETY: see above.
    allocate(size, || unsafe { NEXT.valloc.get()(size) })
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> Ptr {
    // SAFETY: see above.
    allocate(size, || unsafe { NEXT.pvalloc.get()(size) })
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut Ptr, align: usize, size: usize) -> c_int {
    let mut result = libc::ENOMEM;
    // The program's own place is written once all is decided.
    let mut place = core::ptr::null_mut();
    let p = try_allocate(size, || {
        // SAFETY: see above.
        result = unsafe { NEXT.posix_memalign.get()(&mut place, align, size) };
        if result == 0 {
            aligned(place, size)
        } else {
            core::ptr::null_mut()
        }
    });
    match p {
        // SAFETY: the program's own place.
        Some(p) if result == 0 => unsafe { *out = p },
        Some(_) => {}
        None => result = libc::ENOMEM,
    }
    result
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(p: Ptr, size: usize) -> Ptr {
    // SAFETY: see above.
    let call = || unsafe { NEXT.realloc.get()(p, size) };
    if p.is_null() || !ready() {
        return allocate(size, call);
    }
    if bootstrap::owns(p) {
        // A request of the program's own, for a block that the loader once got.
        // SAFETY: any size may be asked for.
        let new = unsafe { crate::hot::malloc(size) };
        if !new.is_null() {
            // SAFETY: one is from there, the other not.
            unsafe { bootstrap::move_out(p, new, size) };
        }
        return new;
    }
    if !HOT.is_inline() {
        return careful::reallocate(p, size, call).unwrap_or_else(crate::no_memory);
    }
    let before = size::of(p);
    let new = call();
    if new.is_null() {
        if size == 0 {
            // glibc has freed it.
            count_freed(before);
        }
        return new;
    }
    let new = if size::is_unknown_to_free(new) {
        settle_down(new, size)
    } else {
        new
    };
    let after = size::of(new);
    if after >= before {
        count_allocated(after - before);
    } else {
        count_freed(before - after);
    }
    new
}

/// Moves a block that `free` would misjudge.
#[cold]
#[inline(never)]
fn settle_down(p: Ptr, bytes: usize) -> Ptr {
    // SAFETY: the block is the program's and has `bytes` bytes; the other is fresh.
    unsafe {
        let other = NEXT.memalign.get()(4096, bytes);
        if other.is_null() {
            return p;
        }
        core::ptr::copy_nonoverlapping(p.cast::<u8>(), other.cast(), bytes);
        NEXT.free.get()(p);
        other
    }
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(p: Ptr, n: usize, size: usize) -> Ptr {
    // As glibc does it: through realloc. (Its own would come back here through the hooked realloc.)
    match n.checked_mul(size) {
        // SAFETY: see above.
        Some(bytes) => unsafe { realloc(p, bytes) },
        None => crate::no_memory(),
    }
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(p: Ptr) -> usize {
    if bootstrap::owns(p) {
        return bootstrap::malloc_usable_size(p);
    }
    // SAFETY: see above.
    unsafe { NEXT.malloc_usable_size.get()(p) }
}
