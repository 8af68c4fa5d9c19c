//! Thread exit and fork.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

/// A thread-exit hook: a pthread key. It comes after the destructors of C++ and Rust thread-locals. A
/// destructor that arms it again is called in the next of the rounds that POSIX guarantees, after most
/// other keys' too; but a thread that was first armed in a late round has fewer left, or none.
///
/// The destructor gets its state from the key's value, never from thread-local storage (some systems
/// have torn that down by then). The key is deleted when the artifact is unloaded, so `dlclose` leaves
/// no pointer into unmapped code.
pub struct ExitHook {
    /// Key + 1; 0 while there is none.
    key: AtomicU32,
}

/// Rounds of key destructors to let pass; POSIX guarantees four.
pub const ROUNDS: u32 = 4;

impl ExitHook {
    /// A hook without a key; make it with [`ExitHook::create`].
    pub const fn new() -> Self {
        Self {
            key: AtomicU32::new(0),
        }
    }

    /// Makes the key. `destructor` is called with the value given to [`ExitHook::arm`], once a round as
    /// long as it arms itself again. Returns false where the process has no key left. Call once.
    pub fn create(&self, destructor: unsafe extern "C" fn(*mut c_void)) -> bool {
        let mut key = 0;
        // SAFETY: plain call with a valid out-pointer; `destructor` lives as long as the artifact, and
        // `delete` is called when that is unloaded.
        let made = unsafe { libc::pthread_key_create(&mut key, Some(destructor)) } == 0;
        if made {
            self.key.store(key + 1, Ordering::Release);
        }
        made
    }

    /// Arms the hook for the calling thread. May allocate inside libc (keys past the first 32). False where
    /// there is no key, or libc has no memory for its value: the thread's end will not be told.
    ///
    /// # Safety
    /// `value` is what the destructor takes, for as long as the thread may run.
    pub unsafe fn arm(&self, value: *mut c_void) -> bool {
        let key = self.key.load(Ordering::Acquire);
        // SAFETY: the key was made and not deleted; the value is the caller's promise.
        key != 0 && unsafe { libc::pthread_setspecific(key - 1, value) } == 0
    }

    /// What the calling thread has armed the hook with; null if nothing, or if it has come to that already.
    pub fn value(&self) -> *mut c_void {
        let key = self.key.load(Ordering::Acquire);
        if key == 0 {
            return core::ptr::null_mut();
        }
        // SAFETY: the key was made and not deleted.
        unsafe { libc::pthread_getspecific(key - 1) }
    }

    /// Deletes the key: threads that end later are not told. For the artifact's own unloading.
    pub fn delete(&self) {
        let key = self.key.swap(0, Ordering::AcqRel);
        if key != 0 {
            // SAFETY: swapped out, so it is deleted once.
            unsafe { libc::pthread_key_delete(key - 1) };
        }
    }
}

impl Default for ExitHook {
    fn default() -> Self {
        Self::new()
    }
}

/// Has `before` called before every `fork` of this process, and after it `parent` or `child`, on the thread
/// that forks. Registered for the life of the artifact (glibc drops it on `dlclose`).
pub fn on_fork(
    before: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) -> bool {
    // SAFETY: plain call; the handlers live as long as the artifact.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) == 0 }
}

/// Has `child` called in the child of every `fork` of this process. Registered for the life of the
/// artifact (glibc drops it on `dlclose`).
pub fn on_fork_child(child: unsafe extern "C" fn()) -> bool {
    // SAFETY: plain call; the handler lives as long as the artifact.
    unsafe { libc::pthread_atfork(None, None, Some(child)) == 0 }
}
