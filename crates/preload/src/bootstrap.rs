//! Memory for the loader while it looks our next functions up: a bump arena whose blocks are never
//! freed. Some hundred bytes in practice.

use crate::next::Ptr;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

const SIZE: usize = 64 << 10;
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
pub(crate) fn owns(p: Ptr) -> bool {
    (p as usize).wrapping_sub(start()) < SIZE
}

fn block(align: usize, size: usize) -> Ptr {
    if !align.is_power_of_two() || align > 4096 || size > SIZE {
        return core::ptr::null_mut();
    }
    let mut at = 0;
    let taken = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        at = (used + HEAD).next_multiple_of(align.max(16));
        (at + size <= SIZE).then_some(at + size)
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

pub(crate) fn malloc(size: usize) -> Ptr {
    block(16, size)
}

/// Nothing is given back.
pub(crate) fn free(_: Ptr) {}

pub(crate) fn calloc(n: usize, size: usize) -> Ptr {
    // The arena is zero and used once.
    n.checked_mul(size)
        .map_or(core::ptr::null_mut(), |size| block(16, size))
}

pub(crate) fn realloc(p: Ptr, size: usize) -> Ptr {
    let new = block(16, size);
    if !p.is_null() && !new.is_null() && owns(p) {
        // SAFETY: both blocks are from here, as large as their heads say, and apart.
        unsafe {
            core::ptr::copy_nonoverlapping(
                p.cast::<u8>(),
                new.cast(),
                malloc_usable_size(p).min(size),
            )
        };
    }
    new
}

pub(crate) fn memalign(align: usize, size: usize) -> Ptr {
    block(align, size)
}

pub(crate) fn aligned_alloc(align: usize, size: usize) -> Ptr {
    block(align, size)
}

pub(crate) fn valloc(size: usize) -> Ptr {
    block(4096, size)
}

pub(crate) fn pvalloc(size: usize) -> Ptr {
    block(4096, size.next_multiple_of(4096))
}

pub(crate) fn posix_memalign(out: *mut Ptr, align: usize, size: usize) -> c_int {
    let p = block(align, size);
    if p.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's out-pointer.
    unsafe { *out = p };
    0
}

pub(crate) fn malloc_usable_size(p: Ptr) -> usize {
    if !owns(p) {
        return 0;
    }
    // SAFETY: a block from here has its size in front.
    unsafe { p.cast::<u8>().sub(8).cast::<usize>().read() }
}
