//! Programs that confine themselves with a filter of system calls live on under the ledger.

mod support;

use std::path::Path;
use support::{Run, accounted, figure, ledger_library, program};

const NONE: [&str; 0] = [];

/// Whether the filter can be set here, and the program allows what it needs itself.
fn can_be_confined(program: &Path) -> bool {
    let can = ["main", "child", "thread"].iter().all(|who| {
        let plain = Run::new(program).args([who, "prctl", "exit"]).run();
        plain.code() == 5
    });
    if !can {
        eprintln!("skipped: no filter can be set, or the C library needs more than it allows");
    }
    can
}

#[test]
fn a_confined_process_is_counted_to_its_end_and_not_killed() {
    let program = program("ledger_confined.c");
    if !can_be_confined(&program) {
        return;
    }
    for who in ["main", "child", "thread"] {
        for how in ["prctl", "seccomp"] {
            for end in ["exit", "_exit"] {
                let what = format!("{who} {how} {end}");
                let run = accounted(&program, [who, how, end]);
                assert_eq!(run.ran.code(), 5, "{what}");
                let process = match who {
                    "child" => &run.others()[0],
                    _ => &run.json["process"],
                };
                assert_eq!(process["exact"], true, "{what}: {process:#}");
                // 1,000 blocks of 1,000 bytes stay.
                let (allocated, freed) = (figure(process, "allocated"), figure(process, "freed"));
                assert!(allocated >= 2_000_000, "{what}: {allocated}");
                assert!(allocated - freed >= 1_000_000, "{what}: {freed}");
            }
        }
    }
}

#[test]
fn settlements_make_no_system_call_of_ours() {
    let program = program("ledger_confined.c");
    if !can_be_confined(&program) {
        return;
    }
    // Filter and end come where nobody can see them; between is what 25 settlements do.
    let run = accounted(&program, ["main", "raw", "raw"]);
    assert_eq!(run.ran.code(), 5);
    assert_eq!(run.json["process"]["exact"], false);
    let (current, error) = (run.main("current"), run.main("current_error"));
    assert!(current + error >= 1_000_000, "{current} {error}");
}

#[test]
fn a_child_that_shares_no_memory_and_runs_no_handlers_leaves_the_page_alone() {
    let run = accounted(program("ledger_bare_fork.c"), NONE);
    assert_eq!(run.json["process"]["exact"], false, "{:#}", run.json);
    let (current, peak) = (run.main("current"), run.main("peak"));
    assert!(current < 3_000_000 && peak < 3_000_000, "{:#}", run.json);
    assert!(run.others().is_empty(), "{:#}", run.json);
    run.ran.ended_with(137);
}

#[test]
fn what_is_watched_goes_on_as_the_program_meant_it() {
    for preload in [Path::new(""), ledger_library()] {
        let ran = Run::new(program("ledger_watched.c"))
            .env("LD_PRELOAD", preload)
            .run()
            .ended_well();
        assert_eq!(ran.out(), "all as it should be\n");
    }
}
