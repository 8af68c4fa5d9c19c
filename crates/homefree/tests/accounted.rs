//! A program that has this crate for the ledger alone works, and does not say that it records itself.

use std::path::Path;
use std::process::Command;

#[test]
fn a_program_that_counts_does_not_say_that_it_records() {
    let test = std::env::current_exe().expect("the test's own path");
    let profile = test.ancestors().nth(2).unwrap_or(Path::new("."));
    let says = |example: &str| {
        let bytes = std::fs::read(profile.join("examples").join(example)).expect("the example");
        let mark = b".homefree_recorded";
        bytes.windows(mark.len()).any(|window| window == mark)
    };
    assert!(says("recorded"));
    assert!(!says("accounted"));
    let output = Command::new(profile.join("examples/accounted"))
        .output()
        .expect("the example runs");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("1000 words in 48000 bytes\n"), "{text}");
}
