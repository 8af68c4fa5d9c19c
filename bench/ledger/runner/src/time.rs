//! CPU time of each arm, interleaved with the others.

use crate::arms::{Arm, Kind};
use crate::artifacts::Artifacts;
use crate::child::{self, Order};
use crate::quiet::Watch;
use crate::stats::{self, Spread};
use crate::{Case, Options};
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;

/// CPU seconds for each wall second that a run of two threads or more must reach on two processors or more: below,
/// the threads shared a processor, and what they share cost nothing.
const BUSY: f64 = 1.9;
/// Attempts at a run that reaches it.
const ATTEMPTS: usize = 8;

/// All arms under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// In what.
    pub kind: Kind,
    /// What they do.
    pub case: Case,
    /// Bytes.
    pub size: usize,
    /// Threads.
    pub threads: usize,
    /// The arms.
    pub arms: Vec<Figures>,
    /// Runs that were rejected because their threads shared a processor.
    pub rejected: usize,
    /// CPU seconds a wall second that others used meanwhile.
    pub others: Option<f64>,
}

/// One arm under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Which.
    pub arm: Arm,
    /// CPU nanoseconds of a pair, of each round; none where no attempt was good.
    pub samples: Vec<Option<f64>>,
    /// Median over the rounds, with the smallest and the largest.
    pub nanoseconds: Option<Spread>,
    /// The same in parts of the arm `system`: ratio of the medians, smallest and largest ratio within a round.
    pub ratio: Option<Spread>,
    /// For `always`: whether it can be told so.
    pub knob: Option<bool>,
}

/// Measures one load.
///
/// # Errors
/// An arm fails or is not what it should be.
pub fn measure(
    options: &Options,
    artifacts: &Artifacts,
    kind: Kind,
    case: Case,
    size: usize,
    threads: usize,
) -> Result<Cell> {
    let watch = Watch::start();
    let mut arms: Vec<Figures> = options
        .arms
        .iter()
        .filter(|arm| arm.is_in(kind))
        .map(|&arm| Figures {
            arm,
            samples: Vec::new(),
            nanoseconds: None,
            ratio: None,
            knob: None,
        })
        .collect();
    let order = Order {
        case: case.name(),
        size,
        threads,
        count: case.stretch(size),
        milliseconds: options.milliseconds,
    };
    let mut rejected = 0;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let busy = threads > 1 && processors > 1;
    for round in 0..options.rounds {
        for step in 0..arms.len() {
            let index = (round + step) % arms.len();
            let arm = arms[index].arm;
            let mut sample = None;
            for _ in 0..ATTEMPTS {
                let limit = Duration::from_secs(60);
                let (said, _) = child::run(artifacts, arm, kind, &order, &[], limit)?;
                arms[index].knob = said.knob;
                if !busy || said.cpu as f64 >= BUSY * said.wall as f64 {
                    sample = Some(said.cpu as f64 / said.pairs.max(1) as f64);
                    break;
                }
                rejected += 1;
            }
            arms[index].samples.push(sample);
        }
    }
    conclude(&mut arms);
    eprintln!(
        "{}, {}, {size} B, {threads} threads: {rejected} runs rejected",
        kind.name(),
        case.name()
    );
    Ok(Cell {
        kind,
        case,
        size,
        threads,
        arms,
        rejected,
        others: watch.others(),
    })
}

fn conclude(arms: &mut [Figures]) {
    let Some(system) = arms.iter().find(|f| f.arm == Arm::System) else {
        return;
    };
    let system = system.samples.clone();
    for figures in arms {
        figures.nanoseconds = stats::spread(figures.samples.iter().flatten().copied());
        let pairs: Vec<(f64, f64)> = figures
            .samples
            .iter()
            .zip(&system)
            .filter_map(|(arm, system)| Some(((*arm)?, (*system)?)))
            .collect();
        figures.ratio = stats::paired(&pairs, |arm, system| arm / system);
    }
}
