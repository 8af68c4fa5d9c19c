//! Profiles survive kills, cuts, missing symbols and full disks.

mod support;

use rustix::process::Signal;
use std::path::{Path, PathBuf};
use support::{Recording, Run, homefree, library, program, record, report_of, report_output};

const NONE: [&str; 0] = [];

fn assert_counted(profile: PathBuf) {
    let report = report_of(&[profile], &[]);
    assert_eq!(
        report.count_between("make_counted", "free_counted"),
        100_000
    );
    let roles = report.free_roles("make_counted");
    assert_eq!(roles, ["ends", "stays"]);
    assert_eq!(report.total("frees_unknown"), 0);
    let freed = report.total("frees_home") + report.total("frees_remote");
    assert!(report.total("allocations") - freed >= 1000);
}

#[test]
fn what_was_counted_before_a_kill_reads_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = Run::new(program("killed_half_way.c"))
        .env("LD_PRELOAD", library())
        .env("HOMEFREE_OUTPUT", dir.path().join("main.hfp"))
        .start();
    child.wait_for_output("ready");
    child.signal(Signal::KILL);
    child.wait().ended_with(137);
    assert_counted(dir.path().join("main.hfp"));
}

#[test]
fn a_profile_reads_while_the_program_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let profile = dir.path().join("main.hfp");
    let mut child = Run::new(program("killed_half_way.c"))
        .env("LD_PRELOAD", library())
        .env("HOMEFREE_OUTPUT", &profile)
        .start();
    child.wait_for_output("ready");
    assert_counted(profile.clone());
    assert_counted(profile);
    child.signal(Signal::KILL);
    child.wait().ended_with(137);
}

/// Pid of the program that a launcher started.
fn program_of(launcher: u32) -> Option<u32> {
    let children =
        std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_kill_under_the_launcher_is_told_and_reads_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut launcher = Run::new(homefree())
        .args(["record", "-o", "main.hfp", "--"])
        .arg(program("killed_half_way.c"))
        .dir(dir.path())
        .start();
    launcher.wait_for_output("ready");
    let pid = program_of(launcher.pid()).expect("the program runs");
    support::signal_process(pid, Signal::KILL);
    launcher.wait().ended_with(137);
    let profile = dir.path().join("main.hfp");
    let size = std::fs::metadata(&profile).expect("a profile").len();
    assert!(
        size < 1 << 20,
        "the launcher cuts the file to what is used: {size} bytes"
    );
    assert_counted(profile);
}

#[test]
fn a_cut_profile_says_so_and_shows_the_rest() {
    let recording = record(program("pass_million.c"), NONE);
    let whole = std::fs::read(recording.profile()).expect("a profile");
    let pages = whole.len() / 4096;
    assert!(pages >= 4, "{pages} pages");
    for keep in [1, 2, pages / 2, pages - 1]
        .map(|p| p * 4096)
        .into_iter()
        .chain([whole.len() - 100])
    {
        let path = recording.dir.path().join("cut.hfp");
        std::fs::write(&path, &whole[..keep]).expect("a cut profile");
        let ran = report_output(&path, &[]);
        let said = ran.out() + &ran.err();
        assert!(
            said.contains("cut.hfp") && said.contains("truncated"),
            "{keep}: {said}"
        );
        assert!(!said.contains("panicked"), "{said}");
        assert!(
            !said.contains("leak") && !said.contains("at exit"),
            "what a cut hides is not called a leak: {said}"
        );
        let json = report_of(&[path], &[]).json;
        assert_eq!(json["profiles"][0]["truncated"], true);
        assert_eq!(json["totals"]["live_at_exit"], false);
    }
}

#[track_caller]
fn refused(bytes: &[u8], word: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("odd.hfp");
    std::fs::write(&path, bytes).expect("a file");
    for options in [&[][..], &["--json"]] {
        let ran = report_output(&path, options);
        assert!(
            ran.code() != 0 && ran.code() < 100,
            "{}: {}",
            ran.status,
            ran.err()
        );
        let said = ran.err();
        assert!(said.contains("odd.hfp") && said.contains(word), "{said}");
        assert!(ran.out().is_empty());
    }
}

