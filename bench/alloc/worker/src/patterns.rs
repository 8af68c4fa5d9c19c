//! The patterns in which a thread frees what it allocated itself, and the table of all.

use crate::remote;
use crate::work::{Block, Random, on_threads};
use std::hint::black_box;

/// Threads and scale in, operations out: an allocation with its free counts as one.
pub type Pattern = fn(usize, u64) -> u64;

macro_rules! table {
    ($($name:literal $function:expr;)*) => {
        /// All names.
        pub const NAMES: &[&str] = &[$($name),*];

        /// The pattern of a name.
        pub fn by_name(name: &str) -> Option<Pattern> {
            match name {
                $($name => Some($function as Pattern),)*
                _ => None,
            }
        }
    };
}

table! {
    "pair-16" |t, s| pairs(t, s, 16);
    "pair-64" |t, s| pairs(t, s, 64);
    "pair-256" |t, s| pairs(t, s, 256);
    "pair-1024" |t, s| pairs(t, s, 1024);
    "pair-4096" |t, s| pairs(t, s, 4096);
    "pair-32k" |t, s| pairs(t, s, 32 << 10);
    "pair-1m" |t, s| pairs(t, s / 8 + 1, 1 << 20);
    "batch-lifo" |t, s| batches(t, s, Order::Lifo);
    "batch-fifo" |t, s| batches(t, s, Order::Fifo);
    "batch-random" |t, s| batches(t, s, Order::Random);
    "thread-mix" thread_mix;
    "simple" simple;
    "generations" generations;
    "cache-scratch" cache_scratch;
    "cache-thrash" cache_thrash;
    "vector" vector;
    "calloc" calloc;
    "aligned" aligned;
    "large" large;
    "larson" remote::larson;
    "producer-consumer" remote::producer_consumer;
    "hand-off" remote::hand_off;
    "xmalloc" remote::xmalloc;
    "mailboxes" remote::mailboxes;
    "remote-lifo" |t, s| remote::batches(t, s, Order::Lifo);
    "remote-fifo" |t, s| remote::batches(t, s, Order::Fifo);
    "remote-random" |t, s| remote::batches(t, s, Order::Random);
    "channel-boxes" remote::channel;
    "mixed-stress" remote::mixed_stress;
}

/// In which order a batch is freed.
#[derive(Clone, Copy)]
pub enum Order {
    Lifo,
    Fifo,
    Random,
}

impl Order {
    pub fn apply(self, blocks: &mut [Block], random: &mut Random) {
        match self {
            Order::Fifo => {}
            Order::Lifo => blocks.reverse(),
            Order::Random => {
                for i in (1..blocks.len()).rev() {
                    blocks.swap(i, random.below(i + 1));
                }
            }
        }
    }
}

fn pairs(threads: usize, scale: u64, size: usize) -> u64 {
    on_threads(threads, |_| {
        for _ in 0..scale * 1_000_000 {
            drop(black_box(Block::new(black_box(size))));
        }
        scale * 1_000_000
    })
}

/// 1,000 blocks of 16 to 256 bytes at a time.
fn batches(threads: usize, scale: u64, order: Order) -> u64 {
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 1);
        let mut blocks = Vec::with_capacity(1000);
        for _ in 0..scale * 500 {
            blocks.extend((0..1000).map(|i| Block::new(16 + (i % 16) * 16)));
            order.apply(&mut blocks, &mut random);
            blocks.clear();
        }
        scale * 500_000
    })
}

/// glibc's bench-malloc-thread: a random working set.
fn thread_mix(threads: usize, scale: u64) -> u64 {
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 12_345);
        let sizes: Vec<usize> = (0..8192).map(|_| random.inverse_square()).collect();
        let mut blocks: Vec<Option<Block>> = (0..1024).map(|_| None).collect();
        for i in 0..scale as usize * 500_000 {
            blocks[random.below(1024)] = Some(Block::new(sizes[i % 8192]));
        }
        scale * 500_000
    })
}

/// glibc's bench-malloc-simple: 1,600 blocks of one size, freed in order.
fn simple(threads: usize, scale: u64) -> u64 {
    on_threads(threads, |_| {
        let mut blocks = Vec::with_capacity(1600);
        for _ in 0..scale * 300 {
            blocks.extend((0..1600).map(|_| Block::new(128)));
            blocks.clear();
        }
        scale * 480_000
    })
}

/// Short-lived blocks among long-lived ones.
fn generations(threads: usize, scale: u64) -> u64 {
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 77);
        let mut old: Vec<Block> = (0..50_000)
            .map(|_| Block::new(16 + random.below(500)))
            .collect();
        let mut young: Vec<Block> = Vec::with_capacity(500);
        for _ in 0..scale * 1000 {
            young.extend((0..500).map(|_| Block::new(16 + random.below(500))));
            for _ in 0..25 {
                let i = random.below(old.len());
                if let Some(block) = young.pop() {
                    old[i] = block;
                }
            }
            young.clear();
        }
        scale * 500_000
    })
}

/// Hoard's: small blocks written often. A block that came from another thread must not share a line.
fn cache_scratch(threads: usize, scale: u64) -> u64 {
    let first: Vec<_> = (0..threads)
        .map(|_| std::sync::Mutex::new(Some(Block::new(8))))
        .collect();
    on_threads(threads, |me| {
        drop(first[me].lock().expect("a block").take());
        for _ in 0..scale * 5_000 {
            let block = Block::new(8);
            (0..200).for_each(|i| black_box(&block).fill(i as u8));
        }
        scale * 5_000
    })
}

fn cache_thrash(threads: usize, scale: u64) -> u64 {
    on_threads(threads, |_| {
        for _ in 0..scale * 5_000 {
            let block = Block::new(8);
            (0..200).for_each(|i| black_box(&block).fill(i as u8));
        }
        scale * 5_000
    })
}

/// A vector grows to 16 MB, element by element.
fn vector(threads: usize, scale: u64) -> u64 {
    on_threads(threads, |_| {
        for _ in 0..scale * 10 {
            let mut v: Vec<u64> = Vec::new();
            for i in 0..2_000_000 {
                v.push(black_box(i));
            }
            drop(black_box(v));
        }
        scale * 10
    })
}

fn calloc(threads: usize, scale: u64) -> u64 {
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 5);
        let mut blocks: Vec<Vec<u8>> = (0..256).map(|_| Vec::new()).collect();
        for _ in 0..scale * 300_000 {
            blocks[random.below(256)] = black_box(vec![0u8; 1 + random.below(2000)]);
        }
        scale * 300_000
    })
}

fn aligned(threads: usize, scale: u64) -> u64 {
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 5);
        let mut blocks: Vec<Option<Block>> = (0..256).map(|_| None).collect();
        for _ in 0..scale * 500_000 {
            let align = 32 << random.below(5);
            blocks[random.below(256)] = Some(Block::aligned(1 + random.below(1000), align));
        }
        scale * 500_000
    })
}

/// Blocks of 32 KiB to 4 MiB, a page of each touched.
fn large(threads: usize, scale: u64) -> u64 {
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 5);
        let mut blocks: Vec<Option<Block>> = (0..16).map(|_| None).collect();
        for _ in 0..scale * 20_000 {
            let size = (32 << 10) << random.below(8);
            let block = Block::new(size / 2 + random.below(size / 2));
            if random.below(64) == 0 {
                block.touch();
            }
            blocks[random.below(16)] = Some(block);
        }
        scale * 20_000
    })
}
