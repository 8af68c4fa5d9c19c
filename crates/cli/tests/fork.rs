//! Processes that fork, spawn and exec: nobody hangs, every process has a profile of its own.

mod support;

use support::{
    Recording, Report, Run, library, preload, preload_with, program, record, record_with, report_of,
};

const NONE: [&str; 0] = [];

/// Allocation counts of some reports, sorted.
fn allocations<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Vec<u64> {
    let mut counts: Vec<_> = reports
        .into_iter()
        .map(|r| r.total("allocations"))
        .collect();
    counts.sort();
    counts
}

/// Each count is as expected, or a few more (the runtime's own).
#[track_caller]
fn about(counts: &[u64], expected: &[u64]) {
    let close = counts.len() == expected.len()
        && counts
            .iter()
            .zip(expected)
            .all(|(c, e)| (*e..e + 40).contains(c));
    assert!(close, "{counts:?}, expected {expected:?} or a few more");
}

#[test]
fn a_child_never_hangs_though_other_threads_malloc() {
    let recording = record(program("fork_while_mallocing.c"), NONE);
    assert_eq!(recording.ran.out(), "200 children ended well\n");
    let report = recording.report();
    assert!(report.total("allocations") > 1000);
    assert_eq!(report.total("frees_unknown"), 0);
}

#[test]
fn a_child_never_hangs_without_the_launcher_either() {
    let recording = preload(program("fork_while_mallocing.c"), NONE);
    assert_eq!(recording.ran.out(), "200 children ended well\n");
}

#[test]
fn a_child_that_starts_a_thread_at_once_keeps_its_own_blocks() {
    let recording = record(program("thread_in_child.c"), NONE);
    let children = recording.children();
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].total("threads"), 2);
    assert_eq!(children[0].total("frees_remote"), 0);
    assert!(children[0].total("frees_home") >= 21);
}

#[test]
fn a_child_whose_only_thread_ends_leaves_the_parents_counts_alone() {
    let recording = record(program("thread_ends_in_child.c"), NONE);
    assert_eq!(recording.ran.out(), "done\n");
    let report = recording.report();
    assert_eq!(report.total("frees_remote"), 1000);
    assert_eq!(report.total("threads"), 2);
}

#[test]
fn threads_that_fork_all_at_once_get_working_children() {
    let recording = record(program("forking_threads.c"), NONE);
    assert_eq!(recording.ran.out(), "32 children ended well\n");
    let children = recording.children();
    assert_eq!(children.len(), 32);
    for child in &children {
        assert!((4096..4200).contains(&child.total("allocations")));
        let freed =
            child.total("frees_home") + child.total("frees_remote") + child.total("frees_unknown");
        assert!(freed >= 4097, "{freed}");
    }
    assert!(
        recording.report().total("allocations") < 1000,
        "the parent counted its children's blocks"
    );
}

#[test]
fn a_fork_may_meet_the_first_allocation() {
    for _ in 0..20 {
        preload(program("fork_first.c"), NONE).ran.ended_well();
    }
    record(program("fork_first.c"), NONE).ran.ended_well();
}

#[test]
fn each_generation_counts_its_own() {
    let recording = record(program("generations.c"), NONE);
    about(&allocations(&[recording.report()]), &[1000]);
    let children = recording.children();
    about(&allocations(&children), &[2000, 3000]);
    let sum = |site| {
        children
            .iter()
            .map(|c| c.at_site(site)[0])
            .collect::<Vec<_>>()
    };
    assert_eq!(recording.report().at_site("make_g0"), [1000, 1000, 0]);
    assert_eq!(sum("make_g0"), [0, 0], "a child starts from nothing");
    assert_eq!(sum("make_g1").iter().sum::<u64>(), 2000);
    assert_eq!(sum("make_g2").iter().sum::<u64>(), 3000);
    recording.ran.ended_well();
}

#[test]
fn each_generation_counts_its_own_without_the_launcher() {
    let recording = preload(program("generations.c"), NONE);
    about(&allocations(&recording.children()), &[1000, 2000, 3000]);
    for profile in recording.profiles() {
        let name = profile
            .file_name()
            .and_then(|n| n.to_str())
            .expect("a name");
        assert!(name.starts_with("homefree.generations."), "{name}");
    }
}

