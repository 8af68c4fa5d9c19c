//! Builds this crate's examples in release, as a user's build would, once.

use std::path::PathBuf;
use std::process::Command;

/// The path of an example's artifact: `name`, or `libname.so`. `flags` go to the compiler.
pub fn artifact(name: &str, file: &str, flags: &str) -> PathBuf {
    let kind = flags.rsplit(' ').next().filter(|flag| !flag.is_empty());
    let kind = kind.unwrap_or("plain");
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(kind);
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--release", "--quiet", "--example", name])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target);
    // What the outer build was given is not for this one.
    for leak in [
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        cargo.env_remove(leak);
    }
    cargo.env("RUSTFLAGS", flags);
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "{cargo:?}: {status}");
    target.join("release/examples").join(file)
}
