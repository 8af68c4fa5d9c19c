//! Signals, unwinding and stacks of every shape: the program never feels the recorder.

mod support;

use std::path::{Path, PathBuf};
use support::{
    Recording, Report, Run, library, plugin, preload_with, program, program_with, record,
    record_with,
};

const NONE: [&str; 0] = [];
const WAYS: [&str; 4] = ["auto", "fp", "dwarf", "none"];

/// Runs a program with each way of taking stacks; its output and end are those of a plain run. Calls `check` on each
/// report.
#[track_caller]
fn unharmed(program: &Path, check: impl Fn(&Report)) {
    let plain = Run::new(program).run();
    for way in WAYS {
        for free_stacks in ["cross", "all"] {
            let options = ["--stacks", way, "--free-stacks", free_stacks];
            let recording = record_with(&options, program, NONE, |run| run);
            assert_eq!(
                recording.ran.code(),
                plain.code(),
                "{options:?}: {}",
                recording.ran.err()
            );
            assert_eq!(recording.ran.out(), plain.out(), "{options:?}");
            let report = recording.report();
            assert_eq!(report.total("frees_unknown"), 0, "{options:?}");
            check(&report);
        }
    }
}

#[test]
fn handlers_may_interrupt_an_allocation() {
    let safe = plugin("signal_safe_malloc.c", "signal_safe_malloc", &[]);
    let both = format!("{}:{}", library().display(), safe.display());
    for way in WAYS {
        let recording = preload_with(program("signal_storm.c"), NONE, |run| {
            run.env("LD_PRELOAD", &both).env("HOMEFREE_STACKS", way)
        });
        assert_eq!(
            recording.ran.out(),
            "survived the storm\n",
            "{}",
            recording.ran.err()
        );
        let report = recording.report();
        recording.ran.ended_well();
        assert!(report.total("allocations") >= 300_000);
    }
}

#[test]
fn exceptions_pass_through() {
    unharmed(&program("exceptions.cpp"), |report| {
        assert!(report.total("allocations") >= 3 * 2000 * 20);
        assert_eq!(report.total("threads"), 4);
        // The three states that std::thread hands over.
        assert_eq!(report.total("frees_remote"), 3, "{:#?}", report.flows());
    });
}

#[test]
fn operators_of_late_plugins_neither_hang_nor_forget_to_throw() {
    // With the C++ runtime beside the plug-in, and inside it.
    for (name, flags) in [("dynamic", &[][..]), ("static", &["-static-libstdc++"][..])] {
        let threads = plugin("plugin_with_thread.cpp", &format!("thread_{name}"), flags);
        let memory = plugin(
            "plugin_without_memory.cpp",
            &format!("memory_{name}"),
            flags,
        );
        let recording = record(program("run_plugin.c"), [&threads, &memory]);
        assert_eq!(
            recording.ran.out(),
            "run\nnew[] threw\naligned new[] threw\nnew threw\n",
            "{name}"
        );
    }
}

#[test]
fn longjmp_passes_through() {
    unharmed(&program("longjmp.c"), |report| {
        assert!(report.total("frees_home") >= 2 * 3000);
    });
}

#[test]
fn coroutine_stacks_come_and_go() {
    unharmed(&program("coroutines.c"), |report| {
        // Half of 400 coroutines free their 5 blocks on another thread.
        assert_eq!(report.total("frees_remote"), 1000, "{:#?}", report.flows());
        assert_eq!(report.total("threads"), 201);
    });
    // With frames that can be followed, the function that allocates is the site.
    let frames = program_with("coroutines.c", &["-fno-omit-frame-pointer"]);
    let report = record(frames, NONE).report();
    assert_eq!(report.at_site("make_inside"), [2000, 1000, 1000]);
    assert_eq!(report.count_between("make_inside", "body"), 1000);
}

#[test]
fn a_coroutine_stack_above_the_threads_own_may_go() {
    for stacks in ["auto", "fp", "dwarf"] {
        let recording = record_with(
            &["--stacks", stacks],
            program("unmapped_stack.c"),
            NONE,
            |run| run,
        );
        assert_eq!(recording.ran.out(), "alive\n", "{stacks}");
    }
}

#[test]
fn handlers_on_an_alternate_stack_may_allocate() {
    unharmed(&program("alternate_stack.c"), |report| {
        assert!(report.total("frees_home") >= 503);
    });
}

#[test]
fn generated_code_may_allocate() {
    unharmed(&program("generated_code.c"), |report| {
        assert!(report.total("frees_home") >= 2000);
    });
}

#[test]
fn frame_pointers_may_hold_anything() {
    unharmed(&program("wild_frame_pointers.c"), |report| {
        assert!(report.total("frees_home") >= 200 * 2 * 27);
    });
}

