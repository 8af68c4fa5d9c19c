//! The soak: threads that come and go and leave their blocks to others.

use crate::arms::Kind;
use crate::artifacts::Artifacts;
use crate::child;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What was found.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Soaked {
    /// Threads that came and went.
    pub threads: u64,
    /// How many were there at a time.
    pub alive: u64,
    /// The whole run.
    pub seconds: f64,
    /// Exact balance before, bytes.
    pub before: i64,
    /// Exact balance after, bytes.
    pub after: i64,
    /// How far it is off, bytes.
    pub difference: i64,
    /// Cheap reading less exact reading at the end, bytes.
    pub cheap: i64,
    /// What the cheap reading says that it may be off by, bytes.
    pub error: u64,
    /// Accounts in the end.
    pub living: u64,
    /// Highest balance, bytes.
    pub peak: u64,
    /// Blocks freed by destructors after the ledger had settled their thread.
    pub late: u64,
    /// Resident size when a tenth of the threads had come, bytes.
    pub resident_first: u64,
    /// Resident size when all had come, bytes.
    pub resident_last: u64,
}

/// Runs it.
///
/// # Errors
/// It cannot run, or the balance is not what it was, or accounts or memory were left.
pub fn run(artifacts: &Artifacts, kind: Kind, threads: u64, alive: u64) -> Result<Soaked> {
    let mut command = artifacts.soak(kind);
    command.args([threads.to_string(), alive.to_string()]);
    let (out, _) = child::finish(command, Duration::from_secs(1800))?;
    let soaked: Soaked = serde_json::from_str(out.trim())?;
    ensure!(soaked.difference == 0, "the balance is off: {soaked:?}");
    Ok(soaked)
}
