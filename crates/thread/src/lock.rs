//! A lock for slow paths inside other people's processes.

use crate::sys;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};

/// A spin lock that yields the processor. It never allocates, needs no thread handle, works during
/// thread teardown, and can be forced open in fork's child.
///
/// What it guards must be left readable at every step: a child of `fork` may find it half done.
pub struct Lock<T> {
    held: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives out one guard at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Access to the value; opens the lock when dropped.
pub struct LockGuard<'a, T> {
    lock: &'a Lock<T>,
    /// Shared between threads only where the value may be.
    value: PhantomData<&'a mut T>,
}

impl<T> Lock<T> {
    /// An open lock.
    pub const fn new(value: T) -> Self {
        Self {
            held: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, yielding until it is free.
    pub fn lock(&self) -> LockGuard<'_, T> {
        let mut spins = 0u32;
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            spins += 1;
            match spins {
                0..64 => core::hint::spin_loop(),
                64..1000 => sys::yield_now(),
                // The holder may have a lower real-time priority than all who yield.
                _ => sys::sleep(50_000),
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        self.held
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| LockGuard {
                lock: self,
                value: PhantomData,
            })
    }

    /// The value, for a thread that holds the lock without a guard: over a fork.
    ///
    /// # Safety
    /// The calling thread took the lock and has forgotten the guard.
    pub unsafe fn value_of_holder(&self) -> &T {
        // SAFETY: the lock keeps all others out.
        unsafe { &*self.value.get() }
    }

    /// Opens the lock in fork's child, whoever held it. True if it was held: then the value may be
    /// half changed.
    ///
    /// # Safety
    /// Only where no other thread exists and the caller holds no guard, or by a thread that took the lock
    /// and has forgotten the guard.
    pub unsafe fn force_open(&self) -> bool {
        self.held.swap(0, Ordering::AcqRel) != 0
    }
}

impl<T> core::ops::Deref for LockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only access.
        unsafe { &*self.lock.value.get() }
    }
}
impl<T> core::ops::DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only access.
        unsafe { &mut *self.lock.value.get() }
    }
}
impl<T> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.held.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        static LOCK: Lock<u64> = Lock::new(0);
        let threads: std::vec::Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..10_000).for_each(|_| *LOCK.lock() += 1)))
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*LOCK.lock(), 40_000);
        let guard = LOCK.lock();
        assert!(LOCK.try_lock().is_none());
        drop(guard);
        assert!(LOCK.try_lock().is_some());
    }
}
