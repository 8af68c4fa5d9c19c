//! [`Accounted`]: a global allocator that counts.

use crate::{Ledger, events, ledger, limit};
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use homefree_thread::counter::{ALLOCATED, Anywhere, FREED, Reach, add_slowly};

/// What is counted: [`Bytes`] or [`Counts`].
pub trait Mode: 'static {
    /// Whether events are counted besides bytes.
    const COUNT: bool;
}

/// Bytes only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes;

/// Bytes and the number of allocations and frees: one more instruction at each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts;

impl Mode for Bytes {
    const COUNT: bool = false;
}
impl Mode for Counts {
    const COUNT: bool = true;
}

/// Passes every request on to `A` and counts its bytes, as requested.
///
/// `M` is what is counted, [`Bytes`] or [`Counts`]. `R` is how the thread's counters are reached: [`Anywhere`] in
/// any artifact, [`crate::InitialExec`] in executables only, where it takes three instructions less for an allocation and its free.
///
/// All `Accounted` of one executable or library share its one ledger.
#[derive(Debug)]
pub struct Accounted<A, M = Bytes, R = Anywhere> {
    inner: A,
    kind: PhantomData<fn() -> (M, R)>,
}

impl<A, M, R> Accounted<A, M, R> {
    /// Counts what `inner` serves.
    pub const fn new(inner: A) -> Self {
        Self {
            inner,
            kind: PhantomData,
        }
    }

    /// The allocator behind.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// The ledger of this executable or library.
    pub fn ledger(&self) -> &'static Ledger {
        ledger()
    }
}

impl<A: Default, M, R> Default for Accounted<A, M, R> {
    fn default() -> Self {
        Self::new(A::default())
    }
}

impl<A, M, R> core::ops::Deref for Accounted<A, M, R> {
    type Target = Ledger;
    fn deref(&self) -> &Ledger {
        ledger()
    }
}

// What is out of line takes no closures, whose values would be stored to the stack on the short way too, and its
// arguments in the order of the callers', so that none has to be moved for a call that is not made.

/// Whether an allocator treats a layout apart, as `System` does what `malloc` does not align well enough. Such
/// requests are kept out of the short way, whose frame they would enlarge.
#[inline(always)]
fn is_rare(layout: Layout) -> bool {
    layout.align() > 2 * size_of::<usize>() || layout.align() > layout.size()
}

