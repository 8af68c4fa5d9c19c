//! Under `homefree run --ledger` the account is what `malloc_usable_size` says of each block, to the byte.

mod support;

use std::path::Path;
use support::{
    Run, accounted, accounted_with, installed, ledger_library, plugin, program, program_with,
};

const NONE: [&str; 0] = [];
const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

/// Runs with the library alone, and behind it `others`.
#[track_caller]
fn with_library(program: &Path, args: &[&str], others: &str) -> support::Ran {
    let preload = format!("{}:{others}", ledger_library().display());
    Run::new(program)
        .args(args)
        .env("LD_PRELOAD", preload)
        .run()
}

#[track_caller]
fn is_exact(program: &Path, args: &[&str], others: &str) {
    let ran = with_library(program, args, others).ended_well();
    assert!(ran.out().ends_with(" exact\n"), "{}", ran.out());
    assert_eq!(ran.err(), "");
}

fn jemalloc() -> bool {
    let there = Path::new(JEMALLOC).exists();
    if !there {
        eprintln!("skipped: jemalloc is not installed");
    }
    there
}

#[test]
fn every_c_form_of_every_size_moves_the_account_by_its_usable_size() {
    is_exact(&program("ledger_exact.c"), &[], "");
}

#[test]
fn blocks_that_the_c_library_maps_alone_are_exact_whatever_its_threshold() {
    for threshold in ["0", "4000", "50000"] {
        is_exact(&program("ledger_exact.c"), &["mapped", threshold], "");
    }
}

#[test]
fn every_cpp_form_is_exact() {
    is_exact(&program("ledger_exact.cpp"), &[], "");
}

#[test]
fn another_allocator_is_counted_through_its_c_and_its_cpp_forms() {
    if jemalloc() {
        is_exact(&program("ledger_exact.c"), &["jemalloc"], JEMALLOC);
        is_exact(&program("ledger_exact.cpp"), &[], JEMALLOC);
        let linked = program_with("ledger_exact.cpp", &["-Wl,--no-as-needed", JEMALLOC]);
        is_exact(&linked, &[], "");
        let run = accounted_with(&[], program("ledger_exact.cpp"), NONE, |run| {
            run.env("LD_PRELOAD", JEMALLOC)
        });
        assert_eq!(run.json["process"]["allocator"], "libjemalloc.so.2");
    }
}

#[test]
fn a_wrapper_whose_calls_come_back_to_us_is_counted_once() {
    let wrapper = plugin("lazy_interposer.c", "lazy_interposer", &[]);
    let wrapper = wrapper.display().to_string();
    is_exact(&program("ledger_exact.c"), &["jemalloc"], &wrapper);
}

#[test]
fn counts_and_limits_do_not_change_the_bytes() {
    for options in [&["--counts"][..], &["--hard-limit", "1GiB"]] {
        let run = accounted_with(options, program("ledger_exact.c"), NONE, |run| run);
        assert!(run.ran.out().ends_with(" exact\n"), "{}", run.ran.err());
    }
}

#[test]
fn what_threads_do_to_each_others_blocks_returns_to_the_byte() {
    for way in ["pass", "free_only", "die", "late", "parked"] {
        let ran = with_library(&program("ledger_threads.c"), &[way], "").ended_well();
        assert_eq!(ran.out(), format!("{way}\n"), "{}", ran.err());
        if jemalloc() {
            with_library(&program("ledger_threads.c"), &[way], JEMALLOC).ended_well();
        }
    }
}

#[test]
fn roles_say_who_sent_and_who_received() {
    let run = accounted(program("ledger_threads.c"), ["pass"]);
    let role = |name: &str| {
        let roles = run.json["process"]["roles"].as_array().expect("roles");
        let found = roles.iter().find(|r| r["role"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {roles:#?}"))
    };
    let (sent, received) = (
        support::figure(role("producer-*"), "sent"),
        support::figure(role("consumer-*"), "received"),
    );
    assert_eq!(support::figure(role("producer-*"), "threads"), 3);
    assert_eq!(sent, received);
    assert!(sent > 3 * 1000 * 1000 * 24, "{sent}");
    let leavers = accounted(program("ledger_threads.c"), ["die"]);
    let text = leavers.json["process"]["roles"].to_string();
    assert!(text.contains("leaver-*"), "{text}");
}

#[test]
fn what_is_done_at_the_very_end_is_in_the_account() {
    let library = plugin("ledger_exit_library.c", "ledger_exit_library", &[]);
    let library = library.display().to_string();
    let path = format!(
        "-Wl,-rpath,{}",
        Path::new(&library).parent().expect("a folder").display()
    );
    let program = program_with("ledger_exit.c", &[&library, &path]);
    for how in ["exit", "_exit"] {
        let run = |n: u64| accounted(&program, [n.to_string().as_str(), how]);
        let (none, some) = (run(0), run(700));
        let one: u64 = some.ran.out().trim().parse().expect("a number");
        for figure in ["current", "allocated"] {
            let more = some.main(figure) - none.main(figure);
            assert_eq!(more, 2100 * one, "{figure} at {how}");
        }
        assert_eq!(some.json["process"]["exact"], true);
        assert_eq!(some.main("current_error"), 0);
    }
}

#[test]
fn the_sums_hold_together() {
    let run = accounted_with(&["--counts"], program("pass_million.c"), NONE, |run| run);
    assert_eq!(run.ran.out(), "passed 1000000\n");
    assert_eq!(
        run.main("allocated") - run.main("freed"),
        run.main("current")
    );
    assert!(run.main("peak") + run.main("peak_error") >= run.main("current"));
    assert!(run.main("allocations") >= 1_000_000);
    assert!(run.main("frees") >= 1_000_000 && run.main("frees") <= run.main("allocations"));
    assert!(run.main("resident_anon") > 0 && run.main("reserved") > 0);
}

#[test]
fn past_the_limit_requests_fail_as_they_fail_without_memory() {
    for allocator in ["", JEMALLOC] {
        if !allocator.is_empty() && !jemalloc() {
            continue;
        }
        let run = accounted_with(
            &["--hard-limit", "10000000"],
            program("ledger_limit.c"),
            ["10000000"],
            |run| run.env("LD_PRELOAD", allocator),
        );
        let ran = run.ran.ended_well();
        assert_eq!(ran.out(), "limited\n");
        let process = &run.json["process"];
        assert_eq!(support::figure(process, "limit"), 10_000_000);
        assert!(support::figure(process, "refused") >= 9);
        assert!(
            support::figure(process, "peak") <= 10_000_000 + support::figure(process, "reserve")
        );
    }
}

#[test]
fn memory_of_a_c_library_is_seen_that_a_rust_wrapper_does_not_see() {
    let Some(zstd) = installed("zstd") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("in");
    std::fs::write(&file, vec![7; 1 << 20]).expect("an input");
    let run = accounted_with(&[], zstd, ["-q", "-19", "-c"], |run| run.arg(&file));
    // The compressor's tables alone are megabytes.
    assert!(run.main("peak") > 4 << 20, "{:#}", run.json);
    assert_eq!(run.ran.status.code(), Some(0));
}
