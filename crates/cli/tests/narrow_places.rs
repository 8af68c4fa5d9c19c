//! Limits, closed files, locked memory: the program is unharmed where there is little room for a recorder.

mod support;

use support::{Ran, Run, library, program, record, report_of};

/// Runs a program under `ulimit` with and without the library; returns the recorded run.
#[track_caller]
fn same_under(limit: &str, file: &str) -> Ran {
    let run = |preload: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        let line = format!(
            "ulimit {limit} && {preload} exec '{}'",
            program(file).display()
        );
        // glibc's arenas take 64 MiB of address space a thread: with them it is chance whether the next thread finds room.
        Run::new("bash")
            .args(["-c", &line])
            .env("MALLOC_ARENA_MAX", "1")
            .dir(dir.path())
            .run()
    };
    let plain = run("");
    let recorded = run(&format!("LD_PRELOAD='{}'", library().display()));
    assert_eq!(
        recorded.code(),
        plain.code(),
        "ulimit {limit}: {}",
        recorded.err()
    );
    assert_eq!(recorded.out(), plain.out(), "ulimit {limit}");
    assert_eq!(recorded.err(), plain.err(), "ulimit {limit}");
    recorded
}

#[test]
fn little_address_space_is_enough() {
    for kib in ["4000000", "1000000", "300000", "100000"] {
        same_under(&format!("-v {kib}"), "pass_million.c").ended_well();
        same_under(&format!("-v {kib}"), "many_sites.c").ended_well();
    }
}

#[test]
fn a_limit_on_files_is_no_signal_for_the_program() {
    // Prints nothing, because its output is a file, too.
    same_under("-f 0", "workers.c").ended_well();
    for blocks in ["1", "100", "3000"] {
        same_under(&format!("-f {blocks}"), "many_sites.c").ended_well();
    }
}

#[test]
fn little_stack_and_little_data_are_enough() {
    same_under("-s 256", "pass_million.c").ended_well();
    same_under("-d 40000", "many_sites.c").ended_well();
    same_under("-l 0", "pass_million.c").ended_well();
}

#[test]
fn no_further_file_may_be_opened() {
    let recording = record(
        "bash",
        [
            "-c",
            "exec 3>&- 4>&-; ulimit -n 4; exec 3</dev/null; x=$(:); for i in 1 2 3; do y=$y$i; done; echo $y",
        ],
    );
    assert_eq!(recording.ran.out(), "123\n");
}

#[test]
fn a_program_that_closes_all_files_keeps_its_own_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let own = dir.path().join("own-file");
    let recording = record(program("closed_files.c"), [&own]);
    assert_eq!(recording.ran.out(), "own files are whole\n");
    let text = std::fs::read_to_string(&own).expect("the program's file");
    assert_eq!(text, "what the program wrote\n");
    let report = recording.report();
    recording.ran.ended_well();
    // 7 + 16383 + 100 * 3 blocks.
    assert_eq!(report.at_site("walk")[0], 16_690);
    assert_eq!(report.total("threads"), 101);
}

#[test]
fn tables_do_not_become_resident_where_memory_is_locked() {
    let program = program("locked_memory.c");
    let plain = Run::new(&program).run();
    if plain.code() == 3 {
        eprintln!("skipped: memory may not be locked here");
        return;
    }
    let recording = record(&program, [""; 0]);
    let kib = |ran: &Ran| ran.out().trim().parse::<u64>().expect("KiB");
    let more = kib(&recording.ran) - kib(&plain);
    assert!(more < 192 * 1024, "{more} KiB more");
    let report = report_of(&[recording.profile()], &[]);
    assert!(report.total("allocations") >= 10_000);
}
