//! A second measure: what is held can not be more than what the process has address space for.

use crate::pressure::Absent;
use crate::process::process_memory;
use crate::{Ledger, reading};
use homefree_thread::sys;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// The ledger says more than can be: see [`Ledger::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discrepancy {
    /// What the ledger says is held, bytes requested.
    pub balance: u64,
    /// What it can be at most, bytes: address space that can be written to, and what may be counted just before it
    /// is served.
    pub possible: u64,
}

/// Readings that must agree before the ledger is called wrong.
const READINGS: u32 = 3;

impl Ledger {
    /// Compares the balance with the kernel's account of the process. `None`: it can be true.
    ///
    /// Every byte that is held lies in address space that was reserved for it, so a balance above that is wrong: it
    /// was charged for what never was allocated, or a free was missed, as when two `Accounted` are put around each
    /// other, or memory is freed past the ledger by its inner allocator. The reverse is no fault: a process holds
    /// more than its ledger knows (C libraries, stacks, what an allocator keeps), and what was requested and not
    /// touched is not resident. So nothing is compared with resident memory.
    ///
    /// First compared with `VmData`; a balance above that is compared with every mapping that can be written to,
    /// shared ones too. Three readings must agree, because memory comes and goes between two files. Costs some
    /// 8 µs where all is well. Call it on a schedule, or have it watched: [`crate::Watch::check`].
    ///
    /// # Errors
    /// Where `/proc` can not be read: nothing is known then.
    pub fn check(&self) -> Result<Option<Discrepancy>, Absent> {
        let mut found = None;
        for _ in 0..READINGS {
            match once(0)? {
                None => return Ok(None),
                discrepancy => found = discrepancy,
            }
            sys::yield_now();
        }
        Ok(found)
    }
}

/// One comparison, with `more` bytes added to the balance (for tests).
fn once(more: u64) -> Result<Option<Discrepancy>, Absent> {
    let before = process_memory()?.reserved;
    let balance = reading::usage_exact().current + more;
    let after = process_memory()?.reserved;
    // A small request is counted just before it is served: at most the threads' margins.
    let ahead = reading::usage().error;
    let possible = before.max(after) + ahead;
    if balance <= possible {
        return Ok(None);
    }
    let possible = possible.max(writable()? + ahead);
    Ok((balance > possible).then_some(Discrepancy { balance, possible }))
}

/// Bytes of all mappings that heap blocks may lie in: what can be written to, and what is anonymous and can be read
/// (memory that its program has sealed).
fn writable() -> Result<u64, Absent> {
    let file = "/proc/self/maps";
    let unreadable = |error: std::io::Error| Absent::Unreadable {
        file,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    let mut sum = 0u64;
    let maps = File::open(file).map_err(unreadable)?;
    for line in BufReader::with_capacity(4096, maps).lines() {
        sum += writable_in(&line.map_err(unreadable)?);
    }
    Ok(sum)
}

/// Of a line `55a658dc1000-55a658dc2000 rw-p 00000000 00:00 0  [heap]`.
fn writable_in(line: &str) -> u64 {
    let mut fields = line.split_ascii_whitespace();
    let range = fields.next().and_then(|range| range.split_once('-'));
    let rights = fields.next().unwrap_or("");
    let is_anonymous = fields.nth(2) == Some("0");
    let may_hold = rights.contains('w') || (is_anonymous && rights.contains('r'));
    if !may_hold {
        return 0;
    }
    let Some((from, to)) = range else { return 0 };
    let address = |text| u64::from_str_radix(text, 16).unwrap_or(0);
    address(to).saturating_sub(address(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_that_can_not_be_is_found() {
        // As in ClickHouse#117995: 64 GiB were charged and never released.
        let found = once(64 << 30).unwrap().expect("64 GiB too much");
        assert!(found.balance >= 64 << 30 && found.possible < 64 << 30);
        assert_eq!(once(0).unwrap(), None);
    }

    #[test]
    fn what_a_heap_may_lie_in() {
        let line = |rights, inode| {
            std::format!("7f0000000000-7f0000002000 {rights} 00000000 00:00 {inode}   x")
        };
        for (rights, inode, bytes) in [
            ("rw-p", 0, 0x2000),
            ("rw-s", 77, 0x2000),
            ("r--p", 0, 0x2000),
            ("r--p", 77, 0),
            ("---p", 0, 0),
        ] {
            assert_eq!(writable_in(&line(rights, inode)), bytes, "{rights}");
        }
        assert_eq!(writable_in(""), 0);
    }
}
