//! TPC-H on DataFusion: opens a directory of Parquet tables and runs the 22 queries.
//!
//! [`library!`] puts it behind the C ABI of `tpch-abi`. The crate itself names no allocator: each library
//! that uses the macro brings its own, and all of them share one build of DataFusion.

pub mod export;
mod layout;
mod queries;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use tokio::runtime::Runtime;
use tpch_abi::Answer;

/// The tables of TPC-H.
const TABLES: [&str; 8] = [
    "customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier",
];

/// Suppliers at scale factor 1, as the specification sets it.
const SUPPLIERS: f64 = 10_000.0;

/// Tables that are open, and the threads that work on them.
pub struct Engine {
    runtime: Runtime,
    context: SessionContext,
    scale: f64,
}

impl Engine {
    /// Opens the files `customer.parquet` … `supplier.parquet` of a directory, to be worked on by
    /// `threads` threads and in as many partitions.
    ///
    /// # Errors
    /// The threads cannot be started, or a file not be read.
    pub fn open(directory: &Path, threads: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("tpch-worker")
            .build()?;
        let context =
            SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
        let mut engine = Self {
            runtime,
            context,
            scale: 0.0,
        };
        for table in TABLES {
            let path = directory.join(table).with_extension("parquet");
            let path = path.to_string_lossy().into_owned();
            engine.runtime.block_on(engine.context.register_parquet(
                table,
                path,
                ParquetReadOptions::default(),
            ))?;
        }
        let suppliers = engine.sql("select count(*) from supplier")?;
        let suppliers: f64 = text(&suppliers)?
            .first()
            .and_then(|row| row.parse().ok())
            .unwrap_or_default();
        engine.scale = suppliers / SUPPLIERS;
        Ok(engine)
    }

    /// The scale factor of the data, from the number of suppliers.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Runs a query, 1 to 22.
    ///
    /// # Errors
    /// There is no such query, or it fails.
    pub fn run(&self, query: u32) -> Result<Answer> {
        let rows = self.rows(query)?;
        let checksum = rows.iter().fold(0_u64, |sum, row| {
            let mut hasher = DefaultHasher::new();
            hasher.write(row.as_bytes());
            sum.wrapping_add(hasher.finish())
        });
        Ok(Answer {
            rows: rows.len() as u64,
            checksum,
        })
    }

    /// The rows of a query, columns parted by `|`.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn rows(&self, query: u32) -> Result<Vec<String>> {
        let sql = queries::text(query, self.scale)
            .ok_or_else(|| DataFusionError::External(format!("no query {query}").into()))?;
        text(&self.sql(&sql)?)
    }

    /// Runs a statement on the workers alone: the calling thread only waits.
    fn sql(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        let context = self.context.clone();
        let sql = sql.to_owned();
        let work = async move { context.sql(&sql).await?.collect().await };
        self.runtime
            .block_on(self.runtime.spawn(work))
            .map_err(|error| DataFusionError::External(Box::new(error)))?
    }
}

fn text(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        for index in 0..batch.num_rows() {
            let row: Vec<String> = columns.iter().map(|c| c.value(index).to_string()).collect();
            rows.push(row.join("|"));
        }
    }
    Ok(rows)
}
