//! Blocks of other threads' pages, on their way home.
//!
//! A thread that frees another's block links it here, by destination, without an atomic operation; a
//! list that is long enough, or in the way of another page's, is published by one compare-and-swap.

use crate::counts::Counts;
use crate::heap;
use crate::page::{Block, Page};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;

/// Pages that a thread collects for at a time.
const ENTRIES: usize = 32;
/// A list goes home at so many blocks or bytes: a thread that sleeps keeps back at most 32 times that.
const MOST_BLOCKS: usize = 64;
const MOST_BYTES: usize = 4 << 10;

/// The lists.
pub struct Ring {
    entries: [Entry; ENTRIES],
}

struct Entry {
    page: *const Page,
    head: *mut Block,
    tail: *mut Block,
    count: u32,
    limit: u32,
}

impl Ring {
    /// Without lists.
    pub const fn new() -> Self {
        Self {
            entries: [const {
                Entry {
                    page: core::ptr::null(),
                    head: null_mut(),
                    tail: null_mut(),
                    count: 0,
                    limit: 0,
                }
            }; ENTRIES],
        }
    }

    /// Adds a block, which may send a list home.
    ///
    /// # Safety
    /// The block is of the page, and nobody's any more.
    #[inline]
    pub unsafe fn push(&mut self, page: &'static Page, block: *mut Block, counts: &Counts) {
        let hash = (core::ptr::from_ref(page) as u64 >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = &mut self.entries[(hash >> 59) as usize];
        if core::ptr::eq(entry.page, page) {
            // SAFETY: the caller's promise.
            unsafe { Block::set_next(block, entry.head) };
            entry.head = block;
            entry.count += 1;
            if entry.count >= entry.limit {
                entry.send(counts);
            }
            return;
        }
        entry.send(counts);
        let size = page.size.load(Relaxed) as usize;
        *entry = Entry {
            page,
            head: block,
            tail: block,
            count: 1,
            limit: (MOST_BYTES / size).clamp(1, MOST_BLOCKS) as u32,
        };
        if entry.limit == 1 {
            entry.send(counts);
        }
    }

    /// Sends everything home.
    pub fn flush(&mut self, counts: &Counts) {
        self.entries.iter_mut().for_each(|entry| entry.send(counts));
    }

    /// Drops the lists of a thread that does not exist in a child of `fork`: it may have been in the midst
    /// of changing them.
    pub fn forget(&mut self) {
        *self = Self::new();
    }
}

impl Entry {
    /// Publishes the list, if there is one.
    fn send(&mut self, counts: &Counts) {
        // SAFETY: null, or an entry, which are never unmapped.
        let Some(page) = (unsafe { self.page.as_ref() }) else {
            return;
        };
        self.page = core::ptr::null();
        let counts = counts.of(page.class.load(Relaxed) as usize);
        counts.sent.add(1);
        counts.remote_frees.add(self.count);
        // SAFETY: the list is of this page and this thread's alone.
        unsafe { heap::bring(page, self.head, self.tail, self.count) };
    }
}
