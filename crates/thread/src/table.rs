//! Thread ids that are never reused, with one word each.

use crate::sys;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

const CHUNK: usize = 1 << 14;
const CHUNKS: usize = 1 << 14;

/// Hands out ids from 1 on and keeps a word for each, for ever (8 bytes a thread ever created):
/// whatever the kernel and pthread reuse, an id names one thread.
pub struct ThreadTable {
    last: AtomicU32,
    chunks: [AtomicPtr<AtomicU64>; CHUNKS],
}

impl ThreadTable {
    /// Ids have this many bits.
    pub const ID_BITS: u32 = 28;

    /// An empty table.
    pub const fn new() -> Self {
        Self {
            last: AtomicU32::new(0),
            chunks: [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS],
        }
    }

    /// A new id with its word. `None` once all 2^28 are used or memory is refused.
    pub fn add(&self, word: u64) -> Option<u32> {
        let id = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                ((last as usize) + 1 < CHUNK * CHUNKS).then_some(last + 1)
            })
            .ok()?
            + 1;
        let chunk = &self.chunks[id as usize / CHUNK];
        if chunk.load(Ordering::Acquire).is_null() {
            let fresh = sys::map(CHUNK * 8)?.cast::<AtomicU64>();
            if chunk
                .compare_exchange(
                    core::ptr::null_mut(),
                    fresh.as_ptr(),
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )
                .is_err()
            {
                // SAFETY: mapped above, published to nobody.
                unsafe { sys::unmap(fresh.cast(), CHUNK * 8) };
            }
        }
        self.set(id, word);
        Some(id)
    }

    fn word(&self, id: u32) -> Option<&AtomicU64> {
        let chunk = self
            .chunks
            .get(id as usize / CHUNK)?
            .load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: chunks have CHUNK words and are never unmapped once published.
        Some(unsafe { &*chunk.add(id as usize % CHUNK) })
    }

    /// The word of an id; 0 for one never handed out.
    pub fn get(&self, id: u32) -> u64 {
        self.word(id).map_or(0, |w| w.load(Ordering::Relaxed))
    }

    /// Replaces the word of an id that was handed out.
    pub fn set(&self, id: u32, word: u64) {
        if let Some(w) = self.word(id) {
            w.store(word, Ordering::Relaxed);
        }
    }
}

impl Default for ThreadTable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct_and_keep_their_words() {
        static TABLE: ThreadTable = ThreadTable::new();
        let threads: std::vec::Vec<_> = (0..4u64)
            .map(|t| {
                std::thread::spawn(move || {
                    (0..20_000u64)
                        .map(|n| (TABLE.add(t << 32 | n).unwrap(), t << 32 | n))
                        .collect::<std::vec::Vec<_>>()
                })
            })
            .collect();
        let all: std::vec::Vec<_> = threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect();
        let ids: std::collections::HashSet<_> = all.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids.len(), 80_000);
        assert!(!ids.contains(&0));
        assert!(all.iter().all(|&(id, word)| TABLE.get(id) == word));
        assert_eq!(TABLE.get(u32::MAX), 0);
    }
}
