//! Instructions that recording adds to an event of the pure pair: counted, so free of noise.
//!
//! Each program runs with two amounts of events; the difference leaves start and end out. Counted by
//! `perf stat` where the machine has a counter for it, else by callgrind.

use crate::Options;
use crate::arm::{Arm, clear};
use crate::child;
use crate::compile::Programs;
use crate::recorded::Recorded;
use crate::workload::{Build, Workload};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const FEW: u64 = 100_000;
const MANY: u64 = 400_000;

/// Instruction counts.
#[derive(Clone, Debug, Serialize)]
pub struct Instructions {
    /// What counted.
    pub counter: &'static str,
    /// The counts.
    pub rows: Vec<Row>,
    /// What could not be counted, and why.
    pub failures: Vec<String>,
}

/// One program under one arm.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which pair.
    pub workload: Workload,
    /// As built how.
    pub build: Build,
    /// Under what.
    pub arm: Arm,
    /// Instructions for each malloc or free, the loop around it included.
    pub per_event: f64,
    /// More than the plain program's.
    pub added: Option<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Counter {
    Perf,
    Callgrind,
}

/// Counts the pairs; `None` where nothing here can count.
///
/// # Errors
/// The scratch directory cannot be used.
pub fn count(
    options: &Options,
    programs: &Programs,
    scratch: &Path,
) -> Result<Option<Instructions>> {
    let Some(counter) = Counter::find() else {
        eprintln!(
            "neither perf's instruction counter nor valgrind is here: instructions are left out"
        );
        return Ok(None);
    };
    let mut counts = Instructions {
        counter: match counter {
            Counter::Perf => "perf stat -e instructions:u",
            Counter::Callgrind => "callgrind",
        },
        rows: Vec::new(),
        failures: Vec::new(),
    };
    for workload in [
        Workload::PairSame,
        Workload::PairSites,
        Workload::PairMoving,
    ] {
        for &build in &options.builds {
            let mut plain = None;
            for &arm in &options.arms {
                if matches!(arm, Arm::Null | Arm::Heaptrack) {
                    continue;
                }
                let label = format!("{} {}, {}", workload.name(), build.name(), arm.name());
                eprint!("instructions: {label} … ");
                let dir = scratch.join("count");
                std::fs::create_dir_all(&dir)?;
                let counted = per_event(counter, workload, build, arm, options, programs, &dir);
                std::fs::remove_dir_all(&dir)?;
                match counted {
                    Ok(per_event) => {
                        eprintln!("{per_event:.1}");
                        if arm == Arm::Plain {
                            plain = Some(per_event);
                        }
                        counts.rows.push(Row {
                            workload,
                            build,
                            arm,
                            per_event,
                            added: plain.map(|p| per_event - p),
                        });
                    }
                    Err(error) => {
                        eprintln!("failed: {error:#}");
                        counts
                            .failures
                            .push(format!("instructions, {label}: {error:#}"));
                    }
                }
            }
        }
    }
    Ok(Some(counts))
}

fn per_event(
    counter: Counter,
    workload: Workload,
    build: Build,
    arm: Arm,
    options: &Options,
    programs: &Programs,
    dir: &Path,
) -> Result<f64> {
    let (stem, form) = workload.program().context("no program")?;
    let program = programs.path(stem, build);
    let total = |events: u64| -> Result<u64> {
        let dir = dir.join(events.to_string());
        std::fs::create_dir(&dir)?;
        let mut command = counter.command(&dir);
        clear(&mut command);
        // By way of env: the recorder is to be loaded into the program, not into perf or valgrind's script.
        command.arg("env");
        if let (Some(stacks), Some(lib)) = (arm.stacks(), &options.lib) {
            let assign = |name: &str, value: &Path| {
                let mut text = std::ffi::OsString::from(name);
                text.push("=");
                text.push(value);
                text
            };
            command
                .arg(assign("LD_PRELOAD", lib))
                .arg(assign("HOMEFREE_OUTPUT", &dir.join("bench.hfp")))
                .arg(format!("HOMEFREE_STACKS={stacks}"));
        }
        command.arg(&program).arg(events.to_string()).args(form);
        child::run(command, &dir, Duration::from_secs(options.timeout))?;
        if arm.stacks().is_some() {
            recorded(&dir, events)?;
        }
        counter.total(&dir)
    };
    let (few, many) = (total(FEW)?, total(MANY)?);
    Ok(many.saturating_sub(few) as f64 / (MANY - FEW) as f64)
}

/// One of the profiles in `dir` has all events. (There may be two: valgrind starts itself anew for the
/// program, and its launcher, which ends by `exec`, makes one too.)
fn recorded(dir: &Path, events: u64) -> Result<()> {
    let mut most = None;
    for entry in std::fs::read_dir(dir)?.flatten() {
        if entry.path().extension().is_some_and(|e| e == "hfp")
            && let Ok(recorded) = Recorded::read(&entry.path())
        {
            most = most.max(Some(recorded.events()));
        }
    }
    let most = most.context("no profile")?;
    ensure!(most >= events, "recorded {most} of {events} events");
    Ok(())
}

impl Counter {
    fn find() -> Option<Self> {
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x,", "-e", "instructions:u", "true"]);
        if let Ok(output) = perf.output()
            && output.status.success()
            && let Some(count) = String::from_utf8_lossy(&output.stderr).split(',').next()
            && count.trim().parse::<u64>().is_ok()
        {
            return Some(Self::Perf);
        }
        let valgrind = Command::new("valgrind").arg("--version").output().ok()?;
        valgrind.status.success().then_some(Self::Callgrind)
    }

    fn command(self, dir: &Path) -> Command {
        match self {
            Self::Perf => {
                let mut command = Command::new("perf");
                command.args(["stat", "-x,", "-e", "instructions:u", "-o"]);
                command.arg(dir.join("perf"));
                command
            }
            Self::Callgrind => {
                let mut command = Command::new("valgrind");
                let mut out = std::ffi::OsString::from("--callgrind-out-file=");
                out.push(dir.join("callgrind"));
                command
                    .args(["--tool=callgrind", "--trace-children=yes"])
                    .arg(out);
                command
            }
        }
    }

    /// The count that the counter left in `dir`.
    fn total(self, dir: &Path) -> Result<u64> {
        let (file, text) = match self {
            Self::Perf => ("perf", "instructions"),
            Self::Callgrind => ("stderr", "Collected : "),
        };
        let said = std::fs::read_to_string(dir.join(file))?;
        let line = said.lines().rfind(|l| l.contains(text));
        let number = match self {
            Self::Perf => line.and_then(|l| l.split(',').next()),
            Self::Callgrind => line.and_then(|l| l.split(text).nth(1)),
        };
        let number = number.with_context(|| format!("no count; {file} says: {said}"))?;
        Ok(number.trim().parse()?)
    }
}
