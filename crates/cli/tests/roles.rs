//! A thread's role is its name with the numbers folded, or what it runs.

mod support;

use support::{program, program_with, record};

const NONE: [&str; 0] = [];

#[test]
fn names_become_roles_whichever_way_they_are_given() {
    let report = record(program("thread_names.c"), NONE).report();
    let roles = report.free_roles("make_for");
    for role in ["pool-*", "net-*", "io-worker-*", "renamed-*", "job_start"] {
        assert!(roles.iter().any(|r| r == role), "no {role} in {roles:?}");
    }
    let count = |role: &str| {
        let flows = report.between("make_for", "release");
        flows
            .iter()
            .filter(|f| f.free_role == role)
            .map(|f| f.count)
            .sum::<u64>()
    };
    assert_eq!(count("pool-*"), 30);
    assert_eq!(count("net-*"), 10);
    assert_eq!(count("io-worker-*"), 10);
    assert_eq!(count("job_start"), 10);
    // Frees before the renaming may go with either name, but none may get lost.
    assert_eq!(count("first-*") + count("renamed-*"), 20);
    assert!(count("renamed-*") >= 10);
    for flow in report.between("make_for", "release") {
        assert_eq!(
            flow.alloc_role, "thread_names",
            "the main thread's role is the program's name"
        );
    }
    assert_eq!(report.total("threads"), 8);
}

#[test]
fn unnamed_cpp_threads_are_what_they_run() {
    let report = record(program("thread_names.cpp"), NONE).report();
    let roles = report.free_roles("main");
    for part in ["drain_queue", "Flusher", "lambda"] {
        // A thread that runs a function pointer is told by the pointer's type at least.
        let found = roles
            .iter()
            .any(|r| r.contains(part) || (part == "drain_queue" && r.contains("(*)(int)")));
        assert!(found, "no {part} in {roles:?}");
    }
    assert!(
        !roles.iter().any(|r| r.contains("execute_native_thread")),
        "{roles:?}"
    );
}

#[test]
fn rust_names_are_roles() {
    let report = record(program("thread_names.rs"), NONE).report();
    let flows = report.between("main", "free_here");
    let of_workers: u64 = flows
        .iter()
        .filter(|f| f.free_role == "rpc-worker-*")
        .map(|f| f.count)
        .sum();
    assert_eq!(of_workers, 3, "{flows:#?}");
    assert_eq!(flows.iter().map(|f| f.count).sum::<u64>(), 4);
}

#[test]
fn a_program_without_symbols_still_has_roles() {
    let stripped = program_with("thread_names.c", &["-s"]);
    let report = record(stripped, NONE).report();
    let roles: Vec<_> = report.flows().into_iter().map(|f| f.free_role).collect();
    for role in ["pool-*", "net-*", "io-worker-*"] {
        assert!(roles.iter().any(|r| r == role), "no {role} in {roles:?}");
    }
    assert!(roles.iter().all(|r| !r.is_empty()), "{roles:?}");
}
