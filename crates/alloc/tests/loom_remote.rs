//! The specification of how blocks go home (`src/page.rs`, `src/heap.rs`), checked in every interleaving:
//! a page's remote list, its marks for full and noticed, the heap's inbox, the sweep that takes an idle
//! page away while its owner sleeps, and the adoption of an ended thread's pages.
//!
//! The promises: every block that was freed is found exactly once, by whoever collects; a page is in one
//! list at a time; a full page that got a block back is never forgotten; a page is given to the pool only
//! when no block of it is out, and nobody touches it after that.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p homefree-alloc --test loom_remote`.
#![cfg(loom)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "blocks and cells are the test\'s own; it fails where they are not"
)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::*};
use loom::sync::{Arc, Mutex};
use loom::thread;

const FULL: usize = 1 << 6;
const NOTICED: usize = 1 << 7;
const COUNT: usize = FULL - 1;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    None,
    Queue,
    Pool,
}

/// What the heap's lock guards.
struct Lists {
    place: Place,
    orphaned: bool,
}

/// One page with blocks enough, and its heap. Blocks are counted, not linked: a list's links are written
/// before the compare-and-swap that publishes it, as the payload is here.
struct Model {
    /// The page's word: blocks brought, and two bits.
    remote: AtomicUsize,
    /// What the bringers wrote, read by who collects: publication order is checked by loom's cells.
    brought: [UnsafeCell<usize>; 2],
    used: AtomicUsize,
    /// Blocks in the page's own list: the owner's, without atomics.
    free: UnsafeCell<usize>,
    /// Whether the owner's fast path is open.
    owner_may_push: AtomicUsize,
    inbox: AtomicUsize,
    heap_owner: AtomicUsize,
    lists: Mutex<Lists>,
}

impl Model {
    fn new(used: usize, word: usize, place: Place) -> Arc<Self> {
        Arc::new(Self {
            remote: AtomicUsize::new(word),
            brought: [UnsafeCell::new(0), UnsafeCell::new(0)],
            used: AtomicUsize::new(used),
            free: UnsafeCell::new(0),
            owner_may_push: AtomicUsize::new(usize::from(place == Place::Queue)),
            inbox: AtomicUsize::new(0),
            heap_owner: AtomicUsize::new(1),
            lists: Mutex::new(Lists {
                place,
                orphaned: false,
            }),
        })
    }

