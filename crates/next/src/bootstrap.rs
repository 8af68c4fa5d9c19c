//! Memory for the loader while it looks our next functions up: blocks that are never freed. Some hundred
//! bytes in practice.
//!
//! Each block begins 16 bytes after a page's beginning (or where a page begins, if it is to be aligned), so that a hook
//! can tell by the low bits of an address that it is none of these.

use crate::Ptr;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Never touched but for the pages given out.
const SIZE: usize = 1 << 20;
const PAGE: usize = 4096;
/// In front of each block: its size, in a unit of alignment.
const HEAD: usize = 16;

#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; SIZE]>);
// SAFETY: its parts are given out once each.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));
static USED: AtomicUsize = AtomicUsize::new(0);

fn start() -> usize {
    MEMORY.0.get() as usize
}

/// Whether a block is from here.
#[inline(always)]
pub fn owns(p: Ptr) -> bool {
    (p as usize).wrapping_sub(start()) < SIZE
}

fn block(align: usize, size: usize) -> Ptr {
    if !align.is_power_of_two() || align > PAGE || size > SIZE {
        return core::ptr::null_mut();
    }
    // An aligned block leaves the page before it to its head.
    let offset = if align <= HEAD { HEAD } else { PAGE };
    let mut at = 0;
    let taken = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        at = used + offset;
        let end = (at + size).next_multiple_of(PAGE);
        (end <= SIZE).then_some(end)
    });
    if taken.is_err() {
        return core::ptr::null_mut();
    }
    // SAFETY: `at - 8 .. at + size` lies in the arena and was given out to this call alone.
    unsafe {
        let p = MEMORY.0.get().cast::<u8>().add(at);
        p.sub(8).cast::<usize>().write(size);
        p.cast()
    }
}

/// As the C library's function of this name; so are the others here.
pub fn malloc(size: usize) -> Ptr {
    block(HEAD, size)
}

/// Nothing is given back.
pub fn free(_: Ptr) {}

/// The arena is zero and used once.
pub fn calloc(n: usize, size: usize) -> Ptr {
    n.checked_mul(size)
        .map_or(core::ptr::null_mut(), |size| block(HEAD, size))
}

/// For blocks from here, and null.
pub fn realloc(p: Ptr, size: usize) -> Ptr {
    let new = block(HEAD, size);
    if !p.is_null() && !new.is_null() && owns(p) {
        let len = malloc_usable_size(p).min(size);
        // SAFETY: both blocks are from here, as large as their heads say, and apart.
        unsafe { core::ptr::copy_nonoverlapping(p.cast::<u8>(), new.cast(), len) };
    }
    new
}

/// Alignments up to a page.
pub fn memalign(align: usize, size: usize) -> Ptr {
    block(align, size)
}

/// Alignments up to a page.
pub fn aligned_alloc(align: usize, size: usize) -> Ptr {
    block(align, size)
}

/// A page's alignment.
pub fn valloc(size: usize) -> Ptr {
    block(PAGE, size)
}

/// A page's alignment, whole pages.
pub fn pvalloc(size: usize) -> Ptr {
    block(PAGE, size.next_multiple_of(PAGE))
}

/// Alignments up to a page.
///
/// # Safety
/// `out` may be written to.
pub unsafe fn posix_memalign(out: *mut Ptr, align: usize, size: usize) -> c_int {
    let p = block(align, size);
    if p.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { *out = p };
    0
}

/// 0 for a block that is not from here.
pub fn malloc_usable_size(p: Ptr) -> usize {
    if !owns(p) {
        return 0;
    }
    // SAFETY: a block from here has its size in front.
    unsafe { p.cast::<u8>().sub(8).cast::<usize>().read() }
}

/// Copies what a block from here holds to one of `size` bytes that is not.
///
/// # Safety
/// `p` is a block from here, `new` one of `size` bytes from elsewhere.
pub unsafe fn move_out(p: Ptr, new: Ptr, size: usize) {
    let len = malloc_usable_size(p).min(size);
    // SAFETY: as large as said, and apart.
    unsafe { core::ptr::copy_nonoverlapping(p.cast::<u8>(), new.cast(), len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_known_by_their_low_bits() {
        let blocks = [
            malloc(1),
            malloc(5000),
            memalign(64, 100),
            memalign(4096, 1),
            pvalloc(1),
        ];
        for p in blocks {
            assert!(owns(p));
            assert_eq!(p as usize & 0xfe0, 0);
        }
        assert_eq!(blocks[2] as usize % 64, 0);
        assert_eq!(blocks.map(malloc_usable_size), [1, 5000, 100, 1, 4096]);
        let mut places = blocks.map(|p| (p as usize, malloc_usable_size(p)));
        places.sort();
        assert!(places.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0 - 8));
        assert!(malloc(SIZE).is_null() && memalign(3, 8).is_null() && memalign(8192, 8).is_null());
        let grown = realloc(blocks[1], 6000);
        assert_eq!(malloc_usable_size(grown), 6000);
    }
}
