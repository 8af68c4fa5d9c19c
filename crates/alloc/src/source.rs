//! Where memory comes from: a trait, so that tests run the allocator on a source that refuses.

use core::sync::atomic::{AtomicPtr, Ordering::*};
use homefree_thread::sys;

/// The calls that give memory and take it back. All sizes and addresses are multiples of 4096 bytes.
/// Nothing here touches `errno`.
pub trait Source: Sync {
    /// Maps `len` bytes of zeros anywhere.
    fn map(&self, len: usize) -> Option<usize>;
    /// Maps `len` bytes of zeros exactly at an address where nothing is mapped.
    fn map_at(&self, at: usize, len: usize) -> bool;
    /// Sets `len` bytes of addresses aside, anywhere, without memory.
    fn reserve(&self, len: usize) -> Option<usize>;
    /// Turns a part of what [`Source::reserve`] set aside into memory.
    ///
    /// # Safety
    /// The caller's own reservation.
    unsafe fn commit(&self, at: usize, len: usize) -> bool;
    /// Unmaps.
    ///
    /// # Safety
    /// The caller's own mapping, which nothing refers to.
    unsafe fn unmap(&self, at: usize, len: usize);
    /// Grows or shrinks a mapping, which may move.
    ///
    /// # Safety
    /// The caller's own mapping.
    unsafe fn remap(&self, at: usize, old: usize, new: usize, may_move: bool) -> Option<usize>;
    /// Gives memory back and keeps the addresses, which then hold zeros. False where the system refuses
    /// (locked memory): then the contents are as before.
    ///
    /// # Safety
    /// The caller's own memory, whose contents nobody wants.
    unsafe fn purge(&self, at: usize, len: usize) -> bool;
}

/// Linux.
pub struct System;

/// What the program may use is accounted as glibc's is; only reservations are not.
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const READ_WRITE: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;

fn ok(result: isize) -> Option<usize> {
    (!(-4095..0).contains(&result)).then_some(result as usize)
}

fn mmap(at: usize, len: usize, protection: usize, flags: i32) -> Option<usize> {
    let args = [at, len, protection, flags as usize, usize::MAX, 0];
    // SAFETY: a fresh mapping: the flags passed here never replace one that is not the caller's.
    ok(unsafe { sys::syscall(libc::SYS_mmap, args) })
}

impl Source for System {
    fn map(&self, len: usize) -> Option<usize> {
        mmap(0, len, READ_WRITE, ANONYMOUS)
    }

    fn map_at(&self, at: usize, len: usize) -> bool {
        let Some(got) = mmap(at, len, READ_WRITE, ANONYMOUS | libc::MAP_FIXED_NOREPLACE) else {
            return false;
        };
        if got != at {
            // A kernel before 4.17 takes the address as a hint.
            // SAFETY: mapped just now.
            unsafe { self.unmap(got, len) };
            return false;
        }
        // Many small things of many ages live here: with huge pages one of them would hold 2 MiB.
        if let Some(at) = core::ptr::NonNull::new(at as *mut u8) {
            // SAFETY: mapped just now.
            unsafe { sys::small_pages(at, len) };
        }
        true
    }

    fn reserve(&self, len: usize) -> Option<usize> {
        mmap(
            0,
            len,
            libc::PROT_NONE as usize,
            ANONYMOUS | libc::MAP_NORESERVE,
        )
    }

    unsafe fn commit(&self, at: usize, len: usize) -> bool {
        let args = [at, len, READ_WRITE, 0, 0, 0];
        // SAFETY: the caller's promise.
        let done = ok(unsafe { sys::syscall(libc::SYS_mprotect, args) }).is_some();
        if let (true, Some(at)) = (done, core::ptr::NonNull::new(at as *mut u8)) {
            // SAFETY: the caller's promise.
            unsafe { sys::small_pages(at, len) };
        }
        done
    }

    unsafe fn unmap(&self, at: usize, len: usize) {
        // SAFETY: the caller's promise.
        let _ = unsafe { sys::syscall(libc::SYS_munmap, [at, len, 0, 0, 0, 0]) };
    }

    unsafe fn remap(&self, at: usize, old: usize, new: usize, may_move: bool) -> Option<usize> {
        let flags = if may_move { libc::MREMAP_MAYMOVE } else { 0 };
        // SAFETY: the caller's promise.
        ok(unsafe { sys::syscall(libc::SYS_mremap, [at, old, new, flags as usize, 0, 0]) })
    }

    unsafe fn purge(&self, at: usize, len: usize) -> bool {
        let args = [at, len, libc::MADV_DONTNEED as usize, 0, 0, 0];
        // SAFETY: the caller's promise.
        ok(unsafe { sys::syscall(libc::SYS_madvise, args) }).is_some()
    }
}

static SYSTEM: &dyn Source = &System;
static SOURCE: AtomicPtr<&'static dyn Source> = AtomicPtr::new((&raw const SYSTEM).cast_mut());

/// The source in use.
pub(crate) fn source() -> &'static dyn Source {
    // SAFETY: points to a static reference, always.
    unsafe { *SOURCE.load(Acquire) }
}

/// Takes memory from another source from now on. For tests, which stand a refusing source before
/// [`System`]: what one gave, the other must be able to take back.
pub fn set_source(source: &'static &'static dyn Source) {
    SOURCE.store(core::ptr::from_ref(source).cast_mut(), Release);
}
