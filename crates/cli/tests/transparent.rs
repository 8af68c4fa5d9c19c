//! The launcher is not there: input, output, signals and exit status are the program's.

mod support;

use rustix::process::Signal;
use support::{Run, Running, homefree, program, record, record_with, report_of};

#[test]
fn the_exit_status_is_that_of_the_program() {
    for code in [0, 1, 2, 3, 42, 126, 127, 128, 200, 255] {
        let recording = record(program("answer_with.c"), ["exit", &code.to_string()]);
        assert_eq!(recording.ran.code(), code);
        assert!(recording.report().total("allocations") >= 500);
    }
}

#[test]
fn a_signal_that_ends_the_program_is_128_and_its_number() {
    for signal in [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::ABORT,
        Signal::KILL,
        Signal::SEGV,
        Signal::TERM,
        Signal::USR1,
    ] {
        let number = signal.as_raw();
        let recording = record(program("answer_with.c"), ["signal", &number.to_string()]);
        assert_eq!(
            recording.ran.code(),
            128 + number,
            "{}",
            recording.ran.err()
        );
        assert!(
            recording.report().total("allocations") >= 500,
            "what was counted reads back"
        );
    }
}

#[test]
fn input_and_output_pass_through() {
    let mut bytes: Vec<u8> = (0..200_000u32).map(|i| ((i * 7919) >> 3) as u8).collect();
    bytes.push(0);
    let recording = record_with(&[], program("answer_with.c"), ["exit"], |run| {
        run.stdin(&bytes)
    });
    assert!(
        recording.ran.stdout == bytes,
        "{} bytes came back",
        recording.ran.stdout.len()
    );
    assert!(
        recording.ran.err().contains("a word\n"),
        "{}",
        recording.ran.err()
    );
    recording.ran.ended_well();
}

fn start(how: &str, dir: &std::path::Path) -> Running {
    let mut launcher = Run::new(homefree())
        .args(["record", "-o", "main.hfp", "--"])
        .arg(program("answer_with.c"))
        .arg(how)
        .dir(dir)
        .start();
    launcher.wait_for_output("ready");
    launcher
}

#[track_caller]
fn leaves_a_profile(dir: &std::path::Path) {
    let report = report_of(&[dir.join("main.hfp")], &[]);
    assert!(report.total("allocations") >= 500);
}

#[test]
fn ctrl_c_stops_the_program_and_leaves_a_profile() {
    let dir = tempfile::tempdir().expect("a directory");
    let launcher = start("wait", dir.path());
    // A terminal signals the whole group.
    launcher.signal_group(Signal::INT);
    assert_eq!(launcher.wait().code(), 130);
    leaves_a_profile(dir.path());
}

#[test]
fn a_program_that_handles_ctrl_c_decides_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let launcher = start("trap", dir.path());
    launcher.signal_group(Signal::INT);
    let ran = launcher.wait().ended_with(5);
    assert_eq!(ran.out(), "ready\nsignal 2\n");
    leaves_a_profile(dir.path());
}

#[test]
fn signals_to_the_launcher_alone_reach_the_program() {
    for signal in [Signal::TERM, Signal::HUP] {
        let dir = tempfile::tempdir().expect("a directory");
        let launcher = start("trap", dir.path());
        launcher.signal(signal);
        let ran = launcher.wait().ended_with(5);
        assert_eq!(ran.out(), format!("ready\nsignal {}\n", signal.as_raw()));
        leaves_a_profile(dir.path());
    }
    let dir = tempfile::tempdir().expect("a directory");
    let launcher = start("wait", dir.path());
    launcher.signal(Signal::TERM);
    assert_eq!(launcher.wait().code(), 143);
    leaves_a_profile(dir.path());
}

#[test]
fn arguments_pass_through_as_they_are() {
    let recording = record(
        "printf",
        ["%s|", "--help", "-o", "a b", "", "--", "*", "\u{e9}"],
    );
    assert_eq!(recording.ran.out(), "--help|-o|a b||--|*|\u{e9}|");
}

#[test]
fn the_environment_passes_through() {
    let recording = record_with(&[], "printenv", ["SOME_NAME", "HOME"], |run| {
        run.env("SOME_NAME", "some value").env("HOME", "/somewhere")
    });
    assert_eq!(recording.ran.out(), "some value\n/somewhere\n");
}

#[test]
fn other_preloads_stay_behind_ours() {
    let safe = support::plugin("signal_safe_malloc.c", "signal_safe_malloc", &[]);
    let recording = record_with(&[], program("allocate.c"), Vec::<&str>::new(), |run| {
        run.env("LD_PRELOAD", &safe)
    });
    assert_eq!(
        recording.ran.out(),
        "300 blocks\n",
        "{}",
        recording.ran.err()
    );
    let report = recording.report();
    assert!((300..340).contains(&report.total("allocations")));
}
