//! The specification of reading another thread's account (`src/account.rs`), and of holding still for a fork
//! (`src/registry.rs`), checked in every interleaving.
//!
//! A reader that sees the same even turn before and after has seen the sums, the credit and the slot's word of
//! one settlement: what it adds up is what the thread had counted at some moment. A thread that forks finds
//! nobody half-way through a settlement.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p homefree-ledger --test loom_turns`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering, fence};
use loom::thread;

struct Account {
    turn: AtomicU32,
    busy: AtomicBool,
    /// The slot's word: less than 0 by what is left of the credit.
    word: AtomicI64,
    credit: AtomicI64,
    taken: AtomicI64,
    forking: AtomicBool,
}

impl Account {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            turn: AtomicU32::new(0),
            busy: AtomicBool::new(false),
            word: AtomicI64::new(-10),
            credit: AtomicI64::new(10),
            taken: AtomicI64::new(0),
            forking: AtomicBool::new(false),
        })
    }

    /// The short way: one instruction of the thread's own.
    fn add(&self, bytes: i64) {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word + bytes, Ordering::Relaxed);
    }

    fn begin(&self) -> bool {
        self.busy.swap(true, Ordering::SeqCst);
        // The checker knows sequential consistency of fences only; in the code the accesses have it.
        fence(Ordering::SeqCst);
        if self.forking.load(Ordering::SeqCst) {
            self.busy.store(false, Ordering::Release);
            return false;
        }
        true
    }

    fn rebase(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let used = self.word.swap(0, Ordering::Relaxed) + self.credit.load(Ordering::Relaxed);
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken + used, Ordering::Relaxed);
        self.credit.store(20, Ordering::Relaxed);
        self.word.store(-20, Ordering::Relaxed);
        self.turn.store((turn | 1) + 1, Ordering::Release);
    }

    fn settle(&self) {
        if self.begin() {
            self.rebase();
            self.busy.store(false, Ordering::Release);
        }
    }

    fn sum(&self) -> i64 {
        let word = self.word.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed) + self.credit.load(Ordering::Relaxed) + word
    }

    fn read(&self) -> Option<i64> {
        let turn = self.turn.load(Ordering::Acquire);
        if turn & 1 != 0 {
            return None;
        }
        let sum = self.sum();
        fence(Ordering::Acquire);
        (self.turn.load(Ordering::Relaxed) == turn).then_some(sum)
    }
}

#[test]
fn a_reading_is_what_was_counted_at_some_moment() {
    loom::model(|| {
        let account = Account::new();
        let owner = account.clone();
        let thread = thread::spawn(move || {
            owner.add(3);
            owner.settle();
            owner.add(4);
            owner.settle();
        });
        if let Some(sum) = account.read() {
            assert!([0, 3, 7].contains(&sum), "{sum}");
        }
        thread.join().unwrap();
        assert_eq!(account.read(), Some(7));
    });
}

#[test]
fn a_fork_finds_nobody_half_way() {
    loom::model(|| {
        let account = Account::new();
        let owner = account.clone();
        let thread = thread::spawn(move || {
            owner.add(3);
            owner.settle();
            owner.add(4);
            owner.settle();
        });
        // Before the fork.
        account.forking.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while account.busy.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        // What the child would find.
        let turn = account.turn.load(Ordering::Acquire);
        assert_eq!(turn & 1, 0, "half-way");
        let sum = account.sum();
        assert!([0, 3, 7].contains(&sum), "{sum}");
        account.forking.store(false, Ordering::SeqCst);
        thread.join().unwrap();
    });
}
