//! System calls, in one place. None of them touches `errno`, allocates, or is a cancellation point.

#[cfg_attr(target_arch = "x86_64", path = "linux_x86_64.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "linux_other.rs")]
mod raw;

use core::ffi::CStr;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
pub use raw::syscall;

/// A failed call's error number (`libc::ENOSPC` …), positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

fn check(result: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&result) {
        Err(Errno(-result as i32))
    } else {
        Ok(result as usize)
    }
}

/// Maps `len` bytes of zeroed private memory, not reserved in swap.
pub fn map(len: usize) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping changes no existing memory.
    let at = unsafe {
        syscall(
            libc::SYS_mmap,
            [
                0,
                len,
                (libc::PROT_READ | libc::PROT_WRITE) as usize,
                flags as usize,
                usize::MAX,
                0,
            ],
        )
    };
    NonNull::new(check(at).ok()? as *mut u8)
}

/// Asks that a mapping be backed by small pages only, so that a sparse table stays sparse.
///
/// # Safety
/// `at..at + len` is a mapping of the caller's.
pub unsafe fn small_pages(at: NonNull<u8>, len: usize) {
    // SAFETY: advice on the caller's own mapping; it changes no contents.
    let _ = unsafe {
        syscall(
            libc::SYS_madvise,
            [
                at.as_ptr() as usize,
                len,
                libc::MADV_NOHUGEPAGE as usize,
                0,
                0,
                0,
            ],
        )
    };
}

/// Asks that a mapping be zeros in every child that gets a copy of it (Linux 4.14). A child that shares this memory sees
/// it as it is.
///
/// # Safety
/// `at..at + len` is a private mapping of the caller's, of no file.
pub unsafe fn wipe_on_fork(at: NonNull<u8>, len: usize) -> Result<(), Errno> {
    // SAFETY: advice on the caller's own mapping; it changes no contents here.
    check(unsafe {
        syscall(
            libc::SYS_madvise,
            [
                at.as_ptr() as usize,
                len,
                libc::MADV_WIPEONFORK as usize,
                0,
                0,
                0,
            ],
        )
    })?;
    Ok(())
}

/// Unmaps.
///
/// # Safety
/// `at..at + len` is a mapping of the caller's that nothing refers to.
pub unsafe fn unmap(at: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { syscall(libc::SYS_munmap, [at.as_ptr() as usize, len, 0, 0, 0, 0]) };
}

/// Maps the start of a file shared over `at..at + len`, replacing what is there.
///
/// # Safety
/// `at..at + len` is a mapping of the caller's; the caller accesses only the part that the file has.
pub unsafe fn map_file_over(at: NonNull<u8>, len: usize, fd: i32) -> Result<(), Errno> {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: the caller's promise.
    check(unsafe {
        syscall(
            libc::SYS_mmap,
            [
                at.as_ptr() as usize,
                len,
                prot,
                flags as usize,
                fd as usize,
                0,
            ],
        )
    })?;
    Ok(())
}

/// Moves the mapping `from..from + len` over `to..to + len`.
///
/// # Safety
/// Both are mappings of the caller's; nothing refers to `from`, nothing reads `to` meanwhile.
pub unsafe fn move_over(from: NonNull<u8>, to: NonNull<u8>, len: usize) -> Result<(), Errno> {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    // SAFETY: the caller's promise.
    check(unsafe {
        syscall(
            libc::SYS_mremap,
            [
                from.as_ptr() as usize,
                len,
                len,
                flags,
                to.as_ptr() as usize,
                0,
            ],
        )
    })?;
    Ok(())
}

/// Whether the 8 bytes at an address can be read: asks the kernel by a call that fails either way,
/// with EFAULT where they can not (the method of Abseil's `AddressIsReadable`).
pub fn readable(address: usize) -> bool {
    // SAFETY: an invalid `how` makes the call change nothing; the kernel checks the address.
    let result = unsafe {
        syscall(
            libc::SYS_rt_sigprocmask,
            [usize::MAX, address & !7, 0, 8, 0, 0],
        )
    };
    check(result) != Err(Errno(libc::EFAULT))
}

