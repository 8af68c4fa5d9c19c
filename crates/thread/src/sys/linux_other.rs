//! System calls through libc, with `errno` put back.

/// Makes a system call; the result is a value or a negated error number.
///
/// # Safety
/// As the call itself demands.
pub unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    // SAFETY: the calling thread's own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    // SAFETY: the caller's promise.
    let result = unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if result != -1 {
        return result as isize;
    }
    // SAFETY: as above.
    let failed = unsafe { core::mem::replace(&mut *errno, saved) };
    -(failed as isize)
}
