//! A heap: the pages of one thread, by class.
//!
//! The thread allocates from one page a class, its *head*, and frees into any of its pages, without
//! looking here. Everything else is under the heap's lock, which the owner takes when a head is used up,
//! and others when they bring order into the heap of a thread that sleeps.
//!
//! What others may do under the lock, while the owner runs: take pages out of the inbox (the owner does
//! not push to full pages), and take a page away that is no head and has no block with the program (the
//! owner has nothing to free into it, and makes a page a head only under the lock).

use crate::background;
use crate::class::{CLASSES, page_units};
use crate::counts::Counts;
use crate::page::{Block, Page, Remote, kind, place};
use crate::pool::{MAPPED, POOL, RETAINED};
use crate::registry;
use crate::ring::Ring;
use crate::slot::Slot;
use core::cell::UnsafeCell;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use homefree_thread::{Lock, LockGuard};

/// See the module. Heaps are never freed.
pub struct Heap {
    pub(crate) inner: Lock<Inner>,
    /// Pages that were full and got a block back, linked by `inbox_next`.
    inbox: AtomicPtr<Page>,
    /// Tag of the thread it belongs to; 0 for none.
    pub(crate) owner: AtomicUsize,
    pub(crate) slot: AtomicPtr<Slot>,
    /// The owner's, unless it was taken (`ring_of_sleeper.rs`).
    pub(crate) ring: UnsafeCell<Ring>,
    /// The owner is at its ring; and somebody else took it.
    pub(crate) at_ring: AtomicBool,
    pub(crate) ring_taken: AtomicBool,
    /// When the owner last sent everything home, by the turn's clock.
    pub(crate) flushed: AtomicU64,
    /// Key-destructor rounds that have passed at the thread's end.
    pub(crate) rounds: AtomicUsize,
    /// About how many pages others saw become idle since the last sweep.
    idle: AtomicUsize,
    pub(crate) counts: Counts,
    /// Next of all heaps.
    pub(crate) next: AtomicPtr<Heap>,
    /// Next of those without a thread.
    pub(crate) next_free: AtomicPtr<Heap>,
}

// SAFETY: the ring is used by one thread at a time; the rest is atomic or locked.
unsafe impl Sync for Heap {}

pub(crate) struct Inner {
    queues: [Queue; CLASSES],
    heads: [*const Page; CLASSES],
    /// Pages in the queues.
    queued: usize,
    /// First frees into full pages of a class since its last refill.
    opened: [u8; CLASSES],
    /// Spans that the owner freed lately, and their units. At the next sweep the pool gets them.
    spans: [*const Page; SPANS],
    span_units: usize,
}

/// So many pages of a class opened without a refill between: the thread frees.
const OPENED: u8 = 4;

/// Spans that a heap keeps at most, and their units: 2 MiB.
const SPANS: usize = 8;
const SPAN_UNITS: usize = 32;

// SAFETY: pointers to entries, which are shared by nature.
unsafe impl Send for Inner {}

/// Pages with free blocks, linked by `next` and `prev`.
#[derive(Clone, Copy)]
struct Queue {
    first: *const Page,
    last: *const Page,
}

impl Queue {
    fn push_back(&mut self, page: &'static Page) {
        page.place.store(place::QUEUE, Relaxed);
        page.next.store(null_mut(), Relaxed);
        page.prev.store(self.last.cast_mut(), Relaxed);
        // SAFETY: null, or an entry, which are never unmapped.
        match unsafe { self.last.as_ref() } {
            Some(last) => last
                .next
                .store(core::ptr::from_ref(page).cast_mut(), Relaxed),
            None => self.first = page,
        }
        self.last = page;
    }

    fn remove(&mut self, page: &'static Page) {
        let (prev, next) = (page.prev.load(Relaxed), page.next.load(Relaxed));
        // SAFETY: as above.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.store(next, Relaxed),
            None => self.first = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.store(prev, Relaxed),
            None => self.last = prev,
        }
        page.place.store(place::NONE, Relaxed);
    }

    fn first(&self) -> Option<&'static Page> {
        // SAFETY: as above.
        unsafe { self.first.as_ref() }
    }
}

impl Inner {
    fn put(&mut self, page: &'static Page) {
        page.recount();
        self.queues[page.class.load(Relaxed) as usize].push_back(page);
        self.queued += 1;
    }

    fn remove(&mut self, page: &'static Page) {
        self.queues[page.class.load(Relaxed) as usize].remove(page);
        self.queued -= 1;
    }