    /// Another thread brings `n` blocks.
    fn bring(&self, who: usize, n: usize) {
        self.brought[who].with_mut(|b| unsafe { *b += n });
        let mut old = self.remote.load(Relaxed);
        loop {
            let mut new = old + n;
            if old & FULL != 0 {
                new |= NOTICED;
            }
            match self.remote.compare_exchange(old, new, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        if old & FULL != 0 && old & NOTICED == 0 {
            assert_eq!(self.inbox.swap(1, SeqCst), 0, "in the inbox twice");
            if self.heap_owner.load(SeqCst) == 0 {
                self.drain(&mut self.lists.lock().unwrap());
            }
        }
    }

    /// Under the lock.
    fn collect(&self) {
        let word = self.remote.swap(0, AcqRel);
        let n = word & COUNT;
        if n > 0 {
            // The links can be read: at least one bringer's writes are before.
            self.free.with_mut(|f| unsafe { *f += n });
            self.used.store(self.used.load(Relaxed) - n, Release);
        }
    }

    fn drain(&self, lists: &mut Lists) {
        if self.inbox.swap(0, SeqCst) == 1 {
            assert_eq!(lists.place, Place::None, "in two lists");
            self.collect();
            lists.place = Place::Queue;
            lists.orphaned = self.heap_owner.load(SeqCst) == 0;
            self.owner_may_push
                .store(self.heap_owner.load(SeqCst), Release);
        }
    }

    /// The owner frees a block of its own.
    fn free_home(&self) {
        if self.owner_may_push.load(Acquire) == 1 {
            self.free.with_mut(|f| unsafe { *f += 1 });
            self.used.store(self.used.load(Relaxed) - 1, Release);
            return;
        }
        let mut lists = self.lists.lock().unwrap();
        if lists.place == Place::None {
            if self
                .remote
                .compare_exchange(FULL, 0, AcqRel, Relaxed)
                .is_err()
            {
                // Noticed: by way of the list.
                self.remote.fetch_add(1, AcqRel);
                return;
            }
            lists.place = Place::Queue;
        }
        self.free.with_mut(|f| unsafe { *f += 1 });
        self.used.store(self.used.load(Relaxed) - 1, Release);
        self.owner_may_push.store(1, Release);
    }

    /// Anyone: takes the page away if nothing of it is out.
    fn sweep(&self) {
        let Ok(mut lists) = self.lists.lock() else {
            return;
        };
        self.drain(&mut lists);
        if lists.place != Place::Queue {
            return;
        }
        let back = self.remote.load(Acquire) & COUNT;
        if self.used.load(Acquire) == back {
            lists.place = Place::Pool;
            self.remote.store(0, Relaxed);
            // The pool's next user writes the page's fields: nobody else may be reading or writing.
            self.free.with_mut(|f| unsafe { *f = usize::MAX });
        }
    }

    /// The thread ends.
    fn abandon(&self) {
        let mut lists = self.lists.lock().unwrap();
        self.heap_owner.store(0, SeqCst);
        self.drain(&mut lists);
        if lists.place == Place::Queue {
            lists.orphaned = true;
            self.owner_may_push.store(0, Relaxed);
        }
    }

    /// At rest: where the blocks are.
    fn settle(&self) -> (Place, usize, usize) {
        let mut lists = self.lists.lock().unwrap();
        self.drain(&mut lists);
        if lists.place == Place::Queue {
            self.collect();
        }
        (
            lists.place,
            self.free.with(|f| unsafe { *f }),
            self.used.load(Relaxed),
        )
    }
}

#[test]
fn a_full_page_that_gets_blocks_back_is_found_once_with_all_of_them() {
    loom::model(|| {
        let page = Model::new(3, FULL, Place::None);
        let others: Vec<_> = (0..2)
            .map(|who| {
                let page = page.clone();
                thread::spawn(move || page.bring(who, 1))
            })
            .collect();
        page.free_home();
        others.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(page.settle(), (Place::Queue, 3, 0));
    });
}

#[test]
fn a_sweep_takes_a_page_only_when_nothing_of_it_is_out() {
    loom::model(|| {
        let page = Model::new(2, 0, Place::Queue);
        let other = {
            let page = page.clone();
            thread::spawn(move || page.bring(0, 1))
        };
        let sweeper = {
            let page = page.clone();
            thread::spawn(move || page.sweep())
        };
        page.free_home();
        other.join().unwrap();
        sweeper.join().unwrap();
        page.sweep();
        assert_eq!(page.settle().0, Place::Pool);
    });
}

#[test]
fn a_sweep_of_a_sleeping_heap_and_its_owner_do_not_lose_a_full_page() {
    loom::model(|| {
        let page = Model::new(2, FULL, Place::None);
        let other = {
            let page = page.clone();
            thread::spawn(move || {
                page.bring(0, 1);
                page.sweep();
            })
        };
        page.free_home();
        other.join().unwrap();
        page.sweep();
        assert_eq!(page.settle().0, Place::Pool);
    });
}

#[test]
fn an_ended_threads_full_page_is_adopted_whoever_comes_first() {
    loom::model(|| {
        let page = Model::new(2, FULL, Place::None);
        let other = {
            let page = page.clone();
            thread::spawn(move || page.bring(0, 1))
        };
        page.abandon();
        other.join().unwrap();
        let lists = page.lists.lock().unwrap();
        assert_eq!((lists.place, lists.orphaned), (Place::Queue, true));
    });
}
