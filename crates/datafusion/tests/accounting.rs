//! What is declared follows the wrapped pool through all that a reservation can do, and returns to 0.

mod held;

use datafusion_execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation,
    TrackConsumersPool, UnboundedMemoryPool,
};
use homefree_datafusion::LedgerPool;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Numbers that are the same in each run (Knuth's MMIX).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn play<P: MemoryPool>(inner: P) {
    let pool = Arc::new(LedgerPool::new(inner));
    let shared: Arc<dyn MemoryPool> = pool.clone();
    let mut dice = Dice(42);
    let mut reservations: Vec<MemoryReservation> = Vec::new();
    let mut most = 0;
    for n in 0..5_000 {
        if reservations.is_empty() || dice.below(20) == 0 {
            let consumer = MemoryConsumer::new(format!("operator {}", n % 7));
            reservations.push(consumer.with_can_spill(n % 2 == 0).register(&shared));
        }
        let at = dice.below(reservations.len());
        let amount = dice.below(10_000);
        let size = reservations[at].size();
        match dice.below(12) {
            0 => reservations[at].grow(amount),
            1..=3 => drop(reservations[at].try_grow(amount)),
            4 => reservations[at].shrink(amount.min(size)),
            5 => drop(reservations[at].try_shrink(amount)),
            6 => reservations[at].resize(amount),
            7 => drop(reservations[at].try_resize(amount)),
            8 => drop(reservations[at].free()),
            9 => {
                let part = reservations[at].split(size / 2);
                reservations.push(part);
            }
            10 => {
                let other = reservations[at].new_empty();
                other.grow(amount);
                let all = reservations[at].take();
                reservations.push(other);
                reservations.push(all);
            }
            _ => drop(reservations.swap_remove(at)),
        }
        let declared: usize = reservations.iter().map(MemoryReservation::size).sum();
        most = most.max(declared);
        assert_eq!(pool.inner().reserved(), declared, "step {n}");
        assert_eq!(pool.reserved(), declared, "step {n}");
        let consumers: u64 = pool.consumers().iter().map(|one| one.declared).sum();
        assert_eq!(consumers, declared as u64, "step {n}");
    }
    drop(reservations);
    let end = pool.difference();
    assert_eq!((end.declared, pool.reserved()), (0, 0));
    assert!(end.declared_peak >= most as u64);
    assert!(pool.consumers().is_empty());
    assert_eq!(pool.ended_consumers().len(), 7);
    if let Some(peak) = pool.ended_consumers().first().map(|one| one.peak) {
        assert!(peak > 0 && peak <= end.declared_peak);
    }
}

#[test]
fn around_an_unbounded_pool() {
    play(UnboundedMemoryPool::default());
}

#[test]
fn around_a_greedy_pool_that_refuses_often() {
    play(GreedyMemoryPool::new(60_000));
}

#[test]
fn around_a_fair_pool_that_refuses_often() {
    play(FairSpillPool::new(60_000));
}

#[test]
fn around_a_pool_that_tracks_consumers() {
    let five = NonZeroUsize::new(5).unwrap();
    play(TrackConsumersPool::new(GreedyMemoryPool::new(60_000), five));
}

#[test]
fn around_a_ledger_pool() {
    play(LedgerPool::new(GreedyMemoryPool::new(60_000)));
}

#[test]
fn a_reservation_that_unwinds_is_given_back() {
    let pool = Arc::new(LedgerPool::new(GreedyMemoryPool::new(1_000)));
    let shared: Arc<dyn MemoryPool> = pool.clone();
    std::thread::spawn(move || {
        let held = MemoryConsumer::new("fails").register(&shared);
        held.try_grow(600).unwrap();
        std::panic::resume_unwind(Box::new("an operator that fails"));
    })
    .join()
    .unwrap_err();
    assert_eq!((pool.reserved(), pool.difference().declared), (0, 0));
    assert_eq!(pool.ended_consumers()[0].peak, 600);
}
