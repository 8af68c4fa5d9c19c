//! Accounts of processes that fork, turn into others, are killed, or run without the launcher.

mod support;

use rustix::process::Signal;
use std::path::Path;
use support::{
    Run, accounted, accounted_with, figure, homefree, ledger_library, program, signal_process,
};

const NONE: [&str; 0] = [];

#[test]
fn a_forked_child_has_an_account_of_its_own() {
    for how in ["exit", "_exit"] {
        let run = accounted(program("ledger_fork.c"), [how]);
        let out = run.ran.ended_well().out();
        let numbers: Vec<u64> = out
            .split_whitespace()
            .map(|n| n.parse().expect("a number"))
            .collect();
        let [before, made, freed] = numbers[..] else {
            panic!("{out}")
        };
        let [child] = run.json["others"].as_array().expect("a list").as_slice() else {
            panic!("{:#}", run.json)
        };
        assert_eq!(figure(child, "inherited"), before, "{how}");
        assert_eq!(figure(child, "allocated"), made, "{how}");
        assert_eq!(figure(child, "freed"), freed, "{how}");
        assert_eq!(figure(child, "current"), before + made - freed, "{how}");
        assert_eq!(child["parent"], run.json["process"]["pid"]);
        // The child's role has only what the child did.
        assert_eq!(figure(&child["roles"][0], "allocated"), made, "{how}");
        assert_eq!(figure(&run.json["process"], "current"), before, "{how}");
    }
}

#[test]
fn what_a_child_turns_into_has_an_account_too_unless_children_are_ignored() {
    let run = accounted("sh", ["-c", "/bin/ls / > /dev/null; exec /bin/true"]);
    let text = run.json["others"].to_string();
    assert!(text.contains("/bin/ls"), "{text}");
    assert_eq!(run.json["process"]["command"][0], "/bin/true");
    let run = accounted_with(
        &["--children", "ignore"],
        "sh",
        ["-c", "/bin/ls / > /dev/null; (echo); exit 3"],
        |run| run,
    );
    assert!(run.others().is_empty(), "{:#}", run.json);
    run.ran.ended_with(3);
}

/// Pid of the program that a launcher started.
fn program_of(launcher: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    let children = children.expect("the launcher's children");
    let first = children.split_whitespace().next().expect("a child");
    first.parse().expect("a number")
}

#[test]
fn a_killed_program_leaves_an_account_that_says_how_far_off_it_may_be() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("account.json");
    let mut launcher = Run::new(homefree())
        .args(["run", "--ledger", "--json", "-o"])
        .arg(&file)
        .arg("--")
        .arg(program("killed_half_way.c"))
        .start();
    launcher.wait_for_output("ready");
    signal_process(program_of(launcher.pid()), Signal::KILL);
    launcher.wait().ended_with(137);
    let text = std::fs::read_to_string(&file).expect("an account");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let process = &json["process"];
    assert_eq!(json["ending"]["signal"], 9);
    assert_eq!(process["exact"], false);
    // 1,000 blocks of 40 usable bytes are left, the stream's buffer, and what the C library has for three threads.
    let (current, error) = (figure(process, "current"), figure(process, "current_error"));
    assert!(error > 0 && error < 1 << 20, "{error}");
    assert!(
        current <= 60_000 + error && current + error >= 40_000,
        "{current} {error}"
    );
    assert!(figure(process, "peak") + figure(process, "peak_error") >= 101_000 * 40);
    // Threads that had ended are told by role.
    let roles = process["roles"].as_array().expect("roles");
    let ends = roles.iter().find(|r| r["role"] == "ends").expect("a role");
    assert!(figure(ends, "received") >= 50_000 * 40);
}

/// Files and folders below, but those that the kernel makes.
fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("a directory").count()
}

#[test]
fn without_the_launcher_it_counts_and_writes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let preload = format!("LD_PRELOAD={}", ledger_library().display());
    let ran = Run::new("env")
        .args(["-i", &preload])
        .arg(program("ledger_exact.c"))
        .dir(dir.path())
        .run()
        .ended_well();
    assert!(ran.out().ends_with(" exact\n"), "{}", ran.out());
    assert_eq!((ran.err().as_str(), entries(dir.path())), ("", 0));
}

