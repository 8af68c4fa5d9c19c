//! A sort and an aggregation of DataFusion over generated rows, first with all the memory they want, then refused
//! on the real number until they spill. Prints what was declared beside what was really held.
//!
//! `cargo run --release --features engine --example operators [rows]`

use datafusion::error::Result;
use datafusion::execution::memory_pool::UnboundedMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use homefree_datafusion::{LedgerPool, RealLimit};
use homefree_ledger::Accounted;
use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

type Pool = Arc<LedgerPool<UnboundedMemoryPool>>;

fn main() -> Result<()> {
    let rows: u64 = std::env::args()
        .nth(1)
        .map_or(4_000_000, |rows| rows.parse().expect("a number of rows"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let sort = format!(
        "SELECT v, concat('a key of some length ', (v * 7919) % {rows}) AS k \
         FROM generate_series(1, {rows}) AS t(v) ORDER BY k"
    );
    let aggregation = format!(
        "SELECT (v * 7919) % {rows} AS k, count(*), max(concat('value ', v)) \
         FROM generate_series(1, {rows}) AS t(v) GROUP BY k"
    );
    for (name, sql) in [("sort", &sort), ("aggregation", &aggregation)] {
        let free = run(&runtime, name, sql, None)?;
        let limit = RealLimit::new(free / 2);
        run(&runtime, name, sql, Some(limit))?;
    }
    Ok(())
}

/// Runs a query and tells about it. Answers the peak of what was really held, bytes.
fn run(
    runtime: &tokio::runtime::Runtime,
    name: &str,
    sql: &str,
    limit: Option<RealLimit>,
) -> Result<u64> {
    let pool: Pool = Arc::new(LedgerPool::new(UnboundedMemoryPool::default()));
    let environment = RuntimeEnvBuilder::new()
        .with_memory_pool(pool.clone())
        .build_arc()?;
    let config = SessionConfig::new().with_target_partitions(2);
    let context = SessionContext::new_with_config_rt(config, environment);
    pool.take_baseline();
    pool.set_real_limit(limit)?;
    match limit {
        None => println!("{name}, no limit"),
        Some(limit) => println!(
            "{name}, at most {} MiB really held, {} MiB of it for who cannot spill",
            limit.bytes >> 20,
            limit.headroom >> 20
        ),
    }
    let ended = AtomicBool::new(false);
    let (outcome, mut shares) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&pool, &ended));
        let outcome = runtime.block_on(rows_and_spills(&context, sql));
        ended.store(true, Ordering::Relaxed);
        (outcome, watcher.join().expect("it only reads"))
    });
    match outcome {
        Ok((rows, spills)) => println!("  {rows} rows, spilled {spills} times"),
        Err(error) => println!("  failed: {error}"),
    }
    drop(context);
    shares.sort_by(f64::total_cmp);
    if let Some(median) = shares.get(shares.len() / 2) {
        println!(
            "  declared/real at the median of {} samples: {median:.2}",
            shares.len()
        );
    }
    print!("{}", pool.report());
    Ok(pool.difference().real_peak)
}

async fn rows_and_spills(context: &SessionContext, sql: &str) -> Result<(usize, usize)> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let mut stream = execute_stream(plan.clone(), context.task_ctx())?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch?.num_rows();
    }
    Ok((rows, spills(&plan)))
}

fn spills(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let here = plan
        .metrics()
        .and_then(|metrics| metrics.spill_count())
        .unwrap_or(0);
    here + plan.children().into_iter().map(spills).sum::<usize>()
}

/// What was declared for each byte really held, every two milliseconds, while a mebibyte or more is held.
fn watch(pool: &Pool, ended: &AtomicBool) -> Vec<f64> {
    let mut shares = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let now = pool.difference();
        if now.real >= 1 << 20 {
            shares.extend(now.declared_share());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    shares
}
