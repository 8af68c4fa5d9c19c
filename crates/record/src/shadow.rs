//! Shadow words: what is known of a live block, found by its address alone.
//!
//! Two words a block, in a table with one word for each 16 bytes of address space, mapped when
//! touched. The thread that allocated writes them after the real allocation has returned; the thread
//! that frees reads and clears them before the real free. Between the two the block has one owner, so
//! plain loads and stores are exact: no lock, no read-modify-write.
//!
//! The second word lies in the block's second granule where the block is known to own it: it is larger
//! than 16 bytes, or the allocator never places two blocks closer than 32 bytes (glibc). For other
//! blocks, and for blocks at an odd multiple of 8 bytes, there are further tables, mapped only if used.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use homefree_thread::{ThreadTable, sys};

const GRANULE: usize = 16;
/// Address space covered by one leaf.
const REGION: usize = 1 << 25;
const LEAF: usize = REGION / GRANULE;
/// User addresses have 47 bits.
const ROOT: usize = 1 << (47 - 25);

type Word = AtomicU64;
type Leaf = AtomicPtr<Word>;

/// First words of blocks on 16 bytes, and second words of those that own two granules.
const MAIN: usize = 0;
/// Second words of the others.
const MAIN_SECOND: usize = 1;
/// First and second words of blocks at 8 past a multiple of 16.
const ODD: usize = 2;
const ODD_SECOND: usize = 3;

static ROOTS: [AtomicPtr<Leaf>; 4] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 4];
/// The allocator behind us never starts two blocks within 32 bytes.
static FAR_APART: AtomicBool = AtomicBool::new(false);

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Id of the allocating thread.
    pub thread: u32,
    /// Reference of its site.
    pub site: u32,
    /// Bytes requested.
    pub size: u64,
    /// When, ticks; compare with [`since`].
    pub stamp: u64,
}

const THREAD_BITS: u32 = ThreadTable::ID_BITS;
const SITE_BITS: u32 = 24;
const STAMP_HIGH_BITS: u32 = 10;
const SIZE_BITS: u32 = 24;
/// The top bit of a second word stays 0, so that it is never taken for a first word.
const STAMP_LOW_BITS: u32 = 63 - SIZE_BITS;
const VALID: u64 = 1 << 63;
/// The second word is in the second table.
const APART: u64 = 1 << 62;
const _: () = assert!(THREAD_BITS + SITE_BITS + STAMP_HIGH_BITS == 62);
/// Stands for a size that needs the third granule.
const LARGE: u64 = (1 << SIZE_BITS) - 1;

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Ticks from a block's stamp to `now`; the stamp keeps 49 bits (5 weeks at 2.7 GHz).
#[inline(always)]
pub(crate) fn since(stamp: u64, now: u64) -> u64 {
    now.wrapping_sub(stamp) & mask(STAMP_HIGH_BITS + STAMP_LOW_BITS)
}

/// The words of a block as they were, to be put back where a realloc fails.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    first: u64,
    second: u64,
    third: u64,
}

/// Maps the root table. False where memory is refused.
pub(crate) fn init() -> bool {
    root(MAIN).is_some()
}

/// Tells how the allocator behind us places blocks.
pub(crate) fn set_far_apart(far_apart: bool) {
    FAR_APART.store(far_apart, Ordering::Relaxed);
}

fn root(table: usize) -> Option<*mut Leaf> {
    let root = ROOTS[table].load(Ordering::Acquire);
    if !root.is_null() {
        return Some(root);
    }
    map_once(&ROOTS[table], ROOT * size_of::<Leaf>())
}

/// Maps a table for a pointer that is still null; one of several threads wins.
#[cold]
#[inline(never)]
fn map_once<T>(place: &AtomicPtr<T>, len: usize) -> Option<*mut T> {
    let fresh = sys::map(len)?;
    // SAFETY: the mapping just made.
    unsafe { sys::small_pages(fresh, len) };
    match place.compare_exchange(
        core::ptr::null_mut(),
        fresh.as_ptr().cast(),
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        Ok(_) => Some(fresh.as_ptr().cast()),
        Err(other) => {
            // SAFETY: mapped above, published to nobody.
            unsafe { sys::unmap(fresh, len) };
            Some(other)
        }
    }
}