#[test]
fn a_folder_that_is_gone_or_full_does_not_harm_the_program() {
    for folder in ["/no/such/folder", "relative", "/proc", "/dev/full"] {
        let ran = Run::new(program("allocate.c"))
            .env("LD_PRELOAD", ledger_library())
            .env("HOMEFREE_LEDGER_DIR", folder)
            .run()
            .ended_well();
        assert_eq!(
            (ran.out(), ran.err()),
            ("300 blocks\n".into(), String::new())
        );
    }
}

#[test]
fn pages_are_never_overwritten_and_the_launchers_folder_goes() {
    let dir = tempfile::tempdir().expect("a directory");
    for _ in 0..3 {
        Run::new(program("allocate.c"))
            .env("LD_PRELOAD", ledger_library())
            .env("HOMEFREE_LEDGER_DIR", dir.path())
            .run()
            .ended_well();
    }
    assert_eq!(entries(dir.path()), 3);
    let tmp = tempfile::tempdir().expect("a directory");
    Run::new(homefree())
        .args(["run", "--ledger", "-q", "--", "true"])
        .env("XDG_RUNTIME_DIR", tmp.path())
        .run()
        .ended_well();
    assert_eq!(entries(tmp.path()), 0);
}

#[test]
fn fork_never_hangs_whatever_other_threads_do() {
    for file in [
        "fork_while_mallocing.c",
        "forking_threads.c",
        "fork_first.c",
    ] {
        let plain = Run::new(program(file)).run().ended_well();
        let run = accounted(program(file), NONE);
        assert_eq!(run.ran.ended_well().out(), plain.out(), "{file}");
    }
}

#[test]
fn vforked_and_hasty_children_leave_the_parents_account_alone() {
    let run = accounted(program("vfork_exit.c"), NONE);
    assert_eq!(run.json["process"]["exact"], true, "{:#}", run.json);
    run.ran.ended_well();
    for how in ["exit", "_exit", "exec"] {
        accounted(program("ledger_fork.c"), [how]).ran.ended_well();
    }
}

#[test]
fn vforked_children_of_a_forked_one_leave_its_account_alone() {
    let run = accounted(program("ledger_vfork_in_child.c"), NONE);
    let out = run.ran.ended_well().out();
    let [child] = run.json["others"].as_array().expect("a list").as_slice() else {
        panic!("{:#}", run.json)
    };
    assert_eq!(child["pid"].to_string(), out.trim());
    assert!(figure(child, "allocated") >= 4000, "{child:#}");
}

#[test]
fn what_cannot_be_counted_is_refused_before_it_runs() {
    let fixed = support::program_with("allocate.c", &["-static"]);
    for (program, says) in [(fixed, "static"), (program("own_malloc.c"), "malloc")] {
        let ran = Run::new(homefree())
            .args(["run", "--ledger", "--"])
            .arg(program)
            .run()
            .ended_with(3);
        assert!(
            ran.err().contains("not counted") && ran.err().contains(says),
            "{}",
            ran.err()
        );
        assert_eq!(ran.out(), "");
    }
    let ran = Run::new(homefree())
        .args(["run", "--ledger", "--", "env", "-i", "sleep", "0.5"])
        .run()
        .ended_with(3);
    assert!(
        ran.err().contains("ran without the ledger"),
        "{}",
        ran.err()
    );
}

#[test]
fn a_line_and_a_page_come_while_the_program_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("x.prom");
    let mut launcher = Run::new(homefree())
        .args(["run", "--ledger", "--every", "50ms", "--prometheus"])
        .arg(&page)
        .args(["--", "sh", "-c", "echo ready; sleep 60"])
        .start();
    launcher.wait_for_output("ready");
    launcher.until("a page", |files| {
        let err = std::fs::read_to_string(files.join("stderr")).unwrap_or_default();
        page.exists() && err.contains(" held (off by ")
    });
    let text = std::fs::read_to_string(&page).expect("the page");
    assert!(
        text.contains("homefree_ledger_current_bytes{pid="),
        "{text}"
    );
    assert!(text.ends_with('\n'));
    launcher.signal_group(Signal::KILL);
}
