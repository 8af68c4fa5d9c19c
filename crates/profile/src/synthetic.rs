//! Profiles made in memory, for tests: the writing side of `homefree-wire` without a recorder.

use homefree_wire::records::{self, STILL_MAPPED};
use homefree_wire::{
    BANKS, BankValue, FLOWS, FLOWS_AT, FlowValue, HeaderValue, LIFE_BUCKETS, MAGIC, NODES, PAGE,
    PAGE_MAGIC, SITES, SIZE_BUCKETS, SiteValue, VERSION, bank, kind, life_bucket, state,
};

/// Collects entries, then lays them out as pages.
pub(crate) struct Writer {
    pub header: HeaderValue,
    nodes: Vec<(u64, u32)>,
    banks: Vec<BankValue>,
    sites: Vec<(u32, SiteValue)>,
    flows: Vec<(u32, FlowValue)>,
    records: Vec<Vec<u8>>,
}

/// One tick of the profiles made here, nanoseconds.
pub(crate) const TICK_NS: u64 = 4;

impl Writer {
    pub fn new(pid: u32) -> Self {
        let header = HeaderValue {
            magic: u64::from_le_bytes(MAGIC),
            version: VERSION,
            page_size: PAGE as u32,
            pid,
            id: u64::from(pid) * 7 + 1,
            run_id: 0xabc,
            depth: 64,
            start_realtime_ns: 1_700_000_000_000_000_000,
            start_monotonic_ns: 1_000,
            start_ticks: 50,
            last_monotonic_ns: 1_000 + 12_300_000_000,
            last_ticks: 50 + 12_300_000_000 / TICK_NS,
            state: state::ENDED,
            ..HeaderValue::default()
        };
        Writer {
            header,
            nodes: Vec::new(),
            banks: Vec::new(),
            sites: Vec::new(),
            flows: Vec::new(),
            records: Vec::new(),
        }
    }

    /// A stack of program counters, outermost first; returns its innermost node.
    pub fn stack(&mut self, pcs: &[u64]) -> u32 {
        pcs.iter().fold(0, |parent, &pc| self.node(pc, parent))
    }

    pub fn node(&mut self, pc: u64, parent: u32) -> u32 {
        self.nodes.push((pc, parent));
        slot(self.nodes.len() - 1, NODES)
    }

    /// A bank; returns its id.
    pub fn bank(&mut self, bank: BankValue) -> u32 {
        self.banks.push(bank);
        slot(self.banks.len() - 1, BANKS)
    }

    /// The bank of a live thread of a role.
    pub fn thread(&mut self, role: u32) -> u32 {
        self.header.threads += 1;
        self.bank(BankValue {
            state: bank::LIVE,
            role,
            ..BankValue::default()
        })
    }

    pub fn site(&mut self, bank: u32, site: SiteValue) {
        self.sites.push((bank, site));
    }

    /// `allocs` blocks of `size` bytes, `home` of them freed at home.
    pub fn allocated(&mut self, bank: u32, node: u32, allocs: u64, home: u64, size: u64) {
        self.site(
            bank,
            SiteValue {
                node,
                allocs,
                bytes: allocs * size,
                home_frees: home,
                home_bytes: home * size,
                ..SiteValue::default()
            },
        );
    }

    pub fn flow(&mut self, bank: u32, flow: FlowValue) {
        self.flows.push((bank, flow));
    }

    /// `count` blocks of `size` bytes freed by `bank`'s thread after `life_ns`.
    pub fn freed(
        &mut self,
        bank: u32,
        alloc: (u32, u32),
        free_node: u32,
        count: u64,
        size: u64,
        life_ns: u64,
    ) {
        let mut flow = FlowValue {
            head: Default::default(),
            life: [0; LIFE_BUCKETS],
            size: [0; SIZE_BUCKETS],
        };
        (flow.head.alloc_role, flow.head.alloc_node) = alloc;
        flow.head.free_node = free_node;
        flow.head.count = count;
        flow.head.bytes = count * size;
        flow.life[life_bucket(life_ns / TICK_NS)] = count as u32;
        self.flow(bank, flow);
    }

    /// Marks the last flow as one on the allocating thread.
    pub fn last_flow_is_home(&mut self) {
        if let Some((_, flow)) = self.flows.last_mut() {
            flow.head.flags |= homefree_wire::flow::HOME;
        }
    }

    pub fn module(&mut self, id: u32, range: (u64, u64), build_id: &[u8], path: &str) {
        let module = records::Module {
            id,
            bias: range.0,
            start: range.0,
            end: range.1,
            first_node: 0,
            last_node: STILL_MAPPED,
            build_id,
            path: path.as_bytes(),
        };
        self.record(|out| module.encode(out));
    }

    pub fn role(&mut self, id: u32, kind: u32, name: &str, ended: u64) {
        self.header.threads += ended;
        let role = records::Role {
            id,
            kind,
            ended,
            start: 0,
            name: name.as_bytes(),
        };
        self.record(|out| role.encode(out));
    }

