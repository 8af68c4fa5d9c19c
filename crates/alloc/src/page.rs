//! A page: blocks of one size class, owned by one heap; and what is known about a span of units.
//!
//! Pages have no header in front of their blocks. Each unit of 64 KiB has its `Page` in a table beside
//! the region (`region.rs`), so blocks are aligned, a page can be given back whole, and an address that
//! is not ours is told by arithmetic alone.
//!
//! Who may change what:
//!
//! * `free`, `left`: the owner, at any time and without atomic read-modify-write; whoever holds the
//!   heap's lock while the owner can not (`heap.rs` says when that is).
//! * `remote`: anyone, by compare-and-swap. The protocol is specified in `tests/loom_remote.rs`.
//! * the rest: whoever holds the heap's lock; the pool's while the page belongs to no heap.

use core::ptr::null_mut;
use core::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};

use crate::heap::Heap;

/// Bytes of a unit, the grain of pages and spans.
pub const UNIT: usize = 64 << 10;
pub const UNIT_SHIFT: u32 = 16;

/// A free block: the next one of its list.
#[repr(transparent)]
pub struct Block {
    next: AtomicPtr<Block>,
}

impl Block {
    /// The block at an address.
    ///
    /// # Safety
    /// A free block of one of our pages starts there, which the caller alone has at hand.
    #[inline(always)]
    pub unsafe fn next(this: *mut Block) -> *mut Block {
        // SAFETY: blocks are at least 16 bytes on 16.
        unsafe { (*this).next.load(Relaxed) }
    }

    /// # Safety
    /// As [`Block::next`].
    #[inline(always)]
    pub unsafe fn set_next(this: *mut Block, next: *mut Block) {
        // SAFETY: the same.
        unsafe { (*this).next.store(next, Relaxed) };
    }
}

/// See [`Page::asked`].
pub const NOT_ASKED: usize = usize::MAX;

/// What a unit is.
pub mod kind {
    /// In nobody's hands.
    pub const FREE: u8 = 0;
    /// First unit of a page of blocks.
    pub const SMALL: u8 = 1;
    /// First unit of a block that has units of its own.
    pub const SPAN: u8 = 2;
    /// A further unit of either.
    pub const REST: u8 = 3;
}

/// Where a page is, in its heap.
pub mod place {
    /// In no list: every block is out, or its remote list is in the heap's inbox.
    pub const NONE: u8 = 0;
    /// In the queue of its class.
    pub const QUEUE: u8 = 1;
    /// The page that its class allocates from.
    pub const HEAD: u8 = 2;
}

/// What `left` is in the page that has no block: threads that look there count it down, without telling
/// each other, and it must stay below 0.
const NOTHING_LEFT: i32 = i32::MIN / 2;

/// One unit's entry.
#[repr(C, align(128))]
pub struct Page {
    // The owner's line.
    /// Free blocks.
    pub free: AtomicPtr<Block>,
    /// [`crate::slot::thread_tag`] of the thread that may push to `free`; that and 1 while the page is
    /// full, so that the first free takes the slow path; 0 for nobody.
    pub owner: AtomicUsize,
    /// Blocks in `free`. Below 0: the owner found none, and is on its way to get some.
    pub left: AtomicI32,
    /// Blocks that have been handed out at some time; the others are raw memory at the end.
    pub carved: AtomicU32,
    pub capacity: AtomicU32,
    /// Bytes of a block.
    pub size: AtomicU32,
    /// Address of the first block.
    pub start: AtomicUsize,
    pub next: AtomicPtr<Page>,
    pub prev: AtomicPtr<Page>,
    pub kind: AtomicU8,
    pub class: AtomicU8,
    pub place: AtomicU8,
    /// Units of the page or span; of a further unit, how many before it the first one is.
    pub units: AtomicU16,
    // The others' line.
    _line: [u8; 0],
    /// Blocks that others freed: see [`Remote`].
    pub remote: AtomicU64,
    pub heap: AtomicPtr<Heap>,
    /// Next page in the heap's inbox.
    pub inbox_next: AtomicPtr<Page>,
    /// Of a span, bytes asked for; [`NOT_ASKED`] once it is free.
    pub asked: AtomicUsize,
    /// How often the unit was handed out.
    pub generation: AtomicUsize,
    _pad: [u64; 3],
}

