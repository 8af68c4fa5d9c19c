//! Where no `Accounted` is installed, nothing pretends to know.

use datafusion_common::DataFusionError;
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
use homefree_datafusion::{LedgerPool, RealLimit};
use std::sync::Arc;

#[test]
fn a_real_limit_without_a_ledger_is_an_error() {
    let error = LedgerPool::new(GreedyMemoryPool::new(100))
        .with_real_limit(RealLimit::new(1 << 20))
        .unwrap_err();
    assert!(
        matches!(&error, DataFusionError::Configuration(text) if text.contains("#[global_allocator]")),
        "{error}"
    );
}

#[test]
fn without_a_limit_the_pool_works_as_the_wrapped_one() {
    let pool = Arc::new(LedgerPool::new(GreedyMemoryPool::new(100)));
    let shared: Arc<dyn MemoryPool> = pool.clone();
    let one = MemoryConsumer::new("one").register(&shared);
    one.try_grow(80).unwrap();
    one.try_grow(40).unwrap_err();
    let difference = pool.difference();
    assert_eq!((difference.declared, difference.real), (80, 0));
    assert_eq!(difference.declared_share(), None);
}
