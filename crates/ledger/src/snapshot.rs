//! All figures at one moment, and their names: what every output is made of.

use crate::pressure::{Cgroup, CgroupMemory, Psi, PsiFile};
use crate::process::{ProcessMemory, process_memory_in};
use crate::scope::{self, ScopeUsage};
use crate::{Totals, Usage, limit, reading};
use std::path::Path;
use std::string::String;
use std::vec::Vec;

/// The ledger by one exact reading, and what the kernel says right after it.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) usage: Usage,
    pub(crate) totals: Totals,
    /// How far the cheap reading, and the peak, may be off.
    pub(crate) error: u64,
    pub(crate) refused: u64,
    pub(crate) scopes: Vec<(String, ScopeUsage)>,
    pub(crate) process: Option<ProcessMemory>,
    pub(crate) cgroup: Option<CgroupMemory>,
    /// And whether it is the cgroup's own.
    pub(crate) psi: Option<(Psi, bool)>,
}

impl Snapshot {
    pub(crate) fn take() -> Self {
        Self::take_in(Path::new("/"))
    }

    /// With the kernel's files below `root`.
    pub(crate) fn take_in(root: &Path) -> Self {
        let mut scopes = Vec::new();
        scope::for_each(&mut |name, usage| scopes.push((name.into(), usage)));
        // What the scopes' names took is counted with the rest.
        let (usage, totals) = reading::exact();
        let cgroup = Cgroup::of_process_in(root).ok();
        let own = cgroup.as_ref().and_then(|cgroup| cgroup.psi().read().ok());
        let psi = match own {
            Some(psi) => Some((psi, true)),
            None => PsiFile::of_system_in(root)
                .read()
                .ok()
                .map(|psi| (psi, false)),
        };
        Self {
            usage,
            totals,
            error: reading::usage().error,
            refused: limit::refused(),
            scopes,
            process: process_memory_in(root).ok(),
            cgroup: cgroup.and_then(|cgroup| cgroup.read().ok()),
            psi,
        }
    }
}
