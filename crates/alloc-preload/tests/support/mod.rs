//! Builds the library and the test programs, and runs them with a time limit, with and without it.
#![allow(dead_code, reason = "no test file uses all")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The library as it is shipped.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("library");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--profile",
            "preload",
            "-p",
            "homefree-alloc-preload",
        ]);
        cargo
            .arg("--manifest-path")
            .arg(root().join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target);
        for flags in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
            cargo.env_remove(flags);
        }
        assert!(
            cargo.status().expect("cargo").success(),
            "the library does not build"
        );
        target.join("preload/libhomefree_alloc.so")
    })
}

/// Builds `tests/programs/<file>` with more flags and returns the executable (or, with `-shared`, the library).
pub fn program(file: &str, flags: &[&str]) -> PathBuf {
    let source = root().join("tests/programs").join(file);
    let base: &[&str] = match source.extension().and_then(|e| e.to_str()) {
        Some("c") => &["cc", "-O1", "-g", "-w", "-fno-builtin", "-pthread"],
        Some("cpp") => &["g++", "-std=c++17", "-O1", "-g", "-fno-builtin", "-pthread"],
        Some("rs") => &["rustc", "--edition=2024", "-Copt-level=1", "-g"],
        other => panic!("no compiler for {other:?}"),
    };
    let text = std::fs::read(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    let mut key = DefaultHasher::new();
    (file, &text, base, flags).hash(&mut key);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{:016x}", key.finish()));
    let done = dir.join(file.split_once('.').expect("an extension").0);
    if !done.exists() {
        std::fs::create_dir_all(&dir).expect("a directory");
        let scratch = tempfile::tempdir_in(&dir).expect("a scratch directory");
        let fresh = scratch.path().join("fresh");
        let mut compiler = Command::new(base[0]);
        compiler
            .args(&base[1..])
            .arg(&source)
            .arg("-o")
            .arg(&fresh)
            .args(flags);
        let out = compiler.output().expect("a compiler");
        assert!(
            out.status.success(),
            "{compiler:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        std::fs::rename(&fresh, &done).expect("the program in its place");
    }
    done
}

/// A command that is killed, with all that it started, after so many seconds; without anything preloaded.
pub fn limited(seconds: u32, program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["-s", "KILL", &seconds.to_string()])
        .arg(program)
        .args(args);
    command.stdin(Stdio::null()).env_remove("LD_PRELOAD");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"HOMEFREE_") {
            command.env_remove(name);
        }
    }
    command
}

/// What a command said, and its exit code (128 + n for a signal, 137 when it took too long).
#[derive(Debug, PartialEq)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    Ran {
        code: status
            .signal()
            .map_or_else(|| status.code().unwrap_or(-1), |n| 128 + n),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Runs a program with the library; fails the test unless it ends well.
#[track_caller]
pub fn preloaded(seconds: u32, program: &Path, args: &[&str]) -> Ran {
    let ran = run(limited(seconds, program, args).env("LD_PRELOAD", library()));
    assert_eq!(ran.code, 0, "{} {args:?}: {ran:#?}", program.display());
    ran
}

/// Runs a program without and with the library: same output, same exit code.
#[track_caller]
pub fn unchanged(program: &Path, args: &[&str]) {
    let plain = run(&mut limited(60, program, args));
    let ours = run(limited(60, program, args).env("LD_PRELOAD", library()));
    assert_eq!(plain, ours, "{} {args:?}", program.display());
}

/// Path of an installed program; says that a test is skipped where there is none.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed");
    }
    found
}