    fn take(&mut self, class: usize) -> Option<&'static Page> {
        let page = self.queues[class].first()?;
        self.remove(page);
        Some(page)
    }

    fn head(&self, class: usize) -> Option<&'static Page> {
        // SAFETY: null, or an entry, which are never unmapped.
        unsafe { self.heads[class].as_ref() }
    }
}

/// The heap of pages whose threads have ended, and of calls made by threads after their end. It has no
/// owner: all is done under its lock, which may be taken while another heap's is held.
pub(crate) static ORPHANS: Heap = Heap::new();

impl Heap {
    pub const fn new() -> Self {
        Self {
            inner: Lock::new(Inner {
                queues: [const {
                    Queue {
                        first: null(),
                        last: null(),
                    }
                }; CLASSES],
                heads: [null(); CLASSES],
                queued: 0,
                opened: [0; CLASSES],
                spans: [null(); SPANS],
                span_units: 0,
            }),
            inbox: AtomicPtr::new(null_mut()),
            owner: AtomicUsize::new(0),
            slot: AtomicPtr::new(null_mut()),
            ring: UnsafeCell::new(Ring::new()),
            at_ring: AtomicBool::new(false),
            ring_taken: AtomicBool::new(false),
            flushed: AtomicU64::new(0),
            rounds: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            counts: Counts::new(),
            next: AtomicPtr::new(null_mut()),
            next_free: AtomicPtr::new(null_mut()),
        }
    }

    fn is_orphans(&self) -> bool {
        core::ptr::eq(self, &ORPHANS)
    }

    fn as_ptr(&self) -> *mut Heap {
        core::ptr::from_ref(self).cast_mut()
    }

    /// A block of the class for the calling thread, which the heap belongs to, and with it a new head if
    /// the old one is used up. Null where the system has no memory.
    pub(crate) fn refill(&'static self, slot: &Slot, class: usize) -> *mut Block {
        self.counts.of(class).refills.add(1);
        let (block, head) = self.allocate(class);
        slot.set_page(class, head);
        block
    }

    /// The same without a slot. Also tells the head.
    pub(crate) fn allocate(&'static self, class: usize) -> (*mut Block, *const Page) {
        let mut inner = self.inner.lock();
        inner.opened[class] = 0;
        loop {
            if let Some(block) = self.block_of_pages(&mut inner, class) {
                return (block, inner.heads[class]);
            }
            let page = match self.adopt(class) {
                Some(page) => page,
                None => match self.new_page(class) {
                    Some(page) => page,
                    None => return (null_mut(), null()),
                },
            };
            inner.put(page);
        }
    }

    /// A block from the head or, when that is used up, from the next page that has one.
    fn block_of_pages(&self, inner: &mut LockGuard<'_, Inner>, class: usize) -> Option<*mut Block> {
        let tag = self.owner.load(Relaxed);
        loop {
            if let Some(page) = inner.head(class) {
                page.recount();
                // SAFETY: the lock is held, by the owner or for a heap without one.
                unsafe {
                    // By the count: in a child of `fork` the list of a thread that was at it may be longer.
                    if page.left.load(Relaxed) > 0 || page.collect() || page.carve() {
                        return Some(page.pop_or(null_mut));
                    }
                }
                if !page.close() {
                    continue;
                }
                page.place.store(place::NONE, Relaxed);
                page.owner
                    .store(if tag == 0 { 0 } else { tag | 1 }, Relaxed);
                inner.heads[class] = null();
            }
            let page = match inner.take(class) {
                Some(page) => page,
                None => {
                    self.drain(inner);
                    inner.take(class)?
                }
            };
            page.owner.store(tag, Relaxed);
            page.place.store(place::HEAD, Relaxed);
            inner.heads[class] = page;
        }
    }

