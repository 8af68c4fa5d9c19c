//! The alarm has one trigger in each direction; each watcher wants its own.

use crate::alarm;
use homefree_thread::sys;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering, fence};

/// Watchers that the alarm wakes; those beyond look once a period.
const PLACES: usize = 64;

/// What one watcher wants to be woken for. Without a lock, because fork's child would find one held for ever.
struct Place {
    /// The process of the watcher; 0 while the place is free.
    process: AtomicU32,
    high: AtomicI64,
    low: AtomicI64,
}

static ALL: [Place; PLACES] = [const {
    Place {
        process: AtomicU32::new(0),
        high: AtomicI64::new(i64::MAX),
        low: AtomicI64::new(i64::MIN),
    }
}; PLACES];
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// A watcher's place, until dropped.
pub(super) struct Wanted(Option<&'static Place>);

impl Wanted {
    pub(super) fn new() -> Self {
        let this = sys::process_id();
        Self(ALL.iter().find(|place| {
            let owner = place.process.load(Ordering::Relaxed);
            // Those of fork's parent are not here.
            owner != this
                && place
                    .process
                    .compare_exchange(owner, this, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        }))
    }

    /// Asks to be woken when the balance is above `high`, or below `low`. What was so already when this
    /// returns must be looked at after it.
    pub(super) fn set(&self, high: Option<u64>, low: Option<u64>) {
        let Some(place) = self.0 else { return };
        let clamp = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        place
            .high
            .store(high.map_or(i64::MAX, clamp), Ordering::Relaxed);
        place
            .low
            .store(low.map_or(i64::MIN, clamp), Ordering::Relaxed);
        arm();
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.set(None, None);
        if let Some(place) = self.0 {
            place.process.store(0, Ordering::Release);
        }
    }
}

/// Sets the alarm to the nearest of what is wanted.
fn arm() {
    let mut seen = CHANGES.fetch_add(1, Ordering::SeqCst) + 1;
    loop {
        let this = sys::process_id();
        let (mut high, mut low) = (i64::MAX, i64::MIN);
        for place in &ALL {
            if place.process.load(Ordering::Relaxed) == this {
                high = high.min(place.high.load(Ordering::Relaxed));
                low = low.max(place.low.load(Ordering::Relaxed));
            }
        }
        let set = |bytes, off| (bytes != off).then(|| u64::try_from(bytes).unwrap_or(0));
        alarm::set(set(high, i64::MAX), set(low, i64::MIN));
        fence(Ordering::SeqCst);
        // Whoever came meanwhile may have been overwritten with what was before him.
        let now = CHANGES.load(Ordering::SeqCst);
        if now == seen {
            return;
        }
        seen = now;
    }
}
