//! Memory goes back, and does not grow with what was passed on, whoever sleeps or has ended.

mod support;

use support::{installed, library, limited, preloaded, program, run};

fn numbers(text: &str) -> Vec<i64> {
    text.split_whitespace()
        .map(|n| n.parse().expect("a number"))
        .collect()
}

#[test]
fn after_a_burst_memory_goes_back_whoever_comes_by_or_nobody() {
    let burst = program("alloc_burst.c", &[]);
    for mode in ["trim", "other", "quiet"] {
        let ran = preloaded(60, &burst, &[mode]);
        let [before, peak, last] = numbers(&ran.out)[..] else {
            panic!("{ran:?}")
        };
        assert!(peak > 200_000, "{ran:?}");
        // 7.5 MiB are the program's own table.
        assert!(
            last < before + 7_700 + peak / 8,
            "{mode}: {before} KiB, {peak} at the peak, {last} in the end"
        );
    }
}

#[test]
fn without_the_thread_of_its_own_other_threads_calls_suffice() {
    let burst = program("alloc_burst.c", &[]);
    let mut command = limited(60, &burst, &["trim"]);
    let ran = run(command
        .env("LD_PRELOAD", library())
        .env("HOMEFREE_BACKGROUND", "0"));
    let [before, peak, last] = numbers(&ran.out)[..] else {
        panic!("{ran:?}")
    };
    assert!(last < before + 7_700 + peak / 8, "{ran:?}");
}

#[test]
fn a_pipe_stays_as_small_as_what_is_in_it() {
    let pipe = program("alloc_pipe.c", &[]);
    for size in ["64", "512", "4096"] {
        let ran = preloaded(120, &pipe, &["20000", size]);
        let [early, last] = numbers(&ran.out)[..] else {
            panic!("{ran:?}")
        };
        assert!(
            last < early + 2048,
            "{size} bytes: {early} KiB early, {last} KiB in the end"
        );
    }
}

#[test]
fn what_ended_or_sleeping_threads_gave_away_is_free_for_others() {
    let given = program("alloc_given_away.c", &[]);
    for mode in ["ended", "asleep"] {
        let ran = preloaded(120, &given, &[mode]);
        let [early, last] = numbers(&ran.out)[..] else {
            panic!("{ran:?}")
        };
        // A round is 20 MiB, and there are 27 more.
        assert!(
            last < early + 10_000,
            "{mode}: {early} KiB early, {last} KiB in the end"
        );
    }
}

#[test]
fn a_limit_of_address_space_is_lived_with() {
    let Some(prlimit) = installed("prlimit") else {
        return;
    };
    for limit in ["--as=2147483648", "--as=67108864", "--as=33554432"] {
        let echo =
            run(limited(20, &prlimit, &[limit, "/bin/echo", "fits"]).env("LD_PRELOAD", library()));
        assert_eq!((echo.code, &*echo.out), (0, "fits\n"), "{limit}: {echo:?}");
    }
    let fill = program("alloc_limit.c", &[]);
    let ran = preloaded(60, &fill, &[]);
    let [first, second] = numbers(&ran.out)[..] else {
        panic!("{ran:?}")
    };
    // Of 256 MiB; and all of it is there again after it was freed.
    assert!(first > 200, "{ran:?}");
    assert!(second >= first - 8, "{ran:?}");
}

#[test]
fn an_empty_process_is_small() {
    let ran = preloaded(20, &program("alloc_empty.c", &[]), &[]);
    let kib = numbers(&ran.out)[0];
    assert!(kib <= 2252, "{kib} KiB");
}

#[test]
fn ten_thousand_idle_threads_hold_little() {
    let idle = program("alloc_idle.c", &[]);
    let Ok(plain) = run(&mut limited(60, &idle, &["4000"]))
        .out
        .trim()
        .parse::<i64>()
    else {
        eprintln!("skipped: so many threads can not be had");
        return;
    };
    let ours = numbers(&preloaded(60, &idle, &["4000"]).out)[0];
    // Each has used three sizes: a heap, and a little of three pages.
    assert!(
        ours < plain + 4000 * 24,
        "{plain} KiB without us, {ours} KiB with"
    );
}

#[test]
fn giving_memory_back_keeps_mappings_few() {
    let ran = preloaded(60, &program("alloc_mappings.c", &[]), &[]);
    assert!(numbers(&ran.out)[0] < 60, "{ran:?}");
}
