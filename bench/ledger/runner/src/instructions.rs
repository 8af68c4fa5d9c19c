//! Instructions that each arm adds to an allocation and its free.

use crate::arms::{Arm, Kind};
use crate::artifacts::Artifacts;
use crate::child::{self, Order};
use crate::{Options, calls};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::time::Duration;

/// Bytes of a block.
const SIZE: usize = 64;
/// Two amounts of pairs. Their difference is a whole number of the ledger's margins, so that what settling costs is
/// in the figure with its proper weight.
const FEW: u64 = 16 << 10;
const MANY: u64 = 9 * FEW;

/// One arm in one kind of artifact.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which.
    pub arm: Arm,
    /// In what.
    pub kind: Kind,
    /// Instructions of a pair, loop and allocator included.
    pub pair: f64,
    /// More than in the arm `system`.
    pub added: f64,
    /// Whether the ledger's slot has a constant distance.
    pub constant: Option<bool>,
}

/// Counts all arms.
///
/// # Errors
/// valgrind or objdump is not there, an arm fails, or one of them does not run the same loop.
pub fn count(options: &Options, artifacts: &Artifacts) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &kind in &options.kinds {
        let (mut system, mut code) = (None, None);
        for &arm in options.arms.iter().filter(|arm| arm.is_in(kind)) {
            let file = artifacts.file(arm, kind);
            let own = calls::code_of_loop(&file)?;
            let first = code.get_or_insert_with(|| own.clone());
            ensure!(own == *first, "{}: its loop is another", file.display());
            eprint!("instructions: {}, {} … ", kind.name(), arm.name());
            let (few, _) = total(artifacts, arm, kind, FEW)?;
            let (many, constant) = total(artifacts, arm, kind, MANY)?;
            let pair = many.saturating_sub(few) as f64 / (MANY - FEW) as f64;
            eprintln!("{pair:.2}");
            let base = *system.get_or_insert(pair);
            rows.push(Row {
                arm,
                kind,
                pair,
                added: pair - base,
                constant,
            });
        }
    }
    Ok(rows)
}

fn total(artifacts: &Artifacts, arm: Arm, kind: Kind, count: u64) -> Result<(u64, Option<bool>)> {
    let order = Order {
        case: "pairs",
        size: SIZE,
        threads: 1,
        count,
        milliseconds: 0,
    };
    let callgrind = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
    ];
    let limit = Duration::from_secs(120);
    let (said, err) = child::run(artifacts, arm, kind, &order, &callgrind, limit)?;
    let number = err
        .lines()
        .rev()
        .find_map(|line| line.split("Collected : ").nth(1))
        .with_context(|| format!("callgrind gave no count: {err}"))?;
    Ok((number.trim().parse()?, said.constant))
}
