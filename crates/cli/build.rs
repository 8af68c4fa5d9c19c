//! Builds the libraries that the program carries inside.
//!
//! It is a cargo run of its own, in a target directory of its own: a library that is loaded into
//! other people's processes must be the same whatever flags, wrappers or profile this program is
//! built with. A variable of each names a ready library instead (for packagers).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library to carry.
struct Library {
    package: &'static str,
    /// File name; `libhomefree.so` is carried as `HOMEFREE_CARRIED_RECORDER` under the name `RECORDER`.
    file: &'static str,
    name: &'static str,
    /// Names a ready one.
    ready: &'static str,
}

const LIBRARIES: [Library; 3] = [
    Library {
        package: "homefree-preload",
        file: "libhomefree.so",
        name: "RECORDER",
        ready: "HOMEFREE_LIBRARY",
    },
    Library {
        package: "homefree-ledger-preload",
        file: "libhomefree_ledger.so",
        name: "LEDGER",
        ready: "HOMEFREE_LEDGER_LIBRARY",
    },
    Library {
        package: "homefree-alloc-preload",
        file: "libhomefree_alloc.so",
        name: "ALLOCATOR",
        ready: "HOMEFREE_ALLOC_LIBRARY",
    },
];

/// The crates that the libraries are made of, beside the workspace's own files.
const PARTS: [&str; 9] = [
    "alloc",
    "alloc-preload",
    "ledger",
    "ledger-preload",
    "next",
    "preload",
    "record",
    "thread",
    "wire",
];

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
    let out = PathBuf::from(variable("OUT_DIR"));
    let mut missing = Vec::new();
    for library in &LIBRARIES {
        println!("cargo::rerun-if-env-changed={}", library.ready);
        match env::var_os(library.ready) {
            Some(path) => {
                let path = PathBuf::from(path);
                println!("cargo::rerun-if-changed={}", path.display());
                carry(library, &path, &out);
            }
            None => missing.push(library),
        }
    }
    if missing.is_empty() {
        return;
    }
    let built = build(&out, &missing);
    for library in missing {
        carry(library, &built.join(library.file), &out);
    }
}

/// Puts a library where the program includes it from.
fn carry(library: &Library, path: &Path, out: &Path) {
    let bytes = match fs::read(path) {
        Ok(bytes) if bytes.starts_with(b"\x7fELF") => bytes,
        Ok(_) => fail(&format!("{} is not a shared library", path.display())),
        Err(error) => fail(&format!("cannot read {}: {error}", path.display())),
    };
    let carried = out.join(library.file);
    if let Err(error) = fs::write(&carried, &bytes) {
        fail(&format!("cannot write {}: {error}", carried.display()));
    }
    let name = format!("HOMEFREE_CARRIED_{}", library.name);
    println!("cargo::rustc-env={name}={}", carried.display());
    println!("cargo::rustc-env={name}_HASH={:016x}", fnv1a(&bytes));
}

/// Runs cargo for the libraries and returns the folder that they are in.
fn build(out: &Path, libraries: &[&Library]) -> PathBuf {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = root.ancestors().nth(2).unwrap_or(&root);
    let parts = PARTS.iter().map(|part| root.join("crates").join(part));
    let own = ["Cargo.toml", "Cargo.lock"].map(|file| root.join(file));
    for path in parts.chain(own) {
        println!("cargo::rerun-if-changed={}", path.display());
    }

    let target_dir = out.join("preload");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--profile", "preload"]);
    for library in libraries {
        cargo.args(["-p", library.package]);
    }
    cargo
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir);
    let (target, host) = (variable("TARGET"), variable("HOST"));
    let mut folder = target_dir;
    if target != host {
        cargo.arg("--target").arg(&target);
        folder.push(&target);
    }
    for leak in LEAKS {
        cargo.env_remove(leak);
    }
    let packages: Vec<_> = libraries
        .iter()
        .map(|l| format!("-p {}", l.package))
        .collect();
    let packages = packages.join(" ");
    match cargo.status() {
        Ok(status) if status.success() => folder.join("preload"),
        Ok(status) => fail(&format!(
            "building the libraries failed with {status}; cargo's own messages are above. \
             `cargo build --profile preload {packages}` shows them alone"
        )),
        Err(error) => fail(&format!("cannot run cargo to build {packages}: {error}")),
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