#[test]
fn stacks_deeper_than_the_limit_are_cut_there() {
    unharmed(&program("deep_stack.c"), |report| {
        assert!(report.total("frees_home") >= 120);
    });
}

#[test]
fn any_depth_may_be_asked_for() {
    for depth in ["1", "2", "64", "128"] {
        let recording = record_with(&["--depth", depth], program("deep_stack.c"), NONE, |run| {
            run
        });
        assert_eq!(recording.ran.out(), "120 blocks\n");
        let report = recording.report();
        assert!(report.total("allocations") >= 120);
    }
}

fn two_plugins() -> (PathBuf, PathBuf) {
    let one = plugin("plugin.c", "a", &["-DNAME=make_in_a"]);
    (one, plugin("plugin.c", "b", &["-DNAME=make_in_b"]))
}

fn run_two_plugins(rounds: &str) -> Recording {
    let (a, b) = two_plugins();
    record(
        program("two_plugins.c"),
        [a.as_os_str(), b.as_os_str(), rounds.as_ref()],
    )
}

#[test]
fn libraries_at_one_address_are_told_apart() {
    for rounds in [1, 50] {
        let recording = run_two_plugins(&rounds.to_string());
        assert_eq!(
            recording.ran.out(),
            "one address\n",
            "the test wants this of the loader"
        );
        let report = recording.report();
        recording.ran.ended_well();
        assert_eq!(report.count_between("make_in_a", "free_both"), 10 * rounds);
        assert_eq!(report.count_between("make_in_b", "free_both"), 10 * rounds);
        assert_eq!(report.total("frees_remote"), 20 * rounds);
    }
}

#[test]
fn a_program_with_its_own_malloc_runs_as_ever() {
    for program in [
        program("own_malloc.c"),
        // An executable's own names win even more strongly where it is not position independent.
        program_with("own_malloc.c", &["-no-pie"]),
        program_with("own_malloc.c", &["-rdynamic", "-Wl,-Bsymbolic"]),
    ] {
        let plain = Run::new(&program).run().ended_well();
        let recording = preload_with(&program, NONE, |run| run);
        assert_eq!(recording.ran.out(), plain.out());
        recording.ran.ended_well();
    }
}

/// Debian's libjemalloc2, which has size classes of 8 bytes.
fn jemalloc() -> Option<PathBuf> {
    let place = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let path = place.join("libjemalloc.so.2");
    if !path.exists() {
        eprintln!("skipped: {} is not installed", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn another_allocator_behind_us_is_recorded_exactly() {
    let Some(jemalloc) = jemalloc() else { return };
    let both = format!("{}:{}", library().display(), jemalloc.display());
    let with_both = |file: &str, args: &[&str]| {
        let recording = preload_with(program(file), args, |run| run.env("LD_PRELOAD", &both));
        let report = recording.report();
        recording.ran.ended_well();
        report
    };
    let report = with_both("pass_million.c", &[]);
    assert_eq!(
        report.count_between("make_object", "drop_object"),
        1_000_000
    );
    assert_eq!(report.total("frees_remote"), 1_000_000);
    let report = with_both("pass_million.cpp", &[]);
    assert_eq!(
        report.count_between("make_object", "drop_object"),
        1_000_000
    );
    assert_eq!(with_both("thread_id_reuse.c", &[]).total("frees_remote"), 4);
    let report = with_both("short_threads.c", &["2000"]);
    assert_eq!(report.total("frees_remote"), 2000);
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(
        with_both("small_blocks.c", &[]).total("frees_remote"),
        100_000
    );
}

#[test]
fn another_allocator_before_us_does_no_harm() {
    let Some(jemalloc) = jemalloc() else { return };
    let both = format!("{}:{}", jemalloc.display(), library().display());
    for file in ["pass_million.c", "pass_million.cpp", "late_destructors.cpp"] {
        let plain = Run::new(program(file)).run().ended_well();
        let recording = preload_with(program(file), NONE, |run| run.env("LD_PRELOAD", &both));
        assert_eq!(recording.ran.out(), plain.out());
        recording.ran.ended_well();
    }
}

#[test]
fn neighbours_of_eight_bytes_are_told_apart() {
    let report = record(program("small_blocks.c"), NONE).report();
    assert_eq!(report.total("frees_remote"), 100_000);
    assert_eq!(report.total("frees_unknown"), 0);
}

#[test]
fn allocating_needs_little_stack() {
    let program = program("small_stacks.c");
    for how in ["thread", "handler", "coroutine"] {
        let plain = Run::new(&program).arg(how).run().ended_well();
        for way in WAYS {
            let recording = record_with(&["--stacks", way], &program, [how], |run| run);
            assert_eq!(
                recording.ran.code(),
                0,
                "{how}, {way}: {}",
                recording.ran.err()
            );
            assert_eq!(recording.ran.out(), plain.out());
        }
    }
}
