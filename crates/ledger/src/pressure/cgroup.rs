//! The process's cgroup, and what limits it.

use super::{Absent, Buffer, CgroupFigures, PsiFile, c_path, locate};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::vec::Vec;

/// A cgroup (v2) and those it is in.
#[derive(Clone, Debug)]
pub struct Cgroup {
    directory: PathBuf,
    /// Innermost first.
    levels: Vec<Level>,
    psi: PsiFile,
}

/// The files of one directory.
#[derive(Clone, Debug)]
struct Level {
    current: CString,
    stat: CString,
    max: CString,
    high: CString,
}

/// What a cgroup holds and what it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupMemory {
    /// Of the cgroup itself.
    pub own: CgroupFigures,
    /// The smallest of `memory.max` and `memory.high` from here up to the top that can be seen, bytes. `None` where
    /// none is set.
    pub limit: Option<u64>,
    /// The one with the least room left of those that have a limit: this cgroup or one that it is in, whose limit
    /// it shares with others.
    pub tightest: Option<Limited>,
}

/// A cgroup with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// How far up: 0 is the process's own cgroup.
    pub level: usize,
    /// The smaller of its `memory.max` and `memory.high`, bytes.
    pub limit: u64,
    /// What it holds, with all below it.
    pub figures: CgroupFigures,
}

impl Cgroup {
    /// The calling process's cgroup, as it is now. A process that is moved afterwards is asked for again.
    ///
    /// # Errors
    /// Where there is none that has figures: cgroup v1, no mount in sight, the root cgroup, no memory controller.
    pub fn of_process() -> Result<Self, Absent> {
        Self::of_process_in(Path::new("/"))
    }

    /// The same, with `/proc` and the mount points below `root`.
    ///
    /// # Errors
    /// As [`Cgroup::of_process`].
    pub fn of_process_in(root: &Path) -> Result<Self, Absent> {
        let directories = locate::directories(root)?;
        let found = Self::of(&directories);
        match found.figures(&found.levels[0], &mut Buffer::new()) {
            Err(Absent::Unreadable {
                errno: libc::ENOENT,
                ..
            }) => Err(if !directories[0].join("cgroup.controllers").exists() {
                Absent::OutOfSight
            } else if directories[0].join("cgroup.type").exists() {
                Absent::NotEnabled
            } else {
                // Only the root of the hierarchy has no type.
                Absent::Root
            }),
            Err(other) => Err(other),
            Ok(_) => Ok(found),
        }
    }

    fn of(directories: &[PathBuf]) -> Self {
        let level = |dir: &PathBuf| Level {
            current: c_path(&dir.join("memory.current")),
            stat: c_path(&dir.join("memory.stat")),
            max: c_path(&dir.join("memory.max")),
            high: c_path(&dir.join("memory.high")),
        };
        let directory = directories.first().cloned().unwrap_or_default();
        Self {
            psi: PsiFile::new(&directory.join("memory.pressure")),
            levels: directories.iter().map(level).collect(),
            directory,
        }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its file of pressure stall information.
    pub fn psi(&self) -> &PsiFile {
        &self.psi
    }

    /// Reads the figures. Allocates nothing; four small files for each directory on the way up that has a limit.
    ///
    /// # Errors
    /// Where the cgroup is gone, or a file is not as it should be.
    pub fn read(&self) -> Result<CgroupMemory, Absent> {
        let mut buffer = Buffer::new();
        let mut own = None;
        let mut limit: Option<u64> = None;
        let mut tightest: Option<Limited> = None;
        for (level, files) in self.levels.iter().enumerate() {
            let max = limit_of(&files.max, "memory.max", &mut buffer)?;
            let high = limit_of(&files.high, "memory.high", &mut buffer)?;
            let here = match (max, high) {
                (Some(max), Some(high)) => Some(max.min(high)),
                (one, other) => one.or(other),
            };
            if level > 0 && here.is_none() {
                continue;
            }
            let figures = self.figures(files, &mut buffer)?;
            own = own.or(Some(figures));
            let Some(here) = here else { continue };
            limit = Some(limit.map_or(here, |limit| limit.min(here)));
            let this = Limited {
                level,
                limit: here,
                figures,
            };
            if tightest.is_none_or(|other| this.room() < other.room()) {
                tightest = Some(this);
            }
        }
        Ok(CgroupMemory {
            own: own.ok_or(Absent::NotMounted)?,
            limit,
            tightest,
        })
    }

    fn figures(&self, files: &Level, buffer: &mut Buffer) -> Result<CgroupFigures, Absent> {
        let file = "memory.current";
        let current = buffer.read(&files.current, file)?.trim().parse();
        let current = current.map_err(|_| Absent::Malformed { file })?;
        CgroupFigures::parse(current, buffer.read(&files.stat, "memory.stat")?)
    }
}

impl Limited {
    /// Bytes left below the limit once all that can be given up is given up.
    pub fn room(&self) -> u64 {
        self.limit.saturating_sub(self.figures.working())
    }
}

/// A limit. `None` for "max", and where there is no such file: the top of the hierarchy has none.
fn limit_of(path: &CStr, file: &'static str, buffer: &mut Buffer) -> Result<Option<u64>, Absent> {
    let text = match buffer.read(path, file) {
        Err(Absent::Unreadable {
            errno: libc::ENOENT,
            ..
        }) => return Ok(None),
        other => other?.trim(),
    };
    if text == "max" {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| Absent::Malformed { file })
}
