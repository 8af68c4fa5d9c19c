//! Checked mode: what a program does wrong with its blocks is said in one line, and the process ends.
//!
//! No thread has a page of its own then, so that every call comes here. A block's last word tells how long
//! it is and whether it is in use, encoded with its address; what lies between the program's bytes and
//! that word is filled. A freed block is filled too, and waits in a queue before it can be used again. Both
//! fillings are looked at when the block is freed, or leaves the queue.

use crate::class::class_of_aligned;
use crate::heap::{self, ORPHANS};
use crate::page::{NOT_ASKED, Page, kind};
use crate::region::find;
use crate::slot::EMPTY;
use crate::{huge, life, malloc};
use core::fmt::{self, Write};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use homefree_thread::{Lock, environment, sys};

/// Behind the program's bytes.
const AFTER: u8 = 0xc5;
/// In freed blocks.
const FREED: u8 = 0xdf;
/// Blocks that wait.
const WAITING: usize = 1024;

const UNKNOWN: u32 = 0;
const OFF: u32 = 1;
const ON: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static SECRET: AtomicUsize = AtomicUsize::new(0);

pub(crate) static QUEUE: Lock<Queue> = Lock::new(Queue {
    blocks: [0; WAITING],
    next: 0,
});

/// Freed blocks, in the order in which they came.
pub(crate) struct Queue {
    blocks: [usize; WAITING],
    next: usize,
}

/// Whether the mode is on. Asked on slow paths only: with it on, there are no others.
#[inline]
pub(crate) fn is_on() -> bool {
    match STATE.load(Acquire) {
        OFF => false,
        ON => true,
        _ => decide(),
    }
}

#[cold]
fn decide() -> bool {
    // Before it is set up, nothing can be known.
    if !environment::is_ready() {
        return false;
    }
    let on = environment::is_on(b"HOMEFREE_CHECK");
    let random = sys::random() as usize | 1;
    let _ = SECRET.compare_exchange(0, random, Relaxed, Relaxed);
    STATE.store(if on { ON } else { OFF }, Release);
    on
}

/// Where a block of ours starts and how many bytes it has in all, if it was made in this mode.
struct Place {
    page: &'static Page,
    start: usize,
    len: usize,
}

impl Place {
    /// `None` for blocks that were made before the mode was known.
    fn of(page: &'static Page, at: usize) -> Option<Self> {
        let start = page.start.load(Relaxed);
        if page.kind.load(Relaxed) == kind::SPAN {
            return Some(Self {
                page,
                start,
                len: page.bytes(),
            });
        }
        if !core::ptr::eq(page.heap.load(Relaxed), &ORPHANS) {
            return None;
        }
        let len = page.size.load(Relaxed) as usize;
        Some(Self {
            page,
            start: start + (at - start) / len * len,
            len,
        })
    }

    fn word(&self) -> *mut usize {
        (self.start + self.len - size_of::<usize>()) as *mut usize
    }

    fn code(&self, in_use: bool) -> usize {
        // The generation, so that what an earlier page left at the same place is not taken for ours.
        let place = self.start ^ self.page.generation.load(Relaxed) << 48;
        (place ^ SECRET.load(Relaxed)).rotate_left(if in_use { 7 } else { 23 })
    }

    /// How many bytes the program asked for, if the block is in use.
    fn size(&self) -> Option<usize> {
        // SAFETY: within a block of ours.
        let size = unsafe { self.word().read() } ^ self.code(true);
        (size <= self.len - size_of::<usize>()).then_some(size)
    }

    fn is_freed(&self) -> bool {
        // SAFETY: within a block of ours.
        unsafe { self.word().read() == self.code(false) }
    }

    /// The first byte in a range of the block that is not what it was filled with.
    fn changed(&self, from: usize, to: usize, filling: u8) -> Option<usize> {
        // SAFETY: within a block of ours.
        (from..to).find(|i| unsafe { *((self.start + i) as *const u8) } != filling)
    }

    fn mark(&self, size: usize) {
        // SAFETY: the block is the caller's.
        unsafe {
            let rest = self.len - size_of::<usize>() - size;
            ((self.start + size) as *mut u8).write_bytes(AFTER, rest);
            self.word().write(size ^ self.code(true));
        }
    }
}

