//! The C++ operators: forwarded by one jump each.
//!
//! The standard ones (libstdc++'s, libc++'s) come down to `malloc` and `free`, which count. An allocator that brings its own
//! (jemalloc, tcmalloc) keeps them to itself: an operator in the same module as the next `malloc` is called by
//! a function here, which counts what no inner call has counted. Any other operator (of a pool, say) has its memory from
//! `malloc` in the end, and is left alone.
//!
//! An operator is forwarded to the next one of its name: handlers, exceptions and replaced operators stay as they are. What
//! comes next is decided once, at start-up: later a look-up would wait for the loader's lock, which another thread may
//! hold while it waits for this one. Where no C++ runtime is there by then (a C program that opens C++
//! plug-ins), operators are what the standard ones are, `malloc` and `free`; only one that fails looks for the runtime that is
//! to throw.

use crate::next::{self, NEXT, Ptr};
use crate::{careful, hot};
use core::arch::naked_asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use homefree_next::operators::{self, FIRST_ALIGNED, INSTEAD, NAMES, OPERATORS};
use homefree_next::{find, find_for_module, same_module};

/// Where each exported operator jumps to.
static TARGET: [AtomicPtr<c_void>; OPERATORS] = [
    AtomicPtr::new(first::<0> as *mut c_void),
    AtomicPtr::new(first::<1> as *mut c_void),
    AtomicPtr::new(first::<2> as *mut c_void),
    AtomicPtr::new(first::<3> as *mut c_void),
    AtomicPtr::new(first::<4> as *mut c_void),
    AtomicPtr::new(first::<5> as *mut c_void),
    AtomicPtr::new(first::<6> as *mut c_void),
    AtomicPtr::new(first::<7> as *mut c_void),
    AtomicPtr::new(first::<8> as *mut c_void),
    AtomicPtr::new(first::<9> as *mut c_void),
    AtomicPtr::new(first::<10> as *mut c_void),
    AtomicPtr::new(first::<11> as *mut c_void),
    AtomicPtr::new(first::<12> as *mut c_void),
    AtomicPtr::new(first::<13> as *mut c_void),
    AtomicPtr::new(first::<14> as *mut c_void),
    AtomicPtr::new(first::<15> as *mut c_void),
    AtomicPtr::new(first::<16> as *mut c_void),
    AtomicPtr::new(first::<17> as *mut c_void),
    AtomicPtr::new(first::<18> as *mut c_void),
    AtomicPtr::new(first::<19> as *mut c_void),
];

/// The next operators; null where there are none.
static FOUND: [AtomicPtr<c_void>; OPERATORS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; OPERATORS];

/// Somebody decides, or has.
static DECIDING: AtomicBool = AtomicBool::new(false);
/// Every operator has its target.
static DECIDED: AtomicBool = AtomicBool::new(false);

/// Looks the operators up, once.
pub(crate) fn decide() {
    if DECIDING.swap(true, Ordering::AcqRel) {
        return;
    }
    // Without this one there is no runtime, or none that counts.
    let any = !find(NAMES[0]).is_null();
    for index in 0..OPERATORS {
        let mut f = core::ptr::null_mut();
        if any {
            f = find(NAMES[index]);
            if f.is_null() {
                f = FOUND[INSTEAD[index]].load(Ordering::Relaxed);
            }
        }
        FOUND[index].store(f, Ordering::Relaxed);
        let own = !f.is_null()
            && same_module(f, NEXT.malloc.address())
            && same_module(f, NEXT.malloc_usable_size.address());
        let target = if f.is_null() {
            LATE[index]
        } else if own {
            COUNTED[index]
        } else {
            f.cast_const()
        };
        TARGET[index].store(target.cast_mut(), Ordering::Release);
    }
    DECIDED.store(true, Ordering::Release);
}

/// What an operator jumps to until it is decided: a constructor of a library that is initialised before ours
/// calls it. Returns what to jump to.
unsafe extern "C" fn decide_now(index: usize) -> *const c_void {
    crate::keep_errno(|| {
        next::prepare();
        decide();
    });
    if DECIDED.load(Ordering::Acquire) {
        TARGET[index].load(Ordering::Relaxed)
    } else {
        // Another thread is at it; what stands for a missing one will do.
        LATE[index]
    }
}

#[unsafe(naked)]
unsafe extern "C" fn first<const INDEX: usize>() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "mov edi, {index}",
        "call {decide_now}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        index = const INDEX,
        decide_now = sym decide_now,
    )
}

/// A table of functions' addresses.
#[repr(transparent)]
struct Addresses([*const c_void; OPERATORS]);
// SAFETY: addresses of functions.
unsafe impl Sync for Addresses {}
impl core::ops::Index<usize> for Addresses {
    type Output = *const c_void;
    fn index(&self, index: usize) -> &*const c_void {
        &self.0[index]
    }
}

/// For operators of the allocator's own.
static COUNTED: Addresses = Addresses([
    counted_new::<0> as *const c_void,
    counted_new::<1> as *const c_void,
    counted_new::<2> as *const c_void,
    counted_new::<3> as *const c_void,
    counted_new::<4> as *const c_void,
    counted_new::<5> as *const c_void,
    counted_new::<6> as *const c_void,
    counted_new::<7> as *const c_void,
    counted_delete::<8> as *const c_void,
    counted_delete::<9> as *const c_void,
    counted_delete::<10> as *const c_void,
    counted_delete::<11> as *const c_void,
    counted_delete::<12> as *const c_void,
    counted_delete::<13> as *const c_void,
    counted_delete::<14> as *const c_void,
    counted_delete::<15> as *const c_void,
    counted_delete::<16> as *const c_void,
    counted_delete::<17> as *const c_void,
    counted_delete::<18> as *const c_void,
    counted_delete::<19> as *const c_void,
]);

