//! Whether the process has confined itself with a filter of system calls (seccomp).
//!
//! A filter may end the process at any call that it did not foresee, and to ask whether there is one is such a call. So
//! the two functions that set one are watched, `prctl` and `syscall`; each goes on to the next with all that it was
//! given. Before the filter is there the last calls are made; from then on there are none.

use crate::{own, page};
use core::arch::naked_asm;
use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether no more system calls are to be made but those that the program makes itself.
pub(crate) fn is_set() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

type Address = AtomicPtr<c_void>;
static PRCTL: Address = AtomicPtr::new(raw_prctl as *mut c_void);
static SYSCALL: Address = AtomicPtr::new(raw_syscall as *mut c_void);

/// Looks the next functions up, while it is safe to.
pub(crate) fn prepare() {
    for (next, name) in [(&PRCTL, c"prctl"), (&SYSCALL, c"syscall")] {
        let f = homefree_next::find(name);
        if !f.is_null() {
            next.store(f, Ordering::Release);
        }
    }
}

/// Operations of `seccomp` that set a filter, or the strict mode.
const SET_STRICT: usize = 0;
const SET_FILTER: usize = 1;

/// Before a call that may set a filter.
extern "C" fn before(number: c_long, operation: usize, _: usize, filter: usize) {
    let sets = match number {
        libc::SYS_prctl => operation as u32 == libc::PR_SET_SECCOMP as u32,
        // Without one the kernel is only asked what it knows.
        _ => match operation as u32 as usize {
            SET_STRICT => true,
            SET_FILTER => filter != 0,
            _ => false,
        },
    };
    if !sets || is_set() {
        return;
    }
    crate::keep_errno(|| {
        // A child of `vfork` confines itself alone.
        if own::is_this_process() {
            page::make_if_awaited();
            CONFINED.store(true, Ordering::Relaxed);
            homefree_ledger::raw::confine();
        }
    });
}

extern "C" fn before_prctl(option: c_int) {
    before(libc::SYS_prctl, option as usize, 0, 0);
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn prctl() {
    naked_asm!(
        ".cfi_startproc",
        "cmp edi, {set}",
        "je 2f",
        "jmp qword ptr [rip + {next}]",
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        ".cfi_adjust_cfa_offset 40",
        "call {before}",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -40",
        // No argument is in a vector register.
        "xor eax, eax",
        "jmp qword ptr [rip + {next}]",
        ".cfi_endproc",
        set = const libc::PR_SET_SECCOMP,
        next = sym PRCTL,
        before = sym before_prctl,
    )
}

/// See the C library's function of this name. Its stack is left as it is: a call may return on another one, or twice.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "cmp rdi, {seccomp}",
        "je 2f",
        "cmp rdi, {prctl}",
        "je 2f",
        "jmp qword ptr [rip + {next}]",
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 56",
        "call {before}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -56",
        "xor eax, eax",
        "jmp qword ptr [rip + {next}]",
        ".cfi_endproc",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        next = sym SYSCALL,
        before = sym before,
    )
}

/// What the C library's `prctl` does; until it is found, for constructors that run before ours.
#[unsafe(naked)]
unsafe extern "C" fn raw_prctl() {
    naked_asm!(
        "mov eax, {prctl}",
        "mov r10, rcx",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "mov edi, eax",
        "jmp {failed}",
        prctl = const libc::SYS_prctl,
        failed = sym failed,
    )
}

/// What the C library's `syscall` does.
#[unsafe(naked)]
unsafe extern "C" fn raw_syscall() {
    naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, qword ptr [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "mov edi, eax",
        "jmp {failed}",
        failed = sym failed,
    )
}

/// Keeps a negated error number as the C library does.
extern "C" fn failed(error: c_int) -> c_long {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = error.wrapping_neg() };
    -1
}
