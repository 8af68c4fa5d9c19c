//! The numbers that the allocator tells are right.

mod support;

use support::{library, limited, preloaded, program, run};

#[test]
fn live_bytes_are_exact_in_bytes_of_classes() {
    let ran = preloaded(20, &program("alloc_numbers.c", &[]), &[]);
    let mut lines = ran.out.lines();
    // 1000 of 1024, and five units of 64 KiB; one mapping of 8 MiB.
    let with = format!("{} 1 {}", 1000 * 1024 + 5 * 65536, 8 << 20);
    assert_eq!(lines.next(), Some(&*with), "{ran:?}");
    assert_eq!(lines.next(), Some("0 0 0"), "{ran:?}");
    let rest: Vec<&str> = lines.collect();
    assert_eq!(rest.first(), Some(&"<malloc version=\"homefree-1\">"));
    assert_eq!(rest[rest.len() - 2], "</malloc>");
    // EINVAL for options that glibc does not know either.
    assert_eq!(rest[rest.len() - 1], "22");
}

#[test]
fn remote_frees_are_counted_where_they_are_asked_for() {
    let program = program("alloc_numbers.c", &[]);
    let mut command = limited(20, &program, &[]);
    let ran = run(command
        .env("LD_PRELOAD", library())
        .env("HOMEFREE_STATS", "1"));
    let line = ran
        .err
        .lines()
        .map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&"1024"))
        .unwrap_or_else(|| panic!("{ran:?}"));
    // size, pages, live, refills, locks, sent, received, remote frees
    assert_eq!(line[7], "500", "{line:?}");
    let sent: u32 = line[5].parse().expect("a count");
    assert!(
        (8..=200).contains(&sent),
        "500 blocks went home in {sent} batches"
    );
    // Nothing is said where nothing is asked.
    assert_eq!(preloaded(20, &program, &[]).err, "");
}
