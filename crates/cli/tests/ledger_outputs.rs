//! Where the launcher's own words go changes nothing of what the program does, or of its status.

mod support;

use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use support::{Run, homefree};

/// Runs `homefree args` in a shell, with `streams` as it is written there; returns its status.
#[track_caller]
fn status_with(streams: &str, args: &[&str], dir: &Path) -> String {
    let script = format!(r#"{{ "$@" {streams}; echo $? >&3; }} 3>status | :"#);
    Run::new("sh")
        .args(["-c", &script, "sh"])
        .arg(homefree())
        .args(args)
        .dir(dir)
        .run()
        .ended_well();
    std::fs::read_to_string(dir.join("status")).expect("a status")
}

#[test]
fn a_stderr_that_cannot_be_written_to_costs_neither_status_nor_program() {
    // It works on for a while after the first word on stderr has failed.
    let program = ["--", "sh", "-c", "sleep 0.3; echo done > done; exit 4"];
    for options in [
        &["run", "--ledger"][..],
        &["run", "--ledger", "--json"],
        &["run", "--ledger", "--every", "20ms"],
        &["run", "--ledger", "--prometheus", "/no/such/folder/page"],
        &["record"],
    ] {
        // The reader is gone; no room; closed.
        for stderr in ["2>&1 >/dev/null", "2>/dev/full", "2>&-"] {
            let dir = tempfile::tempdir().expect("a directory");
            let args = [options, &program].concat();
            let status = status_with(stderr, &args, dir.path());
            assert_eq!(status, "4\n", "{options:?} {stderr}");
            assert!(dir.path().join("done").exists(), "{options:?} {stderr}");
        }
    }
}

#[test]
fn an_account_that_could_not_be_written_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    for place in ["/no/such/folder/account", "."] {
        let ran = Run::new(homefree())
            .args(["run", "--ledger", "-o", place, "--", "touch", "done"])
            .dir(dir.path())
            .run();
        assert_eq!(ran.code(), 2, "{}", ran.err());
        assert!(ran.err().contains("nothing was run"), "{}", ran.err());
        assert!(!dir.path().join("done").exists());
    }
}

#[test]
fn a_short_program_that_becomes_one_without_the_library_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let ran = Run::new(homefree())
        .args(["run", "--ledger", "--", "env", "-i", "/bin/true"])
        .dir(dir.path())
        .run();
    assert_eq!(ran.code(), 3, "{}", ran.err());
}

#[test]
fn failures_that_cannot_be_said_have_their_status_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    for (args, status) in [
        (&["run", "--ledger", "--", "/no/such/program"][..], "127\n"),
        (&["run", "--", "/no/such/program"], "127\n"),
        (
            &["run", "--ledger", "--hard-limit", "0", "--", "true"],
            "2\n",
        ),
        (&["record", "--", "/no/such/program"], "127\n"),
        (&["report", "/no/such/profile.hfp"], "1\n"),
    ] {
        assert_eq!(status_with("2>/dev/full", args, dir.path()), status);
    }
}

#[test]
fn a_page_goes_through_links_and_into_pipes_and_replaces_neither() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    symlink("page.prom", at("link")).expect("a link");
    Run::new("mkfifo").arg(at("pipe")).run().ended_well();
    for place in ["link", "pipe"] {
        Run::new(homefree())
            .args(["run", "--ledger", "-q", "--every", "20ms", "--prometheus"])
            .arg(at(place))
            .args(["--", "sh", "-c", "sleep 0.2; exit 4"])
            .run()
            .ended_with(4);
    }
    let page = std::fs::read_to_string(at("page.prom")).expect("a page");
    assert!(page.contains("homefree_ledger_peak_bytes{"), "{page}");
    assert!(at("link").is_symlink());
    let pipe = at("pipe").metadata().expect("the pipe").file_type();
    assert!(pipe.is_fifo());
    let left = std::fs::read_dir(dir.path()).expect("a directory").count();
    assert_eq!(left, 3, "nothing is left over");
}

#[test]
fn a_device_stays_one() {
    let dir = tempfile::tempdir().expect("a directory");
    // As /dev/full, and no harm done if it should be replaced.
    let node = dir.path().join("full");
    let made = Run::new("mknod").arg(&node).args(["c", "1", "7"]).run();
    if made.code() != 0 || std::fs::File::create(&node).is_err() {
        eprintln!("skipped: no device can be made here");
        return;
    }
    let ran = Run::new(homefree())
        .args(["run", "--ledger", "-q", "--prometheus"])
        .arg(&node)
        .args(["--", "sh", "-c", "exit 4"])
        .run()
        .ended_with(4);
    assert!(ran.err().contains("cannot write"), "{}", ran.err());
    let kind = node.metadata().expect("the device").file_type();
    assert!(kind.is_char_device());
}

#[test]
fn what_cannot_be_a_page_is_refused_before_the_program_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().display().to_string();
    for (place, says) in [(&*path, "a folder"), ("/dev/stdout", "the output")] {
        let ran = Run::new(homefree())
            .args(["run", "--ledger", "--prometheus", place])
            .args(["--", "echo", "it ran"])
            .run()
            .ended_with(2);
        assert!(ran.err().contains(says), "{}", ran.err());
        assert_eq!(ran.out(), "");
    }
    Run::new(homefree())
        .args(["run", "--ledger", "--hard-limit", "0", "--", "true"])
        .run()
        .ended_with(2);
}
