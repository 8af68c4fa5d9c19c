//! Before main, and under loaders and settings that are not the usual ones.

mod support;

use support::{
    Run, installed, library, plugin, preload, preload_with, program, program_with, record,
};

const NONE: [&str; 0] = [];

#[test]
fn the_library_alone_records_in_an_empty_environment() {
    let recording = preload_with("env", ["-i"], |run| {
        let preload = format!("LD_PRELOAD={}", library().display());
        run.arg(preload).arg(program("allocate.c"))
    });
    assert_eq!(recording.ran.out(), "300 blocks\n");
    // env itself was preloaded too: take the profile of the program.
    let profiles = recording.profiles();
    let found = profiles
        .iter()
        .filter(|p| p.to_string_lossy().contains("homefree.allocate."));
    assert_eq!(found.count(), 1, "{profiles:?}");
}

#[test]
fn allocations_before_main_and_after_it_are_recorded() {
    let recording = record(program("constructors.c"), NONE);
    let report = recording.report();
    assert_eq!(report.count_between("make_early", "free_half"), 100);
    assert_eq!(report.total("frees_remote"), 100);
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.at_site("make_early"), [201, 101, 100]);
}

#[test]
fn a_library_before_us_may_ask_dlsym_from_inside_calloc() {
    let interposer = plugin("lazy_interposer.c", "lazy_interposer", &[]);
    for order in [true, false] {
        let (first, second) = if order {
            (&*interposer, library())
        } else {
            (library(), &*interposer)
        };
        let both = format!("{}:{}", first.display(), second.display());
        let recording = preload_with(program("constructors.c"), NONE, |run| {
            run.env("LD_PRELOAD", both)
        });
        assert_eq!(recording.ran.out(), "main ran\n");
        let report = recording.report();
        recording.ran.ended_well();
        assert_eq!(report.total("frees_remote"), 100);
        assert_eq!(report.total("frees_unknown"), 0);
    }
}

#[test]
fn rust_thread_locals_with_destructors_work() {
    let recording = record(program("thread_local_drop.rs"), NONE);
    assert_eq!(recording.ran.out(), "50 threads ended\n");
    let report = recording.report();
    assert_eq!(report.total("threads"), 51);
    assert_eq!(report.total("frees_unknown"), 0);
    recording.ran.ended_well();
}

#[test]
fn tunables_of_the_libc_change_nothing() {
    for tunables in [
        "glibc.malloc.tcache_count=0",
        "glibc.malloc.perturb=170:glibc.malloc.arena_max=1",
        "glibc.pthread.rseq=0:glibc.rtld.optional_static_tls=4096",
        "glibc.malloc.mmap_threshold=4096:glibc.pthread.stack_cache_size=0",
    ] {
        for (program, out) in [
            (installed("true").expect("true"), ""),
            (program("constructors.c"), "main ran\n"),
        ] {
            let recording = preload_with(program, NONE, |run| run.env("GLIBC_TUNABLES", tunables));
            assert_eq!(recording.ran.out(), out, "{tunables}");
            recording.ran.ended_well();
        }
    }
}

#[test]
fn an_audit_library_may_watch_the_loader() {
    let audit = plugin("audit.c", "audit", &[]);
    let loaded = plugin("plugin.c", "plugin", &[]);
    let recording = preload_with(
        program("load_plugin.c"),
        [loaded.as_os_str(), "20".as_ref()],
        |run| run.env("LD_AUDIT", audit),
    );
    assert_eq!(recording.ran.out(), "unloaded\n");
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.total("frees_unknown"), 0);
    assert_eq!(report.at_site("plugin_make"), [600, 0, 600]);
}

#[test]
fn the_first_malloc_may_come_from_inside_setlocale() {
    let program = program("first_in_locale.c");
    let plain = Run::new(&program).run().ended_well();
    for recording in [preload(&program, NONE), record(&program, NONE)] {
        assert_eq!(recording.ran.out(), plain.out());
        // That one block came before the libc had set the environment up, which says whether to record.
        assert!(recording.report().total("frees_unknown") <= 1);
        recording.ran.ended_well();
    }
}

#[test]
fn constructors_and_destructors_of_libraries_are_recorded() {
    let library = plugin("plugin.c", "libplugin", &[]);
    let linked = program_with("linked.c", &[library.to_str().expect("a path in text")]);
    for recording in [preload(&linked, NONE), record(&linked, NONE)] {
        let report = recording.report();
        recording.ran.ended_well();
        assert_eq!(report.at_site("load"), [1, 1, 0]);
        assert_eq!(report.at_site("unload"), [1, 1, 0]);
        assert_eq!(report.at_site("plugin_make"), [10, 10, 0]);
        assert_eq!(report.total("frees_unknown"), 0);
    }
}

#[test]
fn lazy_and_eager_binding_are_the_same() {
    for (name, value) in [("LD_BIND_NOW", "1"), ("LD_BIND_NOT", "1")] {
        let recording = preload_with(program("constructors.c"), NONE, |run| run.env(name, value));
        assert_eq!(recording.report().total("frees_remote"), 100);
        recording.ran.ended_well();
    }
}

#[test]
fn foreign_blocks_are_handed_on_and_counted() {
    let recording = preload(program("foreign_pointers.c"), ["bypass"]);
    assert_eq!(recording.ran.out(), "1000 foreign blocks freed\n");
    let report = recording.report();
    // The realloc of a foreign block is the unknown free; what it gives is ours.
    assert_eq!(report.total("frees_unknown"), 1000);
    assert_eq!(report.total("frees_remote"), 0);
    recording.ran.ended_well();
}

#[test]
fn a_wrong_free_is_answered_by_the_libc_as_ever() {
    let recording = preload(program("foreign_pointers.c"), ["local"]);
    assert_eq!(recording.ran.code(), 134);
    assert!(
        recording.ran.err().contains("free(): invalid pointer"),
        "{}",
        recording.ran.err()
    );
}
