//! The bars that recording is held to. They are goals, set before anything was measured.

use crate::arm::Arm;
use crate::results::Figures;
use crate::workload::{Build, Workload};
use serde::Serialize;

/// One MiB.
const MIB: f64 = 1024.0 * 1024.0;

/// A bar beside the figure that it judges.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What is judged.
    pub bar: &'static str,
    /// The figure.
    pub figure: f64,
    /// The most it may be.
    pub most: f64,
    /// It is no more.
    pub reached: bool,
}

impl Workload {
    /// Most that the wall time may grow by, with frame pointers.
    fn slowdown(self) -> Option<f64> {
        match self {
            Workload::Maps => Some(1.2),
            Workload::ForkJoin | Workload::Pass1 | Workload::Pass2 => Some(1.5),
            Workload::Redis | Workload::RedisIo2 => Some(1.3),
            _ => None,
        }
    }

    /// Most CPU nanoseconds added to an event, with frame pointers.
    fn added_ns(self) -> Option<f64> {
        match self {
            Workload::Pass1 | Workload::Pass2 => Some(60.0),
            Workload::Redis | Workload::RedisIo2 => None,
            _ => Some(25.0),
        }
    }
}

/// What the bars say about an arm.
pub fn judge(workload: Workload, build: Build, arm: Arm, figures: &Figures) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if arm.stacks().is_none() {
        return verdicts;
    }
    let mut hold = |bar, figure: Option<f64>, most: Option<f64>| {
        if let (Some(figure), Some(most)) = (figure, most) {
            verdicts.push(Verdict {
                bar,
                figure,
                most,
                reached: figure <= most,
            });
        }
    };
    if build != Build::Nofp {
        hold(
            "wall ratio",
            Some(figures.wall_ratio.median),
            workload.slowdown(),
        );
        let added = figures.added_ns.map(|s| s.median);
        hold("ns/event", added, workload.added_ns());
    } else if arm == Arm::Auto {
        let added = figures.added_ns_per_stack.map(|s| s.median);
        hold("ns/stack", added, Some(400.0));
    }
    let room = figures.touched / 2.0 + 10.0 * MIB;
    hold("added bytes", Some(figures.added_memory), Some(room));
    hold(
        "profile bytes",
        figures.profile.map(|p| p as f64),
        Some(MIB),
    );
    verdicts
}
