//! A bank's sites and flows, with the indices that find them. One writer at a time.

use crate::arena::ARENA;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use homefree_thread::sys;
use homefree_wire::{Bank, FLOWS, Flow, FlowHead, SITES, Site, bank, kind};

/// Open addressing from a 32-bit key to a 32-bit value that is not 0; several values may have one key.
struct Index {
    entries: Option<NonNull<u64>>,
    capacity: u32,
    len: u32,
}

/// One page of entries.
const FIRST: u32 = 512;

impl Index {
    const fn new() -> Self {
        Self {
            entries: None,
            capacity: 0,
            len: 0,
        }
    }

    fn entries(&self) -> &[u64] {
        // SAFETY: `capacity` words, mapped zeroed; this value is their only user.
        self.entries.map_or(&[], |e| unsafe {
            core::slice::from_raw_parts(e.as_ptr(), self.capacity as usize)
        })
    }

    fn home(key: u32, capacity: u32) -> u32 {
        (u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & (capacity - 1)
    }

    /// The value under `key` that `is_it` accepts.
    fn find(&self, key: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let entries = self.entries();
        if entries.is_empty() {
            return None;
        }
        let mut at = Self::home(key, self.capacity);
        loop {
            let entry = entries[at as usize];
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == key && is_it(entry as u32) {
                return Some(entry as u32);
            }
            at = (at + 1) & (self.capacity - 1);
        }
    }

    /// Makes room for one more. False where memory is refused.
    fn reserve(&mut self) -> bool {
        if self.len * 4 < self.capacity * 3 {
            return true;
        }
        let capacity = (self.capacity * 2).max(FIRST);
        let Some(fresh) = sys::map(capacity as usize * 8) else {
            return false;
        };
        let old = core::mem::replace(
            self,
            Self {
                entries: Some(fresh.cast()),
                capacity,
                len: 0,
            },
        );
        for &entry in old.entries().iter().filter(|&&e| e != 0) {
            self.insert((entry >> 32) as u32, entry as u32);
        }
        if let Some(entries) = old.entries {
            // SAFETY: replaced above; nothing refers to it.
            unsafe { sys::unmap(entries.cast(), old.capacity as usize * 8) };
        }
        true
    }

    /// Inserts; there is room.
    fn insert(&mut self, key: u32, value: u32) {
        let Some(entries) = self.entries else { return };
        // SAFETY: as in `entries`, and `&mut self`.
        let entries =
            unsafe { core::slice::from_raw_parts_mut(entries.as_ptr(), self.capacity as usize) };
        let mut at = Self::home(key, self.capacity);
        while entries[at as usize] != 0 {
            at = (at + 1) & (self.capacity - 1);
        }
        entries[at as usize] = u64::from(key) << 32 | u64::from(value);
        self.len += 1;
    }

    fn values(&self) -> impl Iterator<Item = u32> {
        self.entries()
            .iter()
            .filter(|&&e| e != 0)
            .map(|&e| e as u32)
    }
}

/// What distinguishes flows of one bank.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowKey {
    pub alloc_node: u32,
    pub free_node: u32,
    pub alloc_role: u32,
    pub flags: u32,
}

impl FlowKey {
    fn hash(self) -> u32 {
        let a = u64::from(self.alloc_node) << 32 | u64::from(self.free_node);
        let b = u64::from(self.alloc_role) << 1 | u64::from(self.flags);
        let mixed = (a ^ b.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as u32
    }

    fn is(self, head: &FlowHead) -> bool {
        head.alloc_node.load(Ordering::Relaxed) == self.alloc_node
            && head.free_node.load(Ordering::Relaxed) == self.free_node
            && head.alloc_role.load(Ordering::Relaxed) == self.alloc_role
            && head.flags.load(Ordering::Relaxed) == self.flags
    }
}

/// A bank with its sites and flows.
pub(crate) struct Tables {
    bank: Option<&'static Bank>,
    id: u32,
    sites: Index,
    flows: Index,
    site_page: u32,
    flow_page: u32,
    /// Slots of sites and entries of flows used; the bank has copies, for the reader.
    sites_len: u32,
    flows_len: u32,
}

// SAFETY: the mappings behind the indices belong to this value alone.
unsafe impl Send for Tables {}

impl Tables {
    pub const fn new() -> Self {
        Self {
            bank: None,
            id: 0,
            sites: Index::new(),
            flows: Index::new(),
            site_page: 0,
            flow_page: 0,
            sites_len: 0,
            flows_len: 0,
        }
    }