/// The word of an address in a table, if its leaf is mapped.
#[inline(always)]
fn peek(table: usize, address: usize) -> Option<&'static Word> {
    let root = ROOTS[table].load(Ordering::Acquire);
    if root.is_null() || address / REGION >= ROOT {
        return None;
    }
    // SAFETY: roots have ROOT entries and are never unmapped.
    let leaf = unsafe { &*root.add(address / REGION) }.load(Ordering::Acquire);
    if leaf.is_null() {
        return None;
    }
    // SAFETY: leaves have LEAF words and are never unmapped.
    Some(unsafe { &*leaf.add(address % REGION / GRANULE) })
}

/// The word of an address in a table, mapping what is missing.
#[inline(always)]
fn word(table: usize, address: usize) -> Option<&'static Word> {
    match peek(table, address) {
        Some(word) => Some(word),
        None => word_slow(table, address),
    }
}

#[cold]
#[inline(never)]
fn word_slow(table: usize, address: usize) -> Option<&'static Word> {
    if address / REGION >= ROOT {
        return None;
    }
    let root = root(table)?;
    // SAFETY: as in `peek`.
    let leaf = unsafe { &*root.add(address / REGION) };
    if leaf.load(Ordering::Acquire).is_null() {
        map_once(leaf, LEAF * size_of::<Word>())?;
    }
    peek(table, address)
}

/// Notes a block. False where it can not be: an address that is no multiple of 8 or out of the range
/// of user space, or no memory for the table.
#[inline(always)]
pub(crate) fn put(address: usize, block: Block) -> bool {
    let size = if block.size < LARGE {
        block.size
    } else {
        LARGE
    };
    let first = VALID
        | (block.stamp >> STAMP_LOW_BITS & mask(STAMP_HIGH_BITS)) << (THREAD_BITS + SITE_BITS)
        | u64::from(block.site) << THREAD_BITS
        | u64::from(block.thread);
    let second = size | (block.stamp & mask(STAMP_LOW_BITS)) << SIZE_BITS;
    let owns_two = block.size > GRANULE as u64 || FAR_APART.load(Ordering::Relaxed);
    if address.is_multiple_of(GRANULE) && owns_two {
        let (Some(a), Some(b)) = (word(MAIN, address), word(MAIN, address + GRANULE)) else {
            return false;
        };
        a.store(first, Ordering::Relaxed);
        b.store(second, Ordering::Relaxed);
        if size == LARGE {
            return put_size(address, block.size);
        }
        return true;
    }
    put_apart(address, first | APART, second, block.size)
}

#[cold]
#[inline(never)]
fn put_size(address: usize, size: u64) -> bool {
    word(MAIN, address + 2 * GRANULE)
        .map(|w| w.store(size, Ordering::Relaxed))
        .is_some()
}

#[inline(never)]
fn put_apart(address: usize, first: u64, second: u64, size: u64) -> bool {
    let table = match address % GRANULE {
        0 => MAIN,
        8 => ODD,
        _ => return false,
    };
    let (Some(a), Some(b)) = (word(table, address), word(table + 1, address)) else {
        return false;
    };
    a.store(first, Ordering::Relaxed);
    b.store(second, Ordering::Relaxed);
    if second & LARGE == LARGE {
        // Larger than 16 MiB, so the granules past the first are the block's own here too.
        return word(table, address + 2 * GRANULE)
            .map(|w| w.store(size, Ordering::Relaxed))
            .is_some();
    }
    true
}

