//! A thread that gives memory back where no other thread calls any more.
//!
//! It is there only while a process with several threads holds idle memory, and for two seconds after:
//! programs that have one thread keep one. It is made by the bare system call, since libc's way allocates and
//! takes locks that the caller may hold; it has no thread-local storage and runs nothing but a purge's
//! turn. All signals are blocked in it. `HOMEFREE_BACKGROUND=0` does without; so does a process with a
//! seccomp filter, which may forbid the call in its own way.

use crate::purge;
use crate::registry::ATTACHED;
use core::sync::atomic::{AtomicU32, Ordering::*};
use homefree_thread::{environment, sys};

const NOT_ASKED: u32 = 0;
const IDLE: u32 = 1;
const RUNNING: u32 = 2;
const NEVER: u32 = 3;
static STATE: AtomicU32 = AtomicU32::new(NOT_ASKED);

/// Kernel id of the thread; the kernel clears it when the thread has left its stack.
static THREAD: AtomicU32 = AtomicU32::new(0);

/// Not 0 when the thread is to end at once; it waits for that between its turns.
static STOP: AtomicU32 = AtomicU32::new(0);

/// Turns without idle memory after which it ends.
const QUIET_TURNS: u32 = 4;

/// Called where memory has become idle: starts the thread if there is need.
#[inline]
pub(crate) fn wake() {
    if STATE.load(Relaxed) < RUNNING && ATTACHED.load(Relaxed) > 1 {
        start();
    }
}

/// Ends the thread for good and waits until it is gone: the code that it runs is about to be unmapped.
pub(crate) fn stop() {
    if STATE.swap(NEVER, SeqCst) == RUNNING {
        STOP.store(1, SeqCst);
        thread::wake(&STOP);
    }
    while THREAD.load(Acquire) != 0 {
        sys::yield_now();
    }
}

/// In a child of `fork` there is none.
pub(crate) fn forget() {
    if STATE.load(Relaxed) == RUNNING {
        STATE.store(IDLE, Relaxed);
    }
    THREAD.store(0, Relaxed);
}

#[cold]
fn start() {
    if STATE.load(Relaxed) == NOT_ASKED {
        let may = environment::variable(b"HOMEFREE_BACKGROUND") != Some(b"0") && !is_filtered();
        let _ = STATE.compare_exchange(NOT_ASKED, if may { IDLE } else { NEVER }, AcqRel, Relaxed);
    }
    // The last one may still stand on the stack.
    if THREAD.load(Acquire) != 0
        || STATE
            .compare_exchange(IDLE, RUNNING, AcqRel, Relaxed)
            .is_err()
    {
        return;
    }
    if !thread::spawn(run, &THREAD) {
        STATE.store(NEVER, Relaxed);
    }
}

/// Whether the process runs under a seccomp filter, or does not let us see.
pub(crate) fn is_filtered() -> bool {
    let mut text = [0; 4096];
    let len = sys::read_file(c"/proc/self/status", &mut text);
    !text[..len].windows(11).any(|w| w == b"\nSeccomp:\t0")
}

extern "C" fn run() -> ! {
    let (mut quiet, mut idle) = (0, 0);
    loop {
        thread::wait(&STOP, purge::TURN);
        if STOP.load(SeqCst) != 0 {
            thread::end();
        }
        if is_filtered() {
            STATE.store(NEVER, Relaxed);
            thread::end();
        }
        // Memory that the system does not take (because it is locked) is no reason to stay.
        let before = core::mem::replace(&mut idle, purge::idle());
        quiet = if purge::turn() || idle != before {
            0
        } else {
            quiet + 1
        };
        if quiet >= QUIET_TURNS {
            STATE.store(IDLE, SeqCst);
            // What became idle just before was not told to anyone else.
            if purge::idle() == idle
                || STATE
                    .compare_exchange(IDLE, RUNNING, SeqCst, Relaxed)
                    .is_err()
            {
                thread::end();
            }
            quiet = 0;
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod thread {
    use super::*;
    use core::arch::asm;
    use core::cell::UnsafeCell;
    use homefree_thread::sys::syscall;

    #[repr(align(4096))]
    struct Stack(UnsafeCell<[u8; 32 << 10]>);
    // SAFETY: one thread at a time stands on it: `THREAD` says whether one does.
    unsafe impl Sync for Stack {}
    static STACK: Stack = Stack(UnsafeCell::new([0; 32 << 10]));

    /// Starts a thread that shares all with the caller but has no thread-local storage of its own.
    pub fn spawn(run: extern "C" fn() -> !, id: &'static AtomicU32) -> bool {
        let flags = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM
            | libc::CLONE_PARENT_SETTID
            | libc::CLONE_CHILD_CLEARTID;
        let (all, mut before) = (u64::MAX, 0u64);
        let top = STACK.0.get() as usize + size_of::<Stack>();
        let result: isize;
        // SAFETY: the signal mask is put back; the new thread starts on a stack of its own, calls `run`
        // with the stack aligned, and never returns.
        unsafe {
            let mask = [
                libc::SIG_SETMASK as usize,
                &raw const all as usize,
                &raw mut before as usize,
                8,
                0,
                0,
            ];
            syscall(libc::SYS_rt_sigprocmask, mask);
            asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "xor ebp, ebp",
                "call r12",
                "ud2",
                "2:",
                inlateout("rax") libc::SYS_clone as isize => result,
                in("rdi") flags as usize,
                in("rsi") top,
                in("rdx") id.as_ptr(),
                in("r10") id.as_ptr(),
                in("r8") 0,
                in("r12") run,
                lateout("rcx") _,
                lateout("r11") _,
            );
            let mask = [
                libc::SIG_SETMASK as usize,
                &raw const before as usize,
                0,
                8,
                0,
                0,
            ];
            syscall(libc::SYS_rt_sigprocmask, mask);
        }
        if result > 0 {
            return true;
        }
        id.store(0, Relaxed);
        false
    }

    const WAIT: usize = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    const WAKE: usize = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;

    /// Waits until the word, which is 0, is changed and woken, or for so many nanoseconds.
    pub fn wait(word: &AtomicU32, nanoseconds: u64) {
        let time = [0, nanoseconds];
        let args = [
            word.as_ptr() as usize,
            WAIT,
            0,
            time.as_ptr() as usize,
            0,
            0,
        ];
        // SAFETY: the kernel reads the word and the time.
        unsafe { syscall(libc::SYS_futex, args) };
    }

    /// Wakes who waits for the word.
    pub fn wake(word: &AtomicU32) {
        // SAFETY: the kernel takes the word's address as a name.
        unsafe { syscall(libc::SYS_futex, [word.as_ptr() as usize, WAKE, 1, 0, 0, 0]) };
    }

    /// Ends the calling thread, which is one of [`spawn`]'s.
    pub fn end() -> ! {
        loop {
            // SAFETY: the thread has no frame that anybody waits for.
            unsafe { syscall(libc::SYS_exit, [0; 6]) };
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod thread {
    use super::*;

    /// Not here.
    pub fn spawn(_: extern "C" fn() -> !, _: &'static AtomicU32) -> bool {
        false
    }

    /// Never called, since nothing is spawned.
    pub fn wait(_: &AtomicU32, nanoseconds: u64) {
        sys::sleep(nanoseconds as i64);
    }

    /// Nobody waits.
    pub fn wake(_: &AtomicU32) {}

    /// Never called, since nothing is spawned.
    pub fn end() -> ! {
        loop {
            sys::sleep(purge::TURN as i64);
        }
    }
}