#[test]
fn what_is_no_profile_is_refused_by_name() {
    refused(b"", "empty");
    refused(b"#!/bin/sh\necho not a profile\n", "not a Homefree profile");
    refused(&[0; 8192], "empty");
    refused(b"HOMEFREE", "cut");
    refused(&[0x7f; 8192], "not a Homefree profile");
}

#[test]
fn a_newer_profile_is_refused_by_version() {
    let recording = record(program("thread_id_reuse.c"), NONE);
    let mut bytes = std::fs::read(recording.profile()).expect("a profile");
    bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
    refused(&bytes, "version 77");
}

#[test]
fn a_missing_profile_is_named() {
    let ran = report_output(Path::new("no/such.hfp"), &[]);
    assert!(ran.code() != 0);
    assert!(ran.err().contains("no/such.hfp"), "{}", ran.err());
}

#[test]
fn damaged_profiles_never_panic() {
    let recording = record(program("thread_id_reuse.c"), NONE);
    let whole = std::fs::read(recording.profile()).expect("a profile");
    let path = recording.dir.path().join("damaged.hfp");
    // Every 97th run of 8 bytes, past the version: zeros, ones, and the middle of nowhere.
    for at in (16..whole.len() - 8).step_by(whole.len() / 24 + 97) {
        for word in [0u64, u64::MAX, 0x0000_7fff_ffff_f123] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            std::fs::write(&path, &bytes).expect("a damaged profile");
            let ran = report_output(&path, &["--json"]);
            assert!(ran.code() < 100, "at {at}: {} {}", ran.status, ran.err());
            assert!(!ran.err().contains("panicked"), "at {at}: {}", ran.err());
        }
    }
}

/// A file system of this many KiB, or a reason why there is none.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(kib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a mount point");
        let size = format!("size={kib}k");
        let mut mount = std::process::Command::new("mount");
        let done = mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(dir.path())
            .output();
        match done {
            Ok(output) if output.status.success() => Some(Self(dir)),
            _ => {
                eprintln!("skipped: a small file system cannot be mounted here");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg(self.0.path())
            .status();
    }
}

#[test]
fn a_full_disk_does_not_harm_the_program() {
    for kib in [4, 64, 512] {
        let Some(small) = Small::mount(kib) else {
            return;
        };
        let profile = small.0.path().join("main.hfp");
        let ran = Run::new(homefree())
            .args(["record", "-o"])
            .arg(&profile)
            .arg("--")
            .arg(program("pass_million.cpp"))
            .run()
            .ended_well();
        assert_eq!(ran.out(), "passed 1000000\n");
        let said = ran.err();
        assert!(
            said.contains("full") || said.contains("space"),
            "{kib} KiB: {said}"
        );
        let direct = Run::new(program("exceptions.cpp"))
            .env("LD_PRELOAD", library())
            .env("HOMEFREE_DIR", small.0.path())
            .run();
        assert_eq!(direct.code(), 0);
    }
}

#[test]
fn a_disk_that_fills_later_does_not_harm_the_program() {
    let Some(small) = Small::mount(3072) else {
        return;
    };
    let recording = Recording {
        ran: Run::new(program("many_sites.c"))
            .env("LD_PRELOAD", library())
            .env("HOMEFREE_OUTPUT", small.0.path().join("main.hfp"))
            .run()
            .ended_well(),
        dir: tempfile::tempdir().expect("a directory"),
    };
    assert_eq!(recording.ran.out(), "1048575 blocks\n");
    let report = report_of(&[small.0.path().join("main.hfp")], &[]);
    assert!(
        report.total("allocations") >= 1_048_575,
        "lost allocations are counted too"
    );
}
