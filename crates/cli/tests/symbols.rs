//! Frames have names: inlined ones, stripped ones, generated ones.

mod support;

use std::path::Path;
use support::{Run, program, program_with, record, report_output};

const NONE: [&str; 0] = [];

#[test]
fn inlined_frames_are_all_there_in_order() {
    let inlining = program_with("inlined.c", &["-O2"]);
    let report = record(inlining, NONE).report();
    let flows = report.between("outer_real", "free_real");
    assert_eq!(flows.iter().map(|f| f.count).sum::<u64>(), 100);
    for flow in flows {
        let at = |f| {
            flow.alloc_position(f)
                .unwrap_or_else(|| panic!("no {f} in {:?}", flow.alloc_stack))
        };
        assert!(
            at("inner_a") < at("inner_b") && at("inner_b") < at("outer_real"),
            "{:?}",
            flow.alloc_stack
        );
        assert!(at("outer_real") < at("main"), "{:?}", flow.alloc_stack);
    }
}

#[test]
fn source_lines_are_told() {
    let recording = record(program_with("inlined.c", &["-O2"]), NONE);
    let text = report_output(&recording.profile(), &[]).ended_well().out();
    assert!(text.contains("inlined.c:"), "{text}");
}

/// The build id of an ELF file, as readelf tells it.
fn build_id(path: &Path) -> String {
    let notes = Run::new("readelf")
        .arg("-n")
        .arg(path)
        .run()
        .ended_well()
        .out();
    let line = notes
        .lines()
        .find(|l| l.contains("Build ID"))
        .expect("a build id");
    line.rsplit(' ').next().expect("a word").to_owned()
}

#[test]
fn a_stripped_program_is_named_with_its_build_id() {
    let stripped = program_with("pass_million.c", &["-s", "-Wl,--build-id"]);
    let recording = record(&stripped, NONE);
    let report = recording.report();
    assert!(report.total("frees_remote") >= 1_000_000);
    let id = build_id(&stripped);
    assert!(
        report.json.to_string().contains(&id),
        "the report does not tell build id {id}"
    );
    let text = report_output(&recording.profile(), &[]).ended_well().out();
    assert!(
        text.contains("pass_million+0x"),
        "module and offset: {text}"
    );
    assert!(
        text.contains("symbols"),
        "says that symbols are missing: {text}"
    );
}

#[test]
fn symbols_of_another_build_are_not_used() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("pass_million");
    std::fs::copy(program("pass_million.c"), &place).expect("a copy");
    let recording = record(&place, NONE);
    std::fs::remove_file(&place).expect("the copy goes");
    std::fs::copy(program("thread_id_reuse.c"), &place).expect("another program in its place");
    let report = recording.report();
    assert_eq!(report.count_between("make_four", "free_four"), 0);
    assert_eq!(report.count_between("make_object", "drop_object"), 0);
    assert!(report.total("frees_remote") >= 1_000_000);
}

/// Removes the map that the program leaves, whatever becomes of the test.
struct Map(String);

impl Drop for Map {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn generated_code_with_a_perf_map_is_named() {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the program has machine code for x86-64 only");
        return;
    }
    let recording = record(program("perf_map.c"), NONE);
    let _map = Map(format!("/tmp/perf-{}.map", recording.ran.out().trim()));
    let report = recording.report();
    recording.ran.ended_well();
    assert_eq!(report.count_between("made_at_run_time", "free_all"), 100);
}

#[test]
fn a_site_is_the_function_that_asked_not_the_allocator() {
    let report = record(program("pass_million.cpp"), NONE).report();
    assert_eq!(report.at_site("make_object"), [1_000_000, 0, 1_000_000]);
    let report = record(program("pass_million.rs"), NONE).report();
    assert_eq!(report.at_site("make_object"), [1_000_000, 0, 1_000_000]);
}

#[test]
fn names_are_demangled() {
    for file in ["pass_million.cpp", "pass_million.rs"] {
        let recording = record(program(file), NONE);
        let text = report_output(&recording.profile(), &[]).ended_well().out();
        assert!(!text.contains("_Z") && !text.contains("_R"), "{text}");
        assert!(
            text.contains("make_object") && text.contains("drop_object"),
            "{text}"
        );
    }
}