const _: () = assert!(size_of::<Page>() == 128);
const _: () = assert!(core::mem::offset_of!(Page, remote) == 64);

/// The word `remote`: first block (as an offset), number of blocks, and two bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote(pub u64);

const OFFSET_BITS: u32 = 24;
const COUNT_BITS: u32 = 24;

impl Remote {
    /// The page is full and in no list: who brings the first block tells its heap.
    pub const FULL: Remote = Remote(1 << 62);
    /// ... and has been told, or is about to be.
    pub const NOTICED: Remote = Remote(1 << 63);

    #[inline]
    pub fn count(self) -> u32 {
        (self.0 >> OFFSET_BITS) as u32 & ((1 << COUNT_BITS) - 1)
    }

    #[inline]
    pub fn is_full(self) -> bool {
        self.0 & Self::FULL.0 != 0
    }

    #[inline]
    pub fn is_noticed(self) -> bool {
        self.0 & Self::NOTICED.0 != 0
    }

    #[inline]
    fn head(self, start: usize) -> *mut Block {
        match self.0 & ((1 << OFFSET_BITS) - 1) {
            0 => null_mut(),
            offset => (start + (offset as usize - 1) * 16) as *mut Block,
        }
    }

    #[inline]
    fn with(self, head: *mut Block, start: usize, more: u32) -> Remote {
        let offset = ((head as usize - start) / 16 + 1) as u64;
        let count = u64::from(self.count() + more);
        let bits = self.0 & (Self::FULL.0 | Self::NOTICED.0);
        Remote(offset | count << OFFSET_BITS | bits)
    }
}

impl Page {
    /// A page without a block, which every class of a thread starts with.
    pub const fn empty() -> Self {
        Self {
            free: AtomicPtr::new(null_mut()),
            owner: AtomicUsize::new(0),
            left: AtomicI32::new(NOTHING_LEFT),
            carved: AtomicU32::new(0),
            capacity: AtomicU32::new(0),
            size: AtomicU32::new(0),
            start: AtomicUsize::new(0),
            next: AtomicPtr::new(null_mut()),
            prev: AtomicPtr::new(null_mut()),
            kind: AtomicU8::new(kind::FREE),
            class: AtomicU8::new(0),
            place: AtomicU8::new(place::NONE),
            units: AtomicU16::new(0),
            _line: [],
            remote: AtomicU64::new(0),
            heap: AtomicPtr::new(null_mut()),
            inbox_next: AtomicPtr::new(null_mut()),
            asked: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            _pad: [0; 3],
        }
    }

    /// Bytes of the whole page or span.
    pub fn bytes(&self) -> usize {
        self.units.load(Relaxed) as usize * UNIT
    }

