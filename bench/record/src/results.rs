//! What was measured, and what follows from it.

use crate::Options;
use crate::arm::Arm;
use crate::bars::{self, Verdict};
use crate::host::Host;
use crate::instructions::Instructions;
use crate::recorded::Recorded;
use crate::stats::{Spread, paired, spread};
use crate::workload::{Build, Workload};
use serde::Serialize;

/// CPU seconds per wall second that two or more busy threads must reach on two or more cores.
pub const BUSY: f64 = 1.9;

/// CPU seconds per wall second taken by other processes from which on figures are not to be trusted.
pub const DISTURBED: f64 = 0.05;

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// Seconds from start to end (of the client, for redis).
    pub wall: f64,
    /// CPU seconds of everything the arm ran.
    pub cpu: f64,
    /// CPU seconds of the program alone.
    pub program_cpu: Option<f64>,
    /// Allocations and frees that the workload counted itself.
    pub events: Option<u64>,
    /// Allocations among them.
    pub allocs: Option<u64>,
    /// Frees on another thread among them.
    pub remote: Option<u64>,
    /// Threads that the workload created.
    pub threads: u64,
    /// Threads that should be running at any moment; 0 where that cannot be said.
    pub busy: u64,
    /// Peak minus start resident size of the program, bytes.
    pub touched: u64,
    /// Peak resident size of the program, bytes.
    pub peak: u64,
    /// Library seen among the program's mappings.
    pub library: String,
    /// Module that serves `malloc`.
    pub malloc: String,
    /// Size of the profile on disk, bytes.
    pub profile: Option<u64>,
    /// Requests a second (redis).
    pub throughput: Option<f64>,
    /// The profile's counters.
    pub recorded: Option<Recorded>,
}

impl Sample {
    /// CPU seconds per wall second.
    pub fn utilisation(&self) -> f64 {
        self.cpu / self.wall
    }
}

/// All runs of one arm, and its figures against the plain arm.
#[derive(Clone, Debug, Serialize)]
pub struct ArmResult {
    /// Which.
    pub arm: Arm,
    /// By round; `None` where the run failed.
    pub samples: Vec<Option<Sample>>,
    /// Runs that failed and runs that were not what they should be.
    pub failures: Vec<String>,
    /// The figures; `None` without a sound run beside a sound plain run.
    pub figures: Option<Figures>,
}

/// Figures of an arm. Ratios and differences are to the plain arm.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Wall seconds.
    pub wall: Spread,
    /// Wall ratio.
    pub wall_ratio: Spread,
    /// CPU seconds.
    pub cpu: Spread,
    /// CPU ratio.
    pub cpu_ratio: Spread,
    /// Added CPU nanoseconds for each allocation or free.
    pub added_ns: Option<Spread>,
    /// Added CPU nanoseconds for each stack taken (allocations and remote frees).
    pub added_ns_per_stack: Option<Spread>,
    /// Requests a second against the plain arm's (redis).
    pub throughput_ratio: Option<Spread>,
    /// CPU seconds per wall second.
    pub utilisation: Spread,
    /// Runs with two or more busy threads that stayed below [`BUSY`].
    pub idle_runs: usize,
    /// Median peak resident size, bytes.
    pub peak: f64,
    /// Median added peak resident size, bytes.
    pub added_memory: f64,
    /// Median heap that the plain program touched, bytes.
    pub touched: f64,
    /// Largest profile, bytes.
    pub profile: Option<u64>,
    /// Mean frames of an allocation's stack.
    pub frames: Option<f64>,
    /// Share of allocations with a cut stack.
    pub cut: Option<f64>,
    /// What the bars say.
    pub verdicts: Vec<Verdict>,
}

/// One workload in one build under all arms.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Which.
    pub workload: Workload,
    /// As built how.
    pub build: Build,
    /// Events per run that the added time is shared out over: the workload's own count, or (redis) the
    /// recorder's.
    pub events: Option<u64>,
    /// Stacks per run: allocations + remote frees.
    pub stacks: Option<u64>,
    /// CPU seconds per wall second that other processes took while this was measured.
    pub others: Option<f64>,
    /// The arms.
    pub arms: Vec<ArmResult>,
}

impl Table {
    /// Works out all figures from the runs.
    pub fn conclude(workload: Workload, build: Build, cores: usize, arms: Vec<ArmResult>) -> Self {
        let (events, stacks) = amounts(&arms);
        let mut table = Self {
            workload,
            build,
            events,
            stacks,
            others: None,
            arms,
        };
        let plain = table
            .arms
            .iter()
            .find(|a| a.arm == Arm::Plain)
            .map(|a| a.samples.clone())
            .unwrap_or_default();
        for index in 0..table.arms.len() {
            let figures = table.figures(&table.arms[index], &plain, cores);
            table.arms[index].figures = figures;
        }
        table
    }

