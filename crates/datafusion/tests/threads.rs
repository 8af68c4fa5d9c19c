//! Many threads, one pool.

mod held;

use datafusion_execution::memory_pool::{FairSpillPool, MemoryPool, UnboundedMemoryPool};
use held::{MIB, alone, consumer, hold, near};
use homefree_datafusion::{LedgerPool, RealLimit, declared_in_process};
use std::sync::{Arc, Barrier};
use std::thread;

const THREADS: usize = 8;

/// datafusion-comet#5990: each thread reported the pool it shared, and the sum was up to 500 times too high.
#[test]
fn one_shared_pool_seen_from_eight_threads_is_counted_once() {
    let _alone = alone();
    assert_eq!(declared_in_process(), 0);
    let pool = Arc::new(LedgerPool::new(FairSpillPool::new(1024 * MIB)));
    pool.take_baseline();
    let barrier = Arc::new(Barrier::new(THREADS));
    let seen: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let (pool, barrier) = (pool.clone(), barrier.clone());
                scope.spawn(move || {
                    let reservation = consumer(&pool, &format!("sort {n}"), true);
                    reservation.try_grow(4 * MIB).unwrap();
                    let held = hold(5 * MIB);
                    barrier.wait();
                    let seen = (pool.difference(), declared_in_process());
                    barrier.wait();
                    drop(held);
                    seen
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for (difference, in_process) in seen {
        assert_eq!(difference.declared, 32 << 20);
        assert_eq!(in_process, 32 << 20);
        assert!(near(difference.real, 40 << 20), "{difference}");
    }
    assert_eq!((pool.difference().declared, declared_in_process()), (0, 0));
}

#[test]
fn pools_of_several_tasks_add_up_to_the_process() {
    let _alone = alone();
    let pools: Vec<_> = (0..THREADS)
        .map(|_| Arc::new(LedgerPool::new(UnboundedMemoryPool::default())))
        .collect();
    let reservations: Vec<_> = pools
        .iter()
        .map(|pool| {
            let one = consumer(pool, "task", false);
            one.grow(MIB);
            one
        })
        .collect();
    assert_eq!(declared_in_process(), (THREADS * MIB) as u64);
    drop(reservations);
    assert_eq!(declared_in_process(), 0);
}

#[test]
fn concurrent_consumers_return_everything() {
    let _alone = alone();
    let pool = Arc::new(
        LedgerPool::new(FairSpillPool::new(64 * MIB))
            .with_real_limit(RealLimit::new(64 << 20))
            .unwrap(),
    );
    pool.take_baseline();
    thread::scope(|scope| {
        for n in 0..THREADS {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..300 {
                    let reservation = consumer(pool, &format!("operator {n}"), n % 2 == 0);
                    let mut held = Vec::new();
                    for step in 1..=10 {
                        let bytes = (n + 1) * step * 20_000;
                        if reservation.try_grow(bytes).is_ok() {
                            held.push(hold(bytes));
                        }
                        if (round + step) % 3 == 0 && held.pop().is_some() {
                            reservation.shrink(reservation.size() / 2);
                        }
                    }
                }
            });
        }
    });
    let end = pool.difference();
    assert_eq!((end.declared, pool.reserved()), (0, 0));
    assert!(pool.consumers().is_empty());
    assert!(near(end.real, 0), "{end}");
    assert!(end.declared_peak > 0 && end.declared_peak <= 64 << 20);
    let counts: u64 = pool.ended_consumers().iter().map(|one| one.count).sum();
    assert_eq!(counts, (THREADS * 300) as u64);
    let asked: u64 = pool.ended_consumers().iter().map(|one| one.refused).sum();
    assert_eq!(asked, end.refused + end.declined);
}

/// polars#29430: what short-lived threads had allocated was forgotten when they ended, until the estimate was 0 and
/// nothing spilled any more.
#[test]
fn what_ended_threads_allocated_still_refuses() {
    let _alone = alone();
    let pool = Arc::new(
        LedgerPool::new(UnboundedMemoryPool::default())
            .with_real_limit(RealLimit {
                bytes: 100 << 20,
                headroom: 0,
            })
            .unwrap(),
    );
    pool.take_baseline();
    let anchor = hold(80 * MIB);
    let sort = consumer(&pool, "sort", true);
    for _ in 0..400 {
        // Each below what makes a thread settle.
        let made = thread::spawn(|| hold(200 << 10)).join().unwrap();
        drop(made);
    }
    assert!(
        near(pool.difference().real, 80 << 20),
        "{}",
        pool.difference()
    );
    sort.try_grow(30 * MIB).unwrap_err();
    drop(anchor);
    sort.try_grow(30 * MIB).unwrap();
}
