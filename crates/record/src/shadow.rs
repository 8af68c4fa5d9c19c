//! Shadow words: what is known of a live block, found by its address alone.
//!
//! One word a block, in a table with a word for each granule of address space, mapped when touched. The
//! thread that allocated writes it after the real allocation has returned; the thread that frees reads
//! and clears it before the real free. Between the two the block has one owner, so plain loads and
//! stores are exact: no lock, no read-modify-write.
//!
//! The table is what recording costs: it takes cache that the program had for itself. So a word is all
//! that most blocks have, and a granule is as large as it may be: the least distance between two
//! blocks, 32 bytes for glibc, 16 for allocators with smaller classes, whose blocks at 8 past a
//! multiple of 16 go to a table of their own. What only some blocks have (a large size, the time of the
//! allocation) lies in the words of further granules of the block, or, for blocks too small for that,
//! in a table that is only touched for them.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use homefree_thread::{ThreadTable, sys};

/// Address space covered by one leaf.
const REGION: usize = 1 << 25;
/// User addresses have 47 bits.
const ROOT: usize = 1 << (47 - 25);

/// Granules of 16 and of 32 bytes.
const SMALL: u32 = 4;
const LARGE: u32 = 5;

type Word = AtomicU64;
type Leaf = AtomicPtr<Word>;

/// Blocks at a multiple of 16.
const MAIN: usize = 0;
/// Blocks at 8 past a multiple of 16, with the smaller granule.
const ODD: usize = 1;

/// A leaf has two words for a granule, in two halves: what is known of the block that starts there, and
/// the stamp of one that is too small to hold it in a further granule.
const WORDS: usize = 0;
const STAMPS: usize = 1;

static ROOTS: [AtomicPtr<Leaf>; 2] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 2];
/// Bits of an address below the granule.
static SHIFT: AtomicU32 = AtomicU32::new(SMALL);

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Id of the allocating thread.
    pub thread: u32,
    /// Reference of its site.
    pub site: u32,
    /// Bytes requested.
    pub size: u64,
    /// When, ticks; 0 for a block whose lifetime is not measured.
    pub stamp: u64,
}

const THREAD_BITS: u32 = ThreadTable::ID_BITS;
const SITE_BITS: u32 = 24;
const SIZE_BITS: u32 = 10;
/// Set in a block's own word only: further words of a block have it clear.
const VALID: u64 = 1 << 63;
const STAMPED: u64 = 1 << 62;
const _: () = assert!(THREAD_BITS + SITE_BITS + SIZE_BITS == 62);
/// Stands for a size that lies in the second granule.
const FAR_SIZE: u64 = (1 << SIZE_BITS) - 1;

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A block's own word and what it refers to, off the table; can be put back where a realloc fails.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    first: u64,
    size: u64,
    stamp: u64,
}

/// Maps the root table. False where memory is refused.
pub(crate) fn init() -> bool {
    root(MAIN).is_some()
}

/// Tells how the allocator behind us places blocks: never two within 32 bytes, or closer. Before the
/// first block is noted.
pub(crate) fn set_far_apart(far_apart: bool) {
    SHIFT.store(if far_apart { LARGE } else { SMALL }, Ordering::Relaxed);
}

/// Table and granule of a block. `None` for an address that is no multiple of 8.
#[inline(always)]
fn place_of(address: usize) -> Option<(usize, u32)> {
    match address % 16 {
        0 => Some((MAIN, SHIFT.load(Ordering::Relaxed))),
        8 => Some((ODD, SMALL)),
        _ => None,
    }
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
fn peek(table: usize, half: usize, shift: u32, address: usize) -> Option<&'static Word> {
    let root = ROOTS[table].load(Ordering::Acquire);
    if root.is_null() || address / REGION >= ROOT {
        return None;
    }
    // SAFETY: roots have ROOT entries and are never unmapped.
    let leaf = unsafe { &*root.add(address / REGION) }.load(Ordering::Acquire);
    if leaf.is_null() {
        return None;
    }
    // SAFETY: leaves have two words for each granule, whose size never changes, and are never unmapped.
    Some(unsafe { &*leaf.add((half * REGION + address % REGION) >> shift) })
}

