//! Blocks that are freed as late as a thread's end knows: by a key's destructor in the last of its rounds. The key is
//! younger than the ledger's, so that its turn in that round comes after the ledger has settled the thread.

use super::worker::Block;
use core::ffi::c_void;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rounds that POSIX guarantees.
const ROUNDS: u32 = 4;

static KEY: AtomicU32 = AtomicU32::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

/// What a thread leaves.
struct Left {
    block: Block,
    round: Cell<u32>,
}

/// Makes the key. The ledger has made its own, at the first allocation of all.
pub fn prepare() -> bool {
    let mut key = 0;
    // SAFETY: a valid place; the destructor lives as long as the artifact, which is never unloaded.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0;
    KEY.store(key, Ordering::Relaxed);
    made
}

/// Leaves a block to be freed when this thread has ended.
pub fn leave(block: Block) {
    let left = Box::new(Left {
        block,
        round: Cell::new(1),
    });
    arm(Box::into_raw(left));
}

/// Blocks freed so.
pub fn freed() -> u64 {
    FREED.load(Ordering::Relaxed)
}

fn arm(left: *mut Left) {
    // SAFETY: the key was made; its destructor takes such a pointer.
    if unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), left.cast()) } != 0 {
        // SAFETY: from `into_raw`, and given to nobody.
        drop(unsafe { Box::from_raw(left) });
    }
}

unsafe extern "C" fn end(value: *mut c_void) {
    let left = value.cast::<Left>();
    // SAFETY: from `leave`, still whole.
    let round = unsafe { &(*left).round };
    if round.get() < ROUNDS {
        round.set(round.get() + 1);
        return arm(left);
    }
    // SAFETY: from `into_raw`, the last use.
    let left = unsafe { Box::from_raw(left) };
    drop(left.block);
    FREED.fetch_add(1, Ordering::Relaxed);
}
