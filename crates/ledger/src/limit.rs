//! The hard limit.
//!
//! A thread's credit is room that was granted before it is used: as long as it lasts, allocations need not
//! ask. The sum of the balance and all that is granted never passes the limit. Room is granted first and
//! given back if that was too much, so two threads that ask at once may both be refused, never both served;
//! who is refused asks again under the registry's lock, where nothing moves but credit that is being spent.

use crate::registry;
use crate::shared::SHARED;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use homefree_thread::sys;

/// No limit.
const NONE: i64 = i64::MAX;

static LIMIT: AtomicI64 = AtomicI64::new(NONE);
static RESERVE: AtomicI64 = AtomicI64::new(0);
static SMALL: AtomicI64 = AtomicI64::new(0);
/// Room given to threads as credit, and to requests that are under way.
static GRANTED: AtomicI64 = AtomicI64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// A limit on the balance, see [`Ledger::set_hard_limit`](crate::Ledger::set_hard_limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardLimit {
    /// Requested bytes that the process may hold.
    pub bytes: u64,
    /// Bytes beyond it for small requests, so that unwinding and error paths still work.
    pub reserve: u64,
    /// Requests of at most this many bytes may use the reserve.
    pub small: u64,
}

impl HardLimit {
    /// A limit with a reserve of a 64th, at least 64 KiB, for requests of at most 4 KiB.
    pub const fn new(bytes: u64) -> Self {
        let share = bytes / 64;
        Self {
            bytes,
            reserve: if share > 64 << 10 { share } else { 64 << 10 },
            small: 4 << 10,
        }
    }
}

fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(NONE).min(NONE / 4)
}

/// Sets or takes away the limit.
pub(crate) fn set(limit: Option<HardLimit>) {
    match limit {
        Some(limit) => {
            RESERVE.store(clamp(limit.reserve), Ordering::Relaxed);
            SMALL.store(clamp(limit.small), Ordering::Relaxed);
            take_room();
            LIMIT.store(clamp(limit.bytes), Ordering::Release);
            // Of threads that settled just before and did not see it.
            take_room();
        }
        None => LIMIT.store(NONE, Ordering::Release),
    }
}

/// Takes room for what threads may hold or take beyond what the balance knows.
fn take_room() {
    registry::with_list(|list| {
        for account in list {
            GRANTED.fetch_add(account.take_room(), Ordering::AcqRel);
        }
    });
}

/// The limit, if there is one.
pub(crate) fn of_process() -> Option<i64> {
    let limit = LIMIT.load(Ordering::Acquire);
    (limit != NONE).then_some(limit)
}

/// Whether there is a hard limit.
pub fn is_set() -> bool {
    of_process().is_some()
}

/// Requests refused so far.
pub(crate) fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Gives `old` back and grants a new credit of at most `wish`: half of a thread's share of the room left, so
/// that the last of it is used a little at a time. `None` where no limit is set: no grant is needed.
pub(crate) fn exchange(old: i64, wish: i64, balance: i64) -> Option<i64> {
    give_back(old);
    let limit = of_process()?;
    let threads = (SHARED.threads.load(Ordering::Relaxed) as i64).max(1);
    let room = limit - balance - GRANTED.load(Ordering::Relaxed);
    let grant = wish.min(room / (2 * threads));
    if grant > 0 && grant_if_room(grant, limit) {
        return Some(grant);
    }
    Some(0)
}

/// In fork's child: all room but that of the one account which is still there was for requests and credits of threads
/// that are not.
pub(crate) fn keep_only(granted: i64) {
    GRANTED.store(granted, Ordering::Release);
}

/// Returns room.
pub(crate) fn give_back(room: i64) {
    if room != 0 {
        GRANTED.fetch_sub(room, Ordering::AcqRel);
    }
}

fn grant_if_room(room: i64, limit: i64) -> bool {
    let fits = |granted: i64| {
        let balance = SHARED.balance.load(Ordering::Acquire);
        balance.saturating_add(granted) <= limit
    };
    // What can not be had is not asked for, even for a moment: others would be refused for it meanwhile.
    if !fits(GRANTED.load(Ordering::Acquire).saturating_add(room)) {
        return false;
    }
    // Granted first: of two who ask at once at least one sees the other. What is settled goes into the
    // balance before its room is given back, so nothing is ever in neither.
    if fits(
        GRANTED
            .fetch_add(room, Ordering::AcqRel)
            .saturating_add(room),
    ) {
        return true;
    }
    give_back(room);
    false
}

/// Asks for room for a request of `size` bytes, to be given back with [`give_back`] once it is counted or has
/// failed. `Some(0)` where no limit is set. `None`: refused. `may_lock`: whether the registry's lock may be
/// waited for here.
pub(crate) fn ask(size: usize, may_lock: bool) -> Option<i64> {
    let Some(limit) = of_process() else {
        return Some(0);
    };
    let size = i64::try_from(size).unwrap_or(NONE / 2).min(NONE / 2);
    if grant_if_room(size, limit) {
        return Some(size);
    }
    let reserve = if size <= SMALL.load(Ordering::Relaxed) {
        RESERVE.load(Ordering::Relaxed)
    } else {
        0
    };
    for _ in 0..ATTEMPTS {
        let (fits, under_way) = if may_lock {
            ask_exactly(size, limit + reserve)
        } else {
            (grant_if_room(size, limit + reserve), false)
        };
        if fits {
            return Some(size);
        }
        // Requests of others that are under way count twice for an instant, as room and as held.
        if !under_way {
            break;
        }
        sys::yield_now();
    }
    REFUSED.fetch_add(1, Ordering::Relaxed);
    None
}

/// How often a request is looked at again while others are under way.
const ATTEMPTS: u32 = 8;

/// Asks with what is held counted exactly, unsettled frees included. Also, whether requests of others are under way.
fn ask_exactly(size: i64, limit: i64) -> (bool, bool) {
    if size > limit {
        return (false, false);
    }
    registry::with_list(|list| {
        // First, so that whoever is granted room from now on has seen this request.
        let mut others = GRANTED.fetch_add(size, Ordering::AcqRel);
        let mut held = SHARED.direct.get().net() + SHARED.retired.get().net();
        for account in list {
            let reading = account.read();
            held += reading.sums.net() + reading.unspent;
            others -= reading.granted;
        }
        let fits = held.saturating_add(others).saturating_add(size) <= limit;
        if !fits {
            give_back(size);
        }
        (fits, others > 0)
    })
    .unwrap_or((false, false))
}