/// For operators of a runtime that is not there yet.
static LATE: Addresses = Addresses([
    late_new::<0> as *const c_void,
    late_new::<1> as *const c_void,
    late_new::<2> as *const c_void,
    late_new::<3> as *const c_void,
    late_new::<4> as *const c_void,
    late_new::<5> as *const c_void,
    late_new::<6> as *const c_void,
    late_new::<7> as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
    hot::free as *const c_void,
]);

/// What [`counted_new`] goes on with: an operator, and how much to ask of it.
#[repr(C)]
struct Request {
    operator: *const c_void,
    size: usize,
}

unsafe extern "C" fn before_new(size: usize, index: usize) -> Request {
    let operator = FOUND[index].load(Ordering::Relaxed).cast_const();
    // What no allocator has: it then fails as its own operators fail.
    let size = if careful::begin(size) {
        size
    } else {
        isize::MAX as usize
    };
    Request { operator, size }
}

unsafe extern "C" fn after_new(p: Ptr) -> Ptr {
    careful::finish(p);
    p
}

/// The next `operator new`, counted. An exception passes through: there is nothing to undo.
#[unsafe(naked)]
unsafe extern "C" fn counted_new<const INDEX: usize>() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "mov esi, {index}",
        "call {before_new}",
        "mov rdi, rdx",
        "mov rsi, qword ptr [rsp + 8]",
        "mov rdx, qword ptr [rsp]",
        "call rax",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "mov rdi, rax",
        "jmp {after_new}",
        ".cfi_endproc",
        index = const INDEX,
        before_new = sym before_new,
        after_new = sym after_new,
    )
}

/// The next `operator delete`, counted.
unsafe extern "C" fn counted_delete<const INDEX: usize>(p: Ptr, a: usize, b: usize) {
    type Delete = unsafe extern "C" fn(Ptr, usize, usize);
    let f = FOUND[INDEX].load(Ordering::Relaxed);
    // SAFETY: an operator of this name; it takes as many of the arguments as it has.
    let f = unsafe { core::mem::transmute::<*mut c_void, Delete>(f) };
    // SAFETY: the program's own call, passed on.
    careful::release(p, || unsafe { f(p, a, b) });
}

/// What stands in for `operator new` of a runtime that was not there at start-up.
#[unsafe(naked)]
unsafe extern "C" fn late_new<const INDEX: usize>() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "mov edx, {index}",
        "call {by_malloc}",
        "test rax, rax",
        "jnz 2f",
        "mov edi, {index}",
        "mov rsi, qword ptr [rsp + 24]",
        "call {throwing}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "jz 3f",
        "jmp rax",
        "3:",
        "ret",
        ".cfi_adjust_cfa_offset 24",
        "2:",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc",
        index = const INDEX,
        by_malloc = sym by_malloc,
        throwing = sym throwing,
    )
}

/// As the standard operators allocate.
unsafe extern "C" fn by_malloc(size: usize, align: usize, index: usize) -> Ptr {
    if index < FIRST_ALIGNED {
        // SAFETY: any size may be asked for.
        return unsafe { hot::malloc(operators::standard_size(size)) };
    }
    let (align, size) = operators::standard_aligned(size, align);
    // SAFETY: any size may be asked for.
    unsafe { crate::hooks::aligned_alloc(align, size) }
}

/// The operator that throws, for a `new` called at `pc` that has failed: of the module that called or what that
/// depends on. Null for forms that return null. Waits for the loader; there is no memory left to lose.
#[cold]
unsafe extern "C" fn throwing(index: usize, pc: usize) -> *const c_void {
    if !operators::throws(index) {
        return core::ptr::null();
    }
    let f = find_for_module(pc, NAMES[index]).cast_const();
    let own = [
        _Znwm as *const c_void,
        _Znam as *const c_void,
        _ZnwmSt11align_val_t as *const c_void,
        _ZnamSt11align_val_t as *const c_void,
    ];
    if own.contains(&f) {
        core::ptr::null()
    } else {
        f
    }
}

macro_rules! operators {
    ($($name:ident = $index:literal;)*) => { $(
        /// The C++ operator of this mangled name.
        ///
        /// # Safety
        /// As the C++ standard demands.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "jmp qword ptr [rip + {target} + {offset}]",
                target = sym TARGET,
                offset = const $index * 8,
            )
        }
    )* };
}

operators! {
    _Znwm = 0;
    _Znam = 1;
    _ZnwmRKSt9nothrow_t = 2;
    _ZnamRKSt9nothrow_t = 3;
    _ZnwmSt11align_val_t = 4;
    _ZnamSt11align_val_t = 5;
    _ZnwmSt11align_val_tRKSt9nothrow_t = 6;
    _ZnamSt11align_val_tRKSt9nothrow_t = 7;
    _ZdlPv = 8;
    _ZdaPv = 9;
    _ZdlPvRKSt9nothrow_t = 10;
    _ZdaPvRKSt9nothrow_t = 11;
    _ZdlPvm = 12;
    _ZdaPvm = 13;
    _ZdlPvSt11align_val_t = 14;
    _ZdaPvSt11align_val_t = 15;
    _ZdlPvSt11align_val_tRKSt9nothrow_t = 16;
    _ZdaPvSt11align_val_tRKSt9nothrow_t = 17;
    _ZdlPvmSt11align_val_t = 18;
    _ZdaPvmSt11align_val_t = 19;
}
