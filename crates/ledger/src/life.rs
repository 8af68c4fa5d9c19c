//! Whether the thread of an account is still there, for the rare one that nobody told of its end.
//!
//! A robust mutex that the thread holds as long as it lives: whatever way it ends, the kernel marks it before the
//! thread's stack and thread-local memory can be used for anything else. (A thread whose first events come in the last
//! round of its key destructors, or that ends by a bare `exit` system call, runs no hook of ours.)

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// Held by the thread that began it.
pub(crate) struct Life(UnsafeCell<MaybeUninit<libc::pthread_mutex_t>>);

// SAFETY: the C library's own means of synchronisation.
unsafe impl Sync for Life {}

impl Life {
    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.0.get().cast()
    }

    /// Begins the calling thread's. Nobody looks at it yet, or only under a lock that the caller holds.
    pub(crate) fn begin(&self) {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: plain calls with places of the right types; the mutex is nobody's, or that of a thread which is not
        // in this process. None of them allocates in the C library.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(self.mutex(), attributes.as_ptr());
            libc::pthread_mutex_lock(self.mutex());
        }
    }

    /// Ends the calling thread's in good order.
    pub(crate) fn end(&self) {
        // SAFETY: begun by this thread.
        unsafe { libc::pthread_mutex_unlock(self.mutex()) };
    }

    /// Whether the thread has gone without ending it. One caller at a time.
    pub(crate) fn is_over(&self) -> bool {
        // SAFETY: begun, as all that are in the list.
        match unsafe { libc::pthread_mutex_trylock(self.mutex()) } {
            0 => {
                self.end();
                true
            }
            libc::EOWNERDEAD => {
                // SAFETY: ours now.
                unsafe { libc::pthread_mutex_consistent(self.mutex()) };
                self.end();
                true
            }
            libc::ENOTRECOVERABLE => true,
            _ => false,
        }
    }
}
