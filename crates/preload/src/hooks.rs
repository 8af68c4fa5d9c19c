//! The C functions.
//!
//! Each exported stub passes its arguments on, and after them the stack pointer and `rbp` as they were
//! at the call, then jumps: the Rust function returns straight to the program.

use crate::next::{NEXT, Ptr};
use crate::{registers, slot};
use core::arch::naked_asm;
use core::ffi::c_int;
use homefree_next::bootstrap;
use homefree_record as record;

/// `stub!(name, inner, registers free after the arguments)`.
macro_rules! stub {
    ($name:ident, $inner:ident, $sp:literal, $fp:literal) => {
        /// See the C library's function of this name.
        ///
        /// # Safety
        /// As the C library demands.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                concat!("mov ", $sp, ", rsp"),
                concat!("mov ", $fp, ", rbp"),
                "jmp {inner}",
                ".cfi_endproc",
                inner = sym $inner,
            )
        }
    };
}

stub!(malloc, malloc_hook, "rsi", "rdx");
stub!(free, free_hook, "rsi", "rdx");
stub!(cfree, free_hook, "rsi", "rdx");
stub!(calloc, calloc_hook, "rdx", "rcx");
stub!(realloc, realloc_hook, "rdx", "rcx");
stub!(reallocarray, reallocarray_hook, "rcx", "r8");
stub!(memalign, memalign_hook, "rdx", "rcx");
stub!(aligned_alloc, aligned_alloc_hook, "rdx", "rcx");
stub!(valloc, valloc_hook, "rsi", "rdx");
stub!(pvalloc, pvalloc_hook, "rsi", "rdx");
stub!(posix_memalign, posix_memalign_hook, "rcx", "r8");
// C23: what they know besides the address is not needed. (Forwarded to `free`, which every allocator
// has; these few have yet.)
stub!(free_sized, free_hook, "rsi", "rdx");
stub!(free_aligned_sized, free_hook, "rsi", "rdx");

/// Notes what an allocation returned.
///
/// # Safety
/// `sp` and `fp` are those of the stub.
#[inline(always)]
unsafe fn note(p: Ptr, size: usize, sp: *const usize, fp: usize) -> Ptr {
    // SAFETY: the caller's promise.
    let regs = unsafe { registers(sp, fp) };
    if p.is_null() {
        record::failed(slot(), regs);
    } else if !bootstrap::owns(p) {
        record::allocated(slot(), p as usize, size, regs);
    }
    p
}

// Safety of all hooks: called by their stubs only, with the program's own arguments, which are passed
// on as they are.

unsafe extern "C" fn malloc_hook(size: usize, sp: *const usize, fp: usize) -> Ptr {
    // SAFETY: see above.
    unsafe { note(NEXT.malloc.get()(size), size, sp, fp) }
}

unsafe extern "C" fn calloc_hook(n: usize, size: usize, sp: *const usize, fp: usize) -> Ptr {
    // SAFETY: see above. A product that overflows has failed by now.
    unsafe { outer(n.wrapping_mul(size), sp, fp, || NEXT.calloc.get()(n, size)) }
}

/// Calls a function that in some allocators calls `malloc`, and notes what it returned once.
///
/// # Safety
/// As [`note`].
#[inline(always)]
unsafe fn outer(size: usize, sp: *const usize, fp: usize, call: impl FnOnce() -> Ptr) -> Ptr {
    // SAFETY: the caller's promise.
    record::enter(slot(), unsafe { registers(sp, fp) });
    let p = call();
    if record::leave(slot(), p as usize) {
        return p;
    }
    // SAFETY: the caller's promise.
    unsafe { note(p, size, sp, fp) }
}

unsafe extern "C" fn memalign_hook(align: usize, size: usize, sp: *const usize, fp: usize) -> Ptr {
    // SAFETY: see above.
    unsafe { outer(size, sp, fp, || NEXT.memalign.get()(align, size)) }
}

unsafe extern "C" fn aligned_alloc_hook(
    align: usize,
    size: usize,
    sp: *const usize,
    fp: usize,
) -> Ptr {
    // SAFETY: see above.
    unsafe { outer(size, sp, fp, || NEXT.aligned_alloc.get()(align, size)) }
}