/// The word of an address in a table, mapping what is missing.
#[inline(always)]
fn word(table: usize, half: usize, shift: u32, address: usize) -> Option<&'static Word> {
    match peek(table, half, shift, address) {
        Some(word) => Some(word),
        None => word_slow(table, half, shift, address),
    }
}

#[cold]
#[inline(never)]
fn word_slow(table: usize, half: usize, shift: u32, address: usize) -> Option<&'static Word> {
    if address / REGION >= ROOT {
        return None;
    }
    let root = root(table)?;
    // SAFETY: as in `peek`.
    let leaf = unsafe { &*root.add(address / REGION) };
    if leaf.load(Ordering::Acquire).is_null() {
        map_once(leaf, 2 * (REGION >> shift) * size_of::<Word>())?;
    }
    peek(table, half, shift, address)
}

/// Notes a block. False where it can not be: an address that is no multiple of 8 or out of the range
/// of user space, or no memory for the table.
#[inline(always)]
pub(crate) fn put(address: usize, block: Block) -> bool {
    let Some((table, shift)) = place_of(address) else {
        return false;
    };
    let Some(place) = word(table, WORDS, shift, address) else {
        return false;
    };
    let size = block.size.min(FAR_SIZE);
    let first = VALID
        | size << (THREAD_BITS + SITE_BITS)
        | u64::from(block.site) << THREAD_BITS
        | u64::from(block.thread);
    if size == FAR_SIZE || block.stamp != 0 {
        return put_more(address, block, first);
    }
    place.store(first, Ordering::Relaxed);
    true
}

/// Where a block's stamp lies. A word of a further granule is the block's own if the block reaches past
/// that granule's end, whatever its own place in the first one.
#[inline]
fn stamp_place(shift: u32, address: usize, size: u64) -> (usize, usize) {
    let granule = 1usize << shift;
    if size >= FAR_SIZE {
        (WORDS, address + 2 * granule)
    } else if size >= 2 * granule as u64 {
        (WORDS, address + granule)
    } else {
        (STAMPS, address)
    }
}

#[inline(never)]
fn put_more(address: usize, block: Block, first: u64) -> bool {
    let Some((table, shift)) = place_of(address) else {
        return false;
    };
    let Some(place) = word(table, WORDS, shift, address) else {
        return false;
    };
    if block.size >= FAR_SIZE {
        let Some(size) = word(table, WORDS, shift, address + (1 << shift)) else {
            return false;
        };
        size.store(block.size & !VALID, Ordering::Relaxed);
    }
    let mut stamped = 0;
    if block.stamp != 0 {
        let (half, at) = stamp_place(shift, address, block.size);
        let Some(stamp) = word(table, half, shift, at) else {
            return false;
        };
        stamp.store(block.stamp & !VALID, Ordering::Relaxed);
        stamped = STAMPED;
    }
    place.store(first | stamped, Ordering::Relaxed);
    true
}

/// Takes a block off the table. `None` for a block that was not noted.
#[inline(always)]
pub(crate) fn take(address: usize) -> Option<Words> {
    let (table, shift) = place_of(address)?;
    let place = peek(table, WORDS, shift, address)?;
    let first = place.load(Ordering::Relaxed);
    if first & VALID == 0 {
        return None;
    }
    place.store(0, Ordering::Relaxed);
    let size = first >> (THREAD_BITS + SITE_BITS) & mask(SIZE_BITS);
    if size == FAR_SIZE || first & STAMPED != 0 {
        return Some(take_more(address, first, size));
    }
    Some(Words {
        first,
        size,
        stamp: 0,
    })
}

