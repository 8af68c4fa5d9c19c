//! `Recorded` counts exactly, and by the right sites and roles. Driven as a program of its own, since a
//! global allocator records from before `main`.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn example() -> PathBuf {
    // target/PROFILE/deps/this-test → target/PROFILE/examples/recorded
    let test = std::env::current_exe().expect("the test's own path");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("a target folder");
    profile.join("examples").join("recorded")
}

fn report(profile: &Path) -> Value {
    let profile = homefree_profile::Profile::open(profile).expect("a profile");
    assert!(
        profile.ended(),
        "the file does not say that the program ended"
    );
    assert!(profile.warnings().is_empty(), "{:?}", profile.warnings());
    let options = homefree_profile::report::Options {
        format: homefree_profile::report::Format::Json,
        ..Default::default()
    };
    let report = homefree_profile::report::Report::build(vec![profile], &options, &|_| {})
        .expect("a report");
    let mut json = Vec::new();
    report.write_json(&mut json).expect("JSON");
    serde_json::from_slice(&json).expect("JSON")
}

fn functions(stack: &Value) -> String {
    let frames = stack.as_array().expect("a stack");
    let names = frames.iter().filter_map(|f| f["function"].as_str());
    names.collect::<Vec<_>>().join(" < ")
}

fn run(stacks: &str) -> Value {
    run_program(&example(), stacks)
}

fn run_program(program: &Path, stacks: &str) -> Value {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("out.hfp");
    let output = Command::new(program)
        .env("HOMEFREE_OUTPUT", &path)
        .env("HOMEFREE_STACKS", stacks)
        .current_dir(dir.path())
        .output()
        .expect("the example runs");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"49995000 100010\n");
    report(&path)
}

#[test]
fn remote_frees_are_counted_one_by_one() {
    expect_objects(&run("auto"));
}

fn expect_objects(report: &Value) {
    let flows = report["flows"].as_array().expect("flows");
    let objects: Vec<&Value> = flows
        .iter()
        .filter(|f| functions(&f["alloc_stack"]).contains("produce"))
        // What the channel allocates now and then to let a thread wait.
        .filter(|f| !functions(&f["alloc_stack"]).contains("mpmc"))
        .filter(|f| functions(&f["free_stack"]).contains("consume"))
        .collect();
    let sum = |key: &str| {
        objects
            .iter()
            .map(|f| f[key].as_u64().expect("a number"))
            .sum::<u64>()
    };
    assert_eq!(sum("count"), 10_000);
    assert_eq!(sum("bytes"), 10_000 * 64);
    for flow in objects {
        assert_eq!(flow["alloc_role"], "producer-*");
        assert_eq!(flow["free_role"], "consumer-*");
    }
    let totals = &report["totals"];
    assert_eq!(totals["threads"], 3);
    assert_eq!(totals["frees_unknown"], 0);
    assert!(totals["frees_home"].as_u64() > Some(10));
}

#[test]
fn a_static_program_records_itself() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("static");
    for model in ["pic", "static"] {
        let build = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--example",
                "recorded",
                "--target",
                "x86_64-unknown-linux-gnu",
            ])
            .arg("--target-dir")
            .arg(dir.join(model))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env(
                "RUSTFLAGS",
                format!("-Ctarget-feature=+crt-static -Crelocation-model={model}"),
            )
            .status()
            .expect("cargo runs");
        assert!(build.success());
        let program = dir
            .join(model)
            .join("x86_64-unknown-linux-gnu/debug/examples/recorded");
        let report = run_program(&program, "auto");
        expect_objects(&report);
        for module in report["modules"].as_array().expect("modules") {
            assert_eq!(module["cut_share"], 0.0, "{module}");
        }
    }
}

#[test]
fn the_caller_alone_is_enough_for_counts() {
    let report = run("none");
    assert!(report["totals"]["frees_remote"].as_u64() >= Some(10_000));
    assert_eq!(report["totals"]["frees_unknown"], 0);
}