/// An open file, closed when dropped. Not to be kept: programs close what they did not open.
pub struct File {
    fd: i32,
}

impl File {
    /// Creates a file that must not exist, for reading and writing, mode 0666 less the umask.
    pub fn create_new(path: &CStr) -> Result<Self, Errno> {
        Self::open_with(
            path,
            libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW,
        )
    }

    /// Opens an existing file for reading and writing.
    pub fn open(path: &CStr) -> Result<Self, Errno> {
        Self::open_with(path, libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW)
    }

    /// Opens an existing file for reading.
    pub fn read_only(path: &CStr) -> Result<Self, Errno> {
        Self::open_with(path, libc::O_RDONLY | libc::O_CLOEXEC)
    }

    fn open_with(path: &CStr, flags: i32) -> Result<Self, Errno> {
        // SAFETY: a NUL-terminated path that lives through the call.
        let fd = unsafe {
            syscall(
                libc::SYS_openat,
                [
                    libc::AT_FDCWD as usize,
                    path.as_ptr() as usize,
                    flags as usize,
                    0o666,
                    0,
                    0,
                ],
            )
        };
        check(fd).map(|fd| Self { fd: fd as i32 })
    }

    /// The descriptor.
    pub fn fd(&self) -> i32 {
        self.fd
    }

