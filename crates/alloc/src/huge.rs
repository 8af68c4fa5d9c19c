//! Blocks with a mapping of their own: above 1 MiB, or aligned to more than a unit.
//!
//! A table tells them by address, so nothing lies in front of them and a foreign address is never read.
//! What is freed is kept for up to a second, since a program that frees a megabyte often wants the next.

use crate::source::source;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use homefree_thread::Lock;

const PAGE: usize = 4096;
/// Freed mappings kept at a time, and their bytes.
const KEPT: usize = 32;
const KEPT_BYTES: usize = 64 << 20;

/// Bytes of live mappings; of kept ones; and live mappings.
pub static LIVE: AtomicUsize = AtomicUsize::new(0);
pub static RETAINED: AtomicUsize = AtomicUsize::new(0);
pub static BLOCKS: AtomicUsize = AtomicUsize::new(0);

pub static HUGE: Lock<Huge> = Lock::new(Huge {
    table: 0,
    capacity: 0,
    count: 0,
    kept: [Kept {
        at: 0,
        len: 0,
        old: false,
    }; KEPT],
});

/// See the module.
pub struct Huge {
    /// Address of `capacity` entries, a power of two, at most three quarters of them in use.
    table: usize,
    capacity: usize,
    count: usize,
    kept: [Kept; KEPT],
}

#[derive(Clone, Copy)]
struct Entry {
    /// Address of the block; 0 for a free place.
    at: usize,
    len: usize,
}

#[derive(Clone, Copy)]
struct Kept {
    at: usize,
    len: usize,
    old: bool,
}

impl Huge {
    fn entry(&mut self, i: usize) -> &mut Entry {
        // SAFETY: within the table.
        unsafe { &mut *(self.table as *mut Entry).add(i & (self.capacity - 1)) }
    }

