//! The calling-context tree: stacks interned frame by frame, shared by all threads, without a lock.
//!
//! A node is found by (parent, address) through chains of a fixed hash table. Insertion fills a slot
//! that nobody knows yet and publishes it by one compare-and-swap of the chain's head; who loses looks
//! only at what was put in front meanwhile. Nodes are never removed; a node whose module was unloaded
//! is marked, and thereby not found any more. The model that specifies this is `tests/loom_nodes.rs`.

use crate::arena::ARENA;
use crate::modules;
use core::sync::atomic::{AtomicU32, Ordering};
use homefree_wire::{NODES, Node, kind, node};

const BUCKETS: usize = 1 << 16;
/// 2^16 pages of 255 nodes: 16 million frames.
const PAGES: usize = 1 << 16;

struct Nodes {
    heads: [AtomicU32; BUCKETS],
    /// Page number in the arena of each page of nodes; 0 while there is none.
    pages: [AtomicU32; PAGES],
    /// Nodes handed out; the first, id 0, is none.
    next: AtomicU32,
    /// A page that was handed out for a place which another thread filled first; 0 for none.
    spare: AtomicU32,
}

static NODES_TABLE: Nodes = Nodes {
    heads: [const { AtomicU32::new(0) }; BUCKETS],
    pages: [const { AtomicU32::new(0) }; PAGES],
    next: AtomicU32::new(0),
    spare: AtomicU32::new(0),
};

/// Nodes handed out so far.
pub(crate) fn count() -> u32 {
    NODES_TABLE.next.load(Ordering::Acquire)
}

#[inline]
fn bucket(parent: u32, pc: u64) -> usize {
    let mixed =
        (pc ^ (u64::from(parent) << 32 | u64::from(parent))).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as usize & (BUCKETS - 1)
}

fn get(id: u32) -> Option<&'static Node> {
    let page = NODES_TABLE
        .pages
        .get(id as usize / NODES)?
        .load(Ordering::Acquire);
    if page == 0 {
        return None;
    }
    let at = (id as usize % NODES) * size_of::<Node>();
    // SAFETY: a slot of a page of nodes; pages stay mapped; atomics only.
    Some(unsafe { &*ARENA.page(page).as_ptr().add(at).cast::<Node>() })
}

/// Looks along a chain from `from` until `until`.
fn find(parent: u32, pc: u64, from: u32, until: u32) -> Option<u32> {
    let mut id = from;
    while id != until && id != 0 {
        let node = get(id)?;
        if node.pc.load(Ordering::Relaxed) == pc && node.parent.load(Ordering::Relaxed) == parent {
            return Some(id);
        }
        id = node.link.load(Ordering::Relaxed);
    }
    None
}

/// The node of a frame (`pc` with its [`node`] flags) under `parent`. 0 where there is no room left.
pub(crate) fn intern(parent: u32, pc: u64) -> u32 {
    let head = &NODES_TABLE.heads[bucket(parent, pc)];
    let mut first = head.load(Ordering::Acquire);
    if let Some(id) = find(parent, pc, first, 0) {
        return id;
    }
    // The module that owns the address is on record before the node.
    modules::ensure((pc & node::PC_MASK) as usize);
    let Some((id, node)) = add() else { return 0 };
    node.parent.store(parent, Ordering::Relaxed);
    node.pc.store(pc, Ordering::Release);
    loop {
        node.link.store(first, Ordering::Relaxed);
        match head.compare_exchange_weak(first, id, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return id,
            Err(now) => {
                if let Some(other) = find(parent, pc, now, first) {
                    // Another thread was first; the slot stays empty.
                    node.pc.store(0, Ordering::Relaxed);
                    return other;
                }
                first = now;
            }
        }
    }
}

fn add() -> Option<(u32, &'static Node)> {
    loop {
        let id = NODES_TABLE.next.fetch_add(1, Ordering::AcqRel);
        let (seq, slot) = (id as usize / NODES, id as usize % NODES);
        if seq >= PAGES {
            NODES_TABLE.next.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        if slot == 0 {
            continue;
        }
        let place = &NODES_TABLE.pages[seq];
        if place.load(Ordering::Acquire) == 0 {
            let spare = NODES_TABLE.spare.swap(0, Ordering::AcqRel);
            let page = if spare != 0 {
                spare
            } else {
                match ARENA.add_page(kind::NODES, seq as u32, 0) {
                    Some(page) => page,
                    None => {
                        // Not used up, unless another thread was faster.
                        let _ = NODES_TABLE.next.compare_exchange(
                            id + 1,
                            id,
                            Ordering::AcqRel,
                            Ordering::Relaxed,
                        );
                        return None;
                    }
                }
            };
            // SAFETY: the page is this thread's until it is placed; atomics only.
            let head = unsafe { ARENA.page(page).cast::<homefree_wire::PageHead>().as_ref() };
            head.seq.store(seq as u32, Ordering::Relaxed);
            if place
                .compare_exchange(0, page, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                // As a page of a place far away it is empty and harms no reader.
                head.seq.store(u32::MAX, Ordering::Relaxed);
                NODES_TABLE.spare.store(page, Ordering::Release);
            }
        }
        ARENA
            .header()
            .nodes
            .fetch_max(u64::from(id) + 1, Ordering::Relaxed);
        return get(id).map(|node| (id, node));
    }
}

/// Marks the nodes of `start..end`, so that the addresses get new nodes: another module is there now.
pub(crate) fn retire(start: usize, end: usize) {
    for id in 1..count() {
        let Some(node) = get(id) else { continue };
        let pc = node.pc.load(Ordering::Relaxed);
        if (start..end).contains(&((pc & node::PC_MASK) as usize)) {
            node.pc.store(pc | node::DEAD, Ordering::Relaxed);
        }
    }
}