    pub fn text(&mut self, tag: u16, text: &str) {
        self.record(|out| records::encode_text(tag, text.as_bytes(), out));
    }

    pub fn record(&mut self, encode: impl FnOnce(&mut records::Buffer) -> usize) {
        let mut buffer = [0; PAGE];
        let len = encode(&mut buffer);
        self.records.push(buffer[..len].to_vec());
    }

    /// The file.
    pub fn finish(mut self) -> Vec<u8> {
        let mut pages: Vec<[u8; PAGE]> = Vec::new();
        let nodes = self.nodes.iter().map(|(pc, parent)| {
            let mut entry = pc.to_le_bytes().to_vec();
            entry.extend(parent.to_le_bytes());
            entry
        });
        lay(&mut pages, kind::NODES, 0, PAGE / NODES, NODES - 1, nodes);
        let banks = self.banks.iter().map(encode_bank);
        lay(&mut pages, kind::BANKS, 0, PAGE / BANKS, BANKS - 1, banks);
        let mut owners: Vec<u32> = self.sites.iter().map(|s| s.0).collect();
        owners.extend(self.flows.iter().map(|f| f.0));
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            let sites = self.sites.iter().filter(|s| s.0 == owner);
            let sites = sites.map(|(_, s)| encode_site(s));
            lay(
                &mut pages,
                kind::SITES,
                owner,
                PAGE / SITES,
                SITES - 1,
                sites,
            );
            let flows = self.flows.iter().filter(|f| f.0 == owner);
            let flows = flows.map(|(_, f)| encode_flow(f));
            let size = (PAGE - FLOWS_AT) / FLOWS;
            lay(&mut pages, kind::FLOWS, owner, size, FLOWS, flows);
        }
        let mut at = PAGE;
        let mut seq = 0;
        for record in &self.records {
            if at + record.len() > PAGE {
                pages.push(head(kind::RECORDS, seq, 0));
                seq += 1;
                at = records::RECORDS_AT;
            }
            if let Some(page) = pages.last_mut() {
                page[at..at + record.len()].copy_from_slice(record);
            }
            at += record.len();
        }
        self.header.pages = pages.len() as u64 + 1;
        self.header.nodes = (self.nodes.len() * NODES / (NODES - 1) + 1) as u64;
        let mut file = encode_header(&self.header);
        file.resize(PAGE, 0);
        file.extend(pages.iter().flatten());
        file
    }
}

/// Id of the `index`th entry where slot 0 of every page is its head.
fn slot(index: usize, slots: usize) -> u32 {
    (index / (slots - 1) * slots + index % (slots - 1) + 1) as u32
}

fn head(kind: u16, seq: u32, owner: u32) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page[0..4].copy_from_slice(&PAGE_MAGIC.to_le_bytes());
    page[4..6].copy_from_slice(&kind.to_le_bytes());
    page[8..12].copy_from_slice(&seq.to_le_bytes());
    page[12..16].copy_from_slice(&owner.to_le_bytes());
    page
}

fn lay(
    pages: &mut Vec<[u8; PAGE]>,
    kind: u16,
    owner: u32,
    size: usize,
    per_page: usize,
    entries: impl Iterator<Item = Vec<u8>>,
) {
    let first = PAGE - per_page * size;
    for (i, entry) in entries.enumerate() {
        if i % per_page == 0 {
            pages.push(head(kind, (i / per_page) as u32, owner));
        }
        if let Some(page) = pages.last_mut() {
            let at = first + i % per_page * size;
            page[at..at + entry.len()].copy_from_slice(&entry);
        }
    }
}

/// Fields in their order; none of the entries has padding between them.
macro_rules! bytes_of {
    ($value:expr, $($field:ident)*) => {{
        let value = $value;
        let mut out = Vec::new();
        $(out.extend(value.$field.to_le_bytes());)*
        out
    }};
}

fn encode_header(h: &HeaderValue) -> Vec<u8> {
    bytes_of!(h, magic version page_size pid ppid id parent_id run_id stacks depth free_stacks clock
        sample_bytes start_realtime_ns start_monotonic_ns start_ticks state full last_monotonic_ns
        last_ticks pages nodes threads threads_live)
}

fn encode_bank(b: &BankValue) -> Vec<u8> {
    bytes_of!(b, state role tid sites flows reserved unknown_frees reentrant untracked lost late
        failed lost_bytes lost_allocs lost_remote)
}

fn encode_site(s: &SiteValue) -> Vec<u8> {
    bytes_of!(s, node flags allocs bytes home_frees home_bytes var_allocs var_home samples_allocs
        samples_home)
}

fn encode_flow(f: &FlowValue) -> Vec<u8> {
    let mut out = bytes_of!(f.head, alloc_node free_node alloc_role flags count bytes var samples
        life_ticks reserved);
    out.extend(f.life.iter().chain(&f.size).flat_map(|n| n.to_le_bytes()));
    out
}
