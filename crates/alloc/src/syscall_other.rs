//! The raw system call by libc's function, whose `errno` is put back.

/// Makes a system call; the result is a value or a negated error number.
///
/// # Safety
/// As the call itself demands.
pub unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    // SAFETY: the calling thread's errno, and the caller's promise.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        let error = *errno;
        *errno = before;
        if result == -1 {
            -(error as isize)
        } else {
            result as isize
        }
    }
}
