//! The rounds: fresh processes, one an arm, that run each query in turn.

use crate::arm::Arm;
use crate::process::{Process, Start};
use crate::quiet::Watch;
use crate::samples::Sample;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What is to be measured.
pub struct Plan {
    /// Arms, the plain one first.
    pub arms: Vec<Arm>,
    /// Queries, 1 to 22.
    pub queries: Vec<u32>,
    /// Times that each query is run in a round, after a run that is not counted.
    pub turns: u32,
    /// Directory of the libraries.
    pub libraries: PathBuf,
    /// Directory of the Parquet files.
    pub data: PathBuf,
    /// Worker threads.
    pub threads: usize,
    /// For one answer.
    pub timeout: Duration,
}

impl Plan {
    /// A child of one arm, checked; run by `under` where that is not empty.
    ///
    /// # Errors
    /// It cannot be started, or is not the arm that it should be.
    pub fn start(&self, arm: Arm, under: &[OsString]) -> Result<Process> {
        let start = Start {
            library: &arm.library(&self.libraries),
            data: &self.data,
            threads: self.threads,
            timeout: self.timeout,
        };
        let process = Process::start(&start, under).with_context(|| arm.name().to_owned())?;
        arm.check(&process.ready)?;
        Ok(process)
    }
}

/// A round as it was.
pub struct Round {
    /// The runs.
    pub samples: Vec<Sample>,
    /// Scale factor of the data.
    pub scale: f64,
    /// Of each arm: whether its thread-locals are in the static block, and its descriptors' resolvers plain.
    pub tls: Vec<(Arm, bool, Vec<bool>)>,
    /// Of each arm: bytes that were left on the account when the engine was closed.
    pub left: Vec<(Arm, Option<i64>)>,
}

/// Runs a round. All its processes live at once, and one of them runs at a time, so that what slows the
/// machine down for a second hits one run of one query, and what slows it down for longer all arms alike.
///
/// # Errors
/// A child fails or is not the arm that it should be.
pub fn run(plan: &Plan, round: u32) -> Result<Round> {
    let mut processes = Vec::new();
    for &arm in &plan.arms {
        let process = plan.start(arm, &[])?;
        processes.push((arm, process));
    }
    let mut samples = Vec::new();
    for (index, &query) in plan.queries.iter().enumerate() {
        for (arm, process) in &mut processes {
            process.run(query).with_context(|| arm.name().to_owned())?;
        }
        for turn in 0..plan.turns {
            let shift = round as usize + turn as usize + index;
            for step in 0..processes.len() {
                let place = order(processes.len(), shift, step);
                let (arm, process) = &mut processes[place];
                let watch = Watch::start();
                let ran = process.run(query).with_context(|| arm.name().to_owned())?;
                samples.push(Sample {
                    round,
                    turn,
                    query,
                    arm: *arm,
                    wall: ran.wall,
                    cpu: ran.cpu,
                    others: watch.others(ran.cpu),
                    rows: ran.rows,
                    checksum: ran.checksum,
                });
            }
        }
    }
    let mut result = Round {
        samples,
        scale: processes.first().map_or(0.0, |(_, p)| p.ready.scale),
        tls: Vec::new(),
        left: Vec::new(),
    };
    for (arm, process) in processes {
        let ready = &process.ready;
        result
            .tls
            .push((arm, ready.static_tls, ready.descriptors.clone()));
        result.left.push((arm, process.close()?));
    }
    Ok(result)
}

/// Which of `arms` comes at `step`: rotated with `shift`, and backwards every second time round, so that each
/// arm follows each other one.
fn order(arms: usize, shift: usize, step: usize) -> usize {
    let place = (step + shift) % arms;
    if (shift / arms).is_multiple_of(2) {
        place
    } else {
        arms - 1 - place
    }
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn every_arm_has_its_step_and_each_place_as_often() {
        let arms = 5;
        let mut places = [[0; 5]; 5];
        for shift in 0..2 * arms {
            let mut seen = [false; 5];
            for (step, place) in places.iter_mut().enumerate() {
                let arm = order(arms, shift, step);
                assert!(!std::mem::replace(&mut seen[arm], true));
                place[arm] += 1;
            }
        }
        assert_eq!(places, [[2; 5]; 5]);
    }
}