unsafe extern "C" fn valloc_hook(size: usize, sp: *const usize, fp: usize) -> Ptr {
    // SAFETY: see above.
    unsafe { outer(size, sp, fp, || NEXT.valloc.get()(size)) }
}

unsafe extern "C" fn pvalloc_hook(size: usize, sp: *const usize, fp: usize) -> Ptr {
    // SAFETY: see above.
    unsafe { outer(size, sp, fp, || NEXT.pvalloc.get()(size)) }
}

unsafe extern "C" fn posix_memalign_hook(
    out: *mut Ptr,
    align: usize,
    size: usize,
    sp: *const usize,
    fp: usize,
) -> c_int {
    let mut result = 0;
    let call = || {
        // SAFETY: see above.
        result = unsafe { NEXT.posix_memalign.get()(out, align, size) };
        if result != 0 {
            return core::ptr::null_mut();
        }
        // SAFETY: set by the call, which succeeded.
        unsafe { *out }
    };
    // SAFETY: see above.
    unsafe { outer(size, sp, fp, call) };
    result
}

/// Notes a free and whether the block is to be passed on.
///
/// # Safety
/// As [`note`].
#[inline(always)]
unsafe fn note_free(p: Ptr, sp: *const usize, fp: usize) -> bool {
    if p.is_null() {
        return true;
    }
    if bootstrap::owns(p) {
        return false;
    }
    // SAFETY: the caller's promise.
    record::freed(slot(), p as usize, unsafe { registers(sp, fp) });
    true
}

unsafe extern "C" fn free_hook(p: Ptr, sp: *const usize, fp: usize) {
    // SAFETY: see above.
    if unsafe { note_free(p, sp, fp) } {
        // SAFETY: see above.
        unsafe { NEXT.free.get()(p) }
    }
}

/// A realloc through `call`.
///
/// # Safety
/// As [`note`]; `p` is the block that `call` reallocates to `size` bytes.
#[inline(always)]
unsafe fn realloc_with(
    p: Ptr,
    size: usize,
    sp: *const usize,
    fp: usize,
    call: impl FnOnce() -> Ptr,
) -> Ptr {
    if p.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { outer(size, sp, fp, call) };
    }
    if bootstrap::owns(p) {
        // SAFETY: a request of the program's own, for a block that the loader once got.
        let new = unsafe { NEXT.malloc.get()(size) };
        if !new.is_null() {
            // SAFETY: one is from there, the other not.
            unsafe { bootstrap::move_out(p, new, size) };
        }
        // SAFETY: the caller's promise.
        return unsafe { note(new, size, sp, fp) };
    }
    let moving = record::moving(slot(), p as usize);
    let new = call();
    if new.is_null() && size != 0 {
        record::not_moved(slot(), p as usize, moving);
        // SAFETY: the caller's promise.
        record::failed(slot(), unsafe { registers(sp, fp) });
        return new;
    }
    // SAFETY: the caller's promise.
    record::moved(slot(), p as usize, moving, new as usize, size, unsafe {
        registers(sp, fp)
    });
    new
}

unsafe extern "C" fn realloc_hook(p: Ptr, size: usize, sp: *const usize, fp: usize) -> Ptr {
    // SAFETY: see above.
    unsafe { realloc_with(p, size, sp, fp, || NEXT.realloc.get()(p, size)) }
}

unsafe extern "C" fn reallocarray_hook(
    p: Ptr,
    n: usize,
    size: usize,
    sp: *const usize,
    fp: usize,
) -> Ptr {
    // As glibc does it: through realloc. (Its own would come back here through the hooked realloc.)
    let Some(bytes) = n.checked_mul(size) else {
        // SAFETY: the calling thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        // SAFETY: see above.
        record::failed(slot(), unsafe { registers(sp, fp) });
        return core::ptr::null_mut();
    };
    // SAFETY: see above.
    unsafe { realloc_hook(p, bytes, sp, fp) }
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
    // SAFETY: the caller's own promise, passed on.
    unsafe { NEXT.malloc_usable_size.get()(p) }
}
