//! The baseline, to the byte. One test alone in its process, so that nothing else moves.

mod held;

use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use held::{MIB, hold};
use homefree_datafusion::LedgerPool;
use homefree_ledger::ledger;
use std::sync::Arc;

#[test]
fn real_is_of_the_pools_work_to_the_byte() {
    let before = hold(30 * MIB);
    let pool = Arc::new(LedgerPool::new(UnboundedMemoryPool::default()));
    let shared: Arc<dyn MemoryPool> = pool.clone();
    let sort = MemoryConsumer::new("sort").register(&shared);

    // Without one, the real number is of the process.
    assert_eq!(pool.difference().baseline, 0);
    assert_eq!(pool.difference().real, ledger().usage_exact().current);

    let baseline = pool.take_baseline();
    assert!(baseline >= 30 << 20);
    assert_eq!(pool.difference().real, 0);

    sort.grow(10_000_000);
    let held = hold(12_345_678);
    let during = pool.difference();
    assert_eq!(during.real, 12_345_678);
    assert_eq!(during.undeclared(), 2_345_678);
    assert_eq!(during.unused(), 0);
    assert_eq!(during.undeclared_peak, 2_345_678);
    assert!((during.declared_share().unwrap() - 0.81).abs() < 0.001);

    // A change of a reservation sees what was there before it, off by the error of a quick reading.
    let more = hold(5_000_000);
    sort.shrink(1);
    drop(more);
    let seen = pool.difference();
    assert!(seen.undeclared_peak + seen.error >= 7_345_678, "{seen}");
    assert!(seen.undeclared_peak <= 7_345_678 + seen.error, "{seen}");
    // What is being given back is not taken for memory that nobody declared.
    let more = hold(4_000_000);
    sort.shrink(5_000_000);
    drop(more);
    let seen = pool.difference();
    assert!(seen.undeclared_peak <= 7_345_678 + seen.error, "{seen}");
    sort.shrink(4_999_999);
    drop(held);
    let after = pool.difference();
    assert_eq!((after.real, after.declared), (0, 0));
    assert!(after.real_peak + after.error >= 17_345_678, "{after}");
    assert_eq!(after.declared_peak, 10_000_000);

    // What is freed of the baseline is never shown as less than nothing.
    drop(before);
    assert_eq!(pool.difference().real, 0);

    // A new baseline begins everything anew, and does not take what is declared for its own.
    sort.grow(4_000_000);
    let working = hold(4_000_000);
    pool.take_baseline();
    let anew = pool.difference();
    assert_eq!((anew.real, anew.declared), (4_000_000, 4_000_000));
    assert_eq!((anew.undeclared_peak, anew.unused_peak), (0, 0));
    assert!(anew.real_peak <= 4_000_000 + anew.error, "{anew}");
    drop(working);
    assert_eq!(pool.difference().unused(), 4_000_000);
    assert_eq!(pool.difference().unused_peak, 4_000_000);
}
