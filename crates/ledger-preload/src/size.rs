//! The one size of a block: what `malloc_usable_size` says of it.
//!
//! glibc keeps it in the word before the block: the size of the whole chunk, of which 8 bytes are not the program's,
//! with three flags in its low bits. Of a chunk that was mapped alone (the flag [`MAPPED`]) it is 16 bytes; these go the
//! long way. The short way of `free` knows them without looking at the flag:
//!
//! * `malloc`'s begin 16 bytes after a page, and [`SPECIAL`] is no bit of their address;
//! * those aligned to a page or more begin with a page, the same;
//! * any of [`LARGE`] bytes asks, since no thread has that much credit;
//! * what remains, small ones with an alignment between (the program must have set `M_MMAP_THRESHOLD`, or memory is
//!   short), are exchanged for others before the program gets them: see `hooks.rs`.

use crate::hot::HOT;
use crate::next::{NEXT, Ptr};

/// Bits of an address, all 0 where a block needs a closer look: null, mapped alone, or the loader's.
pub(crate) const SPECIAL: u32 = 0xfe0;

/// Flag of a block's header: mapped alone.
const MAPPED: usize = 2;
const FLAGS: usize = 7;

/// The most that a thread counts before it settles, as the ledger shares its budget out, and the budget.
const MARGIN: u64 = 80 << 10;
pub(crate) const DRIFT_BUDGET: u64 = MARGIN * 64;

/// No thread has so much credit: half more than its margin at the most.
pub(crate) const LARGE: usize = 124 << 10;
const _: () = assert!(MARGIN + MARGIN / 2 + 16 < LARGE as u64);

/// Usable bytes of a block of the next allocator's.
#[inline]
pub(crate) fn of(p: Ptr) -> usize {
    if HOT.is_inline() && !is_mapped(p) {
        return (header(p) & !FLAGS) - 8;
    }
    // SAFETY: a block of that allocator's.
    unsafe { NEXT.malloc_usable_size.get()(p) }
}

#[inline]
fn header(p: Ptr) -> usize {
    // SAFETY: a block of glibc's has a word in front of it.
    unsafe { p.cast::<usize>().sub(1).read() }
}

/// Whether a block of glibc's was mapped alone.
#[inline]
pub(crate) fn is_mapped(p: Ptr) -> bool {
    header(p) & MAPPED != 0
}

/// Whether the short way of `free` would take a mapped block for another.
#[inline]
pub(crate) fn is_unknown_to_free(p: Ptr) -> bool {
    HOT.is_inline()
        && !p.is_null()
        && p as usize & SPECIAL as usize != 0
        && is_mapped(p)
        && header(p) & !FLAGS < LARGE
}

/// Whether the next allocator's blocks have headers as this file says. Asks for a few blocks of it.
pub(crate) fn headers_are_as_known() -> bool {
    [1, 24, 25, 100, 1000, 5000, 40_000]
        .into_iter()
        .all(|bytes| {
            // SAFETY: a block, used by nobody else, and freed once.
            unsafe {
                let p = NEXT.malloc.get()(bytes);
                if p.is_null() {
                    return false;
                }
                let said = NEXT.malloc_usable_size.get()(p);
                let word = header(p);
                let as_known =
                    word & MAPPED == 0 && (word & !FLAGS).wrapping_sub(8) == said && said >= bytes;
                let exact = (p as usize | word & !FLAGS).is_multiple_of(16);
                NEXT.free.get()(p);
                as_known && exact
            }
        })
}