/// Passes an allocation on.
///
/// # Safety
/// As [`GlobalAlloc::alloc`].
#[inline(always)]
unsafe fn pass_on<A: GlobalAlloc, const ZEROED: bool>(inner: &A, layout: Layout) -> *mut u8 {
    if ZEROED {
        // SAFETY: the caller's promise.
        unsafe { inner.alloc_zeroed(layout) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { inner.alloc(layout) }
    }
}

/// Counts an allocation and passes it on.
///
/// Order: the room is decided before the call, and a call that fails leaves nothing behind.
///
/// # Safety
/// As [`GlobalAlloc::alloc`].
#[inline(always)]
unsafe fn allocate<A: GlobalAlloc, M: Mode, R: Reach, const ZEROED: bool>(
    inner: &A,
    layout: Layout,
) -> *mut u8 {
    if !counted::<M, R>(layout.size()) {
        // SAFETY: the caller's promise.
        return unsafe { allocate_slowly::<A, M, ZEROED>(layout.size(), layout.align(), inner) };
    }
    // SAFETY: the caller's promise.
    let p = unsafe { pass_on::<A, ZEROED>(inner, layout) };
    if p.is_null() {
        return failed::<M>(layout.size());
    }
    p
}

/// [`allocate`] for rare layouts.
///
/// # Safety
/// As [`GlobalAlloc::alloc`].
#[cold]
#[inline(never)]
unsafe fn allocate_rarely<A: GlobalAlloc, M: Mode, R: Reach, const ZEROED: bool>(
    size: usize,
    align: usize,
    inner: &A,
) -> *mut u8 {
    // SAFETY: they are of a layout.
    let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
    // SAFETY: the caller's promise.
    unsafe { allocate::<A, M, R, ZEROED>(inner, layout) }
}

/// [`allocate`] where the short way did not count.
///
/// # Safety
/// As [`GlobalAlloc::alloc`].
#[cold]
#[inline(never)]
unsafe fn allocate_slowly<A: GlobalAlloc, M: Mode, const ZEROED: bool>(
    size: usize,
    align: usize,
    inner: &A,
) -> *mut u8 {
    // SAFETY: they are of a layout.
    let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
    let call = || {
        // SAFETY: the caller's promise.
        unsafe { pass_on::<A, ZEROED>(inner, layout) }
    };
    around::<M>(layout.size(), call)
}

/// Counts `bytes` around a call that allocates them, off the short way.
#[inline(always)]
fn around<M: Mode>(bytes: usize, call: impl FnOnce() -> *mut u8) -> *mut u8 {
    let counted = if M::COUNT {
        add_slowly::<ALLOCATED, true>(bytes)
    } else {
        add_slowly::<ALLOCATED, false>(bytes)
    };
    if counted {
        let p = call();
        return if p.is_null() { failed::<M>(bytes) } else { p };
    }
    let Some(room) = events::ask(bytes) else {
        return core::ptr::null_mut();
    };
    let p = call();
    if !p.is_null() {
        if M::COUNT {
            events::allocated::<true>(bytes);
        } else {
            events::allocated::<false>(bytes);
        }
    }
    limit::give_back(room);
    p
}

#[inline(always)]
fn counted<M: Mode, R: Reach>(bytes: usize) -> bool {
    if M::COUNT {
        R::add::<ALLOCATED, true>(bytes)
    } else {
        R::add::<ALLOCATED, false>(bytes)
    }
}

#[cold]
#[inline(never)]
fn failed<M: Mode>(bytes: usize) -> *mut u8 {
    if M::COUNT {
        events::failed::<true>(bytes);
    } else {
        events::failed::<false>(bytes);
    }
    core::ptr::null_mut()
}

/// Counts a free of `bytes`.
#[inline(always)]
fn freed_slowly<M: Mode>(bytes: usize) {
    if M::COUNT {
        if !add_slowly::<FREED, true>(bytes) {
            events::freed::<true>(bytes);
        }
    } else if !add_slowly::<FREED, false>(bytes) {
        events::freed::<false>(bytes);
    }
}

/// A free that has to ask first. Out of line with the free itself, so that the short way ends in a jump.
///
/// # Safety
/// As [`GlobalAlloc::dealloc`].
#[cold]
#[inline(never)]
unsafe fn dealloc_slowly<A: GlobalAlloc, M: Mode>(
    p: *mut u8,
    size: usize,
    align: usize,
    inner: &A,
) {
    freed_slowly::<M>(size);
    // SAFETY: they are of a layout.
    let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
    // SAFETY: the caller's promise, passed on.
    unsafe { inner.dealloc(p, layout) }
}

// SAFETY: every request that is not refused is passed on as it is, and what the inner allocator answers is
// returned.
unsafe impl<A: GlobalAlloc, M: Mode, R: Reach> GlobalAlloc for Accounted<A, M, R> {
    // Budget beside the inner allocator: see docs/ledger.md; a test counts it.
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_rare(layout) {
            // SAFETY: the caller's own promise, passed on.
            return unsafe {
                allocate_rarely::<A, M, R, false>(layout.size(), layout.align(), &self.inner)
            };
        }
        // SAFETY: just tested, for the inner allocator to know.
        unsafe { core::hint::assert_unchecked(!is_rare(layout)) };
        // SAFETY: the caller's own promise, passed on.
        unsafe { allocate::<A, M, R, false>(&self.inner, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_rare(layout) {
            // SAFETY: the caller's own promise, passed on.
            return unsafe {
                allocate_rarely::<A, M, R, true>(layout.size(), layout.align(), &self.inner)
            };
        }
        // SAFETY: just tested, for the inner allocator to know.
        unsafe { core::hint::assert_unchecked(!is_rare(layout)) };
        // SAFETY: the caller's own promise, passed on.
        unsafe { allocate::<A, M, R, true>(&self.inner, layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        let counted = if M::COUNT {
            R::add::<FREED, true>(layout.size())
        } else {
            R::add::<FREED, false>(layout.size())
        };
        if counted {
            // SAFETY: the caller's own promise, passed on.
            unsafe { self.inner.dealloc(p, layout) }
        } else {
            // SAFETY: the caller's own promise, passed on.
            unsafe { dealloc_slowly::<A, M>(p, layout.size(), layout.align(), &self.inner) }
        }
    }

    /// Books the difference: a block that grows counts what it grows by as allocated, before; one that shrinks
    /// counts as freed what it gave back, after. Neither is an allocation or a free in the count of events.
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let call = || {
            // SAFETY: the caller's own promise, passed on.
            unsafe { self.inner.realloc(p, layout, new_size) }
        };
        if new_size == layout.size() {
            return call();
        }
        if new_size > layout.size() {
            let more = new_size - layout.size();
            if !R::add::<ALLOCATED, false>(more) {
                return around::<Bytes>(more, call);
            }
            let new = call();
            return if new.is_null() {
                failed::<Bytes>(more)
            } else {
                new
            };
        }
        let new = call();
        let less = layout.size() - new_size;
        if !new.is_null() && !R::add::<FREED, false>(less) {
            freed_slowly::<Bytes>(less);
        }
        new
    }
}
