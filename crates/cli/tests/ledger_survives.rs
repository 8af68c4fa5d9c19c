//! Programs of every odd kind run the same under `homefree run --ledger`.

mod support;

use std::path::{Path, PathBuf};
use support::{Ran, Run, accounted_with, installed, ledger_library, plugin, program, program_with};

const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

/// Runs plain, with the library alone, and (where the program is not for glibc alone) with jemalloc behind it, always with
/// the same output.
#[track_caller]
fn unharmed(program: &Path, args: &[&str]) {
    same_with(program, args, "");
    if Path::new(JEMALLOC).exists() {
        same_with(program, args, JEMALLOC);
    }
}

#[track_caller]
fn same_with(program: &Path, args: &[&str], behind: &str) {
    let plain = Run::new(program).args(args).env("LD_PRELOAD", behind).run();
    let counted = Run::new(program)
        .args(args)
        .env(
            "LD_PRELOAD",
            format!("{}:{behind}", ledger_library().display()),
        )
        .run();
    let said = |ran: &Ran| (ran.code(), ran.out(), ran.err());
    assert_eq!(
        said(&counted),
        said(&plain),
        "{} with {behind}",
        program.display()
    );
    let run = accounted_with(&[], program, args, |run| run.env("LD_PRELOAD", behind));
    assert_eq!((run.ran.code(), run.ran.out()), (plain.code(), plain.out()));
    assert!(run.json["process"].is_object(), "{:#}", run.json);
}

#[test]
fn threads_that_end_in_odd_ways() {
    for file in [
        "cancelled.c",
        "detached_threads.c",
        "key_destructors.c",
        "late_destructors.cpp",
        "ledger_last_frees.c",
        "thread_id_reuse.c",
        "thread_local_drop.rs",
        "thread_in_child.c",
        "thread_ends_in_child.c",
    ] {
        unharmed(&program(file), &[]);
    }
    // They print how much memory they grew by.
    for file in ["free_only_threads.c", "short_threads.c"] {
        let run = Run::new(program(file)).env("LD_PRELOAD", ledger_library());
        run.run().ended_well();
    }
}

#[test]
fn stacks_signals_and_jumps() {
    for file in [
        "alternate_stack.c",
        "coroutines.c",
        "exceptions.cpp",
        "generated_code.c",
        "longjmp.c",
        "small_stacks.c",
        "static_tls.c",
    ] {
        unharmed(&program(file), &[]);
    }
}

#[test]
fn handlers_of_signals_that_allocate() {
    let safe = plugin("signal_safe_malloc.c", "signal_safe_malloc", &[]);
    let both = format!("{}:{}", ledger_library().display(), safe.display());
    let ran = Run::new(program("signal_storm.c"))
        .env("LD_PRELOAD", both)
        .run();
    assert_eq!(ran.ended_well().out(), "survived the storm\n");
}

#[test]
fn the_answers_of_every_function_are_the_libcs() {
    for file in [
        "edges.c",
        "alignments.c",
        "usable_bytes.c",
        "bad_alloc.cpp",
        "first_in_locale.c",
    ] {
        same_with(&program(file), &[], "");
    }
}

#[test]
fn constructors_that_come_before_ours() {
    let library = plugin("plugin.c", "libplugin", &[]);
    let linked = program_with("linked.c", &[library.to_str().expect("a path in text")]);
    unharmed(&linked, &[]);
    unharmed(&program("constructors.c"), &[]);
    let interposer = plugin("lazy_interposer.c", "lazy_interposer", &[]);
    same_with(
        &program("constructors.c"),
        &[],
        &interposer.display().to_string(),
    );
    let before = format!("{}:{}", interposer.display(), ledger_library().display());
    let ran = Run::new(program("constructors.c"))
        .env("LD_PRELOAD", before)
        .run();
    assert_eq!(ran.ended_well().out(), "main ran\n");
}

#[test]
fn libraries_that_come_late_and_go() {
    let loaded = plugin("plugin.c", "plugin", &[]);
    let args = [loaded.to_str().expect("a path in text"), "20"];
    unharmed(&program("load_plugin.c"), &args);
    let audit = plugin("audit.c", "audit", &[]);
    let ran = Run::new(program("load_plugin.c"))
        .args(args)
        .env("LD_AUDIT", audit)
        .env("LD_PRELOAD", ledger_library())
        .run()
        .ended_well();
    assert_eq!(ran.out(), "unloaded\n");
}

#[test]
fn cpp_plugins_of_c_programs_neither_hang_nor_forget_to_throw() {
    for (name, flags) in [("shared", &[][..]), ("static", &["-static-libstdc++"][..])] {
        let cpp =
            |file: &str, kind: &str| -> PathBuf { plugin(file, &format!("{kind}_{name}"), flags) };
        let threads = cpp("plugin_with_thread.cpp", "thread");
        let memory = cpp("plugin_without_memory.cpp", "memory");
        let text = |path: &Path| path.display().to_string();
        unharmed(&program("run_plugin.c"), &[&text(&threads), &text(&memory)]);
    }
}

#[test]
fn settings_of_the_libc_change_nothing() {
    for tunables in [
        "glibc.malloc.tcache_count=0",
        "glibc.malloc.perturb=170:glibc.malloc.arena_max=1",
        "glibc.pthread.rseq=0:glibc.rtld.optional_static_tls=4096",
        "glibc.malloc.mmap_threshold=4096:glibc.pthread.stack_cache_size=0",
        "glibc.malloc.hugetlb=1",
    ] {
        let ran = Run::new(program("ledger_exact.c"))
            .env("LD_PRELOAD", ledger_library())
            .env("GLIBC_TUNABLES", tunables)
            .run()
            .ended_well();
        assert!(ran.out().ends_with(" exact\n"), "{tunables}");
        let ran = Run::new(installed("true").expect("true"))
            .env("LD_PRELOAD", ledger_library())
            .env("GLIBC_TUNABLES", tunables)
            .run()
            .ended_well();
        assert_eq!(
            (ran.out(), ran.err()),
            (String::new(), String::new()),
            "{tunables}"
        );
    }
}

#[test]
fn little_address_space_is_enough() {
    let ran = Run::new("prlimit")
        .arg("--as=300000000")
        .arg("env")
        .arg(format!("LD_PRELOAD={}", ledger_library().display()))
        .arg(program("ledger_exact.c"))
        .run()
        .ended_well();
    assert!(ran.out().ends_with(" exact\n"), "{}", ran.out());
}

#[test]
fn a_wrong_free_is_answered_by_the_libc_as_ever() {
    let ran = Run::new(program("foreign_pointers.c"))
        .arg("local")
        .env("LD_PRELOAD", ledger_library())
        .run()
        .ended_with(134);
    assert!(
        ran.err().contains("free(): invalid pointer"),
        "{}",
        ran.err()
    );
}
