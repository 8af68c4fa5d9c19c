//! The patterns in which blocks are freed by another thread than the one that allocated them.

use crate::patterns::Order;
use crate::work::{Block, Random, on_threads};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Condvar, Mutex, mpsc};

/// A bounded queue of batches.
struct Queue {
    batches: Mutex<VecDeque<Vec<Block>>>,
    changed: Condvar,
    bound: usize,
}

impl Queue {
    fn new(bound: usize) -> Self {
        Self {
            batches: Mutex::new(VecDeque::with_capacity(bound + 1)),
            changed: Condvar::new(),
            bound,
        }
    }

    fn put(&self, batch: Vec<Block>) {
        let mut batches = self.batches.lock().expect("the queue");
        while batches.len() >= self.bound {
            batches = self.changed.wait(batches).expect("the queue");
        }
        batches.push_back(batch);
        self.changed.notify_all();
    }

    fn take(&self) -> Vec<Block> {
        let mut batches = self.batches.lock().expect("the queue");
        loop {
            if let Some(batch) = batches.pop_front() {
                self.changed.notify_all();
                return batch;
            }
            batches = self.changed.wait(batches).expect("the queue");
        }
    }
}

/// Half of the threads allocate, the other half free: `rounds` batches of `n` blocks through queues.
fn pipe(
    threads: usize,
    rounds: u64,
    n: usize,
    bound: usize,
    size: fn(&mut Random) -> usize,
    order: Order,
) -> u64 {
    let pairs = threads.div_ceil(2);
    let queues: Vec<Queue> = (0..pairs).map(|_| Queue::new(bound)).collect();
    on_threads(pairs * 2, |me| {
        let mut random = Random(me as u64 * 2 + 3);
        let queue = &queues[me / 2];
        for _ in 0..rounds {
            if me % 2 == 0 {
                queue.put((0..n).map(|_| Block::new(size(&mut random))).collect());
            } else {
                let mut batch = queue.take();
                order.apply(&mut batch, &mut random);
            }
        }
        if me % 2 == 0 { rounds * n as u64 } else { 0 }
    })
}

pub fn producer_consumer(threads: usize, scale: u64) -> u64 {
    pipe(
        threads,
        scale * 3000,
        100,
        16,
        |r| 16 + r.below(240),
        Order::Fifo,
    )
}

/// 10,000 blocks at a time.
pub fn hand_off(threads: usize, scale: u64) -> u64 {
    pipe(threads, scale * 40, 10_000, 2, |_| 64, Order::Fifo)
}

pub fn batches(threads: usize, scale: u64, order: Order) -> u64 {
    pipe(threads, scale * 300, 1000, 4, |r| 16 + r.below(240), order)
}

/// Every thread allocates batches of 128 and frees those of another one.
pub fn xmalloc(threads: usize, scale: u64) -> u64 {
    let pool: Mutex<Vec<Vec<Block>>> = Mutex::new(Vec::new());
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 3);
        for _ in 0..scale * 3000 {
            let batch: Vec<Block> = (0..128)
                .map(|_| Block::new(16 << random.below(5)))
                .collect();
            let mut shared = pool.lock().expect("the pool");
            shared.push(batch);
            let other = (shared.len() > threads * 2).then(|| shared.swap_remove(0));
            drop(shared);
            drop(other);
        }
        scale * 3000 * 128
    })
}

/// Every thread sends every other one blocks.
pub fn mailboxes(threads: usize, scale: u64) -> u64 {
    let boxes: Vec<Mutex<Vec<Block>>> = (0..threads * 8).map(|_| Mutex::new(Vec::new())).collect();
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 3);
        let mut out: Vec<Block> = Vec::with_capacity(32);
        for _ in 0..scale * 10_000 {
            out.extend((0..32).map(|_| Block::new(16 + random.below(500))));
            let mut there = boxes[random.below(boxes.len())].lock().expect("a mailbox");
            std::mem::swap(&mut *there, &mut out);
            drop(there);
            out.clear();
        }
        scale * 320_000
    })
}

/// Larson's server: each thread replaces random blocks, and hands its whole set on when it ends.
pub fn larson(threads: usize, scale: u64) -> u64 {
    const BLOCKS: usize = 1000;
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 3);
        let mut blocks: Vec<Block> = (0..BLOCKS)
            .map(|_| Block::new(8 + random.below(1000)))
            .collect();
        for _ in 0..scale * 20 {
            let mut moved = std::mem::take(&mut blocks);
            let seed = random.next() | 1;
            blocks = std::thread::spawn(move || {
                let mut random = Random(seed);
                for _ in 0..20_000 {
                    let i = random.below(BLOCKS);
                    moved[i] = Block::new(8 + random.below(1000));
                }
                moved
            })
            .join()
            .expect("a successor");
        }
        scale * 400_000
    })
}

/// Boxes one by one through a channel.
pub fn channel(threads: usize, scale: u64) -> u64 {
    let pairs = threads.div_ceil(2) as u64;
    let halves: Vec<_> = (0..pairs)
        .map(|_| mpsc::sync_channel::<Box<[u64; 8]>>(1024))
        .collect();
    std::thread::scope(|scope| {
        for (to, from) in halves {
            scope.spawn(move || {
                (0..scale * 300_000).for_each(|i| to.send(Box::new([i; 8])).expect("a receiver"))
            });
            scope.spawn(move || from.iter().for_each(drop));
        }
    });
    pairs * scale * 300_000
}

/// mimalloc's mstress in short: sizes of many scales, some blocks kept, some passed to other threads.
pub fn mixed_stress(threads: usize, scale: u64) -> u64 {
    let passed: Vec<Mutex<Option<Block>>> = (0..1024).map(|_| Mutex::new(None)).collect();
    let done = AtomicUsize::new(0);
    on_threads(threads, |me| {
        let mut random = Random(me as u64 * 2 + 43);
        let mut mine: Vec<Block> = Vec::new();
        let mut operations = 0;
        for _ in 0..scale * 100 {
            for _ in 0..2000 {
                let size = match random.below(100) {
                    0 => 1 + random.below(64 << 10),
                    1..10 => 1 + random.below(4 << 10),
                    _ => 8 + random.below(248),
                };
                mine.push(Block::new(size));
                operations += 1;
                match random.below(4) {
                    0 => {
                        let block = mine.pop();
                        let other = std::mem::replace(
                            &mut *passed[random.below(1024)].lock().expect("a place"),
                            block,
                        );
                        drop(other);
                    }
                    1 | 2 => {
                        let i = random.below(mine.len());
                        drop(mine.swap_remove(i));
                    }
                    _ => {}
                }
            }
            if mine.len() > 20_000 {
                mine.truncate(5000);
            }
            done.fetch_add(1, Relaxed);
        }
        operations
    })
}
