//! Every event is counted once, at the right site, for the right role.

mod support;

use std::path::Path;
use support::{Flow, Report, program, program_with, record, record_with, report_of};

const NONE: [&str; 0] = [];

/// Runs a program of which two producers pass a million objects to two consumers. `runtime` is how many
/// remote frees the language's own runtime may add.
#[track_caller]
fn passes_a_million(program: &Path, options: &[&str], runtime: u64) {
    let recording = record_with(options, program, NONE, |run| run);
    assert_eq!(recording.ran.out(), "passed 1000000\n");
    let report = recording.report();
    recording.ran.ended_well();
    let passed = report.between("make_object", "drop_object");
    assert_eq!(sum(&passed), 1_000_000);
    for flow in &passed {
        assert_eq!(flow.alloc_role, "producer-*", "{flow:?}");
        assert_eq!(flow.free_role, "consumer-*", "{flow:?}");
    }
    let other = report.total("frees_remote") - 1_000_000;
    assert!(
        other <= runtime,
        "{other} further remote frees: {:#?}",
        others(&report)
    );
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.total("threads"), 5);
    assert!(report.total("allocations") >= 1_000_000);
    assert!(
        report.total("allocations") >= report.total("frees_home") + report.total("frees_remote")
    );
}

fn sum(flows: &[Flow]) -> u64 {
    flows.iter().map(|f| f.count).sum()
}

fn others(report: &Report) -> Vec<Flow> {
    let mut flows = report.flows();
    flows.retain(|f| f.alloc_role != "producer-*" || f.free_role != "consumer-*");
    flows
}

#[test]
fn a_c_program_passes_a_million_blocks() {
    passes_a_million(&program("pass_million.c"), &[], 0);
}

#[test]
fn a_cpp_program_passes_a_million_objects() {
    // The state that std::thread makes for each thread is deleted by that thread.
    passes_a_million(&program("pass_million.cpp"), &[], 4);
}

#[test]
fn a_rust_program_passes_a_million_boxes() {
    passes_a_million(&program("pass_million.rs"), &[], 200);
}

#[test]
fn a_million_is_a_million_with_any_way_of_taking_stacks() {
    let frames = program_with("pass_million.c", &["-fno-omit-frame-pointer"]);
    for options in [
        ["--stacks", "fp"],
        ["--stacks", "dwarf"],
        ["--free-stacks", "all"],
        ["--depth", "2"],
    ] {
        passes_a_million(&frames, &options, 0);
    }
}

#[test]
fn without_stacks_the_callers_are_still_the_sites() {
    passes_a_million(&program("pass_million.c"), &["--stacks", "none"], 0);
}

#[test]
fn bytes_are_those_that_were_asked_for_or_usable_but_the_same_at_both_ends() {
    let recording = record(program("pass_million.c"), NONE);
    let report = recording.report();
    // 16 + i % 48 bytes for i in 0..250, 4000 times: that, or rounded up by the allocator.
    let asked: u64 = (0..250).map(|i| 16 + i % 48).sum::<u64>() * 4000;
    let bytes: u64 = report
        .between("make_object", "drop_object")
        .iter()
        .map(|f| f.bytes)
        .sum();
    assert!((asked..=asked * 2).contains(&bytes), "{bytes} for {asked}");
    assert!(report.total("allocated_bytes") >= bytes);
}

#[test]
fn thread_ids_that_are_reused_do_not_hide_remote_frees() {
    let recording = record(program("thread_id_reuse.c"), NONE);
    assert_eq!(recording.ran.out(), "same id\n");
    let report = recording.report();
    let four = report.between("make_four", "free_four");
    assert_eq!(sum(&four), 4);
    assert_eq!(report.total("frees_remote"), 4, "{:#?}", report.flows());
    assert_eq!(report.total("frees_unknown"), 0);
    let bytes: u64 = four.iter().map(|f| f.bytes).sum();
    assert!(
        (100 + 101 + 102 + 103..=4 * 112).contains(&bytes),
        "{bytes}"
    );
    // malloc, realloc, calloc and aligned_alloc of the producer, freed by the producer.
    assert!(report.total("frees_home") >= 4);
}

