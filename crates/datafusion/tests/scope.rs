//! A pool whose real number is a scope's.

mod held;

use datafusion_execution::memory_pool::UnboundedMemoryPool;
use held::{MIB, alone, consumer, hold, near};
use homefree_datafusion::{LedgerPool, RealLimit};
use homefree_ledger::ledger;
use std::sync::Arc;
use std::thread;

#[test]
fn two_queries_are_judged_apart() {
    let _alone = alone();
    let query = |name| {
        let scope = ledger().open_scope(name);
        let pool = LedgerPool::of_scope(Arc::new(UnboundedMemoryPool::default()), scope.clone())
            .with_real_limit(RealLimit {
                bytes: 50 << 20,
                headroom: 0,
            })
            .unwrap();
        (scope, Arc::new(pool))
    };
    let (large, large_pool) = query("large");
    let (_small, small_pool) = query("small");
    let worker = {
        let large = large.clone();
        thread::spawn(move || {
            let _in = large.enter();
            hold(45 * MIB)
        })
    };
    let held = worker.join().unwrap();
    assert!(near(large_pool.difference().real, 45 << 20));
    assert!(near(small_pool.difference().real, 0));
    consumer(&large_pool, "sort", true)
        .try_grow(10 * MIB)
        .unwrap_err();
    consumer(&small_pool, "sort", true)
        .try_grow(10 * MIB)
        .unwrap();
    {
        let _in = large.enter();
        drop(held);
    }
    consumer(&large_pool, "sort", true)
        .try_grow(10 * MIB)
        .unwrap();
    assert!(near(large_pool.difference().real_peak, 45 << 20));
}
