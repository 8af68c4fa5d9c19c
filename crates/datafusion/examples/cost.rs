//! What the wrapper costs: time of a `try_grow` and the `shrink` that undoes it, for one thread, in nanoseconds. The
//! least of 15 rounds, the pools taking turns; the first is run twice, to show what the difference of equals is.
//!
//! `cargo run --release --example cost`

use datafusion_execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation, TrackConsumersPool,
};
use homefree_datafusion::{LedgerPool, RealLimit};
use homefree_ledger::Accounted;
use std::alloc::System;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

const ROUNDS: usize = 15;
const PAIRS: u32 = 200_000;

fn main() -> datafusion_common::Result<()> {
    let greedy = || GreedyMemoryPool::new(1 << 40);
    let five = NonZeroUsize::new(5).expect("not 0");
    let limited =
        |bytes| LedgerPool::new(greedy()).with_real_limit(RealLimit { bytes, headroom: 0 });
    let arms: [(&str, Arc<dyn MemoryPool>); 6] = [
        ("greedy", Arc::new(greedy())),
        ("greedy again", Arc::new(greedy())),
        (
            "tracked greedy",
            Arc::new(TrackConsumersPool::new(greedy(), five)),
        ),
        ("ledger greedy", Arc::new(LedgerPool::new(greedy()))),
        ("ledger greedy, limit far", Arc::new(limited(1 << 40)?)),
        ("ledger greedy, limit near", Arc::new(limited(1 << 20)?)),
    ];
    let reservations: Vec<_> = arms
        .iter()
        .map(|(_, pool)| MemoryConsumer::new("one").register(pool))
        .collect();
    let mut least = [f64::INFINITY; 6];
    for _ in 0..ROUNDS {
        for (least, reservation) in least.iter_mut().zip(&reservations) {
            *least = least.min(nanoseconds(reservation));
        }
    }
    for ((name, _), least) in arms.iter().zip(least) {
        println!("{name:26} {least:7.1}");
    }
    Ok(())
}

/// Of one pair.
fn nanoseconds(reservation: &MemoryReservation) -> f64 {
    let start = Instant::now();
    for _ in 0..PAIRS {
        reservation.try_grow(1_000).expect("there is room");
        reservation.shrink(1_000);
    }
    start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
}
