//! DataFusion's own operators on a [`LedgerPool`]: behind the feature `engine`.

mod held;

use datafusion::arrow::array::{Array, Int64Array};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use held::{MIB, alone, hold};
use homefree_datafusion::{Difference, LedgerPool, RealLimit};
use std::sync::Arc;

const ROWS: u64 = 1_000_000;
const SORT: &str = "SELECT (v * 7919) % 1000003 AS k, concat('a value of some length ', v) AS s \
                    FROM generate_series(1, 1000000) AS t(v) ORDER BY k";
const AGGREGATION: &str = "SELECT (v * 7919) % 1000003 AS k, count(*), max(concat('value ', v)) \
                           FROM generate_series(1, 1000000) AS t(v) GROUP BY k";

struct Ran {
    rows: u64,
    /// Of the first column: its sum, and whether it came in order.
    sum: i64,
    in_order: bool,
    spills: usize,
}

fn pool() -> Arc<LedgerPool<UnboundedMemoryPool>> {
    Arc::new(LedgerPool::new(UnboundedMemoryPool::default()))
}

/// Runs a query on a runtime of its own, all of which is gone afterwards.
fn run<P: MemoryPool>(pool: &Arc<LedgerPool<P>>, sql: &str) -> Result<Ran> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let environment = RuntimeEnvBuilder::new()
        .with_memory_pool(pool.clone())
        .build_arc()?;
    // By default 10 MB a partition are reserved for a merge, as much as these sorts hold.
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .with_sort_spill_reservation_bytes(1 << 20);
    let context = SessionContext::new_with_config_rt(config, environment);
    runtime.block_on(async {
        let plan = context.sql(sql).await?.create_physical_plan().await?;
        let mut stream = execute_stream(plan.clone(), context.task_ctx())?;
        let (mut rows, mut sum, mut last, mut in_order) = (0, 0i64, i64::MIN, true);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let keys = batch.column(0).as_any().downcast_ref::<Int64Array>();
            for key in keys.expect("numbers").iter().flatten() {
                in_order &= last <= key;
                last = key;
                sum += key;
            }
            rows += batch.num_rows() as u64;
        }
        Ok(Ran {
            rows,
            sum,
            in_order,
            spills: spills(&plan),
        })
    })
}

fn spills(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let here = plan.metrics().and_then(|metrics| metrics.spill_count());
    here.unwrap_or(0) + plan.children().into_iter().map(spills).sum::<usize>()
}

/// What lazily made tables of the program may keep.
fn is_given_back(after: &Difference) -> bool {
    after.declared == 0 && after.real < 4 << 20
}

/// Runs a query freely, and again under half of what it took.
fn freely_and_by_half(sql: &str) -> (Ran, Difference, Ran, Difference) {
    run(&pool(), sql).expect("what is made once, is made");
    let free_pool = pool();
    free_pool.take_baseline();
    let free = run(&free_pool, sql).expect("no limit");
    let free_after = free_pool.difference();
    let half_pool = pool();
    half_pool.take_baseline();
    half_pool
        .set_real_limit(Some(RealLimit::new(free_after.real_peak / 2)))
        .unwrap();
    let half = run(&half_pool, sql).expect("it spills instead");
    (free, free_after, half, half_pool.difference())
}

#[test]
fn a_sort_refused_on_the_real_number_spills_and_is_right() {
    let _alone = alone();
    let (free, free_after, half, half_after) = freely_and_by_half(SORT);
    assert_eq!((free.rows, free.spills), (ROWS, 0));
    assert!(half.spills > 0 && half_after.refused > 0, "{half_after}");
    assert_eq!((half.rows, half.sum), (free.rows, free.sum));
    assert!(free.in_order && half.in_order);
    assert!(half_after.real_peak < free_after.real_peak);
    assert!(is_given_back(&free_after), "{free_after}");
    assert!(is_given_back(&half_after), "{half_after}");
}

#[test]
fn an_aggregation_refused_on_the_real_number_spills_and_is_right() {
    let _alone = alone();
    let (free, free_after, half, half_after) = freely_and_by_half(AGGREGATION);
    assert_eq!((free.rows, free.spills), (ROWS, 0));
    assert!(half.spills > 0 && half_after.refused > 0, "{half_after}");
    assert_eq!((half.rows, half.sum), (free.rows, free.sum));
    assert!(is_given_back(&free_after), "{free_after}");
    assert!(is_given_back(&half_after), "{half_after}");
}

#[test]
fn what_somebody_else_holds_makes_a_sort_spill() {
    let _alone = alone();
    run(&pool(), SORT).expect("what is made once, is made");
    let pool = pool();
    pool.take_baseline();
    let limit = RealLimit {
        bytes: 256 << 20,
        headroom: 32 << 20,
    };
    pool.set_real_limit(Some(limit)).unwrap();
    let apart = run(&pool, SORT).expect("there is room");
    let needed = pool.difference().real_peak;
    let other = hold(224 * MIB - needed as usize / 2);
    let beside = run(&pool, SORT).expect("it spills instead");
    drop(other);
    assert_eq!(apart.spills, 0);
    assert!(beside.spills > 0, "{}", pool.report());
    assert_eq!(beside.sum, apart.sum);
    assert!(pool.difference().undeclared_peak >= (224 << 20) - needed / 2);
}

#[test]
fn a_query_that_fails_gives_everything_back() {
    let _alone = alone();
    run(&pool(), SORT).expect("what is made once, is made");
    let pool = pool();
    pool.take_baseline();
    pool.set_real_limit(Some(RealLimit::new(1 << 20))).unwrap();
    let error = run(&pool, SORT).err().expect("there is no room at all");
    assert!(
        matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
        "{error}"
    );
    let after = pool.difference();
    assert!(is_given_back(&after), "{after}");
}
