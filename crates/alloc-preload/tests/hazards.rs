//! What went wrong for users of other allocators: one program for each, which must end as without us.

mod support;

use support::{library, limited, preloaded, program, run, unchanged};

#[test]
fn edges_of_the_family_answer_as_the_c_librarys_own() {
    let edges = program("edges.c", &[]);
    let mut plain = run(&mut limited(60, &edges, &[]));
    // posix_memalign tells by its result; that glibc's sets errno as well (98 before) is an accident.
    plain.out = plain
        .out
        .replace("12, errno 12, pointer", "12, errno 98, pointer");
    assert_eq!(preloaded(60, &edges, &[]), plain);
}

#[test]
fn usable_bytes_may_be_used_in_fortified_programs() {
    preloaded(
        60,
        &program("usable_bytes.c", &["-O2", "-D_FORTIFY_SOURCE=3"]),
        &[],
    );
}

#[test]
fn every_alignment_comes_aligned_and_pairs_across_threads() {
    preloaded(120, &program("alignments.c", &[]), &[]);
}

#[test]
fn any_call_that_allocates_pairs_with_any_that_frees() {
    for form in ["home", "remote"] {
        unchanged(&program("api_pairs.c", &[]), &[form]);
        unchanged(&program("api_pairs.cpp", &[]), &[form]);
    }
}

#[test]
fn cpp_operators_fail_as_without_us() {
    unchanged(&program("bad_alloc.cpp", &[]), &[]);
}

#[test]
fn children_of_threaded_programs_never_hang() {
    preloaded(120, &program("fork_while_mallocing.c", &[]), &["300"]);
}

#[test]
fn threads_that_fork_get_children_that_can_allocate() {
    preloaded(120, &program("forking_threads.c", &[]), &[]);
}

#[test]
fn a_fork_may_meet_the_very_first_allocation() {
    let fork_first = program("fork_first.c", &[]);
    for _ in 0..40 {
        preloaded(20, &fork_first, &[]);
    }
}

#[test]
fn destructors_after_ours_allocate_and_free() {
    unchanged(&program("key_destructors.c", &[]), &[]);
    unchanged(&program("late_destructors.cpp", &[]), &[]);
    unchanged(&program("thread_local_drop.rs", &[]), &[]);
    unchanged(&program("detached_threads.c", &[]), &[]);
    unchanged(&program("cancelled.c", &[]), &[]);
}

#[test]
fn threads_that_only_free_leave_nothing_behind() {
    preloaded(60, &program("free_only_threads.c", &[]), &[]);
}

#[test]
fn ten_thousand_short_threads_do_not_grow_the_process() {
    let short = program("short_threads.c", &[]);
    let kib = |n: &str| {
        preloaded(120, &short, &[n])
            .out
            .trim()
            .parse::<i64>()
            .expect("a size")
    };
    let (few, many) = (kib("400"), kib("10000"));
    assert!(
        many < few + 1024,
        "{few} KiB after 400 threads, {many} KiB after 10,000"
    );
}

#[test]
fn the_first_allocation_may_come_from_anywhere() {
    unchanged(&program("constructors.c", &[]), &[]);
    unchanged(&program("first_in_locale.c", &[]), &[]);
    unchanged(&program("getattr_first.c", &[]), &[]);
}

#[test]
fn an_interposer_before_us_may_look_us_up_lazily() {
    let interposer = program("lazy_interposer.c", &["-shared", "-fPIC"]);
    let program = program("allocate.c", &[]);
    let plain = run(&mut limited(20, &program, &[]));
    let both = format!("{}:{}", interposer.display(), library().display());
    assert_eq!(
        run(limited(20, &program, &[]).env("LD_PRELOAD", both)),
        plain
    );
}

#[test]
fn an_audit_library_may_watch_the_loader() {
    let audit = program("audit.c", &["-shared", "-fPIC"]);
    let program = program("allocate.c", &[]);
    let plain = run(limited(20, &program, &[]).env("LD_AUDIT", &audit));
    let ours = run(limited(20, &program, &[])
        .env("LD_AUDIT", &audit)
        .env("LD_PRELOAD", library()));
    assert_eq!(plain, ours);
}

#[test]
fn tunables_that_move_the_thread_block_are_no_harm() {
    let tunables = "glibc.pthread.rseq=0:glibc.rtld.optional_static_tls=4096";
    let program = program("allocate.c", &[]);
    let ours = run(limited(20, &program, &[])
        .env("GLIBC_TUNABLES", tunables)
        .env("LD_PRELOAD", library()));
    assert_eq!(ours.code, 0, "{ours:?}");
}

#[test]
fn addresses_that_are_not_ours_are_left_alone() {
    // glibc would abort on the local; blocks of its own, from behind our back, stay as they are.
    let foreign = program("foreign_pointers.c", &[]);
    assert_eq!(preloaded(20, &foreign, &["local"]).err, "");
    let bypass = program("alloc_foreign.c", &[]);
    assert_eq!(preloaded(20, &bypass, &[]).out, "left alone\n");
}

#[test]
fn little_stack_is_enough() {
    let small = program("small_stacks.c", &[]);
    for form in ["thread", "handler", "coroutine"] {
        preloaded(60, &small, &[form]);
    }
}

#[test]
fn exceptions_and_jumps_pass() {
    unchanged(&program("exceptions.cpp", &[]), &[]);
    preloaded(60, &program("coroutines.c", &[]), &[]);
}

#[test]
fn an_empty_environment_is_enough() {
    let program = program("allocate.c", &[]);
    let ours = run(limited(20, &program, &[])
        .env_clear()
        .env("LD_PRELOAD", library()));
    assert_eq!(ours.code, 0, "{ours:?}");
}

#[test]
fn the_whole_family_is_exported() {
    let nm = run(limited(20, "/usr/bin/nm".as_ref(), &["-D", "--defined-only"]).arg(library()));
    let mut names: Vec<&str> = nm
        .out
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    names.sort_unstable();
    let family = "aligned_alloc calloc cfree free free_aligned_sized free_sized mallinfo mallinfo2 malloc \
                  malloc_info malloc_stats malloc_trim malloc_usable_size mallopt memalign posix_memalign \
                  pvalloc realloc reallocarray valloc";
    assert_eq!(names, family.split_whitespace().collect::<Vec<_>>());
}
