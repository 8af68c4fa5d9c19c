//! Memory for accounts and scopes: mapped in chunks, handed out again, never given back, so that what was
//! once found in it may be read for ever.

use core::cell::Cell;
use core::ptr::{NonNull, null_mut};
use homefree_thread::sys;

/// Bytes mapped at a time.
const CHUNK: usize = 64 << 10;

/// What can be pooled: it brings the link of the free list.
///
/// # Safety
/// All zero bytes are a valid value, and `link` is the same cell each time.
pub(crate) unsafe trait Pooled: Sized {
    fn link(&self) -> &Cell<*mut Self>;
}

/// Values of one type. For use under a lock of the caller's.
pub(crate) struct Pool<T> {
    free: Cell<*mut T>,
    fresh: Cell<*mut T>,
    left: Cell<usize>,
}

// SAFETY: only used under the caller's lock.
unsafe impl<T> Send for Pool<T> {}

impl<T: Pooled> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self {
            free: Cell::new(null_mut()),
            fresh: Cell::new(null_mut()),
            left: Cell::new(0),
        }
    }

    /// A value: all zero, or as it was when it was given back. `None` where the system has no memory.
    pub(crate) fn take(&self) -> Option<NonNull<T>> {
        const { assert!(size_of::<T>() <= CHUNK && align_of::<T>() <= 4096) };
        if let Some(value) = NonNull::new(self.free.get()) {
            // SAFETY: on the free list lie values of this pool.
            self.free.set(unsafe { value.as_ref() }.link().get());
            return Some(value);
        }
        if self.left.get() == 0 {
            self.fresh.set(sys::map(CHUNK)?.cast().as_ptr());
            self.left.set(CHUNK / size_of::<T>());
        }
        let value = NonNull::new(self.fresh.get())?;
        // SAFETY: `left` values of the chunk begin here.
        self.fresh.set(unsafe { value.as_ptr().add(1) });
        self.left.set(self.left.get() - 1);
        Some(value)
    }

    /// Takes a value back.
    ///
    /// # Safety
    /// It is of this pool and in use, and nobody will use it as his own any more.
    pub(crate) unsafe fn put(&self, value: NonNull<T>) {
        // SAFETY: the caller's promise.
        unsafe { value.as_ref() }.link().set(self.free.get());
        self.free.set(value.as_ptr());
    }
}