    /// Whether nothing was ever counted here.
    pub fn is_new(&self) -> bool {
        self.bank.is_none()
    }

    /// The bank, made at the first call. `None` where the file has no room.
    pub fn bank(&mut self) -> Option<&'static Bank> {
        if self.bank.is_none() {
            let (id, bank) = ARENA.add_bank()?;
            self.id = id;
            // SAFETY: banks lie in the arena, which is never unmapped.
            self.bank = Some(unsafe { &*core::ptr::from_ref(bank) });
        }
        self.bank
    }

    /// Reference of the site of a stack, made if it is new. `None` where there is no room.
    pub fn site(&mut self, node: u32) -> Option<u32> {
        if let Some(site) = self.sites.find(node, |_| true) {
            return Some(site);
        }
        self.add_site(node)
    }

    #[cold]
    #[inline(never)]
    fn add_site(&mut self, node: u32) -> Option<u32> {
        let bank = self.bank()?;
        if node == 0 || !self.sites.reserve() {
            return None;
        }
        let mut index = self.sites_len;
        if (index as usize).is_multiple_of(SITES) {
            self.site_page = ARENA.add_page(kind::SITES, index / SITES as u32, self.id)?;
            index += 1;
        }
        self.sites_len = index + 1;
        bank.sites.store(self.sites_len, Ordering::Relaxed);
        let reference = self.site_page * SITES as u32 + index % SITES as u32;
        // SAFETY: a slot of the page just handed out or of the last one.
        unsafe { ARENA.site(reference) }
            .node
            .store(node, Ordering::Release);
        self.sites.insert(node, reference);
        Some(reference)
    }

    /// Reference of a flow, made if it is new. `None` where there is no room.
    pub fn flow(&mut self, key: FlowKey) -> Option<u32> {
        let hash = key.hash();
        let is_it = |flow| {
            // SAFETY: the index holds references of this arena.
            key.is(unsafe { &ARENA.flow(flow).head })
        };
        if let Some(flow) = self.flows.find(hash, is_it) {
            return Some(flow);
        }
        self.add_flow(key, hash)
    }

    #[cold]
    #[inline(never)]
    fn add_flow(&mut self, key: FlowKey, hash: u32) -> Option<u32> {
        let bank = self.bank()?;
        if key.alloc_node == 0 || !self.flows.reserve() {
            return None;
        }
        let index = self.flows_len;
        if (index as usize).is_multiple_of(FLOWS) {
            self.flow_page = ARENA.add_page(kind::FLOWS, index / FLOWS as u32, self.id)?;
        }
        self.flows_len = index + 1;
        bank.flows.store(self.flows_len, Ordering::Relaxed);
        let reference = (self.flow_page << 4) | (index % FLOWS as u32);
        // SAFETY: an entry of the page just handed out or of the last one.
        let head = unsafe { &ARENA.flow(reference).head };
        head.free_node.store(key.free_node, Ordering::Relaxed);
        head.alloc_role.store(key.alloc_role, Ordering::Relaxed);
        head.flags.store(key.flags, Ordering::Relaxed);
        head.alloc_node.store(key.alloc_node, Ordering::Release);
        self.flows.insert(hash, reference);
        Some(reference)
    }

    /// Moves all counts to `to`; sites and flows stay known here, with zero counts.
    pub fn drain_into(&mut self, to: &mut Tables) {
        let (Some(from_bank), Some(to_bank)) = (self.bank, to.bank()) else {
            return;
        };
        for site in self.sites.values() {
            // SAFETY: the index holds references of this arena.
            let from = unsafe { ARENA.site(site) };
            if from.allocs.load(Ordering::Relaxed) | from.home_frees.load(Ordering::Relaxed) == 0 {
                continue;
            }
            match to.site(from.node.load(Ordering::Relaxed)) {
                // SAFETY: a reference just given.
                Some(site) => move_site(from, unsafe { ARENA.site(site) }),
                None => lose_site(from, to_bank),
            }
        }
        for flow in self.flows.values() {
            // SAFETY: as above.
            let from = unsafe { ARENA.flow(flow) };
            if from.head.count.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let key = FlowKey {
                alloc_node: from.head.alloc_node.load(Ordering::Relaxed),
                free_node: from.head.free_node.load(Ordering::Relaxed),
                alloc_role: from.head.alloc_role.load(Ordering::Relaxed),
                flags: from.head.flags.load(Ordering::Relaxed),
            };
            match to.flow(key) {
                // SAFETY: a reference just given.
                Some(flow) => move_flow(from, unsafe { ARENA.flow(flow) }),
                None => lose_flow(from, to_bank),
            }
        }
        macro_rules! move_counts {
            ($($f:ident)*) => { $( add(&to_bank.$f, from_bank.$f.swap(0, Ordering::Relaxed)); )* };
        }
        move_counts!(unknown_frees reentrant untracked lost late failed lost_bytes lost_allocs lost_remote);
    }
}

