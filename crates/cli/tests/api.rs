//! The malloc family answers as the libc's own.

mod support;

use support::{Run, program, program_with, record, record_with};

const NONE: [&str; 0] = [];

/// Output of a program is the same with and without us.
#[track_caller]
fn answers_the_same(program: &std::path::Path) {
    let plain = Run::new(program).run().ended_well();
    for options in [&[][..], &["--stacks", "none"], &["--sample", "1KiB"]] {
        let recording = record_with(options, program, NONE, |run| run);
        assert_eq!(recording.ran.out(), plain.out());
        assert_eq!(recording.report().total("frees_unknown"), 0);
        recording.ran.ended_well();
    }
}

#[test]
fn edges_are_those_of_the_libc() {
    answers_the_same(&program("edges.c"));
}

#[test]
fn operator_new_fails_as_ever() {
    answers_the_same(&program("bad_alloc.cpp"));
}

#[test]
fn failed_calls_leave_no_blocks() {
    let recording = record(program("edges.c"), NONE);
    let report = recording.report();
    // 10,000 blocks that realloc freed by size 0 are not live.
    let freed = report.total("frees_home") + report.total("frees_remote");
    assert!(
        report.total("allocations") - freed < 20,
        "{} of {}",
        freed,
        report.total("allocations")
    );
}

#[test]
fn usable_bytes_may_be_used() {
    let fortified = program_with(
        "usable_bytes.c",
        &["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"],
    );
    answers_the_same(&fortified);
}

#[test]
fn every_alignment_holds() {
    let recording = record(program("alignments.c"), NONE);
    let blocks: u64 = recording.ran.out().trim().parse().expect("a count");
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.total("frees_unknown"), 0);
    assert!(report.total("allocations") >= blocks);
    // Every size that 8 divides was freed on another thread, 17 alignments each.
    assert_eq!(report.total("frees_remote") % 17, 0);
    assert!(report.total("frees_remote") >= 17 * 17);
}
