//! How short of memory the process's surroundings are: its cgroup (v2), and pressure stall information.
//!
//! The ledger knows what the process has asked for; what it may hold is decided by the kernel, which ends the
//! process when its cgroup is full. `docs/pressure.md` says which of the kernel's figures can be trusted, and why
//! `memory.current` alone is not one of them.
//!
//! Everything is read below a root directory that can be chosen, `/` for the real one.

mod cgroup;
mod locate;
mod psi;
mod stat;
mod text;

pub use cgroup::{Cgroup, CgroupMemory, Limited};
pub use psi::{Psi, PsiFile, Stall};
pub use stat::CgroupFigures;
pub(crate) use text::{Buffer, c_path, field};

use std::fmt;

/// Why a figure can not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absent {
    /// A file can not be opened or read; the system's error number.
    Unreadable {
        /// Name of the file.
        file: &'static str,
        /// The system's error number, `libc::ENOENT` and so on.
        errno: i32,
    },
    /// A file is not as the kernel writes it: cut short, or without a field that is needed.
    Malformed {
        /// Name of the file.
        file: &'static str,
    },
    /// The memory controller is on cgroup v1, on this host; its files have no figures of this kind.
    V1,
    /// There is no cgroup v2 hierarchy, or it is mounted nowhere in sight of the process.
    NotMounted,
    /// The mount in sight does not show the process's cgroup: another namespace's.
    OutOfSight,
    /// The process is in the root cgroup, which the kernel keeps no account of.
    Root,
    /// The memory controller is not enabled for the process's cgroup.
    NotEnabled,
    /// No limit is set, here or further up, of which there could be a share.
    NoLimit,
}

impl fmt::Display for Absent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unreadable { file, errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                return write!(out, "{file} can not be read: {error}");
            }
            Self::Malformed { file } => {
                return write!(out, "{file} is cut short or lacks a field that is needed");
            }
            Self::V1 => {
                "the memory controller is on cgroup v1; boot with cgroup v2 for its figures"
            }
            Self::NotMounted => "no cgroup v2 hierarchy is mounted in sight of the process",
            Self::OutOfSight => "the cgroup mount in sight does not show the process's own cgroup",
            Self::Root => "the process is in the root cgroup, which has no account",
            Self::NotEnabled => "the memory controller is not enabled for the process's cgroup",
            Self::NoLimit => "neither memory.max nor memory.high is set, here or further up",
        })
    }
}

impl std::error::Error for Absent {}
