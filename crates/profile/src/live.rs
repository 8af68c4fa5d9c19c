//! Cheap sums of a profile that is still being written, for a status line.

use homefree_wire::{
    BANKS, BankValue, FLOWS, FLOWS_AT, FlowHeadValue, Header, PAGE, PAGE_MAGIC, PageHeadValue,
    SITES, SiteValue, flow, kind, state,
};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Sums over a whole profile. Each word is read whole, but not all at one instant: while the program
/// runs, sums may be off against each other by what happened during the read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Allocations and frees together.
    pub events: u64,
    /// Allocations.
    pub allocations: u64,
    /// Bytes requested by them.
    pub allocated_bytes: u64,
    /// Frees on the allocating thread.
    pub frees_home: u64,
    /// Frees on another thread.
    pub frees_remote: u64,
    /// Frees of blocks with no recorded allocation.
    pub frees_unknown: u64,
    /// Allocated and not yet freed, bytes.
    pub live_bytes: u64,
    /// Threads ever seen.
    pub threads: u64,
    /// How many times the file could not grow.
    pub full: u32,
    /// Process id.
    pub pid: u32,
    /// The launcher's run; 0 without.
    pub run_id: u64,
    /// One of [`homefree_wire::state`].
    pub state: u32,
}

impl Counters {
    /// Reads the sums; `None` where the file is not (yet) a profile. It takes one pass over the file
    /// and allocates one buffer of 64 KiB.
    pub fn read(path: &Path) -> Option<Counters> {
        let mut file = File::open(path).ok()?;
        let mut buffer = vec![0u8; 16 * PAGE];
        let (mut sums, mut pages) = (None::<Sums>, 0);
        loop {
            let len = fill(&mut file, &mut buffer)?;
            for page in buffer[..len].chunks_exact(PAGE) {
                match &mut sums {
                    None => {
                        let header = Header::check(page).ok()?;
                        pages = header.pages;
                        sums = Some(Sums::new(&header));
                    }
                    Some(sums) => sums.add(page)?,
                }
                pages = pages.saturating_sub(1);
                if pages == 0 {
                    return Some(sums?.finish());
                }
            }
            if len < buffer.len() {
                return Some(sums?.finish());
            }
        }
    }

    /// True when the program ended in order.
    pub fn ended(&self) -> bool {
        self.state == state::ENDED
    }
}

struct Sums {
    counters: Counters,
    freed_bytes: u64,
}

impl Sums {
    fn new(header: &homefree_wire::HeaderValue) -> Self {
        Sums {
            counters: Counters {
                threads: header.threads,
                full: header.full,
                pid: header.pid,
                run_id: header.run_id,
                state: header.state,
                ..Counters::default()
            },
            freed_bytes: 0,
        }
    }

    fn add(&mut self, page: &[u8]) -> Option<()> {
        let head = PageHeadValue::decode(page)?;
        if head.magic != PAGE_MAGIC {
            return Some(());
        }
        let c = &mut self.counters;
        match head.kind {
            kind::BANKS => {
                let banks = page.chunks_exact(PAGE / BANKS).skip(1);
                for bank in banks.filter_map(BankValue::decode).filter(|b| b.state != 0) {
                    add(&mut c.frees_unknown, bank.unknown_frees);
                    add(&mut c.allocations, bank.lost_allocs);
                    add(&mut c.allocated_bytes, bank.lost_bytes);
                    add(&mut c.frees_remote, bank.lost_remote);
                }
            }
            kind::SITES => {
                let sites = page.chunks_exact(PAGE / SITES).skip(1);
                for site in sites.filter_map(SiteValue::decode).filter(|s| s.node != 0) {
                    add(&mut c.allocations, site.allocs);
                    add(&mut c.allocated_bytes, site.bytes);
                    add(&mut c.frees_home, site.home_frees);
                    add(&mut self.freed_bytes, site.home_bytes);
                }
            }
            kind::FLOWS => {
                let flows = page[FLOWS_AT..].chunks_exact((PAGE - FLOWS_AT) / FLOWS);
                for flow in flows.filter_map(FlowHeadValue::decode) {
                    if flow.alloc_node != 0 && flow.flags & flow::HOME == 0 {
                        add(&mut c.frees_remote, flow.count);
                        add(&mut self.freed_bytes, flow.bytes);
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    fn finish(self) -> Counters {
        let mut c = self.counters;
        c.live_bytes = c.allocated_bytes.saturating_sub(self.freed_bytes);
        c.events = c.allocations;
        for frees in [c.frees_home, c.frees_remote, c.frees_unknown] {
            add(&mut c.events, frees);
        }
        c
    }
}

fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

fn fill(file: &mut File, buffer: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(len)
}
