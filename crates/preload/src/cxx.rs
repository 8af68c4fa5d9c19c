//! The C++ operators.
//!
//! Hooked besides `malloc` and `free` for two reasons: allocators that bring their own operators do not
//! call `malloc` from them, and the C++ runtime has no frame pointers, so a stack taken from inside it
//! by frame pointers loses the caller. An operator is forwarded to the next operator of its name, never
//! to `malloc`: handlers, exceptions and replaced operators stay as they are. If that calls `malloc`, the
//! block is recorded there, with the stack of the operator's caller; else here, after it has returned.
//!
//! What comes next is decided once, at start-up: later a look-up would wait for the loader's lock, which
//! another thread may hold while it waits for this one, and what was found could be unloaded. Where no
//! C++ runtime is there by then (a C program that opens C++ plug-ins), operators are what the standard
//! ones are, `malloc` and `free`; only one that fails looks for the runtime that is to throw.
//!
//! One short cut: where all operators behind us are standard and nothing in the program replaces one of
//! them, `malloc` or `free`, what they do is known: the C function, and a handler or an exception if it
//! fails. Then the C function is called at once and the operator only if that fails.
//!
//! An exception passes through the stub of `operator new`, which therefore is assembly with its own
//! call-frame information and keeps nothing that would have to be undone.

use crate::next::{self, NEXT, Ptr};
use crate::{registers, slot};
use core::arch::naked_asm;
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use homefree_next::operators::{self, FIRST_ALIGNED, FIRST_DELETE, INSTEAD, NAMES, OPERATORS};
use homefree_record as record;

static FOUND: [AtomicPtr<c_void>; OPERATORS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; OPERATORS];

/// The operators behind us are known, or known not to be there.
static DECIDED: AtomicBool = AtomicBool::new(false);

/// The next operator, or what stands for it.
#[inline(always)]
fn operator(index: usize) -> *const c_void {
    let f = FOUND[index].load(Ordering::Relaxed);
    if f.is_null() {
        other_operator(index)
    } else {
        f
    }
}

#[cold]
#[inline(never)]
fn other_operator(index: usize) -> *const c_void {
    if !DECIDED.load(Ordering::Acquire) {
        // A constructor of a library that is initialised before ours.
        next::prepare();
        decide();
        let f = FOUND[index].load(Ordering::Relaxed);
        if !f.is_null() {
            return f;
        }
    }
    match index {
        FIRST_DELETE.. => free_only as *const c_void,
        FIRST_ALIGNED.. => aligned_only as *const c_void,
        _ => malloc_only as *const c_void,
    }
}

/// Looks the operators up, once.
pub(crate) fn decide() {
    if DECIDED.load(Ordering::Acquire) {
        return;
    }
    record::quietly(slot(), || {
        // Without this one there is no runtime, or none that counts.
        let any = !next::find(NAMES[0]).is_null();
        for index in 0..OPERATORS {
            if !any {
                break;
            }
            let f = next::find(NAMES[index]);
            let instead = FOUND[INSTEAD[index]].load(Ordering::Relaxed);
            FOUND[index].store(if f.is_null() { instead } else { f }, Ordering::Relaxed);
        }
        STANDARD.store(all_standard(), Ordering::Relaxed);
        DECIDED.store(true, Ordering::Release);
    });
}

/// The operator that throws for `new` called at `pc`, after `malloc` failed: of the module that called or
/// what that depends on. Waits for the loader; there is no memory left to lose.
#[cold]
fn throwing(index: usize, pc: usize) -> *const c_void {
    record::quietly(slot(), || {
        let f = next::find_for_module(pc, NAMES[index]);
        let own = own_operators();
        if f.is_null() || own.contains(&f.cast_const()) {
            operator(index)
        } else {
            f
        }
    })
}

/// The operators are the standard ones, see the top of this file.
static STANDARD: AtomicBool = AtomicBool::new(false);

/// Whether the operators behind us are the standard ones, and the program's operators, `malloc` and `free`
/// are all ours, so that nothing else stands in between.
fn all_standard() -> bool {
    let ours = |name: &CStr, own: *const c_void| {
        // SAFETY: a NUL-terminated name.
        let bound = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        bound.cast_const() == own
    };
    let standard = |place: &AtomicPtr<c_void>| {
        let f = place.load(Ordering::Relaxed);
        f.is_null() || next::is_standard_runtime(f)
    };
    FOUND.iter().all(standard)
        && ours(c"malloc", crate::hooks::malloc as *const c_void)
        && ours(c"free", crate::hooks::free as *const c_void)
        && NAMES
            .iter()
            .zip(own_operators())
            .all(|(name, own)| ours(name, own))
}

unsafe extern "C" fn malloc_only(size: usize) -> Ptr {
    // SAFETY: any size may be asked for.
    unsafe { NEXT.malloc.get()(operators::standard_size(size)) }
}

unsafe extern "C" fn aligned_only(size: usize, align: usize) -> Ptr {
    let (align, size) = operators::standard_aligned(size, align);
    // SAFETY: any size may be asked for.
    unsafe { NEXT.aligned_alloc.get()(align, size) }
}

unsafe extern "C" fn free_only(p: Ptr) {
    // SAFETY: the caller's own promise, passed on.
    unsafe { NEXT.free.get()(p) }
}

