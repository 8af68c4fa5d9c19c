//! All heaps, and those without a thread.

use crate::heap::Heap;
use crate::source::source;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use homefree_thread::Lock;

static ALL: AtomicPtr<Heap> = AtomicPtr::new(null_mut());

/// Heaps without a thread, and memory for further ones.
pub(crate) struct Free {
    first: *mut Heap,
    chunk: usize,
    chunk_end: usize,
}

// SAFETY: pointers to heaps, which are shared by nature.
unsafe impl Send for Free {}

pub(crate) static FREE: Lock<Free> = Lock::new(Free {
    first: null_mut(),
    chunk: 0,
    chunk_end: 0,
});

/// Heaps with a thread.
pub(crate) static ATTACHED: AtomicUsize = AtomicUsize::new(0);

/// Bytes mapped for heaps.
pub(crate) static HEAP_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Heaps are mapped so many bytes at a time.
const CHUNK: usize = 64 << 10;

/// Calls `see` with every heap but the orphans'.
pub(crate) fn each(mut see: impl FnMut(&'static Heap)) {
    let mut heap = ALL.load(Acquire);
    // SAFETY: null or a heap; they are never freed and their list never changes but at its start.
    while let Some(this) = unsafe { heap.cast_const().as_ref() } {
        see(this);
        heap = this.next.load(Relaxed);
    }
}

/// A heap for a thread. `None` where the system has no memory.
pub(crate) fn take() -> Option<&'static Heap> {
    let heap = take_free()?;
    ATTACHED.fetch_add(1, Relaxed);
    Some(heap)
}

fn take_free() -> Option<&'static Heap> {
    let mut free = FREE.lock();
    // SAFETY: null or a heap.
    if let Some(heap) = unsafe { free.first.cast_const().as_ref() } {
        free.first = heap.next_free.load(Relaxed);
        return Some(heap);
    }
    if free.chunk_end - free.chunk < size_of::<Heap>() {
        free.chunk = source().map(CHUNK)?;
        free.chunk_end = free.chunk + CHUNK;
        HEAP_BYTES.fetch_add(CHUNK, Relaxed);
    }
    let heap = free.chunk as *mut Heap;
    free.chunk += size_of::<Heap>();
    // SAFETY: in the chunk, used by nobody, aligned since chunks and sizes are multiples of 64.
    unsafe { heap.write(Heap::new()) };
    // SAFETY: just written, and never freed.
    let this = unsafe { &*heap };
    // Under the lock, so nobody else puts a heap in front.
    this.next.store(ALL.load(Relaxed), Relaxed);
    ALL.store(heap, Release);
    Some(this)
}

/// Takes a heap back from a thread that has ended.
pub(crate) fn release(heap: &'static Heap) {
    ATTACHED.fetch_sub(1, Relaxed);
    let mut free = FREE.lock();
    heap.next_free.store(free.first, Relaxed);
    free.first = core::ptr::from_ref(heap).cast_mut();
}
