//! One run of one of our own programs under an arm.

use crate::Options;
use crate::arm::Arm;
use crate::child;
use crate::recorded::Recorded;
use crate::results::Sample;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Runs `program args…` under `arm`; what the arm leaves goes to the empty directory `dir`.
///
/// # Errors
/// It fails, or does not report.
pub fn run(
    arm: Arm,
    options: &Options,
    dir: &Path,
    program: &Path,
    args: &[String],
) -> Result<Sample> {
    let armed = arm.command(options.lib.as_deref(), dir, program, args);
    let used = child::run(armed.command, dir, Duration::from_secs(options.timeout))?;
    let mut sample = Sample {
        wall: used.wall,
        cpu: used.cpu,
        ..Sample::default()
    };
    parse(&std::fs::read_to_string(dir.join("stdout"))?, &mut sample)?;
    take_profile(arm, dir, armed.profile.as_deref(), &mut sample)?;
    Ok(sample)
}

/// Adds what the arm left in `dir`.
///
/// # Errors
/// It left nothing, or nothing that can be read.
pub fn take_profile(
    arm: Arm,
    dir: &Path,
    profile: Option<&Path>,
    sample: &mut Sample,
) -> Result<()> {
    if let Some(path) = profile {
        sample.profile = Some(path.metadata().context("no profile")?.len());
        sample.recorded = Some(Recorded::read(path)?);
    }
    if arm == Arm::Heaptrack {
        let written = std::fs::read_dir(dir)?
            .flatten()
            .find(|e| e.file_name().to_string_lossy().starts_with("heaptrack."))
            .context("heaptrack left no file")?;
        sample.profile = Some(written.metadata()?.len());
    }
    Ok(())
}

/// Reads the `key value` lines of `workload.h`; other lines (heaptrack's) are passed over.
fn parse(stdout: &str, sample: &mut Sample) -> Result<()> {
    let value = |key: &str| {
        stdout
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
            .with_context(|| format!("the workload printed no `{key}`"))
    };
    let number = |key: &str| -> Result<u64> { Ok(value(key)?.parse()?) };
    sample.events = Some(number("events")?);
    sample.allocs = Some(number("allocs")?);
    sample.remote = Some(number("remote")?);
    sample.threads = number("threads")?;
    sample.busy = number("busy")?;
    sample.touched = number("touched")?;
    sample.peak = number("peak")?;
    sample.program_cpu = Some(number("cpu")? as f64 * 1e-9);
    sample.library = value("library")?.to_owned();
    sample.malloc = value("malloc")?.to_owned();
    Ok(())
}
