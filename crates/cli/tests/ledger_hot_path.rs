//! What counting costs: the instructions on the way of `malloc` and `free`, in the library as it is carried.

mod support;

use std::path::Path;
use support::{Run, installed, ledger_library, program};

/// Instructions of a function of the library, without addresses.
fn instructions(name: &str) -> Vec<String> {
    let ran = Run::new("objdump")
        .args(["-d", "--no-show-raw-insn", &format!("--disassemble={name}")])
        .arg(ledger_library())
        .run()
        .ended_well();
    let out = ran.out();
    let lines = out
        .lines()
        .filter_map(|line| line.split_once(":\t"))
        .map(|(_, text)| text.split('#').next().unwrap_or("").trim().to_owned());
    lines.collect()
}

/// The straight way: no conditional branch is taken.
fn straight(name: &str) -> Vec<String> {
    let all = instructions(name);
    let end = all
        .iter()
        .position(|i| i == "ret" || i.starts_with("jmp "))
        .expect("an end");
    all[..=end].to_vec()
}

#[test]
fn the_short_ways_are_eleven_and_nine_instructions() {
    let (malloc, free) = (straight("malloc"), straight("free"));
    assert_eq!(malloc.len(), 11, "{malloc:#?}");
    assert_eq!(free.len(), 9, "{free:#?}");
    let both = [malloc, free].concat();
    let count = |what: &dyn Fn(&str) -> bool| both.iter().filter(|i| what(i)).count();
    assert_eq!(count(&|i| i.starts_with("call")), 1, "the next malloc");
    assert_eq!(
        count(&|i| i.contains("%fs:")),
        2,
        "one access of the slot each"
    );
    assert_eq!(
        count(&|i| i.starts_with("lock") || i.starts_with("xchg")),
        0
    );
    assert_eq!(count(&|i| i.starts_with('j') && !i.starts_with("jmp")), 4);
    assert!(!both.iter().any(|i| i.contains("tls_get_addr")));
}

#[test]
fn a_cpp_operator_is_one_jump_more() {
    for name in ["_Znwm", "_ZdlPv", "_ZdlPvm", "_ZnamSt11align_val_t"] {
        let operator = instructions(name);
        assert!(operator[0].starts_with("jmp"), "{name}: {operator:#?}");
    }
}

/// Instructions of a run, as callgrind counts them.
fn counted(program: &Path, rounds: u32, preload: &str) -> u64 {
    let ran = Run::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .arg(rounds.to_string())
        .env("LD_PRELOAD", preload)
        .run()
        .ended_well();
    let err = ran.err();
    let line = err.lines().find(|l| l.contains("Collected :"));
    let number = line.and_then(|l| l.rsplit(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{err}"))
}

#[test]
fn a_pair_costs_twenty_instructions_and_a_settlement_now_and_then() {
    if installed("valgrind").is_none() {
        return;
    }
    let program = program("ledger_pairs.c");
    let pair = |preload: &str| {
        let (few, many) = (
            counted(&program, 10_000, preload),
            counted(&program, 60_000, preload),
        );
        (many - few) as f64 / 50_000.0
    };
    let added = pair(&ledger_library().display().to_string()) - pair("");
    eprintln!("{added:.2} instructions added per pair");
    assert!((20.0..20.5).contains(&added), "{added}");
}

#[test]
fn the_library_needs_the_libc_alone() {
    let ran = Run::new("readelf")
        .args(["-d", "-r", "-W"])
        .arg(ledger_library())
        .run()
        .ended_well();
    let out = ran.out();
    for line in out.lines().filter(|l| l.contains("(NEEDED)")) {
        assert!(
            line.contains("libc.so.6") || line.contains("ld-linux"),
            "{line}"
        );
    }
    assert!(!out.contains("__tls_get_addr"));
}

#[test]
fn it_exports_what_the_recorder_does_and_a_question_of_its_own() {
    let names = |file: &Path| {
        let ran = Run::new("nm")
            .args(["-D", "--defined-only", "--format=posix"])
            .arg(file)
            .run()
            .ended_well();
        let names = ran
            .out()
            .lines()
            .filter_map(|l| Some(l.split([' ', '@']).next()?.to_owned()))
            .collect::<Vec<_>>();
        names.into_iter().collect::<std::collections::BTreeSet<_>>()
    };
    let (ours, recorder) = (names(ledger_library()), names(support::library()));
    // The recorder needs thread names as they are given.
    let missing: Vec<_> = recorder.difference(&ours).collect();
    assert_eq!(missing, ["pthread_setname_np"]);
    let more: Vec<_> = ours.difference(&recorder).collect();
    // `syscall` sets filters of system calls, as `prctl` does.
    assert_eq!(more, ["homefree_ledger_current", "syscall"]);
}