    fn home(&self, at: usize) -> usize {
        (at / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }

    fn find(&mut self, at: usize) -> Option<usize> {
        if self.capacity == 0 {
            return None;
        }
        let mut i = self.home(at);
        loop {
            match self.entry(i).at {
                0 => return None,
                found if found == at => return Some(i),
                _ => i += 1,
            }
        }
    }

    fn make_room(&mut self) -> bool {
        if self.count < self.capacity / 4 * 3 {
            return true;
        }
        let (old, capacity) = (self.table, self.capacity);
        let new = (capacity * 2).max(PAGE / size_of::<Entry>());
        let Some(table) = source().map(new * size_of::<Entry>()) else {
            return false;
        };
        (self.table, self.capacity, self.count) = (table, new, 0);
        for i in 0..capacity {
            // SAFETY: the old table, read through.
            let entry = unsafe { *(old as *const Entry).add(i) };
            if entry.at != 0 {
                self.insert(entry);
            }
        }
        if capacity != 0 {
            // SAFETY: the old table, which nobody reads now.
            unsafe { source().unmap(old, capacity * size_of::<Entry>()) };
        }
        true
    }

    fn insert(&mut self, entry: Entry) {
        let mut i = self.home(entry.at);
        while self.entry(i).at != 0 {
            i += 1;
        }
        *self.entry(i) = entry;
        self.count += 1;
    }

    fn remove(&mut self, mut i: usize) -> Entry {
        let removed = *self.entry(i);
        self.count -= 1;
        // Those behind move up, so that no search ends early.
        let mut j = i;
        loop {
            self.entry(i).at = 0;
            loop {
                j += 1;
                let at = self.entry(j).at;
                if at == 0 {
                    return removed;
                }
                let mask = self.capacity - 1;
                let distance = j.wrapping_sub(self.home(at)) & mask;
                if distance >= (j - i) & mask {
                    break;
                }
            }
            *self.entry(i) = *self.entry(j);
            i = j;
        }
    }

    /// `len` bytes of what was kept, from the smallest mapping that has so many; the rest stays.
    fn reuse(&mut self, len: usize) -> Option<usize> {
        let fits = |k: &&mut Kept| k.len >= len;
        let best = self.kept.iter_mut().filter(fits).min_by_key(|k| k.len)?;
        let at = best.at;
        best.at += len;
        best.len -= len;
        RETAINED.fetch_sub(len, Relaxed);
        Some(at)
    }

    /// Keeps a mapping, joined with what lies beside it. False where there is no room.
    fn keep(&mut self, mut at: usize, mut len: usize) -> bool {
        if RETAINED.load(Relaxed) + len > KEPT_BYTES {
            return false;
        }
        let added = len;
        for k in self.kept.iter_mut().filter(|k| k.len != 0) {
            if k.at + k.len == at || at + len == k.at {
                (at, len) = (at.min(k.at), len + k.len);
                k.len = 0;
            }
        }
        // There is a free place if one was joined.
        let Some(place) = self.kept.iter_mut().find(|k| k.len == 0) else {
            return false;
        };
        *place = Kept {
            at,
            len,
            old: false,
        };
        RETAINED.fetch_add(added, Relaxed);
        crate::background::wake();
        true
    }

    fn note(&mut self, at: usize, len: usize) {
        self.insert(Entry { at, len });
        LIVE.fetch_add(len, Relaxed);
        BLOCKS.fetch_add(1, Relaxed);
    }
}

/// A block. `zero`: it must hold zeros. `None` where the system has no memory.
pub(crate) fn allocate(size: usize, align: usize, zero: bool) -> Option<usize> {
    let len = size.max(1).checked_next_multiple_of(PAGE)?;
    if len > isize::MAX as usize {
        return None;
    }
    let mut huge = HUGE.lock();
    if !huge.make_room() {
        return None;
    }
    if align <= PAGE
        && let Some(at) = huge.reuse(len)
    {
        huge.note(at, len);
        drop(huge);
        if zero {
            // SAFETY: the block just taken.
            unsafe { core::ptr::write_bytes(at as *mut u8, 0, size) };
        }
        return Some(at);
    }
    let at = map_aligned(len, align)?;
    huge.note(at, len);
    Some(at)
}

fn map_aligned(len: usize, align: usize) -> Option<usize> {
    if align <= PAGE {
        return source().map(len);
    }
    let whole = len.checked_add(align)?;
    let start = source().map(whole)?;
    let at = start.next_multiple_of(align);
    // SAFETY: the parts of the mapping just made around the block.
    unsafe {
        if at > start {
            source().unmap(start, at - start);
        }
        if at + len < start + whole {
            source().unmap(at + len, start + whole - at - len);
        }
    }
    Some(at)
}

/// Bytes of a block; `None` for an address where none starts.
pub(crate) fn size_of_block(at: usize) -> Option<usize> {
    let mut huge = HUGE.lock();
    let i = huge.find(at)?;
    Some(huge.entry(i).len)
}

/// Frees a block. False for an address where none starts.
pub(crate) fn free(at: usize) -> bool {
    let mut huge = HUGE.lock();
    let Some(i) = huge.find(at) else {
        return false;
    };
    let Entry { at, len } = huge.remove(i);
    LIVE.fetch_sub(len, Relaxed);
    BLOCKS.fetch_sub(1, Relaxed);
    if huge.keep(at, len) {
        return true;
    }
    drop(huge);
    // SAFETY: the block's own mapping, which is in no table now.
    unsafe { source().unmap(at, len) };
    true
}

/// Changes a block's size where its mapping can be grown, moved or cut. `None` where not.
pub(crate) fn resize(at: usize, size: usize) -> Option<usize> {
    let new = size.checked_next_multiple_of(PAGE)?;
    let mut huge = HUGE.lock();
    let i = huge.find(at)?;
    let Entry { len, .. } = *huge.entry(i);
    if new == len {
        return Some(at);
    }
    // Memory that is there already: to copy is faster than to have as much made and cleared.
    if new > len
        && huge.make_room()
        && let Some(other) = huge.reuse(new)
    {
        huge.note(other, new);
        drop(huge);
        // SAFETY: two blocks, and the new one is larger.
        unsafe { core::ptr::copy_nonoverlapping(at as *const u8, other as *mut u8, len) };
        free(at);
        return Some(other);
    }
    let i = huge.find(at)?;
    // SAFETY: the block's own mapping, which is in use by nobody else.
    let moved = unsafe { source().remap(at, len, new, true) }?;
    huge.remove(i);
    huge.insert(Entry {
        at: moved,
        len: new,
    });
    LIVE.fetch_add(new.wrapping_sub(len), Relaxed);
    Some(moved)
}

/// Unmaps what was kept at the last call too; all if `all`.
pub(crate) fn purge(all: bool) -> usize {
    let mut huge = HUGE.lock();
    let mut left = 0;
    for kept in huge.kept.iter_mut().filter(|k| k.len != 0) {
        if all || kept.old {
            // SAFETY: in nobody's hands.
            unsafe { source().unmap(kept.at, kept.len) };
            RETAINED.fetch_sub(kept.len, Relaxed);
            kept.len = 0;
        } else {
            kept.old = true;
            left += 1;
        }
    }
    left
}
