//! `System` with every call counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use tpch_engine::export::abi::Account;

static BALANCE: AtomicI64 = AtomicI64::new(0);
static ALLOCS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static REALLOCS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static LARGE: AtomicU64 = AtomicU64::new(0);

/// What was counted so far.
pub fn account() -> Account {
    Account {
        balance: BALANCE.load(Relaxed),
        counted: true,
        allocs: ALLOCS.load(Relaxed),
        frees: FREES.load(Relaxed),
        reallocs: REALLOCS.load(Relaxed),
        bytes: BYTES.load(Relaxed),
        large: LARGE.load(Relaxed),
    }
}

fn count(calls: &AtomicU64, change: i64) {
    calls.fetch_add(1, Relaxed);
    BALANCE.fetch_add(change, Relaxed);
    if let Ok(more) = u64::try_from(change) {
        BYTES.fetch_add(more, Relaxed);
    }
    if change.unsigned_abs() >= 64 * 1024 {
        LARGE.fetch_add(1, Relaxed);
    }
}

/// `System` with every call counted; calls that fail are not.
pub struct Calls;

// SAFETY: every call is handed on to `System` as it is; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Calls {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of `System`.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            count(&ALLOCS, layout.size() as i64);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            count(&ALLOCS, layout.size() as i64);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(&FREES, -(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { System.realloc(block, layout, size) };
        if !moved.is_null() {
            count(&REALLOCS, size as i64 - layout.size() as i64);
        }
        moved
    }
}