#[inline(never)]
fn take_more(address: usize, first: u64, mut size: u64) -> Words {
    let (table, shift) = place_of(address).unwrap_or((MAIN, SMALL));
    let read = |half, at| peek(table, half, shift, at).map_or(0, |w| w.load(Ordering::Relaxed));
    // A further word that is not what was written there: blocks of an allocator that carves them from
    // this one share the place. (Its own blocks never do.) What is left is the least it can be.
    let intact = |word: u64| if word & VALID != 0 { 0 } else { word };
    if size == FAR_SIZE {
        size = intact(read(WORDS, address + (1 << shift))).max(FAR_SIZE);
    }
    let mut stamp = 0;
    if first & STAMPED != 0 {
        let (half, at) = stamp_place(shift, address, size);
        stamp = intact(read(half, at));
    }
    Words { first, size, stamp }
}

/// Puts a block back that [`take`] took off: it lives on. (Its further words are still there.)
pub(crate) fn put_back(address: usize, words: Words) {
    if let Some((table, shift)) = place_of(address)
        && let Some(place) = peek(table, WORDS, shift, address)
    {
        place.store(words.first, Ordering::Relaxed);
    }
}

impl Words {
    /// What they say.
    #[inline(always)]
    pub fn block(self) -> Block {
        Block {
            thread: (self.first & mask(THREAD_BITS)) as u32,
            site: (self.first >> THREAD_BITS & mask(SITE_BITS)) as u32,
            size: self.size,
            stamp: self.stamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: u64, stamp: u64) -> Block {
        Block {
            thread: (1 << 28) - 2,
            site: (1 << 24) - 3,
            size,
            stamp,
        }
    }

    #[test]
    fn what_is_put_is_taken_once() {
        // Addresses of the test's own; one test, since the granule is global.
        let base = 0x7000_0000_0000;
        let sizes = [
            0u64,
            1,
            16,
            17,
            31,
            32,
            63,
            64,
            100,
            1022,
            1023,
            1024,
            1 << 24,
            1 << 40,
        ];
        for far_apart in [false, true] {
            set_far_apart(far_apart);
            for (i, size) in sizes.into_iter().enumerate() {
                for (offset, stamp) in [
                    (0, 0),
                    (8, 0),
                    (16, 0),
                    (0, 1),
                    (8, (1 << 60) + 1),
                    (16, 1 << 62),
                ] {
                    let address = base + i * 4096 + offset;
                    let block = block(size, stamp);
                    assert_eq!(take(address).map(Words::block), None);
                    assert!(put(address, block));
                    let words = take(address).unwrap();
                    assert_eq!(words.block(), block);
                    assert_eq!(take(address).map(Words::block), None);
                    put_back(address, words);
                    assert_eq!(take(address).map(Words::block), Some(block));
                    // No word is left behind that a block placed later could be taken for.
                    for later in (0..=128).step_by(8) {
                        assert_eq!(take(address + later).map(Words::block), None);
                    }
                }
            }
        }
        // Neighbours at the least distance do not disturb each other, whatever they need.
        for (far_apart, distance) in [(false, 8), (false, 16), (true, 32), (true, 48), (true, 80)] {
            set_far_apart(far_apart);
            let nth = |n: usize| (base + 0x10_0000 + 16 + n * distance, n as u64 % 2);
            let size = distance as u64 - if far_apart { 8 } else { 0 };
            for n in 0..64 {
                let (address, stamp) = nth(n);
                assert!(put(
                    address,
                    Block {
                        site: n as u32,
                        ..block(size, stamp)
                    }
                ));
            }
            for n in 0..64 {
                let (address, stamp) = nth(n);
                let expected = Block {
                    site: n as u32,
                    ..block(size, stamp)
                };
                assert_eq!(
                    take(address).map(Words::block),
                    Some(expected),
                    "{distance}"
                );
            }
        }
        set_far_apart(false);
        assert!(!put(base + 4, block(1, 0)));
        assert!(take(base + 4).is_none());
        assert!(!put(usize::MAX - 15, block(1, 0)));
        assert!(take(usize::MAX - 15).is_none());
        // Both sides of a border between leaves.
        let border = base + 7 * REGION - 16;
        assert!(put(border, block(2000, 77)));
        assert_eq!(take(border).unwrap().block(), block(2000, 77));
    }
}
