//! Runs programs under `homefree run --ledger` and reads their accounts.

use super::{Ran, Run, homefree};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The library that counts, as `homefree lib --ledger` unpacks it.
pub fn ledger_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let ran = Run::new(homefree())
            .args(["lib", "--ledger"])
            .run()
            .ended_well();
        PathBuf::from(ran.out().trim_end())
    })
}

/// A program that ran, and its account.
pub struct Accounted {
    pub ran: Ran,
    pub json: Value,
}

/// Runs `homefree run --ledger --json -o … program args`.
#[track_caller]
pub fn accounted<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
) -> Accounted {
    accounted_with(&[], program, args, |run| run)
}

/// As [`accounted`], with options of `run` and a last word on it.
#[track_caller]
pub fn accounted_with<A: AsRef<OsStr>>(
    options: &[&str],
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
    adjust: impl FnOnce(Run) -> Run,
) -> Accounted {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("account.json");
    let run = Run::new(homefree())
        .args(["run", "--ledger", "--json", "-o"])
        .arg(&file)
        .args(options)
        .arg("--")
        .arg(program)
        .args(args);
    let ran = adjust(run).run();
    let text = std::fs::read(&file)
        .unwrap_or_else(|e| panic!("{} left no account: {e}\n{}", ran.what, ran.err()));
    let json = serde_json::from_slice(&text).expect("JSON");
    Accounted { ran, json }
}

impl Accounted {
    /// A figure of the program's own process.
    #[track_caller]
    pub fn main(&self, name: &str) -> u64 {
        figure(&self.json["process"], name)
    }

    /// All other processes.
    pub fn others(&self) -> &[Value] {
        self.json["others"].as_array().expect("a list")
    }
}

/// A figure of a process.
#[track_caller]
pub fn figure(process: &Value, name: &str) -> u64 {
    process[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {process:#}"))
}
