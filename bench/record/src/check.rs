//! Proof of what a run ran on.

use crate::arm::Arm;
use crate::recorded::Recorded;
use crate::results::Sample;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// Events that the C and C++ runtimes may add of their own accord, and those of each thread.
const RUNTIME_EVENTS: u64 = 200;
const RUNTIME_EVENTS_PER_THREAD: u64 = 20;

/// The arm's library, and no other, was there; what was recorded is what the workload did.
///
/// # Errors
/// Says what was not as it should be.
pub fn sample(arm: Arm, sample: &Sample) -> Result<()> {
    ensure!(
        sample.library == arm.library(),
        "ran with library {} instead of {}",
        sample.library,
        arm.library()
    );
    let served_by = sample.malloc.as_str();
    let right = match arm.library() {
        _ if served_by.is_empty() => true, // redis cannot say
        "none" => !served_by.contains("libhomefree") && !served_by.contains("libheaptrack"),
        library => served_by.contains(library),
    };
    ensure!(right, "malloc was served by {served_by}");
    let Some(stacks) = arm.stacks() else {
        return Ok(());
    };
    let Some(recorded) = &sample.recorded else {
        bail!("no profile");
    };
    ensure!(
        recorded.stacks == stacks,
        "stacks were taken as {} instead of {stacks}",
        recorded.stacks
    );
    ensure!(recorded.lost == 0, "{} events were lost", recorded.lost);
    ensure!(recorded.allocations > 0, "nothing was recorded");
    if let (Some(events), Some(allocs), Some(remote)) =
        (sample.events, sample.allocs, sample.remote)
    {
        let few = RUNTIME_EVENTS + RUNTIME_EVENTS_PER_THREAD * sample.threads;
        let all = recorded.counts();
        let counted = |what: &str, recorded: u64, own: u64| {
            ensure!(
                (own..=own + few).contains(&recorded),
                "recorded {recorded} {what} where the workload counted {own} ({all})"
            );
            Ok(())
        };
        counted("events", recorded.events(), events)?;
        counted("allocations", recorded.allocations, allocs)?;
        counted("remote frees", recorded.frees_remote, remote)?;
        ensure!(
            recorded.frees_unknown <= few,
            "{} frees were of unknown blocks",
            recorded.frees_unknown
        );
    }
    Ok(())
}

/// `homefree report --json` gives the totals that the profile's counters add up to.
///
/// # Errors
/// It fails, or says something else.
pub fn report(homefree: &Path, profile: &Path, recorded: &Recorded) -> Result<()> {
    let output = Command::new(homefree)
        .args(["report", "--json"])
        .arg(profile)
        .output()
        .context("homefree report")?;
    ensure!(
        output.status.success(),
        "homefree report: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("homefree report --json")?;
    for (key, own) in [
        ("allocations", recorded.allocations),
        ("frees_home", recorded.frees_home),
        ("frees_remote", recorded.frees_remote),
        ("frees_unknown", recorded.frees_unknown),
        ("threads", recorded.threads),
    ] {
        let said = json["totals"][key].as_f64();
        ensure!(
            said == Some(own as f64),
            "report says totals.{key} = {}, the profile's counters add up to {own}",
            json["totals"][key]
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Sample {
        Sample {
            library: "homefree".to_owned(),
            malloc: "/x/libhomefree.so".to_owned(),
            events: Some(2000),
            allocs: Some(1000),
            remote: Some(1000),
            threads: 2,
            recorded: Some(Recorded {
                stacks: "fp",
                allocations: 1003,
                frees_home: 2,
                frees_remote: 1000,
                ..Recorded::default()
            }),
            ..Sample::default()
        }
    }

    #[test]
    fn a_run_that_is_what_it_says_passes() {
        sample(Arm::Fp, &recorded()).unwrap();
    }

    #[test]
    fn a_run_that_is_not_is_found_out() {
        let refused = |arm, change: fn(&mut Sample), word: &str| {
            let mut s = recorded();
            change(&mut s);
            let error = sample(arm, &s).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        };
        refused(Arm::Plain, |_| (), "library homefree");
        refused(Arm::Auto, |_| (), "stacks were taken as fp");
        refused(
            Arm::Fp,
            |s| s.malloc = "/x/libc.so.6".to_owned(),
            "served by",
        );
        refused(Arm::Fp, |s| s.recorded = None, "no profile");
        refused(Arm::Fp, |s| s.recorded.as_mut().unwrap().lost = 1, "lost");
        refused(
            Arm::Fp,
            |s| s.recorded.as_mut().unwrap().frees_remote = 999,
            "999 remote frees",
        );
        refused(
            Arm::Fp,
            |s| s.recorded.as_mut().unwrap().allocations = 5000,
            "where the workload counted",
        );
    }
}