fn workers_write_their_own(recording: &Recording) {
    let mut reports = recording.children();
    reports.extend(
        recording
            .dir
            .path()
            .join("main.hfp")
            .exists()
            .then(|| recording.report()),
    );
    about(&allocations(&reports), &[100, 1000, 2000, 3000]);
    // The copies of the parent's blocks that a worker frees are its own matter: nobody else's count moves.
    let parent = reports
        .iter()
        .min_by_key(|r| r.total("allocations"))
        .expect("four");
    assert!((100..140).contains(&parent.total("frees_home")));
    assert_eq!(
        parent.total("frees_remote") + parent.total("frees_unknown"),
        0
    );
}

#[test]
fn workers_do_not_overwrite_one_file() {
    let recording = record(program("workers.c"), NONE);
    workers_write_their_own(&recording);
    recording.ran.ended_well();
}

#[test]
fn workers_that_end_by_exit_at_once_leave_what_they_counted() {
    let recording = record(program("workers.c"), ["_exit"]);
    workers_write_their_own(&recording);
    recording.ran.ended_well();
}

#[test]
fn workers_do_not_overwrite_one_file_without_the_launcher() {
    workers_write_their_own(&preload(program("workers.c"), NONE));
}

#[test]
fn the_variable_for_the_path_is_no_trap_for_children() {
    let recording = preload_with(program("workers.c"), NONE, |run| {
        run.env("HOMEFREE_OUTPUT", "main.hfp")
    });
    // The contract asks for an absolute path; with a relative one nothing may break either.
    recording.ran.ended_well();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("chosen.hfp");
    let recording = preload_with(program("workers.c"), NONE, |run| {
        run.env("HOMEFREE_OUTPUT", &path)
    });
    recording.ran.ended_well();
    about(&allocations(&[report_of(&[path], &[])]), &[100]);
    let files = std::fs::read_dir(dir.path())
        .expect("the directory")
        .count();
    assert_eq!(files, 4);
}

#[test]
fn children_that_exec_or_are_spawned_write_their_own() {
    let allocate = program("allocate.c");
    let recording = record(program("run_others.c"), [&allocate]);
    let out = recording.ran.out();
    assert!(out.contains("5 of 5 ways, kept over all of it"), "{out}");
    assert_eq!(out.matches("300 blocks").count(), 5);
    // Five children, and the program itself after its exec, which is a new image in the same process.
    let counts = allocations(&recording.children());
    let of_allocate = counts.iter().filter(|c| (300..340).contains(*c)).count();
    assert_eq!(of_allocate, 6, "{counts:?}");
    assert!(recording.report().total("allocations") >= 1000);
    recording.ran.ended_well();
}

#[test]
fn children_can_be_ignored() {
    let recording = record_with(
        &["--children", "ignore"],
        program("workers.c"),
        NONE,
        |run| run,
    );
    assert_eq!(recording.profiles().len(), 1);
    about(&allocations(&[recording.report()]), &[100]);
    let recording = record_with(
        &["--children", "ignore"],
        program("run_others.c"),
        [program("allocate.c")],
        |run| run,
    );
    assert!(recording.ran.out().contains("5 of 5 ways"));
    recording.ran.ended_well();
}

#[test]
fn profiles_of_one_run_merge() {
    let recording = record(program("generations.c"), NONE);
    let merged = report_of(&recording.profiles(), &[]);
    assert!((6000..6100).contains(&merged.total("allocations")));
}

#[test]
fn a_child_of_vfork_does_not_end_the_recording() {
    let recording = record(program("vfork_exit.c"), NONE);
    assert_eq!(recording.ran.out(), "20 children\n");
    let report = recording.report();
    assert_eq!(report.at_site("make_around"), [2000, 2000, 0]);
    assert_eq!(report.json["profiles"][0]["ended"], true);
    assert_eq!(recording.profiles().len(), 1);
    recording.ran.ended_well();
}

/// In a pid namespace of its own every first process is number 1.
#[test]
fn processes_with_one_number_do_not_overwrite_one_file() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 1..=3 {
        let ran = Run::new("unshare")
            .args(["--fork", "--pid", "env"])
            .arg(format!("LD_PRELOAD={}", library().display()))
            .arg(program("allocate.c"))
            .dir(dir.path())
            .run();
        if ran.code() != 0 {
            eprintln!("skipped: no pid namespace here: {}", ran.err());
            return;
        }
        let files = std::fs::read_dir(dir.path()).expect("the directory");
        let names: Vec<_> = files.map(|f| f.expect("an entry").file_name()).collect();
        assert_eq!(names.len(), round, "{names:?}");
    }
}
