//! Threads that end, libraries that go, processes that stop in any way.

mod support;

use support::{Run, plugin, preload, program, record, report_of};

const NONE: [&str; 0] = [];

#[test]
fn key_destructors_may_allocate_in_every_round() {
    let recording = record(program("key_destructors.c"), NONE);
    assert_eq!(recording.ran.out(), "100 threads ended\n");
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.total("threads"), 101);
    assert_eq!(report.total("frees_remote"), 0, "{:#?}", report.flows());
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.at_site("make_late"), [2400, 2400, 0]);
}

#[test]
fn thread_locals_of_cpp_and_statics_may_allocate_at_the_end() {
    let recording = record(program("late_destructors.cpp"), NONE);
    assert_eq!(recording.ran.out(), "1000\n");
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.total("threads"), 101);
    assert_eq!(report.total("frees_unknown"), 0);
    // What std::thread hands to each thread, and nothing else.
    assert_eq!(report.total("frees_remote"), 100, "{:#?}", report.flows());
    assert_eq!(report.at_site("make_late"), [601, 601, 0]);
}

#[test]
fn a_thread_that_only_frees_is_a_thread() {
    let recording = record(program("free_only_threads.c"), NONE);
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.count_between("make_for_other", "free_first"), 1000);
    assert_eq!(report.total("frees_remote"), 1000);
    assert_eq!(report.total("threads"), 1001);
}

#[test]
fn a_thread_may_begin_inside_pthread_getattr_np() {
    let recording = record(program("getattr_first.c"), NONE);
    assert_eq!(recording.ran.out(), "20 threads began\n");
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.total("threads"), 21);
    assert_eq!(report.total("frees_unknown"), 0);
}

#[test]
fn a_cancelled_thread_may_still_allocate() {
    let recording = record(program("cancelled.c"), NONE);
    assert_eq!(recording.ran.out(), "100 worked, 100 cancelled\n");
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.at_site("make_cancelled"), [1100, 1100, 0]);
    assert_eq!(report.total("threads"), 101);
}

#[test]
fn threads_by_the_ten_thousand_are_exact_and_leave_nothing() {
    let few = record(program("short_threads.c"), ["2000"]);
    let many = record(program("short_threads.c"), ["20000"]);
    for (recording, n) in [(&few, 2000), (&many, 20_000)] {
        let report = recording.report();
        assert_eq!(report.total("threads"), n + 1);
        assert_eq!(report.count_between("make_three", "main"), n);
        assert_eq!(report.total("frees_remote"), n);
        assert_eq!(report.at_site("make_three"), [3 * n, 2 * n, n]);
        assert_eq!(report.total("frees_unknown"), 0);
    }
    let size = |r: &support::Recording| std::fs::metadata(r.profile()).expect("a profile").len();
    assert!(
        size(&many) <= size(&few) + 64 * 1024,
        "{} then {} bytes",
        size(&few),
        size(&many)
    );
    let peak = |r: &support::Recording| r.ran.out().trim().parse::<u64>().expect("KiB");
    assert!(
        peak(&many) <= peak(&few) + 2048,
        "{} then {} KiB",
        peak(&few),
        peak(&many)
    );
}

#[test]
fn detached_threads_are_counted() {
    let recording = record(program("detached_threads.c"), NONE);
    assert_eq!(recording.ran.out(), "500 detached threads\n");
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.total("threads"), 501);
    assert!(report.total("allocations") >= 10_000);
    assert_eq!(report.total("frees_unknown"), 0);
}

#[test]
fn libraries_that_allocate_may_be_unloaded() {
    let loaded = plugin("plugin.c", "plugin", &[]);
    let recording = record(
        program("load_plugin.c"),
        [loaded.as_os_str(), "50".as_ref()],
    );
    assert_eq!(recording.ran.out(), "unloaded\n");
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.at_site("plugin_make"), [50 * 30, 0, 50 * 30]);
    // The library's thread-local storage is made by a thread and freed by whoever joins it.
    let runtime = report.total("frees_remote") - 50 * 30;
    assert!(runtime <= 50 * 3, "{:#?}", report.flows());
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.total("threads"), 151);
}

/// Runs `endings WAY` a few times plain and recorded; it must end the same, with a profile that reads.
#[track_caller]
fn ends_the_same(way: &str) {
    let program = program("endings.c");
    let plain = Run::new(&program).arg(way).run();
    for round in 0..8 {
        let recording = if round % 2 == 0 {
            record(&program, [way])
        } else {
            preload(&program, [way])
        };
        assert_eq!(
            recording.ran.code(),
            plain.code(),
            "{}",
            recording.ran.err()
        );
        assert_eq!(recording.ran.out(), plain.out());
        let report = report_of(&[recording.profile()], &[]);
        assert!(report.total("allocations") >= 2000);
        assert_eq!(report.total("frees_unknown"), 0);
    }
}

#[test]
fn main_may_return_while_threads_run() {
    ends_the_same("return");
}

#[test]
fn main_may_exit_while_threads_run() {
    ends_the_same("exit");
}

#[test]
fn another_thread_may_exit() {
    ends_the_same("thread");
}

#[test]
fn main_may_end_before_its_threads() {
    ends_the_same("pthread");
}

#[test]
fn quick_exit_is_an_end() {
    ends_the_same("quick");
}

#[test]
fn exit_without_handlers_is_an_end() {
    ends_the_same("_exit");
}

#[test]
fn abort_is_an_end() {
    ends_the_same("abort");
}

#[test]
fn a_crash_is_an_end() {
    ends_the_same("segv");
}

#[test]
fn libraries_find_as_much_static_thread_local_storage_as_ever() {
    let names: Vec<_> = (0..10).map(|n| format!("static_{n}")).collect();
    let plugins: Vec<_> = names
        .iter()
        .map(|name| plugin("plugin.c", name, &["-ftls-model=initial-exec"]))
        .collect();
    let plain = Run::new(program("static_tls.c"))
        .args(&plugins)
        .run()
        .ended_well();
    let recording = record(program("static_tls.c"), &plugins);
    assert_eq!(recording.ran.out(), plain.out());
    assert_ne!(plain.out(), "0 loaded\n");
}

#[test]
fn a_library_that_frees_past_us_does_no_harm() {
    let release = plugin("release_plugin.c", "release_plugin", &[]);
    let recording = record(program("deep_bind.c"), [release]);
    assert_eq!(recording.ran.out(), "2000 blocks\n");
    let report = recording.report();
    recording.ran.ended_well();
    let [allocations, home, remote] = report.at_site("make_seen");
    assert_eq!((allocations, remote), (2000, 0));
    // Which of the two blocks at one address was freed past us cannot be known; one of them was seen.
    assert!((1000..=2000).contains(&home), "{home}");
    assert_eq!(report.total("frees_unknown"), 0);
}
