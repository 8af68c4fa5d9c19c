//! The pool: units in nobody's hands, for all threads, under one lock.
//!
//! A unit that was used keeps its memory for a while, since it is likely to be used again. `purge`
//! gives back what was not used since the last but one call, so that with a call each half second
//! memory goes back between half a second and a second after it was freed.

use crate::background;
use crate::page::{Page, UNIT, kind, place};
use crate::region::{RANGES, REGIONS, Region};
use crate::source::source;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use homefree_thread::Lock;

/// Units that hold memory and are in nobody's hands; and those mapped in all.
pub static RETAINED: AtomicUsize = AtomicUsize::new(0);
pub static MAPPED: AtomicUsize = AtomicUsize::new(0);

pub static POOL: Lock<Pool> = Lock::new(Pool {
    regions: [const { None }; REGIONS],
    count: 0,
});

/// See the module.
pub struct Pool {
    regions: [Option<Free>; REGIONS],
    count: usize,
}

// SAFETY: raw pointers to memory of the pool's own.
unsafe impl Send for Pool {}

/// Free units of a region, as bits.
struct Free {
    region: Region,
    /// Free at all.
    free: Bits,
    /// Free, and holding memory.
    dirty: Bits,
    /// Those of them that held it at the last call of `purge`.
    old: Bits,
}

/// A set of units. `low` is a word that no word before has a bit.
struct Bits {
    words: *mut u64,
    len: usize,
    count: usize,
    low: usize,
}

impl Bits {
    fn word(&mut self, i: usize) -> &mut u64 {
        debug_assert!(i < self.len);
        // SAFETY: within the mapping made for the set.
        unsafe { &mut *self.words.add(i) }
    }

    fn has(&mut self, unit: usize) -> bool {
        *self.word(unit / 64) >> (unit % 64) & 1 != 0
    }

    fn set(&mut self, from: usize, n: usize) {
        for unit in from..from + n {
            let bit = 1 << (unit % 64);
            let word = self.word(unit / 64);
            if *word & bit == 0 {
                *word |= bit;
                self.count += 1;
            }
        }
        self.low = self.low.min(from / 64);
    }

    fn clear(&mut self, from: usize, n: usize) {
        for unit in from..from + n {
            let bit = 1 << (unit % 64);
            let word = self.word(unit / 64);
            if *word & bit != 0 {
                *word &= !bit;
                self.count -= 1;
            }
        }
    }

    /// The first unit of the set at or after `from`, below `end`.
    fn next(&mut self, from: usize, end: usize) -> Option<usize> {
        let mut unit = from;
        while unit < end {
            let word = *self.word(unit / 64) >> (unit % 64);
            if word != 0 {
                let found = unit + word.trailing_zeros() as usize;
                return (found < end).then_some(found);
            }
            unit = (unit / 64 + 1) * 64;
        }
        None
    }

    /// How many units of the set follow one another from `from` on, at most `most`.
    fn run(&mut self, from: usize, most: usize) -> usize {
        let mut n = 0;
        while n < most && self.has(from + n) {
            n += 1;
        }
        n
    }

    /// The first `n` units of the set that follow one another.
    fn first_run(&mut self, n: usize, end: usize) -> Option<usize> {
        if self.count < n {
            return None;
        }
        let mut at = self.next(self.low * 64, end)?;
        self.low = at / 64;
        loop {
            let len = self.run(at, n.min(end - at));
            if len == n {
                return Some(at);
            }
            at = self.next(at + len, end)?;
        }
    }
}

/// Units handed out.
pub struct Taken {
    /// The entry of the first one; its kind, units and start are set.
    pub page: &'static Page,
    /// Whether all of them hold zeros.
    pub zero: bool,
}

impl Pool {
    /// Hands out `n` units that follow one another. `None` where the system has no memory.
    pub fn take(&mut self, n: usize, kind: u8) -> Option<Taken> {
        for free in self.regions[..self.count].iter_mut().flatten() {
            let units = free.region.units;
            // What holds memory first; of several, at the lowest address.
            let at = match free.dirty.first_run(n, units) {
                Some(at) => Some(at),
                None => free.free.first_run(n, units),
            };
            if let Some(at) = at {
                return Some(free.hand_out(at, n, kind));
            }
        }
        let free = self.grow(n)?;
        let units = free.region.units;
        let at = free.free.first_run(n, units)?;
        Some(free.hand_out(at, n, kind))
    }

