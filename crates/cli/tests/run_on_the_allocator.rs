//! `homefree run` puts Homefree's allocator under a program and changes nothing else.

mod support;

use support::{Run, homefree, program_with};

#[test]
fn a_program_runs_on_the_allocator_and_says_so_if_asked() {
    let ran = Run::new(homefree())
        .args([
            "run",
            "--",
            "sh",
            "-c",
            "echo out; grep -c libhomefree_alloc /proc/self/maps; exit 5",
        ])
        .run();
    assert_eq!(ran.code(), 5, "{}", ran.err());
    let out = ran.out();
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some("out"));
    assert_ne!(
        lines.next(),
        Some("0"),
        "it is in the program's children too"
    );
    assert_eq!(ran.err(), "", "nothing is said unasked");

    let ran = Run::new(homefree())
        .args([
            "run",
            "--stats",
            "--",
            "sqlite3",
            ":memory:",
            "select 6 * 7;",
        ])
        .run();
    if ran.code() == 127 {
        return;
    }
    assert_eq!((ran.code(), ran.out().as_str()), (0, "42\n"));
    assert!(ran.err().contains("homefree"), "{}", ran.err());
}

#[test]
fn what_cannot_be_preloaded_is_refused_in_its_own_words() {
    let program = program_with("pass_million.c", &["-static"]);
    let ran = Run::new(homefree()).args(["run", "--"]).arg(program).run();
    assert_eq!(ran.code(), 3, "{}", ran.err());
    assert!(
        ran.err().contains("not run on the allocator"),
        "{}",
        ran.err()
    );
    let ran = Run::new(homefree())
        .args(["run", "--json", "--", "true"])
        .run();
    assert_eq!(ran.code(), 2, "{}", ran.err());
}
