//! Builds `libhomefree.so` (package `homefree-preload`), which the program carries inside.
//!
//! It is a cargo run of its own, in a target directory of its own: a library that is loaded into
//! other people's processes must be the same whatever flags, wrappers or profile this program is
//! built with. `HOMEFREE_LIBRARY` names a ready library instead (for packagers).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that the library is made of, beside the workspace's own files.
const PARTS: [&str; 5] = ["next", "preload", "record", "thread", "wire"];

/// What the outer cargo or its user set for this program and must not reach the library.
const LEAKS: [&str; 12] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_BUILD_BUILD_DIR",
    "CARGO_TARGET_DIR",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HOMEFREE_LIBRARY");
    let out = PathBuf::from(variable("OUT_DIR"));
    let library = match env::var_os("HOMEFREE_LIBRARY") {
        Some(path) => {
            let path = PathBuf::from(path);
            println!("cargo::rerun-if-changed={}", path.display());
            path
        }
        None => build(&out),
    };
    let bytes = match fs::read(&library) {
        Ok(bytes) if bytes.starts_with(b"\x7fELF") => bytes,
        Ok(_) => fail(&format!("{} is not a shared library", library.display())),
        Err(error) => fail(&format!("cannot read {}: {error}", library.display())),
    };
    let carried = out.join("libhomefree.so");
    if let Err(error) = fs::write(&carried, &bytes) {
        fail(&format!("cannot write {}: {error}", carried.display()));
    }
    println!("cargo::rustc-env=HOMEFREE_CARRIED={}", carried.display());
    println!(
        "cargo::rustc-env=HOMEFREE_CARRIED_HASH={:016x}",
        fnv1a(&bytes)
    );
}

/// Runs cargo for the library and returns where it is.
fn build(out: &Path) -> PathBuf {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = root.ancestors().nth(2).unwrap_or(&root);
    for part in PARTS {
        println!(
            "cargo::rerun-if-changed={}",
            root.join("crates").join(part).display()
        );
    }
    println!(
        "cargo::rerun-if-changed={}",
        root.join("Cargo.toml").display()
    );
    println!(
        "cargo::rerun-if-changed={}",
        root.join("Cargo.lock").display()
    );

    let target_dir = out.join("preload");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["build", "--profile", "preload", "-p", "homefree-preload"])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir);
    let (target, host) = (variable("TARGET"), variable("HOST"));
    let mut library = target_dir;
    if target != host {
        cargo.arg("--target").arg(&target);
        library.push(&target);
    }
    for leak in LEAKS {
        cargo.env_remove(leak);
    }
    match cargo.status() {
        Ok(status) if status.success() => library.join("preload/libhomefree.so"),
        Ok(status) => fail(&format!(
            "building libhomefree.so (package homefree-preload) failed with {status}; cargo's own messages are above. \
             `cargo build --profile preload -p homefree-preload` shows them alone"
        )),
        Err(error) => fail(&format!(
            "cannot run cargo to build libhomefree.so: {error}"
        )),
    }
}

fn variable(name: &str) -> String {
    match env::var(name) {
        Ok(value) => value,
        Err(_) => fail(&format!("cargo did not set {name}")),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1);
}

/// FNV-1a, 64 bits: it names the folder of a version; the contents are compared byte by byte before use.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
