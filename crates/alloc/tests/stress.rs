//! Everything at once: threads that are born and end, blocks freed by others, reallocations, alignments,
//! large blocks, trims, and `fork`; every block's contents are checked when it is freed or moved.
//!
//! `HOMEFREE_STRESS_SECONDS` says how long (10 by default; CI takes 60, a release 1200).
#![cfg(not(loom))]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "blocks and cells are the test\'s own; it fails where they are not"
)]

use homefree_alloc::Alloc;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[global_allocator]
static A: Alloc = Alloc::new();

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }
}

/// A block filled with a byte of its own, at both ends and in steps between.
struct Block {
    at: usize,
    layout: Layout,
    mark: u8,
}

impl Block {
    fn new(random: &mut Random) -> Self {
        let size = match random.below(100) {
            0..70 => 1 + random.below(512),
            70..92 => 1 + random.below(8 << 10),
            92..98 => 1 + random.below(64 << 10),
            98 => 1 + random.below(512 << 10),
            _ => 1 + random.below(4 << 20),
        };
        let align = match random.below(20) {
            0 => 1 << random.below(17),
            _ => 1 << random.below(5),
        };
        let layout = Layout::from_size_align(size, align).unwrap();
        let zero = random.below(8) == 0;
        let mark = random.next() as u8;
        let at = unsafe {
            if zero {
                A.alloc_zeroed(layout)
            } else {
                A.alloc(layout)
            }
        };
        assert!(!at.is_null());
        assert!(at.addr().is_multiple_of(align), "{layout:?} at {at:?}");
        let block = Self {
            at: at.addr(),
            layout,
            mark,
        };
        if zero {
            block
                .places()
                .for_each(|p| assert_eq!(unsafe { *p }, 0, "{layout:?}"));
        }
        block.fill();
        block
    }

    fn places(&self) -> impl Iterator<Item = *mut u8> + use<> {
        let (at, size) = (self.at, self.layout.size());
        let step = if size < 4096 { 8 } else { 1024 };
        (0..size)
            .step_by(step)
            .chain([size - 1])
            .map(move |i| (at + i) as *mut u8)
    }

    fn fill(&self) {
        self.places().for_each(|p| unsafe { *p = self.mark });
    }

    fn check(&self) {
        for p in self.places() {
            assert_eq!(
                unsafe { *p },
                self.mark,
                "{:?} at {:x}",
                self.layout,
                self.at
            );
        }
    }

    fn resize(&mut self, random: &mut Random) {
        let size = 1 + random.below(self.layout.size() * 2 + 64);
        let new = unsafe { A.realloc(self.at as *mut u8, self.layout, size) };
        assert!(!new.is_null());
        let kept = size.min(self.layout.size());
        self.at = new.addr();
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        assert!(self.at.is_multiple_of(self.layout.align()));
        let step = if self.layout.size() < 4096 { 8 } else { 1024 };
        for i in (0..kept).step_by(1024 * 8).filter(|i| i % step == 0) {
            assert_eq!(unsafe { *((self.at + i) as *const u8) }, self.mark);
        }
        self.fill();
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        unsafe { A.dealloc(self.at as *mut u8, self.layout) };
    }
}

static STOP: AtomicBool = AtomicBool::new(false);
static MAIL: [Mutex<Vec<Block>>; 16] = [const { Mutex::new(Vec::new()) }; 16];
static OPERATIONS: AtomicU64 = AtomicU64::new(0);

fn work(seed: u64, rounds: usize) {
    let mut random = Random(seed | 1);
    let mut mine: Vec<Block> = Vec::new();
    for _ in 0..rounds {
        for _ in 0..1000 {
            match random.below(10) {
                0..4 => mine.push(Block::new(&mut random)),
                4..7 if !mine.is_empty() => {
                    let i = random.below(mine.len());
                    drop(mine.swap_remove(i));
                }
                7 if !mine.is_empty() => {
                    let i = random.below(mine.len());
                    mine[i].resize(&mut random);
                }
                8 if !mine.is_empty() => {
                    let i = random.below(mine.len());
                    let block = mine.swap_remove(i);
                    MAIL[random.below(16)].lock().unwrap().push(block);
                }
                _ => {
                    let mut box_ = MAIL[random.below(16)].lock().unwrap();
                    let n = box_.len();
                    let got: Vec<Block> = box_.drain(n - n.min(8)..).collect();
                    drop(box_);
                    drop(got);
                }
            }
        }
        if mine.len() > 2000 {
            mine.clear();
        }
        OPERATIONS.fetch_add(1000, Relaxed);
        if random.below(200) == 0 {
            homefree_alloc::trim();
        }
        if STOP.load(Relaxed) {
            break;
        }
    }
    // What is left goes to whoever takes it.
    MAIL[random.below(16)]
        .lock()
        .unwrap()
        .extend(mine.drain(..).take(100));
}

fn fork_and_allocate() {
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        unsafe { libc::alarm(20) };
        let mut random = Random(7);
        let blocks: Vec<Block> = (0..2000).map(|_| Block::new(&mut random)).collect();
        drop(blocks);
        homefree_alloc::trim();
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child of a fork hangs or fails");
}

#[test]
fn nothing_is_lost_overlapped_or_overwritten() {
    let seconds = std::env::var("HOMEFREE_STRESS_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(10));
    let long: Vec<_> = (0..3)
        .map(|i| std::thread::spawn(move || work(0x1234_5678 + i, usize::MAX)))
        .collect();
    let mut seed = 99;
    while Instant::now() < end {
        let short: Vec<_> = (0..4)
            .map(|_| {
                seed += 2;
                std::thread::spawn(move || work(seed * 0x9e37_79b9, 5))
            })
            .collect();
        fork_and_allocate();
        short.into_iter().for_each(|t| t.join().unwrap());
    }
    STOP.store(true, Relaxed);
    long.into_iter().for_each(|t| t.join().unwrap());
    MAIL.iter().for_each(|m| m.lock().unwrap().clear());
    println!("{} operations", OPERATIONS.load(Relaxed));
}
