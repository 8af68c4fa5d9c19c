//! The raw system call of x86-64.

use core::arch::asm;

/// Makes a system call; the result is a value or a negated error number.
///
/// # Safety
/// As the call itself demands.
#[inline]
pub unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention; what the call does is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}