use core::sync::atomic::AtomicU64;

/// Adds to a counter that only the caller writes.
#[inline(always)]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(n),
        Ordering::Relaxed,
    );
}

/// Adds to a double in a counter's place that only the caller writes.
pub(crate) fn add_double(counter: &AtomicU64, x: f64) {
    let sum = f64::from_bits(counter.load(Ordering::Relaxed)) + x;
    counter.store(sum.to_bits(), Ordering::Relaxed);
}

fn move_double(from: &AtomicU64, to: &AtomicU64) {
    add_double(to, f64::from_bits(from.swap(0, Ordering::Relaxed)));
}

fn move_site(from: &Site, to: &Site) {
    macro_rules! move_counts {
        ($($f:ident)*) => { $( add(&to.$f, from.$f.swap(0, Ordering::Relaxed)); )* };
    }
    move_counts!(allocs bytes home_frees home_bytes);
    move_double(&from.var_allocs, &to.var_allocs);
    move_double(&from.var_home, &to.var_home);
    to.samples_allocs.fetch_add(
        from.samples_allocs.swap(0, Ordering::Relaxed),
        Ordering::Relaxed,
    );
    to.samples_home.fetch_add(
        from.samples_home.swap(0, Ordering::Relaxed),
        Ordering::Relaxed,
    );
}

fn lose_site(from: &Site, to: &Bank) {
    let allocs = from.allocs.swap(0, Ordering::Relaxed);
    add(&to.lost_allocs, allocs);
    add(&to.lost_bytes, from.bytes.swap(0, Ordering::Relaxed));
    add(
        &to.lost,
        allocs + from.home_frees.swap(0, Ordering::Relaxed),
    );
    zero_site(from);
}

fn move_flow(from: &Flow, to: &Flow) {
    macro_rules! move_counts {
        ($($f:ident)*) => { $( add(&to.head.$f, from.head.$f.swap(0, Ordering::Relaxed)); )* };
    }
    move_counts!(count bytes samples life_ticks);
    move_double(&from.head.var, &to.head.var);
    for (from, to) in from
        .life
        .iter()
        .chain(&from.size)
        .zip(to.life.iter().chain(&to.size))
    {
        let n = from.swap(0, Ordering::Relaxed);
        to.store(
            to.load(Ordering::Relaxed).saturating_add(n),
            Ordering::Relaxed,
        );
    }
}

fn lose_flow(from: &Flow, to: &Bank) {
    let count = from.head.count.swap(0, Ordering::Relaxed);
    add(&to.lost, count);
    add(&to.lost_remote, count);
    zero_flow(from);
}

macro_rules! zero {
    ($entry:expr; $($f:ident)*) => { $( $entry.$f.store(0, Ordering::Relaxed); )* };
}

/// Zeroes a bank's counters; a live one becomes idle.
pub(crate) fn zero_bank(b: &Bank) {
    zero!(b; unknown_frees reentrant untracked lost late failed lost_bytes lost_allocs lost_remote);
    if b.state.load(Ordering::Relaxed) == bank::LIVE {
        b.state.store(bank::IDLE, Ordering::Relaxed);
    }
}

/// Zeroes a site's counters.
pub(crate) fn zero_site(s: &Site) {
    zero!(s; allocs bytes home_frees home_bytes var_allocs var_home samples_allocs samples_home);
}

/// Zeroes a flow's counters.
pub(crate) fn zero_flow(f: &Flow) {
    zero!(f.head; count bytes var samples life_ticks);
    f.life
        .iter()
        .chain(&f.size)
        .for_each(|bucket| bucket.store(0, Ordering::Relaxed));
}
