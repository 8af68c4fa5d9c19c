//! The calls.

use crate::class::{DIRECT_MAX, SMALL_MAX, block_size, class_of, class_of_aligned, round_to};
use crate::heap::{self, Heap, ORPHANS};
use crate::page::{self, Block, Page, UNIT, kind};
use crate::pool::POOL;
use crate::region::{find, own_page};
use crate::slot::{Access, EMPTY, Slot, thread_tag};
use crate::{checked, huge, life, purge};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Above this, a block has a mapping of its own, bytes.
pub const SPAN_MAX: usize = 1 << 20;

/// Frees and the like of addresses that are not ours.
pub static FOREIGN: AtomicU64 = AtomicU64::new(0);

#[inline(always)]
fn slot<A: Access>() -> &'static Slot {
    // SAFETY: never null, and alive while the calling thread runs; the reference does not leave it.
    unsafe { &*A::slot() }
}

fn heap(slot: &Slot) -> Option<&'static Heap> {
    // SAFETY: null or a heap, which are never freed.
    unsafe { slot.heap.get().as_ref() }.or_else(|| life::attach(slot))
}

/// A block of at least `size` bytes, aligned to 16. Null where the system has no memory.
///
/// Up to 1 KiB: twelve instructions, no call, no atomic read-modify-write.
#[inline(always)]
pub fn malloc<A: Access>(size: usize) -> *mut u8 {
    if size <= DIRECT_MAX {
        let page = A::direct_page((size + 7) & !7);
        // SAFETY: entries and `EMPTY` are never unmapped; a thread's heads are its own.
        return unsafe { (*page).pop_or(|| malloc_slow::<A>(size).cast()) }.cast();
    }
    malloc_slow::<A>(size)
}

#[cold]
#[inline(never)]
fn malloc_slow<A: Access>(size: usize) -> *mut u8 {
    let block = if checked::is_on() {
        checked::allocate(size, 16, false)
    } else if size <= SMALL_MAX {
        allocate_small(slot::<A>(), class_of(size))
    } else {
        allocate_large::<A>(size, 16, false)
    };
    if block.is_null() {
        A::refused();
    }
    block
}

fn allocate_small(slot: &Slot, class: usize) -> *mut u8 {
    // SAFETY: as in `malloc`.
    unsafe { (*slot.page(class)).pop_or(|| refill(slot, class).cast()) }.cast()
}

#[inline(never)]
fn refill(slot: &Slot, class: usize) -> *mut u8 {
    EMPTY.stay_empty();
    let heap = heap(slot);
    let refilled = || match heap {
        Some(heap) => heap.refill(slot, class),
        None => ORPHANS.allocate(class).0,
    };
    purge::tick(heap);
    if heap::should_sweep() {
        heap::sweep_all();
    }
    let mut block = refilled();
    if block.is_null() && heap::sweep_all() > 0 {
        block = refilled();
    }
    block.cast()
}

fn allocate_large<A: Access>(size: usize, align: usize, zero: bool) -> *mut u8 {
    if size > SPAN_MAX || align > UNIT {
        return huge::allocate(size, align, zero).map_or(null_mut(), |at| at as *mut u8);
    }
    let units = size.max(1).div_ceil(UNIT);
    // What this thread freed last, or the pool's.
    let kept = heap(slot::<A>()).and_then(|heap| heap.take_span(units));
    let take = || {
        POOL.lock()
            .take(units, kind::SPAN)
            .map(|t| (t.page, t.zero))
    };
    let taken = kept.map(|page| (page, false)).or_else(take);
    let Some((page, is_zero)) = taken.or_else(|| (heap::sweep_all() > 0).then(take).flatten())
    else {
        return null_mut();
    };
    page.asked.store(size, Relaxed);
    let at = page.start.load(Relaxed) as *mut u8;
    if zero && !is_zero {
        // SAFETY: a span of so many units.
        unsafe { core::ptr::write_bytes(at, 0, size) };
    }
    at
}

