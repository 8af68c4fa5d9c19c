//! `System` with a way of counting around it, in the order that `homefree_ledger::Accounted` has.

use std::alloc::{GlobalAlloc, Layout, System};

/// A way of counting.
pub trait Count {
    /// Counts an allocation.
    fn allocated(bytes: usize);
    /// Counts a free.
    fn freed(bytes: usize);
}

/// Counts what `System` serves.
pub struct Counted<C>(std::marker::PhantomData<fn() -> C>);

impl<C> Counted<C> {
    /// The allocator.
    #[allow(clippy::new_without_default, reason = "made as a static")]
    pub const fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

/// What `System` aligns itself: kept out of the short way, whose frame it would enlarge.
#[inline(always)]
fn is_rare(layout: Layout) -> bool {
    layout.align() > 2 * size_of::<usize>() || layout.align() > layout.size()
}

#[inline(always)]
fn around<C: Count>(layout: Layout, call: impl FnOnce() -> *mut u8) -> *mut u8 {
    C::allocated(layout.size());
    let p = call();
    if p.is_null() {
        failed::<C>(layout.size());
    }
    p
}

#[cold]
#[inline(never)]
fn failed<C: Count>(bytes: usize) {
    C::freed(bytes);
}

#[cold]
#[inline(never)]
fn rarely(call: impl FnOnce() -> *mut u8) -> *mut u8 {
    call()
}

// SAFETY: every request is passed on as it is.
unsafe impl<C: Count> GlobalAlloc for Counted<C> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let call = || unsafe { System.alloc(layout) };
        if is_rare(layout) {
            return rarely(|| around::<C>(layout, call));
        }
        // SAFETY: just tested.
        unsafe { std::hint::assert_unchecked(!is_rare(layout)) };
        around::<C>(layout, call)
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        C::freed(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) };
    }
}
