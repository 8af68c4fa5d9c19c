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

/// # Safety
/// As [`GlobalAlloc::alloc`].
#[inline(always)]
unsafe fn around<C: Count>(layout: Layout) -> *mut u8 {
    C::allocated(layout.size());
    // SAFETY: the caller's promise.
    let p = unsafe { System.alloc(layout) };
    if p.is_null() {
        return failed::<C>(layout.size());
    }
    p
}

#[cold]
#[inline(never)]
fn failed<C: Count>(bytes: usize) -> *mut u8 {
    C::freed(bytes);
    std::ptr::null_mut()
}

/// Takes its arguments as the program's call has them in registers.
///
/// # Safety
/// As [`GlobalAlloc::alloc`].
#[cold]
#[inline(never)]
unsafe fn rarely<C: Count>(size: usize, align: usize) -> *mut u8 {
    // SAFETY: of a layout.
    let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
    // SAFETY: the caller's promise.
    unsafe { around::<C>(layout) }
}

// SAFETY: every request is passed on as it is.
unsafe impl<C: Count> GlobalAlloc for Counted<C> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_rare(layout) {
            // SAFETY: the caller's promise.
            return unsafe { rarely::<C>(layout.size(), layout.align()) };
        }
        // SAFETY: just tested.
        unsafe { std::hint::assert_unchecked(!is_rare(layout)) };
        // SAFETY: the caller's promise.
        unsafe { around::<C>(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        C::freed(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) };
    }
}