    /// Device and inode.
    pub fn identity(&self) -> Result<(u64, u64), Errno> {
        // SAFETY: an all-zero stat is a valid value.
        let mut stat: libc::stat = unsafe { core::mem::zeroed() };
        // SAFETY: the kernel fills the struct it is given.
        check(unsafe {
            syscall(
                libc::SYS_fstat,
                [self.fd as usize, &raw mut stat as usize, 0, 0, 0, 0],
            )
        })?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Makes sure that `from..to` has room on the disk, and extends the file to `to`. Where the file
    /// system can not promise room, writes zeros.
    pub fn allocate(&self, from: usize, to: usize) -> Result<(), Errno> {
        // In pieces, since some file systems give up and undo at any signal.
        let mut at = from;
        while at < to {
            let len = (to - at).min(1 << 20);
            // SAFETY: plain values.
            let result =
                unsafe { syscall(libc::SYS_fallocate, [self.fd as usize, 0, at, len, 0, 0]) };
            match check(result) {
                Ok(_) => at += len,
                Err(Errno(libc::EINTR)) => {}
                Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                    let zeros = [0u8; 512];
                    while at < to {
                        let len = (to - at).min(zeros.len());
                        self.write_at(&zeros[..len], at)?;
                        at += len;
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Cuts or extends the file.
    pub fn set_len(&self, len: usize) -> Result<(), Errno> {
        // SAFETY: plain values.
        check(unsafe { syscall(libc::SYS_ftruncate, [self.fd as usize, len, 0, 0, 0, 0]) })?;
        Ok(())
    }

    /// Writes all of `bytes` at an offset.
    pub fn write_at(&self, mut bytes: &[u8], mut at: usize) -> Result<(), Errno> {
        while !bytes.is_empty() {
            // SAFETY: the kernel reads the slice it is given.
            let n = unsafe {
                syscall(
                    libc::SYS_pwrite64,
                    [
                        self.fd as usize,
                        bytes.as_ptr() as usize,
                        bytes.len(),
                        at,
                        0,
                        0,
                    ],
                )
            };
            match check(n) {
                Ok(0) => return Err(Errno(libc::ENOSPC)),
                Ok(n) => {
                    bytes = &bytes[n..];
                    at += n;
                }
                Err(Errno(libc::EINTR)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads up to `out.len()` bytes from the current position; 0 at the end.
    pub fn read(&self, out: &mut [u8]) -> Result<usize, Errno> {
        loop {
            // SAFETY: the kernel writes within the slice it is given.
            let n = unsafe {
                syscall(
                    libc::SYS_read,
                    [
                        self.fd as usize,
                        out.as_mut_ptr() as usize,
                        out.len(),
                        0,
                        0,
                        0,
                    ],
                )
            };
            match check(n) {
                Err(Errno(libc::EINTR)) => {}
                other => return other,
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this value's own.
        let _ = unsafe { syscall(libc::SYS_close, [self.fd as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Reads a small file whole (what fits in `out`); 0 where it can not.
pub fn read_file(path: &CStr, out: &mut [u8]) -> usize {
    let Ok(file) = File::read_only(path) else {
        return 0;
    };
    let mut len = 0;
    while len < out.len() {
        match file.read(&mut out[len..]) {
            Ok(0) | Err(_) => break,
            Ok(n) => len += n,
        }
    }
    len
}

/// Resolves a symbolic link; 0 where it can not.
pub fn read_link(path: &CStr, out: &mut [u8]) -> usize {
    // SAFETY: the kernel reads the path and writes within the slice.
    let n = unsafe {
        let args = [
            libc::AT_FDCWD as usize,
            path.as_ptr() as usize,
            out.as_mut_ptr() as usize,
            out.len(),
            0,
            0,
        ];
        syscall(libc::SYS_readlinkat, args)
    };
    check(n).unwrap_or(0)
}

/// Removes a file.
pub fn unlink(path: &CStr) {
    // SAFETY: a NUL-terminated path that lives through the call.
    let _ = unsafe {
        syscall(
            libc::SYS_unlinkat,
            [libc::AT_FDCWD as usize, path.as_ptr() as usize, 0, 0, 0, 0],
        )
    };
}

/// The current directory; 0 where it can not be told or does not fit.
pub fn current_dir(out: &mut [u8]) -> usize {
    // SAFETY: the kernel writes within the slice.
    let n = unsafe {
        syscall(
            libc::SYS_getcwd,
            [out.as_mut_ptr() as usize, out.len(), 0, 0, 0, 0],
        )
    };
    // The kernel counts the NUL.
    check(n).unwrap_or(0).saturating_sub(1)
}

/// The host's name; 0 where it can not be told.
pub fn host_name(out: &mut [u8]) -> usize {
    // SAFETY: an all-zero utsname is a valid value.
    let mut names: libc::utsname = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills the struct it is given.
    if check(unsafe { syscall(libc::SYS_uname, [&raw mut names as usize, 0, 0, 0, 0, 0]) }).is_err()
    {
        return 0;
    }
    let mut len = 0;
    for (place, &byte) in out.iter_mut().zip(&names.nodename) {
        if byte == 0 {
            break;
        }
        *place = byte as u8;
        len += 1;
    }
    len
}

macro_rules! simple {
    ($($(#[$m:meta])* $name:ident = $number:ident;)*) => { $(
        $(#[$m])*
        pub fn $name() -> u32 {
            // SAFETY: takes no argument and can not fail.
            unsafe { syscall(libc::$number, [0; 6]) as u32 }
        }
    )* };
}
simple! {
    /// Kernel id of the calling thread.
    thread_id = SYS_gettid;
    /// Process id.
    process_id = SYS_getpid;
    /// Parent's process id.
    parent_id = SYS_getppid;
}

/// Gives the processor away.
pub fn yield_now() {
    // SAFETY: takes no argument.
    let _ = unsafe { syscall(libc::SYS_sched_yield, [0; 6]) };
}

/// Sleeps for so many nanoseconds, less than a second.
pub fn sleep(nanoseconds: i64) {
    let time = [0, nanoseconds];
    // SAFETY: the kernel reads the two words of a timespec.
    let _ = unsafe { syscall(libc::SYS_nanosleep, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Waits until the word is not `seen` any more and it is woken ([`wake`]), at most so many nanoseconds. May
/// return early.
pub fn wait(word: &AtomicU32, seen: u32, nanoseconds: i64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let (word, time) = (word.as_ptr() as usize, time.as_ptr() as usize);
    // SAFETY: the kernel reads the word and the two words of a timespec.
    let _ = unsafe {
        syscall(
            libc::SYS_futex,
            [word, operation, seen as usize, time, 0, 0],
        )
    };
}

/// Wakes all who wait for the word.
pub fn wake(word: &AtomicU32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    let (word, all) = (word.as_ptr() as usize, i32::MAX as usize);
    // SAFETY: wakes threads; nothing is read or written.
    let _ = unsafe { syscall(libc::SYS_futex, [word, operation, all, 0, 0, 0]) };
}

/// The calling thread's name, without the NUL.
pub fn thread_name(out: &mut [u8; 16]) -> usize {
    *out = [0; 16];
    // SAFETY: the kernel writes 16 bytes.
    let _ = unsafe {
        syscall(
            libc::SYS_prctl,
            [
                libc::PR_GET_NAME as usize,
                out.as_mut_ptr() as usize,
                0,
                0,
                0,
                0,
            ],
        )
    };
    out.iter().position(|&b| b == 0).unwrap_or(out.len())
}

/// Random bytes; zeros where the kernel has none yet.
pub fn random() -> u64 {
    let mut word = 0u64;
    // SAFETY: the kernel writes within the word. GRND_NONBLOCK.
    let _ = unsafe { syscall(libc::SYS_getrandom, [&raw mut word as usize, 8, 1, 0, 0, 0]) };
    word
}

fn soft_limit(which: u32) -> Option<usize> {
    let mut limit = [0u64; 2];
    let out = &raw mut limit as usize;
    // SAFETY: the kernel fills the two words of an rlimit64.
    let result = unsafe { syscall(libc::SYS_prlimit64, [0, which as usize, 0, out, 0, 0]) };
    check(result).ok()?;
    usize::try_from(limit[0]).ok()
}

/// Soft limit of the main thread's stack, bytes; `usize::MAX` for none.
pub fn stack_limit() -> usize {
    soft_limit(libc::RLIMIT_STACK).unwrap_or(8 << 20)
}

/// Soft limit of the address space, bytes; `usize::MAX` for none.
pub fn address_space_limit() -> usize {
    soft_limit(libc::RLIMIT_AS).unwrap_or(usize::MAX)
}

/// Soft limit of a file's size, bytes; `usize::MAX` for none. Growing past it would raise SIGXFSZ.
pub fn file_size_limit() -> usize {
    soft_limit(libc::RLIMIT_FSIZE).unwrap_or(usize::MAX)
}

/// `CLOCK_MONOTONIC` or another clock, nanoseconds.
pub fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid out-pointer. libc's own function, for the vDSO; it fails for no clock used here,
    // so it leaves `errno` alone.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_tells_mapped_from_unmapped() {
        let page = map(8192).unwrap();
        assert!(readable(page.as_ptr() as usize));
        // SAFETY: the second page of the mapping just made, used by nobody.
        unsafe { unmap(NonNull::new(page.as_ptr().add(4096)).unwrap(), 4096) };
        assert!(!readable(page.as_ptr() as usize + 4096));
        assert!(!readable(16));
    }

    #[test]
    fn errno_is_left_alone() {
        // SAFETY: the calling thread's errno.
        let errno = unsafe { &mut *libc::__errno_location() };
        *errno = 77;
        assert_eq!(
            File::open(c"/nonexistent/x").err(),
            Some(Errno(libc::ENOENT))
        );
        assert_eq!(*errno, 77);
        assert!(clock(libc::CLOCK_MONOTONIC) > 0);
        assert_eq!(*errno, 77);
    }

    #[test]
    fn names_and_ids() {
        let mut name = [0; 16];
        assert!(thread_name(&mut name) > 0);
        assert_eq!(process_id(), std::process::id());
        let mut dir = [0; 4096];
        let len = current_dir(&mut dir);
        assert_eq!(
            &dir[..len],
            std::env::current_dir()
                .unwrap()
                .as_os_str()
                .as_encoded_bytes()
        );
    }
}