    /// A page of an ended thread.
    fn adopt(&self, class: usize) -> Option<&'static Page> {
        if self.is_orphans() {
            return None;
        }
        let mut orphans = ORPHANS.inner.lock();
        let page = match orphans.take(class) {
            Some(page) => page,
            None => {
                if ORPHANS.inbox.load(Relaxed).is_null() {
                    return None;
                }
                ORPHANS.drain(&mut orphans);
                orphans.take(class)?
            }
        };
        page.heap.store(self.as_ptr(), Relaxed);
        Some(page)
    }

    fn new_page(&'static self, class: usize) -> Option<&'static Page> {
        let units = page_units(class);
        self.counts.of(class).pool.add(1);
        let taken = POOL.lock().take(units, kind::SMALL);
        let page = match taken {
            Some(taken) => taken.page,
            None => return None,
        };
        let size = crate::class::block_size(class);
        page.class.store(class as u8, Relaxed);
        page.size.store(size as u32, Relaxed);
        page.capacity.store((page.bytes() / size) as u32, Relaxed);
        page.carved.store(0, Relaxed);
        page.free.store(null_mut(), Relaxed);
        page.left.store(0, Relaxed);
        page.remote.store(0, Relaxed);
        page.heap.store(self.as_ptr(), Relaxed);
        Some(page)
    }

    /// Frees a block of this heap's page by its owner, where the fast path did not: the page is full, or
    /// another thread owned it when it was last looked at.
    ///
    /// # Safety
    /// The block is of the page, and nobody's any more.
    pub(crate) unsafe fn free_home(&self, slot: &Slot, page: &'static Page, block: *mut Block) {
        let mut inner = self.inner.lock();
        let tag = self.owner.load(Relaxed);
        let class = page.class.load(Relaxed) as usize;
        inner.opened[class] += 1;
        if inner.opened[class] == OPENED {
            // The thread frees more than it takes. A head is the one page that nobody else may take away
            // when it is idle; without one, everything goes back even if this call is the last.
            inner.opened[class] = 0;
            if let Some(head) = inner.head(class) {
                inner.heads[class] = null();
                inner.put(head);
                slot.set_page(class, null());
            }
            background::wake();
        }
        if page.place.load(Relaxed) == place::NONE {
            let full = Remote::FULL.0;
            if page
                .remote
                .compare_exchange(full, 0, AcqRel, Relaxed)
                .is_err()
            {
                // Others brought blocks, so that the page is or will be in the inbox.
                // SAFETY: the caller's promise.
                unsafe { page.publish(block, block, 1) };
                return;
            }
            inner.put(page);
        }
        // SAFETY: the lock is held by the owner, or for a heap without one.
        unsafe { page.push(block) };
        page.owner.store(tag, Release);
    }

    /// A span of so many units that the owner freed lately.
    pub(crate) fn take_span(&self, units: usize) -> Option<&'static Page> {
        let mut inner = self.inner.lock();
        if inner.span_units < units {
            return None;
        }
        for i in 0..SPANS {
            // SAFETY: null or an entry, which are never unmapped.
            let page = unsafe { inner.spans[i].as_ref() };
            if let Some(page) = page
                && page.units.load(Relaxed) as usize == units
            {
                inner.spans[i] = null();
                inner.span_units -= units;
                return Some(page);
            }
        }
        None
    }

    /// Keeps a span for the owner. False where there is no room.
    pub(crate) fn keep_span(&self, page: &'static Page) -> bool {
        let mut inner = self.inner.lock();
        let units = page.units.load(Relaxed) as usize;
        if inner.span_units + units > SPAN_UNITS {
            return false;
        }
        let Some(place) = inner.spans.iter_mut().find(|s| s.is_null()) else {
            return false;
        };
        *place = page;
        inner.span_units += units;
        background::wake();
        true
    }

    /// Takes all pages out of the inbox into their queues; out of the inbox of a heap without a thread
    /// into the queues of [`ORPHANS`].
    fn drain(&self, inner: &mut LockGuard<'_, Inner>) {
        if self.inbox.load(SeqCst).is_null() {
            return;
        }
        let tag = self.owner.load(SeqCst);
        let mut orphans = (tag == 0 && !self.is_orphans()).then(|| ORPHANS.inner.lock());
        let mut next = self.inbox.swap(null_mut(), AcqRel);
        // SAFETY: entries, which are never unmapped.
        while let Some(page) = unsafe { next.cast_const().as_ref() } {
            next = page.inbox_next.load(Relaxed);
            self.counts
                .of(page.class.load(Relaxed) as usize)
                .received
                .add(1);
            if orphans.is_some() {
                page.heap.store(ORPHANS.as_ptr(), Relaxed);
            }
            // SAFETY: the lock is held, and the page was full.
            unsafe { page.collect() };
            match &mut orphans {
                Some(orphans) => orphans.put(page),
                None => inner.put(page),
            }
            // Last: from here on the owner pushes.
            page.owner.store(tag, Release);
        }
    }

    /// Gives the pool every page that has no block with the program. Returns how many.
    pub(crate) fn sweep(&self, inner: &mut LockGuard<'_, Inner>) -> usize {
        self.idle.store(0, Relaxed);
        self.drain(inner);
        let mut swept = 0;
        if inner.span_units > 0 {
            inner.span_units = 0;
            for span in core::mem::replace(&mut inner.spans, [null(); SPANS]) {
                // SAFETY: null or an entry, which are never unmapped.
                if let Some(page) = unsafe { span.as_ref() } {
                    POOL.lock().put(page, true);
                    swept += 1;
                }
            }
        }
        for class in 0..CLASSES {
            let mut next = inner.queues[class].first();
            while let Some(page) = next {
                // SAFETY: an entry or null.
                next = unsafe { page.next.load(Relaxed).cast_const().as_ref() };
                if page.is_idle() {
                    inner.remove(page);
                    page.heap.store(null_mut(), Relaxed);
                    page.remote.store(0, Relaxed);
                    POOL.lock().put(page, page.carved.load(Relaxed) > 0);
                    swept += 1;
                }
            }
        }
        swept
    }

    /// [`Heap::sweep`] unless somebody is at work here; then 0.
    pub(crate) fn try_sweep(&self) -> usize {
        self.inner
            .try_lock()
            .map_or(0, |mut inner| self.sweep(&mut inner))
    }

    /// The thread has ended, or does not exist in a child of `fork`: what is idle goes to the pool, the
    /// rest to [`ORPHANS`].
    pub(crate) fn abandon(&self) {
        let mut inner = self.inner.lock();
        self.owner.store(0, SeqCst);
        self.slot.store(null_mut(), Relaxed);
        for class in 0..CLASSES {
            if let Some(page) = inner.head(class) {
                inner.heads[class] = null();
                inner.put(page);
            }
        }
        self.sweep(&mut inner);
        let mut orphans = ORPHANS.inner.lock();
        for class in 0..CLASSES {
            while let Some(page) = inner.take(class) {
                page.owner.store(0, Relaxed);
                page.heap.store(ORPHANS.as_ptr(), Relaxed);
                orphans.put(page);
            }
        }
    }
}

