//! What all patterns are made of.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

/// A xorshift generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize * n) >> 32
    }

    /// glibc's distribution: sizes from 4 bytes to 32 KiB, of probability 1/size^2.
    pub fn inverse_square(&mut self) -> usize {
        let r = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let (low, high) = (1.0 / 4.0, 1.0 / 32_768.0);
        (1.0 / (low - r * (low - high))) as usize
    }
}

/// A block, written to at its start.
pub struct Block {
    at: *mut u8,
    layout: Layout,
}

// SAFETY: memory of its own.
unsafe impl Send for Block {}

impl Block {
    #[inline]
    pub fn new(size: usize) -> Self {
        Self::aligned(size, 8)
    }

    #[inline]
    pub fn aligned(size: usize, align: usize) -> Self {
        let layout = Layout::from_size_align(size.max(1), align).expect("a layout");
        // SAFETY: not of size 0; written within.
        let at = unsafe {
            let at = black_box(alloc(layout));
            assert!(!at.is_null());
            at.write(1);
            at
        };
        Self { at, layout }
    }

    /// Writes a byte of each page.
    pub fn touch(&self) {
        for i in (0..self.layout.size()).step_by(4096) {
            // SAFETY: within the block.
            unsafe { self.at.add(i).write(2) };
        }
    }

    /// Writes all of it.
    pub fn fill(&self, byte: u8) {
        // SAFETY: the whole block.
        unsafe { self.at.write_bytes(byte, self.layout.size()) };
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at, self.layout) };
    }
}

/// Runs `work` on so many threads and sums what they return.
pub fn on_threads(threads: usize, work: impl Fn(usize) -> u64 + Sync) -> u64 {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || work(i))).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a worker"))
            .sum()
    })
}