    fn figures(&self, arm: &ArmResult, plain: &[Option<Sample>], cores: usize) -> Option<Figures> {
        let rounds: Vec<(&Sample, &Sample)> = arm
            .samples
            .iter()
            .zip(plain)
            .filter_map(|(a, p)| Some((a.as_ref()?, p.as_ref()?)))
            .collect();
        let pairs = |value: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
            rounds.iter().map(|(a, p)| (value(a), value(p))).collect()
        };
        let cpu = pairs(|s| s.cpu);
        let wall = pairs(|s| s.wall);
        let peak = pairs(|s| s.peak as f64);
        let per = |amount: Option<u64>| {
            let amount = amount.filter(|_| arm.arm != Arm::Plain)? as f64;
            paired(&cpu, |a, p| (a - p) / amount * 1e9)
        };
        let throughput: Vec<_> = rounds
            .iter()
            .filter_map(|(a, p)| Some((a.throughput?, p.throughput?)))
            .collect();
        let median = |values: &[f64]| spread(values.iter().copied()).map(|s| s.median);
        let recorded = |value: fn(&Recorded) -> f64| {
            let values: Vec<f64> = rounds
                .iter()
                .filter_map(|(a, _)| a.recorded.as_ref().map(value))
                .collect();
            median(&values)
        };
        let touched: Vec<f64> = rounds.iter().map(|(_, p)| p.touched as f64).collect();
        let mut figures = Figures {
            wall: spread(wall.iter().map(|w| w.0))?,
            wall_ratio: paired(&wall, |a, p| a / p)?,
            cpu: spread(cpu.iter().map(|c| c.0))?,
            cpu_ratio: paired(&cpu, |a, p| a / p)?,
            added_ns: per(self.events),
            added_ns_per_stack: per(self.stacks),
            throughput_ratio: paired(&throughput, |a, p| a / p),
            utilisation: spread(rounds.iter().map(|(a, _)| a.utilisation()))?,
            idle_runs: rounds
                .iter()
                .filter(|(a, _)| a.busy >= 2 && cores >= 2 && a.utilisation() < BUSY)
                .count(),
            peak: spread(peak.iter().map(|p| p.0))?.median,
            added_memory: paired(&peak, |a, p| a - p)?.median,
            touched: median(&touched)?,
            profile: rounds.iter().filter_map(|(a, _)| a.profile).max(),
            frames: recorded(|r| r.frames),
            cut: recorded(|r| r.cut),
            verdicts: Vec::new(),
        };
        figures.verdicts = bars::judge(self.workload, self.build, arm.arm, &figures);
        Some(figures)
    }
}

/// Events and stacks of a run, from the workload itself or else from the first profile.
fn amounts(arms: &[ArmResult]) -> (Option<u64>, Option<u64>) {
    let samples = || arms.iter().flat_map(|a| a.samples.iter().flatten());
    if let Some(own) = samples().find(|s| s.events.is_some()) {
        let stacks = own.allocs.zip(own.remote).map(|(a, r)| a + r);
        return (own.events, stacks);
    }
    let recorded = samples().find_map(|s| s.recorded.as_ref());
    (
        recorded.map(Recorded::events),
        recorded.map(|r| r.allocations + r.frees_remote),
    )
}

/// Everything that a call of the runner found.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Form of this document.
    pub version: u32,
    /// Where it ran.
    pub host: Host,
    /// Rounds.
    pub rounds: u32,
    /// A smoke test, whose figures mean nothing.
    pub quick: bool,
    /// By workload and build.
    pub tables: Vec<Table>,
    /// Instruction counts of the pure pair.
    pub instructions: Option<Instructions>,
}

impl Results {
    /// Without tables yet.
    pub fn new(host: Host, options: &Options) -> Self {
        Self {
            version: 1,
            host,
            rounds: options.rounds,
            quick: options.quick,
            tables: Vec::new(),
            instructions: None,
        }
    }

    /// Nothing failed and every run was what it should be.
    pub fn sound(&self) -> bool {
        let arms = self.tables.iter().flat_map(|t| &t.arms);
        let counts = self.instructions.iter().flat_map(|i| &i.failures);
        arms.flat_map(|a| &a.failures)
            .chain(counts)
            .next()
            .is_none()
    }
}
