//! Checked mode names faults, and leaves programs without faults alone.

mod support;

use std::path::Path;
use support::{Ran, installed, library, limited, program, run};

fn checked(program: &Path, args: &[&str]) -> Ran {
    run(limited(60, program, args)
        .env("LD_PRELOAD", library())
        .env("HOMEFREE_CHECK", "1"))
}

#[test]
fn a_fault_is_named_in_one_line_and_ends_the_process() {
    let faults = program("alloc_faults.c", &[]);
    for (fault, said) in [
        ("double", "double free"),
        ("double-later", "double free"),
        ("inside", "8 bytes inside the block at"),
        ("past-end", "write past the end of the block of 10 bytes"),
        ("far-past-end", "past the end of the block"),
        ("after-free", "write after free to byte 5 of a block"),
        ("wrong-size", "free of 11 bytes"),
        ("local", "is not an address that malloc returned"),
    ] {
        let ran = checked(&faults, &[fault]);
        assert_eq!(ran.code, 128 + 6, "{fault}: {ran:?}");
        // (What `timeout` says of a dump stands behind it.)
        let line = ran.err.lines().next().unwrap_or_default();
        assert!(
            line.starts_with("homefree: ") && line.contains(said),
            "{fault}: {ran:?}"
        );
    }
}

#[test]
fn programs_without_faults_run_as_ever() {
    let none = checked(&program("alloc_faults.c", &[]), &["none"]);
    assert_eq!(
        (none.code, &*none.out, &*none.err),
        (0, "well\n", ""),
        "{none:?}"
    );
    for file in ["api_pairs.c", "api_pairs.cpp"] {
        assert_eq!(checked(&program(file, &[]), &["remote"]).code, 0, "{file}");
    }
    assert_eq!(checked(&program("key_destructors.c", &[]), &[]).code, 0);
    assert_eq!(
        checked(&program("fork_while_mallocing.c", &[]), &["50"]).code,
        0
    );
    assert_eq!(checked(&program("alignments.c", &[]), &[]).code, 0);
    if let Some(sqlite) = installed("sqlite3") {
        let sql = "create table t(a, b); with recursive c(x) as (select 1 union all select x+1 from c where x<20000) \
                   insert into t select x, x || 'text' from c; select count(*), sum(a) from t";
        assert_eq!(
            checked(&sqlite, &[":memory:", sql]).out,
            "20000|200010000\n"
        );
    }
    if let Some(python) = installed("python3") {
        let ran = checked(
            &python,
            &["-c", "print(sum(len(str(i)) for i in range(100000)))"],
        );
        assert_eq!((ran.code, &*ran.out), (0, "488890\n"), "{ran:?}");
    }
}
