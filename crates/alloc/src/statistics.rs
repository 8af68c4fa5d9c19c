//! What the allocator knows because the pages are its own.

use crate::class::{CLASSES, block_size};
use crate::heap::{Heap, ORPHANS};
use crate::page::{NOT_ASKED, Remote, UNIT, kind};
use crate::{huge, malloc, pool, region, registry};
use core::fmt::{self, Display, Formatter};
use core::sync::atomic::Ordering::Relaxed;
use homefree_thread::sys;

/// Sums over all threads. Exact while no thread allocates or frees; otherwise of some moment near.
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    /// Bytes of blocks with the program, as large as they are (a class, units, whole pages). A block that
    /// another thread freed counts until it is sent home: at most 128 KiB a thread.
    pub live: usize,
    /// Bytes of free blocks in pages that hold live ones, or that a thread allocates from.
    pub cached: usize,
    /// Bytes in nobody's hands that the system has not got back yet.
    pub retained: usize,
    /// Bytes mapped, used or not.
    pub mapped: usize,
    /// Bytes of the whole process in memory, as the kernel counts.
    pub resident: usize,
    /// Bytes of the allocator's own tables.
    pub tables: usize,
    /// Heaps with a thread.
    pub threads: usize,
    /// Blocks with a mapping of their own, and their bytes.
    pub huge: (usize, usize),
    /// Frees and the like of addresses that are not the allocator's.
    pub foreign: u64,
    /// By class, smallest first.
    pub classes: [ClassStatistics; CLASSES],
}

/// One size class. Counts of events are of the process's life, modulo 2^32 for each thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassStatistics {
    /// Bytes of a block.
    pub size: usize,
    /// Pages.
    pub pages: usize,
    /// Blocks with the program.
    pub live: usize,
    /// How often a thread had to leave its own page: it was used up.
    pub refills: u64,
    /// ... and the pool's lock was taken for the next.
    pub locks: u64,
    /// Batches of blocks sent home to other threads' pages, by one atomic operation each.
    pub sent: u64,
    /// Pages taken back with blocks that other threads had brought.
    pub received: u64,
    /// Frees on another thread than the page's.
    pub remote_frees: u64,
}

/// Reads all numbers. Takes time in proportion to the pages.
pub fn statistics() -> Statistics {
    let mut all = Statistics {
        live: huge::LIVE.load(Relaxed),
        cached: 0,
        retained: pool::RETAINED.load(Relaxed) * UNIT + huge::RETAINED.load(Relaxed),
        mapped: 0,
        resident: resident(),
        tables: registry::HEAP_BYTES.load(Relaxed),
        threads: 0,
        huge: (huge::BLOCKS.load(Relaxed), huge::LIVE.load(Relaxed)),
        foreign: malloc::FOREIGN.load(Relaxed),
        classes: [ClassStatistics::default(); CLASSES],
    };
    all.mapped = pool::MAPPED.load(Relaxed) * UNIT
        + huge::LIVE.load(Relaxed)
        + huge::RETAINED.load(Relaxed)
        + all.tables;
    for (class, of) in all.classes.iter_mut().enumerate() {
        of.size = block_size(class);
    }
    region::each(|page| {
        if page.kind.load(Relaxed) == kind::SPAN {
            match page.asked.load(Relaxed) {
                NOT_ASKED => all.cached += page.bytes(),
                _ => all.live += page.bytes(),
            }
            return;
        }
        let of = &mut all.classes[page.class.load(Relaxed) as usize];
        let back = Remote(page.remote.load(Relaxed)).count();
        let live = page.out().saturating_sub(back) as usize;
        of.pages += 1;
        of.live += live;
        all.live += live * of.size;
        all.cached += (page.carved.load(Relaxed) as usize).saturating_sub(live) * of.size;
    });
    let mut add = |heap: &Heap| {
        all.threads += usize::from(heap.owner.load(Relaxed) != 0);
        for (class, of) in all.classes.iter_mut().enumerate() {
            let counts = heap.counts.of(class);
            of.refills += u64::from(counts.refills.get());
            of.locks += u64::from(counts.pool.get());
            of.sent += u64::from(counts.sent.get());
            of.received += u64::from(counts.received.get());
            of.remote_frees += u64::from(counts.remote_frees.get());
        }
    };
    add(&ORPHANS);
    registry::each(add);
    all
}

fn resident() -> usize {
    let mut text = [0; 128];
    let len = sys::read_file(c"/proc/self/statm", &mut text);
    let mut fields = text[..len].split(|&b| b == b' ');
    let pages = fields.nth(1).unwrap_or_default();
    let digits = pages.iter().take_while(|b| b.is_ascii_digit());
    digits.fold(0usize, |n, &b| {
        n.saturating_mul(10).saturating_add((b - b'0') as usize)
    }) * 4096
}

/// A table: totals, and a line for each class that was used.
impl Display for Statistics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "homefree: live {} B, cached {} B, retained {} B, mapped {} B, resident {} B, tables {} B",
            self.live, self.cached, self.retained, self.mapped, self.resident, self.tables
        )?;
        writeln!(
            f,
            "homefree: {} threads, {} mappings of {} B, {} foreign addresses",
            self.threads, self.huge.0, self.huge.1, self.foreign
        )?;
        writeln!(
            f,
            "homefree: {:>6} {:>7} {:>10} {:>10} {:>8} {:>10} {:>10} {:>12}",
            "size", "pages", "live", "refills", "locks", "sent", "received", "remote frees"
        )?;
        for c in self
            .classes
            .iter()
            .filter(|c| c.pages + c.refills as usize + c.sent as usize > 0)
        {
            writeln!(
                f,
                "homefree: {:>6} {:>7} {:>10} {:>10} {:>8} {:>10} {:>10} {:>12}",
                c.size, c.pages, c.live, c.refills, c.locks, c.sent, c.received, c.remote_frees
            )?;
        }
        Ok(())
    }
}