#[test]
fn every_c_form_pairs_at_home() {
    let recording = record(program("api_pairs.c"), ["home"]);
    assert_eq!(recording.ran.out(), "5600 frees\n");
    let report = recording.report();
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.total("frees_remote"), 0, "{:#?}", report.flows());
    assert!(report.total("frees_home") >= 5600);
}

#[test]
fn every_c_form_pairs_on_another_thread() {
    let recording = record(program("api_pairs.c"), ["remote"]);
    assert_eq!(recording.ran.out(), "5600 frees\n");
    let report = recording.report();
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.count_between("allocate", "release_all"), 5600);
    assert_eq!(report.total("frees_remote"), 5600, "{:#?}", report.flows());
}

#[test]
fn every_cpp_form_pairs_at_home() {
    let recording = record(program("api_pairs.cpp"), ["home"]);
    assert_eq!(recording.ran.out(), "4800 frees\n");
    let report = recording.report();
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.total("frees_remote"), 0, "{:#?}", report.flows());
    assert!(report.total("frees_home") >= 4800);
}

#[test]
fn every_cpp_form_pairs_on_another_thread() {
    let recording = record(program("api_pairs.cpp"), ["remote"]);
    assert_eq!(recording.ran.out(), "4800 frees\n");
    let report = recording.report();
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.count_between("allocate", "release_all"), 4800);
    // And the state of the std::thread.
    assert_eq!(report.total("frees_remote"), 4801, "{:#?}", report.flows());
}

#[test]
fn profiles_merge_to_the_sum() {
    let first = record(program("thread_id_reuse.c"), NONE);
    let second = record(program("thread_id_reuse.c"), NONE);
    let merged = report_of(&[first.profile(), second.profile()], &[]);
    assert_eq!(merged.total("frees_remote"), 8);
    let flows = merged.between("make_four", "free_four");
    assert_eq!(sum(&flows), 8);
    // The loader put the program at two addresses; the sites are the same.
    assert_eq!(
        flows.len(),
        first.report().between("make_four", "free_four").len()
    );
}

#[test]
fn sampled_counts_are_near_and_say_how_near() {
    let recording = record_with(
        &["--sample", "4KiB"],
        program("pass_million.c"),
        NONE,
        |run| run,
    );
    let report = recording.report();
    let estimate = report.count_between("make_object", "drop_object");
    assert!((800_000..1_200_000).contains(&estimate), "{estimate}");
}

/// What is freed takes away what it added, whatever the size: nothing stays and nothing goes below zero.
#[test]
fn the_balance_returns_to_zero() {
    for (file, site) in [
        ("pass_million.c", "make_object"),
        ("small_blocks.c", "make_small"),
    ] {
        let report = record(program(file), NONE).report();
        assert_eq!(report.live_at(site), [0, 0], "{file}");
    }
    for how in ["home", "remote"] {
        for file in ["api_pairs.c", "api_pairs.cpp"] {
            let report = record(program(file), [how]).report();
            assert_eq!(report.live_at("allocate"), [0, 0], "{file} {how}");
        }
    }
}

#[test]
fn lifetimes_are_within_the_run() {
    let report = record(program("pass_million.c"), NONE).report();
    let duration = report.json["profiles"][0]["duration_ns"]
        .as_u64()
        .expect("a duration");
    let flows = report.json["flows"].as_array().expect("flows");
    assert!(!flows.is_empty());
    for flow in flows {
        let life = &flow["lifetimes"];
        let median = life["median_ns"].as_u64().expect("a median");
        let p99 = life["p99_ns"].as_u64().expect("a p99");
        // A bucket is half an octave wide.
        assert!(
            median > 0 && median <= p99 && p99 <= duration * 2,
            "{life} of {duration}"
        );
    }
}
