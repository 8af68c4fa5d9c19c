//! What cannot be recorded gets a clear answer, with the exit status of a shell or of the program.

mod support;

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use support::{
    Ran, Recording, Run, homefree, installed, library, program, program_with, record, record_with,
};

const NONE: [&str; 0] = [];
/// Nothing was, or can be, recorded.
const NOT_RECORDED: i32 = 3;

/// Records `command`, which must be refused with `code`, no profile and all `words` on stderr.
#[track_caller]
fn refused(command: impl AsRef<OsStr>, code: i32, words: &[&str]) {
    let recording = record(command, NONE);
    let said = recording.ran.err();
    assert_eq!(recording.ran.code(), code, "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
    assert!(recording.ran.out().is_empty(), "the program ran");
    assert!(recording.profiles().is_empty(), "a profile was left");
}

fn put(dir: &Path, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    path
}

#[test]
fn a_program_that_does_not_exist_is_127() {
    refused(
        "no-such-program-anywhere",
        127,
        &["no-such-program-anywhere", "not found"],
    );
    refused(
        "./no/such/program",
        127,
        &["./no/such/program", "no such file"],
    );
}

#[test]
fn a_program_that_cannot_run_is_126() {
    let dir = tempfile::tempdir().expect("a directory");
    refused(
        put(dir.path(), "plain-text", b"words\n", 0o644),
        126,
        &["plain-text", "permission"],
    );
    refused(dir.path(), 126, &[dir.path().to_str().expect("text")]);
    let broken = put(dir.path(), "script", b"#!/no/such/interpreter\n", 0o755);
    refused(broken, 126, &["/no/such/interpreter"]);
}

#[test]
fn a_static_program_is_told_why_and_what_to_do() {
    let fixed = program_with("allocate.c", &["-static"]);
    refused(
        fixed,
        NOT_RECORDED,
        &["statically linked", "allocate", "Recorded"],
    );
    let pie = program_with("allocate.c", &["-static-pie"]);
    refused(pie, NOT_RECORDED, &["statically linked", "Recorded"]);
}

#[test]
fn a_program_with_its_own_malloc_is_told_why_and_what_to_do() {
    let own = program_with("own_malloc.c", &["-rdynamic"]);
    refused(own, NOT_RECORDED, &["own_malloc", "malloc", "Recorded"]);
}

#[test]
fn a_program_of_another_architecture_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut bytes = std::fs::read(program("allocate.c")).expect("a program");
    bytes[18..20].copy_from_slice(&243u16.to_le_bytes());
    refused(
        put(dir.path(), "riscv", &bytes, 0o755),
        NOT_RECORDED,
        &["riscv", "RISC-V"],
    );
    bytes[4] = 1;
    bytes[18..20].copy_from_slice(&3u16.to_le_bytes());
    refused(
        put(dir.path(), "i386", &bytes, 0o755),
        NOT_RECORDED,
        &["i386", "32-bit"],
    );
}

#[test]
fn a_setuid_program_is_told_that_the_loader_drops_us() {
    let dir = tempfile::tempdir().expect("a directory");
    let bytes = std::fs::read(program("allocate.c")).expect("a program");
    let path = put(dir.path(), "setuid", &bytes, 0o755);
    let nobody = 65534;
    if std::fs::metadata(&path).expect("the program").uid() != 0
        || chown(&path, Some(nobody), None).is_err()
    {
        eprintln!("skipped: only root can make a program setuid to another user");
        return;
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).expect("its mode");
    refused(&path, NOT_RECORDED, &["setuid"]);
    // Without the launcher it runs, unrecorded and unharmed.
    let direct = support::preload(&path, NONE);
    assert_eq!(direct.ran.out(), "300 blocks\n");
    assert!(direct.profiles().is_empty());
}

#[test]
fn a_script_is_recorded_as_its_interpreter() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = b"#!/bin/bash\nfor i in 1 2 3; do x=$x$i; done\necho $x $1\nexit 4\n";
    let recording = record(put(dir.path(), "script", text, 0o755), ["word"]);
    assert_eq!(recording.ran.out(), "123 word\n");
    assert_eq!(recording.ran.code(), 4);
    assert!(recording.report().total("allocations") > 10);
}

#[test]
fn an_existing_file_is_never_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = put(dir.path(), "kept.hfp", b"important", 0o644);
    let ran = Run::new(homefree())
        .args(["record", "-o"])
        .arg(&kept)
        .arg("--")
        .arg(program("allocate.c"))
        .dir(dir.path())
        .run();
    assert_eq!(ran.code(), 2, "{}", ran.err());
    assert!(
        ran.err().contains("kept.hfp") && ran.err().contains("exists"),
        "{}",
        ran.err()
    );
    assert!(
        ran.out().is_empty(),
        "the program ran though nothing could be recorded"
    );
    assert_eq!(std::fs::read(&kept).expect("the file"), b"important");
    // The library alone takes another name and leaves the file.
    let direct = Run::new(program("allocate.c"))
        .env("LD_PRELOAD", library())
        .env("HOMEFREE_OUTPUT", &kept)
        .run()
        .ended_well();
    assert_eq!(direct.out(), "300 blocks\n");
    assert_eq!(std::fs::read(&kept).expect("the file"), b"important");
}

#[test]
fn an_output_that_names_no_file_is_a_usage_error() {
    let dir = tempfile::tempdir().expect("a directory");
    for output in ["new/", "missing/dir/", ".", ".."] {
        let ran = Run::new(homefree())
            .args(["record", "-o", output, "--"])
            .arg(program("allocate.c"))
            .dir(dir.path())
            .run();
        assert_eq!(ran.code(), 2, "{output}: {}", ran.err());
        assert!(ran.err().contains("HOMEFREE_DIR"), "{}", ran.err());
        assert!(ran.out().is_empty(), "the program ran");
    }
    let left = std::fs::read_dir(dir.path()).expect("the directory");
    assert_eq!(left.count(), 0, "something was left");
}