/// The short cut for `operator new`: null where it is not to be taken or fails.
unsafe extern "C" fn new_directly(
    size: usize,
    sp: *const usize,
    fp: usize,
    index: usize,
    align: usize,
) -> Ptr {
    if !STANDARD.load(Ordering::Relaxed) {
        return core::ptr::null_mut();
    }
    let p = if index < FIRST_ALIGNED {
        // SAFETY: any size may be asked for.
        unsafe { malloc_only(size) }
    } else if FOUND[index].load(Ordering::Relaxed).is_null() {
        // SAFETY: any size may be asked for.
        unsafe { aligned_only(size, align) }
    } else {
        // How that runtime aligns is its own affair.
        return core::ptr::null_mut();
    };
    if !p.is_null() {
        // SAFETY: the stub's own stack pointer at entry.
        record::allocated(slot(), p as usize, size, unsafe { registers(sp, fp) });
    }
    p
}

/// Before the next `operator new`: announces the call; returns the operator.
unsafe extern "C" fn enter(index: usize, sp: *const usize, fp: usize) -> *const c_void {
    let mut f = operator(index);
    // SAFETY: the stub's own stack pointer at entry.
    let regs = unsafe { registers(sp, fp) };
    // A C function stands in for a throwing operator, and has failed just now.
    if operators::throws(index)
        && STANDARD.load(Ordering::Relaxed)
        && FOUND[index].load(Ordering::Relaxed).is_null()
    {
        // Called by another operator, by a jump: for the program's call.
        let [outer, sp, _] = slot().outer.get();
        f = throwing(index, if sp == 0 { regs.pc } else { outer });
    }
    record::enter(slot(), regs);
    f
}

/// After it: records the block unless an inner hook has.
unsafe extern "C" fn leave(p: Ptr, size: usize, sp: *const usize, fp: usize) -> Ptr {
    if !record::leave(slot(), p as usize) && !p.is_null() {
        // SAFETY: the stub's own stack pointer at entry.
        record::allocated(slot(), p as usize, size, unsafe { registers(sp, fp) });
    }
    p
}

macro_rules! new {
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
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "mov r8, rsi",
                "lea rsi, [rsp + 24]",
                "mov rdx, rbp",
                "mov ecx, {index}",
                "call {directly}",
                "test rax, rax",
                "jnz 2f",
                "mov edi, {index}",
                "lea rsi, [rsp + 24]",
                "mov rdx, rbp",
                "call {enter}",
                "mov rdi, [rsp + 16]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp]",
                "call rax",
                "mov rdi, rax",
                "mov rsi, [rsp + 16]",
                "lea rdx, [rsp + 24]",
                "mov rcx, rbp",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "jmp {leave}",
                ".cfi_adjust_cfa_offset 24",
                "2:",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                index = const $index,
                directly = sym new_directly,
                enter = sym enter,
                leave = sym leave,
            )
        }
    )* };
}

new! {
    _Znwm = 0;
    _Znam = 1;
    _ZnwmRKSt9nothrow_t = 2;
    _ZnamRKSt9nothrow_t = 3;
    _ZnwmSt11align_val_t = 4;
    _ZnamSt11align_val_t = 5;
    _ZnwmSt11align_val_tRKSt9nothrow_t = 6;
    _ZnamSt11align_val_tRKSt9nothrow_t = 7;
}

/// Before the next `operator delete`: notes the free; returns the function to go on with.
unsafe extern "C" fn note_delete(
    p: Ptr,
    index: usize,
    sp: *const usize,
    fp: usize,
) -> *const c_void {
    let standard = STANDARD.load(Ordering::Relaxed);
    if !p.is_null() {
        // SAFETY: the stub's own stack pointer at entry.
        let regs = unsafe { registers(sp, fp) };
        if standard {
            record::freed(slot(), p as usize, regs);
        } else {
            record::freed_by_outer(slot(), p as usize, regs);
        }
    }
    // All standard forms come down to this.
    if standard {
        NEXT.free.get() as *const c_void
    } else {
        operator(index)
    }
}

macro_rules! delete {
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
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "mov esi, {index}",
                "lea rdx, [rsp + 24]",
                "mov rcx, rbp",
                "call {note_delete}",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                index = const $index,
                note_delete = sym note_delete,
            )
        }
    )* };
}

delete! {
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

/// Our own operators, in the order of [`NAMES`].
fn own_operators() -> [*const c_void; OPERATORS] {
    [
        _Znwm as *const c_void,
        _Znam as *const c_void,
        _ZnwmRKSt9nothrow_t as *const c_void,
        _ZnamRKSt9nothrow_t as *const c_void,
        _ZnwmSt11align_val_t as *const c_void,
        _ZnamSt11align_val_t as *const c_void,
        _ZnwmSt11align_val_tRKSt9nothrow_t as *const c_void,
        _ZnamSt11align_val_tRKSt9nothrow_t as *const c_void,
        _ZdlPv as *const c_void,
        _ZdaPv as *const c_void,
        _ZdlPvRKSt9nothrow_t as *const c_void,
        _ZdaPvRKSt9nothrow_t as *const c_void,
        _ZdlPvm as *const c_void,
        _ZdaPvm as *const c_void,
        _ZdlPvSt11align_val_t as *const c_void,
        _ZdaPvSt11align_val_t as *const c_void,
        _ZdlPvSt11align_val_tRKSt9nothrow_t as *const c_void,
        _ZdaPvSt11align_val_tRKSt9nothrow_t as *const c_void,
        _ZdlPvmSt11align_val_t as *const c_void,
        _ZdaPvmSt11align_val_t as *const c_void,
    ]
}
