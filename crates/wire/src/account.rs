//! The page on which a process under `homefree run --ledger` publishes its account.
//!
//! One file for each process image, [`SIZE`] bytes, mapped shared by the process and read by the launcher, also after
//! the process was killed. [`Account`] at its beginning, [`ALLOCATOR`] and [`COMMAND`] as text, [`ROLES`] entries.
//! While [`Account::turn`] is odd the figures are being written; a reader reads again.

use crate::layout::entry;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First bytes of the page.
pub const MAGIC: [u8; 8] = *b"HFLEDGER";
/// Version written, and the only one read: library and launcher come together.
pub const VERSION: u32 = 1;
/// Bytes of the file.
pub const SIZE: usize = 8192;
/// What file names end with.
pub const EXTENSION: &str = "account";

/// Where the allocator's file name is, and how many bytes it may have; NUL-terminated if shorter.
pub const ALLOCATOR: core::ops::Range<usize> = 512..576;
/// Where the entries of [`Role`] begin.
pub const ROLES_AT: usize = 1024;
/// Entries of [`Role`].
pub const ROLES: usize = 64;
/// The command line, NUL-separated and NUL-terminated.
pub const COMMAND: core::ops::Range<usize> = 5120..SIZE;

const _: () = assert!(ROLES_AT + ROLES * size_of::<Role>() <= COMMAND.start);
const _: () = assert!(size_of::<Account>() <= ALLOCATOR.start);

/// Values of [`Account::state`].
pub mod state {
    /// The process runs, or ended without telling.
    pub const RUNNING: u32 = 1;
    /// It ended in order; the figures are exact.
    pub const ENDED: u32 = 2;
}

/// Bits of [`Account::flags`].
pub mod flags {
    /// Events are counted besides bytes.
    pub const COUNTS: u32 = 1;
    /// Sizes are read from the C library's block headers.
    pub const HEADERS: u32 = 2;
    /// The process was forked: it began with what its parent held.
    pub const FORKED: u32 = 4;
}

entry! {
    /// The figures. Bytes are usable bytes, as `malloc_usable_size` says them.
    Account / AccountValue {
        /// [`MAGIC`] as a little-endian word.
        magic: AtomicU64 u64,
        /// [`VERSION`].
        version: AtomicU32 u32,
        /// See [`state`].
        state: AtomicU32 u32,
        /// Process id.
        pid: AtomicU32 u32,
        /// Parent's process id.
        ppid: AtomicU32 u32,
        /// The same for all pages of one run.
        run_id: AtomicU64 u64,
        /// When the page was made: nanoseconds of `CLOCK_REALTIME`.
        started: AtomicU64 u64,
        /// Odd while what follows is being written.
        turn: AtomicU32 u32,
        /// See [`flags`].
        flags: AtomicU32 u32,
        /// Allocated and not freed yet.
        current: AtomicU64 u64,
        /// The most that was.
        peak: AtomicU64 u64,
        /// `current` is not further off than this; 0 at an orderly end.
        error: AtomicU64 u64,
        /// The same of `peak`.
        peak_error: AtomicU64 u64,
        /// What the process held when it was forked.
        inherited: AtomicU64 u64,
        /// Bytes allocated since the process began. As of an orderly end; else 0.
        allocated: AtomicU64 u64,
        /// Bytes freed.
        freed: AtomicU64 u64,
        /// Allocations, if counted.
        allocations: AtomicU64 u64,
        /// Frees, if counted.
        frees: AtomicU64 u64,
        /// The hard limit; 0 for none.
        limit: AtomicU64 u64,
        /// Bytes beyond it for small requests.
        reserve: AtomicU64 u64,
        /// Requests that it refused.
        refused: AtomicU64 u64,
        /// Private writable memory, resident or not (`VmData`), at an orderly end.
        reserved: AtomicU64 u64,
        /// Resident memory of no file (`RssAnon`) at an orderly end.
        resident: AtomicU64 u64,
        /// Entries of [`Role`] that are in use.
        roles: AtomicU32 u32,
        /// 0.
        unused: AtomicU32 u32,
    }
}

entry! {
    /// What the threads of a role allocated and freed. Until an orderly end: those of them that have ended.
    Role / RoleValue {
        /// First eight bytes of the role, as a little-endian word; NUL-padded.
        name: AtomicU64 u64,
        /// The others.
        name_end: AtomicU64 u64,
        /// Threads.
        threads: AtomicU64 u64,
        /// Bytes allocated.
        allocated: AtomicU64 u64,
        /// Bytes freed.
        freed: AtomicU64 u64,
    }
}

impl AccountValue {
    /// Decodes a page; `None` where it is none, or not whole, or of another version.
    pub fn read(page: &[u8]) -> Option<Self> {
        let value = Self::decode(page)?;
        (page.len() >= SIZE && value.magic == u64::from_le_bytes(MAGIC) && value.version == VERSION)
            .then_some(value)
    }
}

impl RoleValue {
    /// The entries of a page.
    pub fn all<'a>(account: &AccountValue, page: &'a [u8]) -> impl Iterator<Item = Self> + 'a {
        let count = (account.roles as usize).min(ROLES);
        (0..count).filter_map(|n| Self::decode(page.get(ROLES_AT + n * size_of::<Role>()..)?))
    }

    /// The role's name, NUL-padded.
    pub fn name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&self.name.to_le_bytes());
        name[8..].copy_from_slice(&self.name_end.to_le_bytes());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_page_of_this_version_is_read() {
        let mut page = [0; SIZE];
        assert_eq!(AccountValue::read(&page), None);
        page[..8].copy_from_slice(&MAGIC);
        assert_eq!(AccountValue::read(&page), None);
        page[8] = VERSION as u8;
        let value = AccountValue::read(&page).unwrap();
        assert_eq!(RoleValue::all(&value, &page).count(), 0);
        assert_eq!(AccountValue::read(&page[..SIZE - 1]), None);
    }

    #[test]
    fn a_role_is_read_with_its_name() {
        let mut page = [0; SIZE];
        let at = ROLES_AT + size_of::<Role>();
        page[at..at + 10].copy_from_slice(b"worker-*-x");
        page[at + 16] = 3;
        let account = AccountValue {
            roles: 2,
            ..AccountValue::default()
        };
        let role = RoleValue::all(&account, &page).nth(1).unwrap();
        assert_eq!(
            (role.threads, &role.name()[..11]),
            (3, &b"worker-*-x\0"[..])
        );
    }
}
