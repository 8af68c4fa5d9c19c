//! The specification of the hard limit (`src/limit.rs`, `src/account.rs`), checked in every interleaving: what is
//! held and what may be taken without asking never pass the limit together, while threads ask for room, use it,
//! settle, give it back, free, and ask again exactly.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p homefree-ledger --test loom_limit`.
#![cfg(loom)]

use loom::sync::atomic::{AtomicI64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

const LIMIT: i64 = 100;
const ACCOUNTS: usize = 2;

#[derive(Default)]
struct Account {
    /// Settled with the balance, allocated beyond it within credit, freed beyond it: a reader under the lock sees
    /// the three of one turn, so they stand under a mutex here.
    turn: Mutex<Turn>,
}

#[derive(Clone, Copy, Default)]
struct Turn {
    settled: i64,
    used: i64,
    freed: i64,
    granted: i64,
}

struct Ledger {
    balance: AtomicI64,
    granted: AtomicI64,
    /// The truth: what is held. Never read by the protocol.
    held: AtomicI64,
    registry: Mutex<()>,
    accounts: [Account; ACCOUNTS],
}

impl Ledger {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            balance: AtomicI64::new(0),
            granted: AtomicI64::new(0),
            held: AtomicI64::new(0),
            registry: Mutex::new(()),
            accounts: Default::default(),
        })
    }

    fn give_back(&self, room: i64) {
        self.granted.fetch_sub(room, Ordering::AcqRel);
    }

    fn grant_if_room(&self, room: i64) -> bool {
        let granted = self.granted.load(Ordering::Acquire) + room;
        if self.balance.load(Ordering::Acquire) + granted > LIMIT {
            return false;
        }
        let granted = self.granted.fetch_add(room, Ordering::AcqRel) + room;
        if self.balance.load(Ordering::Acquire) + granted <= LIMIT {
            return true;
        }
        self.give_back(room);
        false
    }

    /// Settles, gives the old credit back and takes a new one.
    fn rebase(&self, n: usize, wish: i64) {
        let mut turn = self.accounts[n].turn.lock().unwrap();
        let net = turn.used - turn.freed;
        self.balance.fetch_add(net, Ordering::Relaxed);
        self.give_back(turn.granted);
        turn.settled += net;
        (turn.used, turn.freed) = (0, 0);
        turn.granted = if wish > 0 && self.grant_if_room(wish) {
            wish
        } else {
            0
        };
    }

    /// Allocates within credit.
    fn take(&self, n: usize, bytes: i64) -> bool {
        let mut turn = self.accounts[n].turn.lock().unwrap();
        if turn.used + bytes > turn.granted {
            return false;
        }
        turn.used += bytes;
        self.hold(bytes);
        true
    }

    fn free(&self, n: usize, bytes: i64) {
        // Booked first: then the block goes back.
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        self.accounts[n].turn.lock().unwrap().freed += bytes;
    }

    fn ask(&self, bytes: i64) -> bool {
        self.grant_if_room(bytes) || self.ask_exactly(bytes)
    }

    fn ask_exactly(&self, bytes: i64) -> bool {
        let _registry = self.registry.lock().unwrap();
        let mut others = self.granted.fetch_add(bytes, Ordering::AcqRel);
        let mut held = 0;
        for account in &self.accounts {
            let turn = *account.turn.lock().unwrap();
            held += turn.settled + turn.used - turn.freed + (turn.granted - turn.used);
            others -= turn.granted;
        }
        let fits = held + others + bytes <= LIMIT;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    /// Allocates more than there is credit for.
    fn allocate(&self, n: usize, bytes: i64) -> bool {
        self.rebase(n, 0);
        if !self.ask(bytes) {
            return false;
        }
        self.hold(bytes);
        {
            let mut turn = self.accounts[n].turn.lock().unwrap();
            turn.settled += bytes;
            self.balance.fetch_add(bytes, Ordering::Relaxed);
        }
        self.give_back(bytes);
        true
    }

    fn hold(&self, bytes: i64) {
        let held = self.held.fetch_add(bytes, Ordering::SeqCst) + bytes;
        assert!(held <= LIMIT, "{held} are held");
    }
}

#[test]
fn two_that_ask_at_once_are_not_both_served_beyond_it() {
    loom::model(|| {
        let ledger = Ledger::new();
        let other = ledger.clone();
        let thread = thread::spawn(move || other.allocate(1, 60));
        let here = ledger.allocate(0, 60);
        let there = thread.join().unwrap();
        assert!(!(here && there));
        // Nothing is left granted.
        assert_eq!(ledger.granted.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn credit_is_counted_before_it_is_used() {
    loom::model(|| {
        let ledger = Ledger::new();
        let other = ledger.clone();
        let thread = thread::spawn(move || {
            other.rebase(1, 50);
            other.take(1, 40);
            other.rebase(1, 30);
            other.take(1, 30);
        });
        ledger.allocate(0, 65);
        thread.join().unwrap();
    });
}

#[test]
fn what_is_freed_is_room_and_no_more_than_that() {
    loom::model(|| {
        let ledger = Ledger::new();
        assert!(ledger.allocate(1, 90));
        let other = ledger.clone();
        let thread = thread::spawn(move || {
            other.free(1, 50);
            other.rebase(1, 20);
            other.take(1, 20);
        });
        ledger.allocate(0, 55);
        thread.join().unwrap();
        // The room was there: had it been refused above, it is served now.
        assert!(ledger.held.load(Ordering::SeqCst) <= LIMIT);
    });
}