/// A block of zeros.
#[inline]
pub fn calloc<A: Access>(size: usize) -> *mut u8 {
    if size > SMALL_MAX {
        if checked::is_on() {
            return checked::allocate(size, 16, true);
        }
        return allocate_large::<A>(size, 16, true);
    }
    let block = malloc::<A>(size);
    if !block.is_null() {
        // SAFETY: a block of at least `size` bytes.
        unsafe { core::ptr::write_bytes(block, 0, size) };
    }
    block
}

/// A block at a multiple of `align`, a power of two.
#[inline]
pub fn aligned<A: Access>(size: usize, align: usize, zero: bool) -> *mut u8 {
    if align <= 16 {
        return if zero {
            calloc::<A>(size)
        } else {
            malloc::<A>(size)
        };
    }
    if checked::is_on() {
        return checked::allocate(size, align, zero);
    }
    let Some(class) = class_of_aligned(size, align) else {
        return allocate_large::<A>(size, align, zero);
    };
    let block = allocate_small(slot::<A>(), class);
    if zero && !block.is_null() {
        // SAFETY: a block of at least `size` bytes.
        unsafe { core::ptr::write_bytes(block, 0, size) };
    }
    block
}

/// [`aligned`] with the fast path in line. `size` is not 0 and can be rounded up to `align`, as a layout's.
///
/// Up to 1 KiB: fourteen instructions and what the way to the slot takes.
#[inline(always)]
pub fn of_layout<A: Access>(size: usize, align: usize) -> *mut u8 {
    let rounded = round_to(size, align);
    if rounded <= DIRECT_MAX {
        let page = A::direct_page((rounded + 7) & !7);
        // SAFETY: as in `malloc`.
        return unsafe { (*page).pop_or(|| of_layout_slow::<A>(size, align).cast()) }.cast();
    }
    of_layout_slow::<A>(size, align)
}

#[inline(never)]
fn of_layout_slow<A: Access>(size: usize, align: usize) -> *mut u8 {
    match class_of_aligned(size, align) {
        _ if checked::is_on() => checked::allocate(size, align, false),
        Some(class) => allocate_small(slot::<A>(), class),
        None => allocate_large::<A>(size, align, false),
    }
}

/// Frees a block; null is none. An address that is not ours is counted and left alone, unread.
///
/// A block of a page of the calling thread: fifteen instructions, no call, no atomic read-modify-write.
///
/// # Safety
/// `p` is null, foreign, or a block that the program does not use any more.
#[inline(always)]
pub unsafe fn free<A: Access>(p: *mut u8) {
    if let Some(page) = own_page(p as usize) {
        // SAFETY: a block of the page, which is the calling thread's.
        return unsafe { page.push(p.cast()) };
    }
    // SAFETY: the caller's promise.
    unsafe { free_slow::<A>(p) }
}

#[inline(never)]
unsafe fn free_slow<A: Access>(p: *mut u8) {
    if checked::is_on() && !p.is_null() {
        return checked::free(p, None);
    }
    let Some(page) = find(p as usize) else {
        if !p.is_null() {
            free_elsewhere(p);
        }
        return;
    };
    if page.kind.load(Relaxed) != kind::SMALL {
        return free_span::<A>(page, p);
    }
    let block: *mut Block = p.cast();
    if page.owner.load(Acquire) == thread_tag() {
        // A block in a further unit of the page.
        // SAFETY: a block of the page, which is the calling thread's.
        return unsafe { page.push(block) };
    }
    let slot = slot::<A>();
    match heap(slot) {
        // SAFETY: a block of the page, of this thread's heap.
        Some(heap) if core::ptr::eq(heap, page.heap.load(Relaxed)) => unsafe {
            heap.free_home(slot, page, block)
        },
        // SAFETY: a block of the page.
        Some(heap) => unsafe { heap.collect(page, block) },
        // SAFETY: a block of the page.
        None => unsafe { heap::bring(page, block, block, 1) },
    }
}

/// For checked mode: units or a mapping, without a slot.
pub(crate) fn large_unchecked(size: usize, align: usize) -> *mut u8 {
    if size > SPAN_MAX || align > UNIT {
        return huge::allocate(size, align, false).map_or(null_mut(), |at| at as *mut u8);
    }
    let Some(taken) = POOL.lock().take(size.div_ceil(UNIT), kind::SPAN) else {
        return null_mut();
    };
    taken.page.asked.store(size, Relaxed);
    taken.page.start.load(Relaxed) as *mut u8
}

