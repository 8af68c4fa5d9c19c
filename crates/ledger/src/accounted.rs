//! [`Accounted`]: a global allocator that counts.

use crate::{Ledger, events, ledger, limit};
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use homefree_thread::counter::{ALLOCATED, Anywhere, FREED, Reach};

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
/// any artifact, [`crate::InitialExec`] in executables only, where it takes two instructions less at each call.
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

/// Counts `bytes` around `call`, which allocates them.
///
/// Order: the room is decided before the call, and a call that fails leaves nothing behind.
#[inline(always)]
fn around<M: Mode, R: Reach>(bytes: usize, call: impl FnOnce() -> *mut u8) -> *mut u8 {
    if !counted::<M, R>(bytes) {
        return slowly::<M>(bytes, call);
    }
    let p = call();
    if p.is_null() {
        return failed::<M>(bytes);
    }
    p
}

/// Whether an allocator treats a layout apart, as `System` does what `malloc` does not align well enough. Such
/// requests are kept out of the short way, whose frame they would enlarge.
#[inline(always)]
fn is_rare(layout: Layout) -> bool {
    layout.align() > 2 * size_of::<usize>() || layout.align() > layout.size()
}

#[cold]
#[inline(never)]
fn rarely(call: impl FnOnce() -> *mut u8) -> *mut u8 {
    call()
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

#[cold]
#[inline(never)]
fn slowly<M: Mode>(bytes: usize, call: impl FnOnce() -> *mut u8) -> *mut u8 {
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

/// Counts a free of `bytes`.
#[cold]
#[inline(never)]
fn freed_slowly<M: Mode>(bytes: usize) {
    if M::COUNT {
        events::freed::<true>(bytes);
    } else {
        events::freed::<false>(bytes);
    }
}

/// A free that has to ask first. Out of line with the free itself, so that the short way ends in a jump.
///
/// # Safety
/// As [`GlobalAlloc::dealloc`].
#[cold]
#[inline(never)]
unsafe fn dealloc_slowly<A: GlobalAlloc, M: Mode>(inner: &A, p: *mut u8, layout: Layout) {
    freed_slowly::<M>(layout.size());
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
            return rarely(|| {
                // SAFETY: the caller's own promise, passed on.
                around::<M, R>(layout.size(), || unsafe { self.inner.alloc(layout) })
            });
        }
        // SAFETY: just tested.
        unsafe { core::hint::assert_unchecked(!is_rare(layout)) };
        // SAFETY: the caller's own promise, passed on.
        around::<M, R>(layout.size(), || unsafe { self.inner.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let call = || {
            // SAFETY: the caller's own promise, passed on.
            unsafe { self.inner.alloc_zeroed(layout) }
        };
        if is_rare(layout) {
            return rarely(|| around::<M, R>(layout.size(), call));
        }
        // SAFETY: just tested.
        unsafe { core::hint::assert_unchecked(!is_rare(layout)) };
        around::<M, R>(layout.size(), call)
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
            unsafe { dealloc_slowly::<A, M>(&self.inner, p, layout) }
        }
    }

    /// Books the difference: a block that grows counts what it grows by as allocated, before; one that shrinks
    /// counts as freed what it gave back, after. Neither is an allocation or a free in the count of events.
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let call = || {
            // SAFETY: the caller's own promise, passed on.
            unsafe { self.inner.realloc(p, layout, new_size) }
        };
        if new_size >= layout.size() {
            return around::<Bytes, R>(new_size - layout.size(), call);
        }
        let new = call();
        let less = layout.size() - new_size;
        if !new.is_null() && !R::add::<FREED, false>(less) {
            freed_slowly::<Bytes>(less);
        }
        new
    }
}
