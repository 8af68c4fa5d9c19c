//! `memory.stat` and `memory.current`.

use super::{Absent, field};

/// Memory of a cgroup and of all below it, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupFigures {
    /// `memory.current`: all that is charged, the page cache included. Not what is needed: see
    /// [`CgroupFigures::working`].
    pub current: u64,
    /// Anonymous memory: heaps, stacks, private mappings that were written to.
    pub anon: u64,
    /// Page cache, with shared memory.
    pub file: u64,
    /// Shared memory and tmpfs: counted in `file`, but it can not be dropped.
    pub shmem: u64,
    /// Kernel objects that can be given up, such as cached directory entries.
    pub slab_reclaimable: u64,
    /// Page cache that was not used lately.
    pub inactive_file: u64,
    /// Page cache that was used lately.
    pub active_file: u64,
    /// Page cache that is mapped: programs, libraries, files read through `mmap`.
    pub file_mapped: u64,
}

impl CgroupFigures {
    /// Page cache that the kernel can drop, or write out and drop: `file` less `shmem`, and no more than is on the
    /// lists of file pages (what is locked in memory is not).
    pub fn reclaimable_cache(&self) -> u64 {
        let listed = self.inactive_file.saturating_add(self.active_file);
        self.file.saturating_sub(self.shmem).min(listed)
    }

    /// What can not be given up: `current` less the reclaimable page cache and kernel objects. It counts what is
    /// needed besides `anon`: shared memory, locked pages, sockets, page tables.
    pub fn working(&self) -> u64 {
        self.current
            .saturating_sub(self.reclaimable_cache())
            .saturating_sub(self.slab_reclaimable)
    }

    /// From the texts of the two files.
    pub(super) fn parse(current: u64, stat: &str) -> Result<Self, Absent> {
        let figure = |key| {
            field(stat, key)
                .and_then(|value| value.parse().ok())
                .ok_or(Absent::Malformed {
                    file: "memory.stat",
                })
        };
        Ok(Self {
            current,
            anon: figure("anon")?,
            file: figure("file")?,
            shmem: figure("shmem")?,
            slab_reclaimable: figure("slab_reclaimable")?,
            inactive_file: figure("inactive_file")?,
            active_file: figure("active_file")?,
            file_mapped: figure("file_mapped")?,
        })
    }
}