    /// Takes a block off the page's own list, or where that is empty returns what `none` does. Six
    /// instructions, inlined.
    ///
    /// # Safety
    /// The caller is the owner, or holds the heap's lock and the page has no owner.
    #[inline(always)]
    pub unsafe fn pop_or(&self, none: impl FnOnce() -> *mut Block) -> *mut Block {
        // Not a read-modify-write between threads: there is one writer.
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: counts in this entry, as the caller may.
        unsafe {
            core::arch::asm!(
                "dec dword ptr [{page} + {left}]",
                "js {none}",
                page = in(reg) self,
                left = const core::mem::offset_of!(Page, left),
                none = label { return none() },
                options(nostack),
            );
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        {
            let left = self.left.load(Relaxed);
            if left <= 0 {
                return none();
            }
            self.left.store(left - 1, Relaxed);
        }
        let block = self.free.load(Relaxed);
        // SAFETY: a block of the page's list, which is the caller's.
        self.free.store(unsafe { Block::next(block) }, Relaxed);
        block
    }

    /// Undoes what a search that found nothing left of the count.
    pub fn recount(&self) {
        if self.left.load(Relaxed) < 0 {
            self.left.store(0, Relaxed);
        }
    }

    /// Of the page that never has a block: keeps its count far below 0.
    pub fn stay_empty(&self) {
        if self.left.load(Relaxed) < NOTHING_LEFT - (1 << 24) {
            self.left.store(NOTHING_LEFT, Relaxed);
        }
    }

    /// Blocks that have been handed out and did not come back to `free`: those of the program, and those
    /// that others brought.
    pub fn out(&self) -> u32 {
        let left = self.left.load(Acquire).max(0) as u32;
        self.carved.load(Relaxed).wrapping_sub(left)
    }

    /// Puts a block onto the page's own list.
    ///
    /// # Safety
    /// As [`Page::pop`]; the block is of this page and nobody's any more.
    #[inline(always)]
    pub unsafe fn push(&self, block: *mut Block) {
        // SAFETY: the caller's promise.
        unsafe { Block::set_next(block, self.free.load(Relaxed)) };
        self.free.store(block, Relaxed);
        // Release, and last: who reads that nothing is out finds the list whole.
        self.left
            .store(self.left.load(Relaxed).wrapping_add(1), Release);
    }

    /// Whether not one block is with the program. True stays true as long as nothing allocates from the
    /// page, which for one that is no head takes the heap's lock.
    ///
    /// There are never fewer blocks out than others brought, and their number only falls meanwhile; so if
    /// it is read second and equals the number read first, both held at that moment.
    pub fn is_idle(&self) -> bool {
        let back = Remote(self.remote.load(Acquire)).count();
        self.out() == back
    }

    /// Sends a list of blocks, linked from `head` to `tail`, home. True if the caller has to tell the heap.
    ///
    /// # Safety
    /// The blocks are of this page, and the caller's alone.
    pub unsafe fn publish(&self, head: *mut Block, tail: *mut Block, count: u32) -> bool {
        let start = self.start.load(Relaxed);
        let mut old = self.remote.load(Relaxed);
        loop {
            let was = Remote(old);
            // SAFETY: not published yet.
            unsafe { Block::set_next(tail, was.head(start)) };
            let mut new = was.with(head, start, count);
            if was.is_full() {
                new.0 |= Remote::NOTICED.0;
            }
            match self
                .remote
                .compare_exchange_weak(old, new.0, AcqRel, Relaxed)
            {
                Ok(_) => return was.is_full() && !was.is_noticed(),
                Err(now) => old = now,
            }
        }
    }

    /// Takes all that others brought, and the bits off, so that the page counts as being in a list. True
    /// if there was something.
    ///
    /// # Safety
    /// The heap's lock is held, and the owner, if that is another thread, can not push (the page is full).
    pub unsafe fn collect(&self) -> bool {
        if self.remote.load(Relaxed) == 0 {
            return false;
        }
        let taken = Remote(self.remote.swap(0, AcqRel));
        let mut last = taken.head(self.start.load(Relaxed));
        if last.is_null() {
            return false;
        }
        let head = last;
        if !self.free.load(Relaxed).is_null() {
            // SAFETY: blocks of the list just taken.
            while let Some(next) = core::ptr::NonNull::new(unsafe { Block::next(last) }) {
                last = next.as_ptr();
            }
            // SAFETY: the same.
            unsafe { Block::set_next(last, self.free.load(Relaxed)) };
        }
        self.free.store(head, Relaxed);
        let left = self.left.load(Relaxed) + taken.count() as i32;
        self.left.store(left, Release);
        true
    }

    /// Marks the page full, unless others brought blocks meanwhile.
    pub fn close(&self) -> bool {
        let full = Remote::FULL.0;
        self.remote
            .compare_exchange(0, full, AcqRel, Relaxed)
            .is_ok()
    }

    /// Makes free blocks of up to 4 KiB more of the page. False where all are made.
    ///
    /// # Safety
    /// As [`Page::collect`], and `free` is empty.
    pub unsafe fn carve(&self) -> bool {
        let (carved, capacity) = (self.carved.load(Relaxed), self.capacity.load(Relaxed));
        if carved == capacity {
            return false;
        }
        let size = self.size.load(Relaxed) as usize;
        let more = (4096 / size).clamp(1, (capacity - carved) as usize);
        let mut block = (self.start.load(Relaxed) + carved as usize * size) as *mut Block;
        self.free.store(block, Relaxed);
        for _ in 1..more {
            let next = (block as usize + size) as *mut Block;
            // SAFETY: within the page, and handed out to nobody yet.
            unsafe { Block::set_next(block, next) };
            block = next;
        }
        // SAFETY: the same.
        unsafe { Block::set_next(block, null_mut()) };
        self.left.store(more as i32, Relaxed);
        self.carved.store(carved + more as u32, Relaxed);
        true
    }
}
