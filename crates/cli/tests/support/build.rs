//! Compiles the test programs, once for each source and set of flags.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `tests/programs/<file>` (`.c`, `.cpp` or `.rs`) and returns the executable.
pub fn program(file: &str) -> PathBuf {
    build(file, file_stem(file), &[])
}

/// As [`program`], with more compiler flags.
pub fn program_with(file: &str, flags: &[&str]) -> PathBuf {
    build(file, file_stem(file), flags)
}

/// Builds `tests/programs/<file>` as a shared library `<name>.so`.
pub fn plugin(file: &str, name: &str, flags: &[&str]) -> PathBuf {
    let mut all = vec!["-shared", "-fPIC"];
    all.extend(flags);
    build(file, &format!("{name}.so"), &all)
}

fn file_stem(file: &str) -> &str {
    file.split_once('.').expect("a file with an extension").0
}

fn build(file: &str, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs")
        .join(file);
    let base: &[&str] = match source.extension().and_then(|e| e.to_str()) {
        Some("c") => &["cc", "-O1", "-g", "-fno-builtin", "-pthread"],
        Some("cpp") => &["g++", "-std=c++17", "-O1", "-g", "-fno-builtin", "-pthread"],
        Some("rs") => &["rustc", "--edition=2024", "-Copt-level=1", "-g"],
        other => panic!("no compiler for {other:?}"),
    };
    let text = std::fs::read(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    let mut key = DefaultHasher::new();
    (file, &text, base, flags).hash(&mut key);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("programs")
        .join(format!("{:016x}", key.finish()));
    let done = dir.join(name);
    if done.exists() {
        return done;
    }
    std::fs::create_dir_all(&dir).expect("a directory for test programs");
    // Built aside and renamed: other tests may want the same program at the same time.
    let scratch = tempfile::tempdir_in(&dir).expect("a scratch directory");
    let fresh = scratch.path().join(name);
    let mut compile = Command::new(base[0]);
    compile.args(&base[1..]).arg(&source).arg("-o").arg(&fresh);
    let output = compile
        .args(flags)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", base[0]));
    assert!(
        output.status.success(),
        "{compile:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::rename(&fresh, &done).expect("the fresh program in its place");
    done
}
