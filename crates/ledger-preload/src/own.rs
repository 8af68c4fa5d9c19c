//! Whose memory this is, and how it is known without asking the system: a program may have forbidden itself every
//! call that it does not need.
//!
//! | who runs | memory | mark | process id |
//! | --- | --- | --- | --- |
//! | the process itself | its own | set | its own |
//! | a child of `fork` | a copy | set again by the handler | its own again |
//! | a child of `vfork` | its parent's | set | another |
//! | a child of a bare `clone` or `_Fork` | a copy | wiped by the system | another |
//!
//! A child of `vfork` allocates from its parent's heap, so what it counts is its parent's, and may be published; only
//! to end the account or to make one under its own name would be wrong, and there the id is asked for.

use crate::confined;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use homefree_thread::sys;

/// Not 0 in memory that was claimed. On a page of its own, which is zeros in every copy; null where there is no such.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// The process that claimed it.
static PROCESS: AtomicU32 = AtomicU32::new(0);

const PAGE: usize = 4096;

fn mark() -> Option<&'static AtomicU32> {
    // SAFETY: null, or on a page that is never unmapped.
    unsafe { MARK.load(Ordering::Acquire).as_ref() }
}

/// This memory is the calling process's. At its beginning, and in the child by the handler of forks.
pub(crate) fn claim() {
    if !confined::is_set() {
        PROCESS.store(sys::process_id(), Ordering::Relaxed);
        if mark().is_none() {
            MARK.store(wiped_in_copies(), Ordering::Release);
        }
    }
    if let Some(mark) = mark() {
        mark.store(1, Ordering::Relaxed);
    }
}

fn wiped_in_copies() -> *mut AtomicU32 {
    let Some(page) = sys::map(PAGE) else {
        return null_mut();
    };
    // SAFETY: the mapping just made.
    if unsafe { sys::wipe_on_fork(page, PAGE) }.is_err() {
        // SAFETY: the same, used by nobody.
        unsafe { sys::unmap(page, PAGE) };
        return null_mut();
    }
    NonNull::cast(page).as_ptr()
}

/// Whether this is the memory that was claimed, and not a copy of it: its page is to be written. Makes no call of the
/// system's where that can wipe pages in copies (Linux 4.14).
pub(crate) fn is_no_copy() -> bool {
    match mark() {
        Some(mark) => mark.load(Ordering::Relaxed) != 0,
        None => confined::is_set() || PROCESS.load(Ordering::Relaxed) == sys::process_id(),
    }
}

/// Whether the calling process is the one that claimed it. Asks the system, unless the process is confined: then a
/// child of `vfork` is taken for its parent.
pub(crate) fn is_this_process() -> bool {
    is_no_copy() && (confined::is_set() || PROCESS.load(Ordering::Relaxed) == sys::process_id())
}