#[test]
fn default_names_never_collide() {
    let dir = tempfile::tempdir().expect("a directory");
    for _ in 0..3 {
        let ran = Run::new(homefree())
            .args(["record", "--"])
            .arg(program("allocate.c"))
            .dir(dir.path())
            .run()
            .ended_well();
        assert_eq!(ran.out(), "300 blocks\n");
        assert!(
            ran.err().contains("homefree.allocate."),
            "tells the path: {}",
            ran.err()
        );
    }
    let names = std::fs::read_dir(dir.path()).expect("the directory");
    let names: Vec<_> = names
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(
        names
            .iter()
            .all(|n| n.starts_with("homefree.allocate.") && n.ends_with(".hfp")),
        "{names:?}"
    );
}

/// An output that cannot be written: the program runs, and something is said about it.
#[track_caller]
fn runs_unrecorded(ran: &Ran) {
    assert_eq!(ran.out(), "300 blocks\n", "{}", ran.err());
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.err().contains("homefree"), "says nothing about it");
}

#[test]
fn an_output_that_cannot_be_written_does_not_stop_the_program() {
    let dir = tempfile::tempdir().expect("a directory");
    put(dir.path(), "a-file", b"", 0o644);
    for output in ["missing/dir/x.hfp", "a-file/x.hfp", "/proc/x.hfp"] {
        let ran = Run::new(homefree())
            .args(["record", "-o", output, "--"])
            .arg(program("allocate.c"))
            .dir(dir.path())
            .run();
        runs_unrecorded(&ran);
        assert!(ran.err().contains("cannot be written"), "{}", ran.err());
        let direct = Run::new(program("allocate.c"))
            .env("LD_PRELOAD", library())
            .env("HOMEFREE_OUTPUT", output)
            .dir(dir.path())
            .run()
            .ended_well();
        assert_eq!(direct.out(), "300 blocks\n");
        assert_eq!(direct.err(), "", "the library prints nothing");
    }
}

#[test]
fn odd_settings_are_as_if_unset() {
    let program = program("thread_id_reuse.c");
    for (name, value) in [
        ("HOMEFREE_STACKS", "sideways"),
        ("HOMEFREE_DEPTH", "-3"),
        ("HOMEFREE_DEPTH", "99999999999999999999"),
        ("HOMEFREE_SAMPLE", "0x"),
        ("HOMEFREE_FREE_STACKS", ""),
        ("HOMEFREE_CHILDREN", "?"),
        ("HOMEFREE_LAUNCHER", "none"),
        ("HOMEFREE_RUN", "zz"),
        ("HOMEFREE_DIR", ""),
        ("HOMEFREE_OUTPUT", ""),
    ] {
        let recording = support::preload_with(&program, NONE, |run| run.env(name, value));
        assert_eq!(
            recording.report().total("frees_remote"),
            4,
            "{name}={value}"
        );
        recording.ran.ended_well();
    }
}

#[test]
fn wrong_options_are_usage_errors() {
    for options in [
        &["--stacks", "sideways"][..],
        &["--depth", "0"],
        &["--depth", "129"],
        &["--sample", "x"],
        &["--no-such"],
    ] {
        let recording = record_with(options, program("allocate.c"), NONE, |run| run);
        assert_eq!(
            recording.ran.code(),
            2,
            "{options:?}: {}",
            recording.ran.err()
        );
        assert!(recording.ran.out().is_empty());
    }
    let nothing = Run::new(homefree()).args(["record", "--"]).run();
    assert_eq!(nothing.code(), 2, "{}", nothing.err());
}

#[test]
fn a_launcher_in_the_child_of_a_recording_is_a_run_of_its_own() {
    let inner = [
        homefree().as_os_str(),
        "record".as_ref(),
        "-o".as_ref(),
        "inner.hfp".as_ref(),
        "--".as_ref(),
    ];
    let allocate = program("allocate.c");
    let recording: Recording = record_with(
        &[],
        inner[0],
        inner[1..].iter().chain([&allocate.as_os_str()]),
        |run| run,
    );
    assert_eq!(
        recording.ran.out(),
        "300 blocks\n",
        "{}",
        recording.ran.err()
    );
    assert_eq!(recording.ran.code(), 0);
    let inner = support::report_of(&[recording.dir.path().join("inner.hfp")], &[]);
    assert!((300..340).contains(&inner.total("allocations")));
}

#[test]
fn a_program_behind_sudo_or_env_is_found_where_it_can_be() {
    // env passes LD_PRELOAD on: both images record.
    let env = installed("env").expect("env");
    let recording = record(env, [program("allocate.c")]);
    assert_eq!(recording.ran.out(), "300 blocks\n");
    let counts: Vec<_> = recording.profiles();
    assert!(!counts.is_empty());
    let all = support::report_of(&counts, &[]);
    assert!(all.total("allocations") >= 300);
}

#[test]
fn a_program_that_drops_the_preload_is_said_not_to_be_recorded() {
    // The launched program cannot be told from its file: the loader is asked to forget us by an empty variable.
    let recording = record(
        "env",
        ["LD_PRELOAD=", program("allocate.c").to_str().expect("text")],
    );
    assert_eq!(recording.ran.out(), "300 blocks\n");
    assert_eq!(
        recording.ran.code(),
        NOT_RECORDED,
        "{}",
        recording.ran.err()
    );
    assert!(
        recording.ran.err().contains("not recorded"),
        "{}",
        recording.ran.err()
    );
}
