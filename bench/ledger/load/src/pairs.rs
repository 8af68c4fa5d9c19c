//! The loops. Not inlined anywhere, and in another crate than the allocator, so that each event is a call of
//! `__rust_alloc` or `__rust_dealloc` as it is for the code of any library; the runner looks at the disassembly.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

/// Blocks of which [`ledger_bench_climb`] builds up its amount.
pub const BLOCK: usize = 4096;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap_or(Layout::new::<u64>())
}

/// Allocates and frees `count` blocks of `size` bytes, one after the other.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ledger_bench_pairs(size: usize, count: u64) {
    let layout = layout(size);
    for _ in 0..count {
        // SAFETY: the size is not 0 (the order comes from the runner); null is written to by nobody.
        let p = unsafe { alloc(layout) };
        if p.is_null() {
            std::process::abort();
        }
        // SAFETY: at least one byte, ours.
        unsafe { p.write_volatile(1) };
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(black_box(p), layout) };
    }
}

/// `count` times: allocates blocks until `bytes` are held, then frees them all.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ledger_bench_climb(bytes: usize, count: u64) {
    let layout = layout(BLOCK);
    let mut blocks: Vec<*mut u8> = Vec::with_capacity(bytes / BLOCK);
    for _ in 0..count {
        for _ in 0..bytes / BLOCK {
            // SAFETY: not of size 0.
            let p = unsafe { alloc(layout) };
            if p.is_null() {
                std::process::abort();
            }
            // SAFETY: at least one byte, ours.
            unsafe { p.write_volatile(1) };
            blocks.push(p);
        }
        for p in blocks.drain(..) {
            // SAFETY: allocated above with this layout.
            unsafe { dealloc(p, layout) };
        }
    }
}

/// Blocks that a thread holds while it is measured. What the thread that started it had allocated, and it has freed,
/// lies in its cache, in one line of memory with such blocks of other threads: without this, threads contend for that
/// line in some artifacts and not in others.
pub struct Held {
    blocks: [*mut u8; 16],
    layout: Layout,
}

/// Allocates them; none of large sizes.
pub fn hold(size: usize) -> Held {
    let layout = layout(size.min(1024));
    // SAFETY: not of size 0.
    let blocks = [(); 16].map(|()| unsafe { alloc(layout) });
    Held { blocks, layout }
}

impl Drop for Held {
    fn drop(&mut self) {
        for p in self.blocks.into_iter().filter(|p| !p.is_null()) {
            // SAFETY: allocated by `hold` with this layout.
            unsafe { dealloc(p, self.layout) };
        }
    }
}
