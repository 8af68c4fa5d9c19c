//! What reading costs.

use crate::Options;
use crate::arms::{Arm, Kind};
use crate::artifacts::Artifacts;
use crate::child::{self, Order};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Threads that live, and that have ended before.
const LOADS: [(usize, u64); 5] = [(0, 0), (100, 0), (10_000, 0), (0, 10_000), (0, 100_000)];

/// One arm's readings.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which.
    pub arm: Arm,
    /// Threads that live besides the reader.
    pub alive: usize,
    /// Threads that have ended.
    pub dead: u64,
    /// Nanoseconds of each way to read.
    pub nanoseconds: BTreeMap<String, f64>,
}

/// Measures all arms that can be read, as executables.
///
/// # Errors
/// An arm fails.
pub fn measure(options: &Options, artifacts: &Artifacts) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &arm in &options.arms {
        let same = matches!(arm, Arm::OursExecutable | Arm::OursCounts | Arm::Null);
        if same || !arm.is_in(Kind::Executable) || !arm.counts(Kind::Executable) {
            continue;
        }
        for (alive, dead) in LOADS {
            let order = Order {
                case: "read",
                size: 0,
                threads: alive,
                count: dead,
                milliseconds: 0,
            };
            let limit = Duration::from_secs(120);
            let (said, _) = child::run(artifacts, arm, Kind::Executable, &order, &[], limit)?;
            eprintln!(
                "read: {}, {alive} alive, {dead} dead: {:?}",
                arm.name(),
                said.readings
            );
            rows.push(Row {
                arm,
                alive,
                dead,
                nanoseconds: said.readings,
            });
        }
    }
    Ok(rows)
}
