//! Runs an arm's artifact and believes it only if it proves what it is.

use crate::arms::{Arm, Kind};
use crate::artifacts::Artifacts;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What an artifact is told.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// `pairs`, `large`, `climb`, `always` or `read`.
    pub case: &'static str,
    /// Bytes of a block, or of a climb.
    pub size: usize,
    /// Threads.
    pub threads: usize,
    /// Pairs or climbs at a stretch; threads that have ended, for `read`.
    pub count: u64,
    /// Stretches follow each other for so long.
    pub milliseconds: u64,
}

/// What it says.
#[derive(Clone, Debug, Deserialize)]
pub struct Said {
    arm: String,
    malloc: String,
    counted: Option<u64>,
    /// Whether its slot has a constant distance.
    pub constant: Option<bool>,
    /// Whether it can be told to settle always.
    pub knob: Option<bool>,
    /// Nanoseconds.
    #[serde(default)]
    pub wall: u64,
    /// Nanoseconds.
    #[serde(default)]
    pub cpu: u64,
    /// Pairs of all threads.
    #[serde(default)]
    pub pairs: u64,
    /// Nanoseconds of each way to read.
    #[serde(default)]
    pub readings: BTreeMap<String, f64>,
}

/// Runs an arm, under `wrapper` if that is not empty. Also returns what it wrote to standard error.
///
/// # Errors
/// It fails, takes more than `limit`, or is not what it should be.
pub fn run(
    artifacts: &Artifacts,
    arm: Arm,
    kind: Kind,
    order: &Order,
    wrapper: &[&str],
    limit: Duration,
) -> Result<(Said, String)> {
    let mut command = artifacts.command(arm, kind, wrapper);
    command.arg(order.case);
    for number in [
        order.size as u64,
        order.threads as u64,
        order.count,
        order.milliseconds,
    ] {
        command.arg(number.to_string());
    }
    let (out, err) = finish(command, limit)?;
    let line = out.lines().last().unwrap_or_default();
    let said: Said =
        serde_json::from_str(line).with_context(|| format!("it said {line:?}; {err}"))?;
    let runs_as = if kind == Kind::Preload {
        Arm::System
    } else {
        arm
    };
    ensure!(
        said.arm == runs_as.name() || kind == Kind::Preload && said.arm == "system",
        "it says that it is {}",
        said.arm
    );
    let malloc = artifacts.malloc(arm, kind);
    ensure!(
        said.malloc == malloc,
        "its malloc is of {}, not of {malloc}",
        said.malloc
    );
    ensure!(
        said.counted.is_some() == arm.counts(kind),
        "its counters moved by {:?}",
        said.counted
    );
    Ok((said, err))
}

/// Runs a command to its end: its standard output and error.
///
/// # Errors
/// It fails or takes more than `limit`; then it is killed.
pub fn finish(mut command: Command, limit: Duration) -> Result<(String, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    let reader = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut pipe) = pipe {
                // What was read before an error is shown.
                let _ = pipe.read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = reader(
        child
            .stdout
            .take()
            .map(|p| Box::new(p) as Box<dyn Read + Send>),
    );
    let err = reader(
        child
            .stderr
            .take()
            .map(|p| Box::new(p) as Box<dyn Read + Send>),
    );
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("{command:?} took more than {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let out = out.join().unwrap_or_default();
    let err = err.join().unwrap_or_default();
    ensure!(status.success(), "{command:?}: {status}; {out} {err}");
    Ok((out, err))
}
