//! The allocators: a worker built with each, or one preloaded before the C library's.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Features of the worker.
const BUILT: [&str; 8] = [
    "homefree",
    "mimalloc2",
    "mimalloc3",
    "snmalloc",
    "rpmalloc",
    "rusty",
    "rallocator",
    "tcmalloc",
];
/// Debian's libraries.
const PRELOADED: [(&str, &str); 2] = [
    ("jemalloc", "libjemalloc.so.2"),
    ("gperftools", "libtcmalloc_minimal.so.4"),
];

/// One allocator.
pub struct Arm {
    pub name: String,
    worker: PathBuf,
    preload: Option<PathBuf>,
    served_by: String,
}

impl Arm {
    /// The worker with this allocator.
    pub fn command(&self) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "1", "120"])
            .arg(&self.worker)
            .env_remove("LD_PRELOAD");
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    /// Whether that is what a run of this arm must say.
    pub fn served_by(&self, name: &str) -> bool {
        name.starts_with(&self.served_by)
    }

    /// All patterns, as the worker names them.
    pub fn patterns(&self) -> Result<Vec<String>> {
        let output = self.command().output()?;
        let names: Vec<String> = String::from_utf8(output.stdout)?
            .lines()
            .map(str::to_owned)
            .collect();
        ensure!(!names.is_empty(), "the worker names no patterns");
        Ok(names)
    }
}

/// Builds the workers that are asked for; all if none is. Peers that do not build are left out, and named.
pub fn build(peers: &[String], library: Option<&Path>) -> Result<Vec<Arm>> {
    let wanted = |name: &str| peers.is_empty() || peers.iter().any(|p| p == name);
    let mut arms = Vec::new();
    let mut add = |name: &str, worker: PathBuf, preload: Option<PathBuf>, served_by: &str| {
        arms.push(Arm {
            name: name.to_owned(),
            worker,
            preload,
            served_by: served_by.to_owned(),
        });
    };
    let plain = worker(None)?;
    for feature in BUILT.into_iter().filter(|f| wanted(f)) {
        match worker(Some(feature)) {
            Ok(worker) => {
                if feature == "homefree" {
                    add("again", worker.clone(), None, feature);
                }
                add(feature, worker, None, feature);
            }
            Err(error) => eprintln!("left out: {feature}: {error}"),
        }
    }
    for (name, file) in PRELOADED.into_iter().filter(|(name, _)| wanted(name)) {
        match installed(file) {
            Some(path) => add(name, plain.clone(), Some(path), file),
            None => eprintln!("left out: {name}: {file} is not installed"),
        }
    }
    if let Some(library) = library {
        let library = library.canonicalize().context("the library")?;
        add(
            "preload",
            plain.clone(),
            Some(library),
            "libhomefree_alloc.so",
        );
    }
    if wanted("glibc") {
        add("glibc", plain, None, "libc.so");
    }
    ensure!(!arms.is_empty(), "no such peers");
    Ok(arms)
}

fn installed(file: &str) -> Option<PathBuf> {
    [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ]
    .iter()
    .map(|dir| Path::new(dir).join(file))
    .find(|path| path.exists())
}

fn worker(feature: Option<&str>) -> Result<PathBuf> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let base =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| bench.join("target"), PathBuf::from);
    let target = base.join("alloc-workers");
    let mut cargo = Command::new("cargo");
    cargo.args([
        "build",
        "--quiet",
        "--profile",
        "bench-alloc",
        "-p",
        "bench-alloc-worker",
    ]);
    cargo.current_dir(&bench).arg("--target-dir").arg(&target);
    if let Some(feature) = feature {
        cargo.args(["--features", feature]);
    }
    let output = cargo.output().context("running cargo")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "does not build: {}",
        text.lines().last().unwrap_or_default()
    );
    // The next build replaces the file.
    let name = format!("worker-{}", feature.unwrap_or("system"));
    let kept = target.join(name);
    std::fs::copy(target.join("bench-alloc/bench-alloc-worker"), &kept)
        .context("keeping a worker")?;
    Ok(kept)
}
