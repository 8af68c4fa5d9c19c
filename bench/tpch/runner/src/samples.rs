//! What was measured, and the file that it is kept in.

use crate::arm::Arm;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// One run of one query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Round: processes of their own.
    pub round: u32,
    /// Turn within the round: every arm once, one after the other.
    pub turn: u32,
    /// Query, 1 to 22.
    pub query: u32,
    /// Arm.
    pub arm: Arm,
    /// Seconds.
    pub wall: f64,
    /// User and system seconds.
    pub cpu: f64,
    /// CPU seconds a second that others took meanwhile; `None` where it is not known.
    pub others: Option<f64>,
    /// Rows of the answer.
    pub rows: u64,
    /// Checksum of the answer.
    pub checksum: u64,
}

/// Reads the samples of a file; none where there is no such file.
///
/// # Errors
/// The file cannot be read or is something else.
pub fn read(path: &Path) -> Result<Vec<Sample>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| path.display().to_string()))
        .collect()
}

/// Adds samples to a file.
///
/// # Errors
/// The file cannot be written.
pub fn append(path: &Path, samples: &[Sample]) -> Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| path.display().to_string())?;
    for sample in samples {
        writeln!(file, "{}", serde_json::to_string(sample)?)?;
    }
    Ok(())
}

/// Checks that every arm gave the same answer to a query each time.
///
/// # Errors
/// One did not, or has no rows.
pub fn check(samples: &[Sample]) -> Result<()> {
    let mut answers = BTreeMap::new();
    for sample in samples {
        let answer = (sample.rows, sample.checksum);
        let first = answers.entry(sample.query).or_insert(answer);
        if *first != answer {
            bail!(
                "query {} of arm {}: another answer than before",
                sample.query,
                sample.arm.name()
            );
        }
        if sample.rows == 0 {
            bail!("query {}: no rows", sample.query);
        }
    }
    Ok(())
}
