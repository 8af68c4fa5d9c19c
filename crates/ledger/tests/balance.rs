//! The balance of an ordinary program: every request counts what was asked for, and all of it comes back, to the
//! byte.

use homefree_ledger::{Accounted, Counts};
use std::alloc::{GlobalAlloc, Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::cell::Cell;
use std::ptr::null_mut;

/// `System`, which fails when told to.
struct Failing;

thread_local! {
    static FAIL: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: passes on to `System` or returns null.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if FAIL.get() {
            return null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if FAIL.get() {
            return null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static A: Accounted<Failing, Counts> = Accounted::new(Failing);

fn current() -> i64 {
    A.usage_exact().current as i64
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// How much `f` changes the balance, and what it returns.
fn change<T>(f: impl FnOnce() -> T) -> (i64, T) {
    let before = current();
    let value = f();
    (current() - before, value)
}

// Without the test harness, whose own thread would have a part of every sum.
fn main() {
    every_size_and_alignment();
    a_realloc_books_the_difference();
    what_fails_moves_nothing();
    totals_and_counts_only_rise();
    the_peak_is_the_most_there_was();
    many_requests_leave_the_same_byte();
}

fn every_size_and_alignment() {
    for size in (1..=4096).chain([33, 65_535, 65_536, 1 << 20, (1 << 20) + 1, 5 << 20]) {
        for align in [1, 2, 8, 16, 32, 64, 4096, 65_536] {
            let at = layout(size, align);
            // SAFETY: a layout of some size, freed as it was allocated.
            let (held, p) = change(|| unsafe { alloc(at) });
            assert_eq!((held, p.is_null()), (size as i64, false), "{at:?}");
            // SAFETY: as above.
            let (held, ()) = change(|| unsafe { dealloc(p, at) });
            assert_eq!(held, -(size as i64), "{at:?}");
        }
        // SAFETY: as above.
        let (held, p) = change(|| unsafe { alloc_zeroed(layout(size, 8)) });
        assert_eq!(held, size as i64);
        // SAFETY: as above.
        unsafe { dealloc(p, layout(size, 8)) };
    }
}

fn a_realloc_books_the_difference() {
    let before = current();
    // SAFETY: layouts as they are at each step.
    unsafe {
        let mut p = alloc(layout(100, 8));
        let mut size = 100;
        for next in [100, 33, 2000, 1 << 21, 50, 1] {
            let (held, new) = change(|| realloc(p, layout(size, 8), next));
            assert_eq!(held, next as i64 - size as i64, "{size} -> {next}");
            (p, size) = (new, next);
        }
        dealloc(p, layout(size, 8));
    }
    assert_eq!(current(), before);
}

fn what_fails_moves_nothing() {
    let failing = |f: &dyn Fn() -> *mut u8| {
        let (before, peak) = (A.totals(), A.usage_exact().peak);
        FAIL.set(true);
        let p = f();
        FAIL.set(false);
        assert!(p.is_null());
        assert_eq!(A.totals(), before);
        assert_eq!(A.usage_exact().peak, peak);
    };
    // SAFETY: layouts as they are; nothing is used.
    unsafe {
        let p = alloc(layout(1000, 8));
        for size in [64, 4096, 1 << 20, 1 << 30] {
            failing(&|| alloc(layout(size, 8)));
            failing(&|| alloc_zeroed(layout(size, 64)));
            failing(&|| realloc(p, layout(1000, 8), 1000 + size));
        }
        failing(&|| realloc(p, layout(1000, 8), 1));
        dealloc(p, layout(1000, 8));
    }
    // What no allocator can serve.
    let huge = isize::MAX as usize - 4096;
    let before = A.totals();
    // SAFETY: as above.
    let p = std::hint::black_box(unsafe { alloc(layout(huge, 8)) });
    assert!(p.is_null());
    assert_eq!(A.totals(), before);
}

fn totals_and_counts_only_rise() {
    let before = A.totals();
    let one = Box::new([7u8; 33]);
    let after = A.totals();
    assert_eq!(after.allocated - before.allocated, 33);
    assert_eq!(after.allocations - before.allocations, 1);
    assert_eq!((after.freed, after.frees), (before.freed, before.frees));
    drop(one);
    let after = A.totals();
    assert_eq!(after.freed - before.freed, 33);
    assert_eq!(after.frees - before.frees, 1);
    // Large blocks, which settle at once, are events too.
    drop(std::hint::black_box(vec![1u8; 4 << 20]));
    let large = A.totals();
    assert_eq!(
        (
            large.allocations - after.allocations,
            large.frees - after.frees
        ),
        (1, 1)
    );
    assert_eq!(large.allocated - large.freed, A.usage_exact().current);
}

fn the_peak_is_the_most_there_was() {
    let mark = A.mark();
    let start = A.usage_exact().current;
    drop(std::hint::black_box(vec![1u8; 10 << 20]));
    let later = A.mark();
    drop(std::hint::black_box(vec![1u8; 6 << 20]));
    let slack = A.usage().error;
    assert!(slack <= 1 << 20, "one thread's margin: {slack}");
    for (mark, most) in [(mark, 10 << 20), (later, 6 << 20)] {
        let peak = A.peak_since(mark) - start;
        assert!(peak.abs_diff(most) <= slack, "{peak} for {most}");
    }
    assert!(A.usage().peak >= start + (10 << 20) - slack);
}

fn many_requests_leave_the_same_byte() {
    let request = || {
        let mut rows: Vec<String> = (0..50).map(|n| "x".repeat(n * 37 % 411)).collect();
        rows.sort();
        std::hint::black_box(rows.join(","))
    };
    let before = current();
    for _ in 0..5000 {
        request();
    }
    assert_eq!(current(), before);
    A.settle();
    assert_eq!(A.usage().current as i64, before);
}