/// A block. Null where the system has no memory.
pub(crate) fn allocate(size: usize, align: usize, zero: bool) -> *mut u8 {
    life::begin();
    EMPTY.stay_empty();
    let Some(whole) = size.checked_add(size_of::<usize>()) else {
        return null_mut();
    };
    let p: *mut u8 = match class_of_aligned(whole, align) {
        Some(class) => ORPHANS.allocate(class).0.cast(),
        None => malloc::large_unchecked(whole, align),
    };
    if p.is_null() {
        return p;
    }
    if let Some(place) = find(p as usize).and_then(|page| Place::of(page, p as usize)) {
        if place.is_freed() {
            // It waited, so it was looked at; but the program may have written since. (The first word is the
            // list's.)
            if let Some(i) =
                place.changed(size_of::<usize>(), place.len - size_of::<usize>(), FREED)
            {
                end(format_args!(
                    "write after free to byte {i} of a block of {} bytes at {p:p}",
                    place.len
                ));
            }
        }
        place.mark(size);
    }
    if zero {
        // SAFETY: a block of so many bytes.
        unsafe { p.write_bytes(0, size) };
    }
    p
}

/// How many bytes the program asked for of a block. Ends the process if there is none.
pub(crate) fn asked_size(p: *const u8) -> usize {
    let Some(page) = find(p as usize) else {
        return match huge::size_of_block(p as usize) {
            Some(size) => size,
            None => end(format_args!("{p:p} is not an address that malloc returned")),
        };
    };
    match Place::of(page, p as usize) {
        Some(place) => check(&place, p),
        None => page.size.load(Relaxed) as usize,
    }
}

/// Looks at all that can be known of a block in use, and returns its size.
fn check(place: &Place, p: *const u8) -> usize {
    if place.start != p as usize {
        let (inside, start) = (p as usize - place.start, place.start);
        end(format_args!(
            "{p:p} is {inside} bytes inside the block at {start:#x}"
        ));
    }
    let is_span = place.page.kind.load(Relaxed) == kind::SPAN;
    if place.is_freed() || is_span && place.page.asked.load(Relaxed) == NOT_ASKED {
        end(format_args!(
            "double free, or use after free, of the block at {p:p}"
        ));
    }
    let Some(size) = place.size() else {
        end(format_args!(
            "write past the end of the block at {p:p}, of at most {} bytes",
            place.len
        ));
    };
    let filled = place.len - size_of::<usize>();
    if let Some(i) = place.changed(size, filled, AFTER) {
        end(format_args!(
            "write past the end of the block of {size} bytes at {p:p}: byte {i}"
        ));
    }
    size
}

/// Frees a block. `said`: how large the program says that it is.
pub(crate) fn free(p: *mut u8, said: Option<usize>) {
    let size = asked_size(p);
    let page = find(p as usize);
    let place = page.and_then(|page| Place::of(page, p as usize));
    if let (Some(said), Some(_)) = (said, &place)
        && said != size
    {
        end(format_args!(
            "free of {said} bytes at {p:p}, where the block has {size}"
        ));
    }
    match (page, place) {
        (Some(page), None) => release(page, p),
        (_, Some(place)) => {
            // SAFETY: the block is nobody's any more.
            unsafe {
                p.write_bytes(FREED, place.len - size_of::<usize>());
                place.word().write(place.code(false));
            }
            wait(p);
        }
        // Its mapping goes, so that use after free faults.
        (None, None) => {
            huge::free(p as usize);
        }
    }
}

/// Puts a block into the queue, and lets go the one that has waited longest.
fn wait(p: *mut u8) {
    let mut queue = QUEUE.lock();
    let next = queue.next;
    let oldest = core::mem::replace(&mut queue.blocks[next], p as usize);
    queue.next = (next + 1) % WAITING;
    drop(queue);
    let Some(page) = find(oldest) else { return };
    if let Some(place) = Place::of(page, oldest) {
        if let Some(i) = place.changed(0, place.len - size_of::<usize>(), FREED) {
            end(format_args!(
                "write after free to byte {i} of a block of {} bytes at {oldest:#x}",
                place.len
            ));
        }
        if !place.is_freed() {
            end(format_args!(
                "write after free, or past the end, of the block at {oldest:#x}"
            ));
        }
        release(page, oldest as *mut u8);
    }
}

fn release(page: &'static Page, p: *mut u8) {
    if page.kind.load(Relaxed) == kind::SPAN {
        malloc::free_span_unchecked(page);
    } else {
        // SAFETY: a block of the page, and nobody's.
        unsafe { heap::bring(page, p.cast(), p.cast(), 1) };
    }
}

/// Says it, and ends the process.
#[cold]
fn end(what: fmt::Arguments<'_>) -> ! {
    struct Line([u8; 256], usize);
    impl Write for Line {
        fn write_str(&mut self, s: &str) -> fmt::Result {
            for &b in s.as_bytes().iter().take(255 - self.1) {
                self.0[self.1] = b;
                self.1 += 1;
            }
            Ok(())
        }
    }
    let mut line = Line([0; 256], 0);
    let _ = write!(line, "homefree: {what}");
    line.0[line.1] = b'\n';
    // SAFETY: the kernel reads the line; then the process ends.
    unsafe {
        libc::write(2, line.0.as_ptr().cast(), line.1 + 1);
        libc::abort()
    }
}
