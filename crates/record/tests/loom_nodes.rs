//! The specification of interning stacks (`src/nodes.rs`), checked in every interleaving:
//!
//! 1. Two threads that intern the same frame get the same node.
//! 2. Who finds a node by the chain sees its frame whole.
//! 3. No node is lost: after all is done, every frame is found by its chain, once.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p homefree-record --test loom_nodes`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

const SLOTS: usize = 6;

#[derive(Default)]
struct Node {
    pc: AtomicU64,
    parent: AtomicU32,
    link: AtomicU32,
}

/// One chain of the table and the slots it draws from.
struct Chain {
    head: AtomicU32,
    next: AtomicU32,
    nodes: [Node; SLOTS],
}

impl Chain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            head: AtomicU32::new(0),
            next: AtomicU32::new(1),
            nodes: Default::default(),
        })
    }

    fn find(&self, parent: u32, pc: u64, from: u32, until: u32) -> Option<u32> {
        let mut id = from;
        while id != until && id != 0 {
            let node = &self.nodes[id as usize];
            let found = node.pc.load(Ordering::Relaxed);
            // Promise 2: a node on the chain has its frame.
            assert_ne!(found, 0, "a node on the chain without its frame");
            if found == pc && node.parent.load(Ordering::Relaxed) == parent {
                return Some(id);
            }
            id = node.link.load(Ordering::Relaxed);
        }
        None
    }

    fn intern(&self, parent: u32, pc: u64) -> u32 {
        let mut first = self.head.load(Ordering::Acquire);
        if let Some(id) = self.find(parent, pc, first, 0) {
            return id;
        }
        let id = self.next.fetch_add(1, Ordering::AcqRel);
        let node = &self.nodes[id as usize];
        node.parent.store(parent, Ordering::Relaxed);
        node.pc.store(pc, Ordering::Relaxed);
        loop {
            node.link.store(first, Ordering::Relaxed);
            match self
                .head
                .compare_exchange(first, id, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return id,
                Err(now) => {
                    if let Some(other) = self.find(parent, pc, now, first) {
                        node.pc.store(0, Ordering::Relaxed);
                        return other;
                    }
                    first = now;
                }
            }
        }
    }

    fn on_chain(&self) -> Vec<(u32, u64)> {
        let mut all = Vec::new();
        let mut id = self.head.load(Ordering::Acquire);
        while id != 0 {
            let node = &self.nodes[id as usize];
            all.push((
                node.parent.load(Ordering::Relaxed),
                node.pc.load(Ordering::Relaxed),
            ));
            id = node.link.load(Ordering::Relaxed);
        }
        all.sort_unstable();
        all
    }
}

#[test]
fn the_same_frame_is_the_same_node() {
    loom::model(|| {
        let chain = Chain::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let chain = chain.clone();
                thread::spawn(move || chain.intern(0, 7))
            })
            .collect();
        let here = chain.intern(0, 7);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), here);
        }
        assert_eq!(chain.on_chain(), [(0, 7)]);
    });
}

#[test]
fn no_frame_is_lost() {
    loom::model(|| {
        let chain = Chain::new();
        let other = {
            let chain = chain.clone();
            thread::spawn(move || (chain.intern(0, 7), chain.intern(0, 8)))
        };
        let here = (chain.intern(0, 8), chain.intern(0, 9));
        let there = other.join().unwrap();
        assert_eq!(here.0, there.1);
        assert_ne!(here.1, there.0);
        assert_eq!(chain.on_chain(), [(0, 7), (0, 8), (0, 9)]);
    });
}
