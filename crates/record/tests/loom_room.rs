//! The specification of handing out pages of the profile (`src/arena.rs`), checked in every
//! interleaving: no page is handed out twice, and none that the file does not have, while one thread
//! grows the file and another one cuts it to what is in use.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p homefree-record --test loom_room`.
#![cfg(loom)]

use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

struct Arena {
    /// Pages handed out (low half) and pages there is room for (high half).
    room: AtomicU64,
    /// Length of the file in pages; changed under the lock.
    file: AtomicUsize,
    lock: Mutex<()>,
}

const fn pack(used: u64, have: u64) -> u64 {
    used | have << 32
}
const fn unpack(room: u64) -> (u64, u64) {
    (room & 0xffff_ffff, room >> 32)
}

impl Arena {
    fn new(used: u64, have: u64) -> Arc<Self> {
        Arc::new(Self {
            room: AtomicU64::new(pack(used, have)),
            file: AtomicUsize::new(have as usize),
            lock: Mutex::new(()),
        })
    }

    /// A page; touching one that the file does not have would be a fault in the program.
    fn add_page(&self) -> u64 {
        loop {
            let room = self.room.load(Ordering::Acquire);
            let (used, have) = unpack(room);
            if used >= have {
                self.grow(have);
                continue;
            }
            let next = pack(used + 1, have);
            if self
                .room
                .compare_exchange(room, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                assert!(
                    (used as usize) < self.file.load(Ordering::SeqCst),
                    "a page past the file's end"
                );
                return used;
            }
        }
    }

    fn grow(&self, have: u64) {
        let _guard = self.lock.lock().unwrap();
        let (_, now) = unpack(self.room.load(Ordering::Acquire));
        if now > have {
            return;
        }
        self.file.store(have as usize + 1, Ordering::SeqCst);
        self.room.fetch_add(1 << 32, Ordering::AcqRel);
    }

    fn trim(&self) {
        let _guard = self.lock.lock().unwrap();
        let room = self
            .room
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |room| {
                let (used, _) = unpack(room);
                Some(pack(used, used))
            })
            .unwrap();
        self.file.store(unpack(room).0 as usize, Ordering::SeqCst);
    }
}

#[test]
fn pages_are_handed_out_once_and_lie_in_the_file() {
    let mut model = loom::model::Builder::new();
    // Threads that wait for each other's growth make the full search endless.
    model.preemption_bound = Some(3);
    model.check(|| {
        let arena = Arena::new(1, 2);
        let adder = {
            let arena = arena.clone();
            thread::spawn(move || arena.add_page())
        };
        let trimmer = {
            let arena = arena.clone();
            thread::spawn(move || arena.trim())
        };
        let here = arena.add_page();
        let there = adder.join().unwrap();
        trimmer.join().unwrap();
        let mut pages = [here, there];
        pages.sort_unstable();
        assert_eq!(pages, [1, 2]);
    });
}