/// Brings a list of blocks home to a page of another thread, and tells its heap if it must know.
///
/// # Safety
/// As [`Page::publish`].
pub(crate) unsafe fn bring(page: &'static Page, head: *mut Block, tail: *mut Block, count: u32) {
    // SAFETY: the caller's promise.
    if unsafe { page.publish(head, tail, count) } {
        tell(page);
    }
    note_idle(page);
}

/// Tells a page's heap that others brought blocks to it, since it was full.
fn tell(page: &'static Page) {
    // SAFETY: a full page has a heap, which is never freed, and stays in it until it is taken from the inbox.
    let heap = unsafe { &*page.heap.load(Acquire) };
    let this = core::ptr::from_ref(page).cast_mut();
    let mut first = heap.inbox.load(Relaxed);
    loop {
        page.inbox_next.store(first, Relaxed);
        match heap
            .inbox
            .compare_exchange_weak(first, this, SeqCst, Relaxed)
        {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    // No thread will look: its end came before (it looks once more after taking its tag away).
    if heap.owner.load(SeqCst) == 0 && !heap.is_orphans() {
        let mut inner = heap.inner.lock();
        heap.drain(&mut inner);
    }
}

/// About how many pages others saw become idle since the last sweep of all.
static IDLE: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread that needs memory should look for idle pages first: the pool holds nothing that was
/// used before, and an eighth of all memory may lie idle with threads that sleep.
pub(crate) fn should_sweep() -> bool {
    IDLE.load(Relaxed) >= (MAPPED.load(Relaxed) / 8).max(64) && RETAINED.load(Relaxed) == 0
}

/// Notes that a page may have become idle while its owner sleeps; when there are many, sweeps.
fn note_idle(page: &'static Page) {
    if !page.is_idle() {
        return;
    }
    // SAFETY: null, or a heap, which are never freed.
    let Some(heap) = (unsafe { page.heap.load(Acquire).cast_const().as_ref() }) else {
        return;
    };
    background::wake();
    IDLE.fetch_add(1, Relaxed);
    let idle = heap.idle.fetch_add(1, Relaxed) + 1;
    if idle < 64 {
        return;
    }
    if let Some(mut inner) = heap.inner.try_lock()
        && idle >= inner.queued / 8
    {
        heap.sweep(&mut inner);
    }
}

/// Sweeps every heap that nobody is at work in.
pub(crate) fn sweep_all() -> usize {
    IDLE.store(0, Relaxed);
    let mut swept = ORPHANS.try_sweep();
    registry::each(|heap| swept += heap.try_sweep());
    swept
}
