//! The short way of `malloc` and `free`.
//!
//! Budget, straight through: 11 instructions around the next `malloc`, 9 before the next `free`; a test counts them.
//! No test for "which allocator", "which mode" or "thread known" is on the way:
//!
//! * [`Hot::near`] is [`size::SPECIAL`] over glibc's allocator and 0 otherwise, so that null, blocks that need a closer look,
//!   and all blocks of other allocators leave by one branch;
//! * a thread that was never seen, or has ended, has no credit and leaves by the branch of one that has used it up;
//! * the stack is aligned for the call by pushing the slot's distance, which is needed afterwards.
//!
//! Each add is one instruction on the thread's own word: a signal's handler comes before or after it.

use crate::next::{NEXT, Ptr};
use crate::{careful, hooks, size};
use core::arch::naked_asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use homefree_thread::counter::{ALLOCATED, FREED};

/// What the short way loads: one cache line, written at start-up.
#[repr(C, align(64))]
pub(crate) struct Hot {
    malloc: AtomicPtr<c_void>,
    free: AtomicPtr<c_void>,
    near: AtomicU32,
}

pub(crate) static HOT: Hot = Hot {
    malloc: AtomicPtr::new(hooks::first_malloc as *mut c_void),
    free: AtomicPtr::new(hooks::first_free as *mut c_void),
    near: AtomicU32::new(0),
};

impl Hot {
    /// The next allocator is glibc's: count here. By the thread that resolves the next functions, before any other.
    pub(crate) fn count_inline(&self) {
        self.malloc.store(NEXT.malloc.address(), Ordering::Relaxed);
        self.free.store(NEXT.free.address(), Ordering::Relaxed);
        self.near.store(size::SPECIAL, Ordering::Release);
    }

    /// Leave all of it to [`careful`]. At start-up.
    pub(crate) fn count_carefully(&self) {
        self.near.store(0, Ordering::Relaxed);
        self.malloc
            .store(careful::malloc as *mut c_void, Ordering::Relaxed);
        self.free
            .store(careful::free as *mut c_void, Ordering::Release);
    }

    /// Whether blocks have glibc's headers and are counted here.
    #[inline(always)]
    pub(crate) fn is_inline(&self) -> bool {
        self.near.load(Ordering::Relaxed) != 0
    }

    /// Whoever frees, if it is not done here.
    pub(crate) fn free(&self, p: Ptr) {
        let f = self.free.load(Ordering::Relaxed);
        // SAFETY: only functions of this type are stored.
        let f = unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn(Ptr)>(f) };
        // SAFETY: the program's own call, passed on.
        unsafe { f(p) }
    }

    /// Whoever allocates, if it is not done here.
    pub(crate) fn malloc(&self, size: usize) -> Ptr {
        let f = self.malloc.load(Ordering::Relaxed);
        // SAFETY: only functions of this type are stored.
        let f =
            unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize) -> Ptr>(f) };
        // SAFETY: any size may be asked for.
        unsafe { f(size) }
    }
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn malloc(size: usize) -> Ptr {
    naked_asm!(
        ".cfi_startproc",
        "push qword ptr [rip + homefree_counter_v1@GOTTPOFF]",
        ".cfi_adjust_cfa_offset 8",
        "call qword ptr [rip + {hot} + {malloc}]",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "test dword ptr [rip + {hot} + {near}], eax",
        "jz 2f",
        "mov rcx, qword ptr [rax - 8]",
        "and rcx, -8",
        "sub rcx, 8",
        "add qword ptr fs:[rdx + {allocated}], rcx",
        "jns 3f",
        "ret",
        "3:",
        "sub qword ptr fs:[rdx + {allocated}], rcx",
        "2:",
        "mov rdi, rax",
        "jmp {slowly}",
        ".cfi_endproc",
        hot = sym HOT,
        malloc = const core::mem::offset_of!(Hot, malloc),
        near = const core::mem::offset_of!(Hot, near),
        allocated = const ALLOCATED,
        slowly = sym hooks::malloc_slowly,
    )
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn free(p: Ptr) {
    naked_asm!(
        ".cfi_startproc",
        "test dword ptr [rip + {hot} + {near}], edi",
        "jz {slowly}",
        "mov rcx, qword ptr [rdi - 8]",
        "and rcx, -8",
        "sub rcx, 8",
        "mov rdx, qword ptr [rip + homefree_counter_v1@GOTTPOFF]",
        "add qword ptr fs:[rdx + {freed}], rcx",
        "jns 3f",
        "jmp qword ptr [rip + {hot} + {free}]",
        "3:",
        "sub qword ptr fs:[rdx + {freed}], rcx",
        "jmp {slowly}",
        ".cfi_endproc",
        hot = sym HOT,
        free = const core::mem::offset_of!(Hot, free),
        near = const core::mem::offset_of!(Hot, near),
        freed = const FREED,
        slowly = sym hooks::free_slowly,
    )
}