/// Takes a block's words off the table. `None` for a block that was not noted.
#[inline(always)]
pub(crate) fn take(address: usize) -> Option<Words> {
    let table = match address % GRANULE {
        0 => MAIN,
        8 => ODD,
        _ => return None,
    };
    let place = peek(table, address)?;
    let first = place.load(Ordering::Relaxed);
    if first & VALID == 0 {
        return None;
    }
    place.store(0, Ordering::Relaxed);
    let second = if first & APART == 0 {
        peek(MAIN, address + GRANULE)?
    } else {
        peek(
            if table == MAIN {
                MAIN_SECOND
            } else {
                ODD_SECOND
            },
            address,
        )?
    };
    let second = second.load(Ordering::Relaxed);
    let third = if second & LARGE == LARGE {
        take_size(table, address)
    } else {
        0
    };
    Some(Words {
        first,
        second,
        third,
    })
}

#[cold]
#[inline(never)]
fn take_size(table: usize, address: usize) -> u64 {
    let Some(place) = peek(table, address + 2 * GRANULE) else {
        return LARGE;
    };
    // Cleared: it is not a block's first word, and a block may start there later.
    place.swap(0, Ordering::Relaxed)
}

/// Puts words back: the block lives on.
pub(crate) fn put_back(address: usize, words: Words) {
    let table = if address.is_multiple_of(GRANULE) {
        MAIN
    } else {
        ODD
    };
    if let Some(place) = word(table, address) {
        place.store(words.first, Ordering::Relaxed);
    }
    if words.second & LARGE == LARGE
        && let Some(place) = word(table, address + 2 * GRANULE)
    {
        place.store(words.third, Ordering::Relaxed);
    }
}

impl Words {
    /// What they say.
    #[inline(always)]
    pub fn block(self) -> Block {
        let size = self.second & LARGE;
        let high = self.first >> (THREAD_BITS + SITE_BITS) & mask(STAMP_HIGH_BITS);
        Block {
            thread: (self.first & mask(THREAD_BITS)) as u32,
            site: (self.first >> THREAD_BITS & mask(SITE_BITS)) as u32,
            size: if size == LARGE { self.third } else { size },
            stamp: high << STAMP_LOW_BITS | self.second >> SIZE_BITS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: u64) -> Block {
        Block {
            thread: (1 << 28) - 2,
            site: (1 << 24) - 3,
            size,
            stamp: (1 << 49) - 5,
        }
    }

    #[test]
    fn what_is_put_is_taken_once() {
        // Tables of the test's own address range; one test, since the placement flag is global.
        let base = 0x7000_0000_0000;
        for far_apart in [false, true] {
            set_far_apart(far_apart);
            for (i, size) in [0u64, 1, 16, 17, 100, LARGE - 1, LARGE, LARGE + 1, 1 << 40]
                .into_iter()
                .enumerate()
            {
                for offset in [0, 8] {
                    let address = base + i * 256 + offset;
                    assert_eq!(take(address).map(Words::block), None);
                    assert!(put(address, block(size)));
                    let words = take(address).unwrap();
                    assert_eq!(words.block(), block(size));
                    assert_eq!(take(address).map(Words::block), None);
                    put_back(address, words);
                    assert_eq!(take(address).map(Words::block), Some(block(size)));
                    // No word is left behind that a block placed later could be taken for.
                    if size >= LARGE {
                        assert_eq!(take(address + 32).map(Words::block), None);
                    }
                }
            }
        }
        set_far_apart(false);
        // Neighbours 8 bytes apart do not disturb each other.
        for n in 0..64 {
            assert!(put(
                base + 0x10000 + n * 8,
                Block {
                    site: n as u32,
                    ..block(8)
                }
            ));
        }
        for n in 0..64 {
            assert_eq!(take(base + 0x10000 + n * 8).unwrap().block().site, n as u32);
        }
        assert!(!put(base + 4, block(1)));
        assert!(take(base + 4).is_none());
        assert!(!put(usize::MAX - 15, block(1)));
        assert!(take(usize::MAX - 15).is_none());
        // Both sides of a border between leaves.
        let border = base + 7 * REGION - GRANULE;
        assert!(put(border, block(32)));
        assert_eq!(take(border).unwrap().block(), block(32));
    }

    #[test]
    fn lifetimes_survive_the_wrap() {
        assert_eq!(since((1 << 49) - 5, (1 << 49) + 3), 8);
        assert_eq!(since(7, 1 << 50 | 9), 2);
    }
}