/// For checked mode: gives a span to the pool.
pub(crate) fn free_span_unchecked(page: &'static Page) {
    page.asked.store(page::NOT_ASKED, Relaxed);
    POOL.lock().put(page, true);
}

/// Frees a block that the program says has `size` bytes, which checked mode compares.
///
/// # Safety
/// As [`free`].
#[inline(always)]
pub unsafe fn free_sized<A: Access>(p: *mut u8, size: usize) {
    if let Some(page) = own_page(p as usize) {
        // SAFETY: a block of the page, which is the calling thread's.
        return unsafe { page.push(p.cast()) };
    }
    // SAFETY: the caller's promise.
    unsafe { free_sized_slow::<A>(p, size) }
}

#[inline(never)]
unsafe fn free_sized_slow<A: Access>(p: *mut u8, size: usize) {
    if checked::is_on() && !p.is_null() {
        return checked::free(p, Some(size));
    }
    // SAFETY: the caller's promise.
    unsafe { free_slow::<A>(p) }
}

fn free_span<A: Access>(page: &'static Page, p: *mut u8) {
    if page.start.load(Relaxed) != p as usize || page.asked.load(Relaxed) == page::NOT_ASKED {
        // An address inside, or a second free.
        FOREIGN.fetch_add(1, Relaxed);
        return;
    }
    page.asked.store(page::NOT_ASKED, Relaxed);
    if heap(slot::<A>()).is_none_or(|heap| !heap.keep_span(page)) {
        POOL.lock().put(page, true);
        purge::tick(None);
    }
}

#[cold]
fn free_elsewhere(p: *mut u8) {
    if !huge::free(p as usize) {
        FOREIGN.fetch_add(1, Relaxed);
    }
    purge::tick(None);
}

/// Bytes that the program may use of a block; 0 for null and for what is not ours.
///
/// # Safety
/// As [`free`], but the block is in use.
pub unsafe fn usable_size(p: *const u8) -> usize {
    if checked::is_on() && !p.is_null() {
        return checked::asked_size(p);
    }
    match find(p as usize) {
        Some(page) if page.kind.load(Relaxed) == kind::SMALL => page.size.load(Relaxed) as usize,
        Some(page) => page.bytes(),
        None if p.is_null() => 0,
        None => huge::size_of_block(p as usize).unwrap_or(0),
    }
}

/// Changes a block's size; the contents stay as far as they fit. The block may move to another, which is
/// aligned to `align`. Null where the system has no memory: then the old block is as it was.
///
/// Stays in place where the new size fits and uses more than half of the block.
///
/// # Safety
/// `p` is a block in use, aligned to `align`, a power of two.
pub unsafe fn realloc<A: Access>(p: *mut u8, size: usize, align: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let usable = unsafe { usable_size(p) };
    if usable == 0 && !checked::is_on() {
        FOREIGN.fetch_add(1, Relaxed);
        return null_mut();
    }
    if checked::is_on() {
        // Always to another block, so that whoever kept the old address is found.
        let new = checked::allocate(size, align, false);
        if !new.is_null() {
            // SAFETY: both are as large, and the new block is another one.
            unsafe { core::ptr::copy_nonoverlapping(p, new, usable.min(size)) };
            checked::free(p, None);
        }
        return new;
    }
    if size <= usable && (size > usable / 2 || usable <= block_size(0)) {
        return p;
    }
    if usable > SPAN_MAX && size > SPAN_MAX && align <= 4096 {
        let moved = huge::resize(p as usize, size);
        if let Some(moved) = moved {
            return moved as *mut u8;
        }
    }
    let new = aligned::<A>(size, align, false);
    if new.is_null() {
        // Where there is no memory to move to, a smaller size is served in place.
        return if size <= usable { p } else { new };
    }
    // SAFETY: both are as large, and the new block is another one.
    unsafe {
        core::ptr::copy_nonoverlapping(p, new, usable.min(size));
        free::<A>(p);
    }
    new
}
