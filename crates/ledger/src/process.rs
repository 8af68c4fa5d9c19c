//! What the kernel says of the process: resident and reserved bytes.

use crate::pressure::{Absent, Buffer, c_path, field};
use std::ffi::CStr;
use std::path::Path;

/// Memory of the process, bytes, as the kernel counts it: whole pages, of every thread and library, C's included.
///
/// Not to be mixed with what the ledger counts. *Requested* is what was asked for ([`crate::Usage`]). *Usable* is what
/// the allocator gave for it, rounded up; only the allocator knows. *Resident* is what lies in memory: less than
/// requested where pages were not touched yet, more where an allocator keeps pages that were freed. *Reserved* is
/// the address space that could be written to; it costs nothing until it is touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident in all: the sum of the next three.
    pub resident: u64,
    /// Resident and anonymous: heaps, stacks, what was written to in private mappings.
    pub anon: u64,
    /// Resident pages of files: programs, libraries, mapped files. The kernel can drop them.
    pub file: u64,
    /// Resident shared memory.
    pub shmem: u64,
    /// In swap.
    pub swap: u64,
    /// Private address space that can be written to (`VmData`): stacks of threads are in it, the main thread's is not.
    pub reserved: u64,
    /// All address space (`VmSize`).
    pub address_space: u64,
}

/// Reads `/proc/self/status`. Allocates nothing; some 4 µs, more with many threads.
///
/// Resident figures are off by some pages for each thread: the kernel sums them up lazily.
///
/// # Errors
/// Where `/proc` is not mounted, or the kernel is older than 4.5.
pub fn process_memory() -> Result<ProcessMemory, Absent> {
    memory_of(c"/proc/self/status")
}

/// The same, with `/proc` below `root`.
///
/// # Errors
/// As [`process_memory`].
pub fn process_memory_in(root: &Path) -> Result<ProcessMemory, Absent> {
    memory_of(&c_path(&root.join("proc/self/status")))
}

fn memory_of(path: &CStr) -> Result<ProcessMemory, Absent> {
    let file = "/proc/self/status";
    let mut buffer = Buffer::new();
    let text = buffer.read(path, file)?;
    let figure = |key| kibibytes(field(text, key)).ok_or(Absent::Malformed { file });
    let (anon, in_files, shmem) = (figure("RssAnon")?, figure("RssFile")?, figure("RssShmem")?);
    Ok(ProcessMemory {
        resident: anon + in_files + shmem,
        anon,
        file: in_files,
        shmem,
        // A kernel without swap has no such line.
        swap: figure("VmSwap").unwrap_or(0),
        reserved: figure("VmData")?,
        address_space: figure("VmSize")?,
    })
}

/// Resident bytes that were freed with `MADV_FREE` and that the kernel will take when it needs them: they count as
/// resident until then, though nobody uses them.
///
/// Walks the process's page tables (`/proc/self/smaps_rollup`), some 4 ms for each resident GiB, under a lock that
/// `mmap` waits for. Ask for it now and then, not in a loop.
///
/// # Errors
/// Where the file can not be read: a kernel older than 4.14, or a process that may not be looked at.
pub fn lazy_free_bytes() -> Result<u64, Absent> {
    lazy_free_of(c"/proc/self/smaps_rollup")
}

/// The same, with `/proc` below `root`.
///
/// # Errors
/// As [`lazy_free_bytes`].
pub fn lazy_free_bytes_in(root: &Path) -> Result<u64, Absent> {
    lazy_free_of(&c_path(&root.join("proc/self/smaps_rollup")))
}

fn lazy_free_of(path: &CStr) -> Result<u64, Absent> {
    let file = "/proc/self/smaps_rollup";
    let mut buffer = Buffer::new();
    let text = buffer.read(path, file)?;
    kibibytes(field(text, "LazyFree")).ok_or(Absent::Malformed { file })
}

/// `360 kB`, which the kernel means in binary.
fn kibibytes(field: Option<&str>) -> Option<u64> {
    let number = field?.strip_suffix(" kB")?.parse::<u64>().ok()?;
    number.checked_mul(1024)
}
