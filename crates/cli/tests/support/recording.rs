//! Runs programs under the recorder and finds the profiles they leave.

use super::{Ran, Report, Run};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The program under test.
pub fn homefree() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_homefree"))
}

/// The library, as `homefree lib` unpacks it.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let ran = Run::new(homefree()).arg("lib").run().ended_well();
        let path = PathBuf::from(ran.out().trim_end());
        assert!(
            path.is_file(),
            "homefree lib prints the path of a file: {path:?}"
        );
        path
    })
}

/// A program that ran under the recorder, and the directory that it ran in, where its profiles are.
pub struct Recording {
    pub ran: Ran,
    pub dir: TempDir,
}

/// Runs `homefree record -o main.hfp -- program args`.
pub fn record<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
) -> Recording {
    record_with(&[], program, args, |run| run)
}

/// As [`record`], with options of `record` and a last word on the run.
pub fn record_with<A: AsRef<OsStr>>(
    options: &[&str],
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
    adjust: impl FnOnce(Run) -> Run,
) -> Recording {
    let dir = tempfile::tempdir().expect("a directory for the profile");
    let run = Run::new(homefree())
        .args(["record", "-o", "main.hfp"])
        .args(options)
        .arg("--")
        .arg(program)
        .args(args)
        .dir(dir.path());
    let ran = adjust(run).run();
    Recording { ran, dir }
}

/// Runs `program args` with nothing but the library in `LD_PRELOAD`.
pub fn preload<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
) -> Recording {
    preload_with(program, args, |run| run)
}

/// As [`preload`], with a last word on the run.
pub fn preload_with<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
    adjust: impl FnOnce(Run) -> Run,
) -> Recording {
    let dir = tempfile::tempdir().expect("a directory for the profile");
    let run = Run::new(program)
        .args(args)
        .env("LD_PRELOAD", library())
        .dir(dir.path());
    let ran = adjust(run).run();
    Recording { ran, dir }
}

impl Recording {
    /// All profiles there are, sorted by name.
    pub fn profiles(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path()).expect("the directory of the run");
        let mut found: Vec<_> = entries
            .map(|e| e.expect("an entry").path())
            .filter(|p| p.extension().is_some_and(|e| e == "hfp"))
            .collect();
        found.sort();
        found
    }

    /// The profile of the program itself: `main.hfp`, or the only one.
    #[track_caller]
    pub fn profile(&self) -> PathBuf {
        let main = self.dir.path().join("main.hfp");
        if main.exists() {
            return main;
        }
        let mut found = self.profiles();
        assert!(
            found.len() == 1,
            "{} left {found:?}, not one profile\nstderr: {}",
            self.ran.what,
            self.ran.err()
        );
        found.remove(0)
    }

    /// Reads the profile of the program itself.
    #[track_caller]
    pub fn report(&self) -> Report {
        report_of(&[self.profile()], &[])
    }

    /// Reads all profiles but that of the program itself.
    #[track_caller]
    pub fn children(&self) -> Vec<Report> {
        let main = self.dir.path().join("main.hfp");
        let children = self.profiles().into_iter().filter(|p| *p != main);
        children.map(|p| report_of(&[p], &[])).collect()
    }
}

/// `homefree report --json` with every flow and whole stacks.
#[track_caller]
pub fn report_of(profiles: &[PathBuf], options: &[&str]) -> Report {
    let ran = Run::new(homefree())
        .args(["report", "--json", "--full-stacks", "--top", "100000"])
        .args(options)
        .args(profiles)
        .run()
        .ended_well();
    Report::parse(&ran.stdout)
}

/// What `homefree report` says of one profile, as text, with whatever exit code.
pub fn report_output(profile: &Path, options: &[&str]) -> Ran {
    Run::new(homefree())
        .arg("report")
        .args(options)
        .arg(profile)
        .run()
}