    fn grow(&mut self, n: usize) -> Option<&mut Free> {
        if let Some(last) = self.count.checked_sub(1) {
            let free = self.regions[last].as_mut()?;
            // An eighth more, from 4 to 64 MiB.
            let best = (free.region.units / 8).clamp(64, 1024);
            if free.grow(n, best) {
                return self.regions[last].as_mut();
            }
            if last + 1 == REGIONS {
                return None;
            }
        }
        let range = &RANGES[self.count];
        let region = if self.count == 0 {
            Region::window(range)
        } else {
            None
        };
        // 64 GiB, or what fits.
        let region = match region {
            Some(region) => region,
            None => Region::reserved(range, n.max(64), 1 << 20)?,
        };
        let free = Free::new(region)?;
        self.regions[self.count] = Some(free);
        self.count += 1;
        let free = self.regions[self.count - 1].as_mut()?;
        let mapped = free.region.units;
        free.free.set(0, mapped);
        MAPPED.fetch_add(mapped, Relaxed);
        (mapped >= n || free.grow(n, 64)).then_some(free)
    }

    /// Takes back what `take` gave. `dirty`: whether it may hold memory.
    pub fn put(&mut self, page: &'static Page, dirty: bool) {
        let start = page.start.load(Relaxed);
        let n = page.units.load(Relaxed) as usize;
        for free in self.regions[..self.count].iter_mut().flatten() {
            let offset = start.wrapping_sub(free.region.base());
            if offset < free.region.units * UNIT {
                let at = offset / UNIT;
                for unit in at..at + n {
                    let entry = free.region.entry(unit);
                    entry.owner.store(0, Relaxed);
                    entry.kind.store(kind::FREE, Release);
                }
                free.free.set(at, n);
                if dirty {
                    free.dirty.set(at, n);
                    RETAINED.fetch_add(n, Relaxed);
                    background::wake();
                }
                return;
            }
        }
    }

    /// Gives back the memory of units that were free at the last call too; of all free units if `all`.
    /// Returns how many units still hold memory.
    pub fn purge(&mut self, all: bool) -> usize {
        let mut left = 0;
        for free in self.regions[..self.count].iter_mut().flatten() {
            free.purge(all);
            left += free.dirty.count;
        }
        left
    }
}

impl Free {
    fn new(region: Region) -> Option<Self> {
        let words = region.capacity().div_ceil(64);
        let bytes = (words * 8).next_multiple_of(4096);
        let at = source().map(bytes * 3)?;
        let bits = |i: usize| Bits {
            words: (at + i * bytes) as *mut u64,
            len: words,
            count: 0,
            low: 0,
        };
        Some(Self {
            region,
            free: bits(0),
            dirty: bits(1),
            old: bits(2),
        })
    }

    fn grow(&mut self, n: usize, best: usize) -> bool {
        // What is free at the end counts.
        let units = self.region.units;
        let tail = (0..n)
            .take_while(|i| units > *i && self.free.has(units - 1 - i))
            .count();
        let grown = self.region.grow(n - tail.min(n - 1), best.max(n));
        self.free.set(units, grown);
        MAPPED.fetch_add(grown, Relaxed);
        grown != 0
    }

    fn hand_out(&mut self, at: usize, n: usize, what: u8) -> Taken {
        self.free.clear(at, n);
        let dirty = self.dirty.count;
        self.dirty.clear(at, n);
        self.old.clear(at, n);
        let dirty = dirty - self.dirty.count;
        RETAINED.fetch_sub(dirty, Relaxed);
        for i in 1..n {
            let rest = self.region.entry(at + i);
            rest.owner.store(0, Relaxed);
            rest.units.store(i as u16, Relaxed);
            rest.kind.store(kind::REST, Release);
        }
        let page = self.region.entry(at);
        page.start.store(self.region.base() + at * UNIT, Relaxed);
        page.units.store(n as u16, Relaxed);
        page.place.store(place::NONE, Relaxed);
        page.generation.fetch_add(1, Relaxed);
        page.kind.store(what, Release);
        Taken {
            page,
            zero: dirty == 0,
        }
    }

    fn purge(&mut self, all: bool) {
        let end = self.region.units;
        let mut from = 0;
        loop {
            let set = if all { &mut self.dirty } else { &mut self.old };
            let Some(at) = set.next(from, end) else { break };
            let n = set.run(at, end - at);
            from = at + n;
            // SAFETY: free units, in nobody's hands while the pool's lock is held.
            if unsafe { source().purge(self.region.base() + at * UNIT, n * UNIT) } {
                self.dirty.clear(at, n);
                RETAINED.fetch_sub(n, Relaxed);
            }
            self.old.clear(at, n);
        }
        if !all {
            let mut from = 0;
            while let Some(at) = self.dirty.next(from, end) {
                let n = self.dirty.run(at, end - at);
                self.old.set(at, n);
                from = at + n;
            }
        }
    }
}
