//! What the system says of a process's memory.

use std::fs;

/// Bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Private writable memory, resident or not (`VmData`).
    pub reserved: u64,
    /// Resident memory of no file (`RssAnon`).
    pub resident: u64,
}

impl Memory {
    /// Of a living process; `None` where it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        Some(Self {
            reserved: field("VmData:")?,
            resident: field("RssAnon:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_has_memory_and_a_dead_one_none() {
        let own = Memory::of(std::process::id()).unwrap();
        assert!(own.resident > 0 && own.reserved > 0);
        assert_eq!(Memory::parse("Name:\tx\nState:\tZ (zombie)\n"), None);
    }
}
