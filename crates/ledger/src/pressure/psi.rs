//! Pressure stall information: how much of the time tasks wait for memory.

use super::{Absent, Buffer, c_path, field};
use std::ffi::CString;
use std::path::Path;

/// A file of pressure stall information: `/proc/pressure/memory`, or a cgroup's `memory.pressure`.
#[derive(Clone, Debug)]
pub struct PsiFile {
    path: CString,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Psi {
    /// At least one task waits for memory.
    pub some: Stall,
    /// All tasks that could run wait for it.
    pub full: Stall,
}

/// Shares of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Of the last 10 seconds, per cent.
    pub avg10: f64,
    /// Of the last 60 seconds, per cent.
    pub avg60: f64,
    /// All time so far, microseconds.
    pub total: u64,
}

impl PsiFile {
    /// The file at a path.
    pub fn new(path: &Path) -> Self {
        Self { path: c_path(path) }
    }

    /// That of the whole system.
    pub fn of_system() -> Self {
        Self::of_system_in(Path::new("/"))
    }

    /// The same, below `root`.
    pub fn of_system_in(root: &Path) -> Self {
        Self::new(&root.join("proc/pressure/memory"))
    }

    /// Reads it. Allocates nothing.
    ///
    /// # Errors
    /// Where it is not there or can not be read: a kernel without it, or started with `psi=0`.
    pub fn read(&self) -> Result<Psi, Absent> {
        let file = "memory.pressure";
        let mut buffer = Buffer::new();
        let text = buffer.read(&self.path, file)?;
        let stall = |key| {
            field(text, key)
                .and_then(Stall::parse)
                .ok_or(Absent::Malformed { file })
        };
        Ok(Psi {
            some: stall("some")?,
            full: stall("full")?,
        })
    }
}

impl Stall {
    /// `avg10=0.22 avg60=0.17 avg300=1.11 total=58761459`
    fn parse(line: &str) -> Option<Self> {
        let value = |key: &str| {
            line.split(' ')
                .find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
        };
        Some(Self {
            avg10: value("avg10")?.parse().ok()?,
            avg60: value("avg60")?.parse().ok()?,
            total: value("total")?.parse().ok()?,
        })
    }
}
