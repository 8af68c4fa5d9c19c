//! Reading the ledger.

use crate::account::Account;
use crate::registry;
use crate::shared::{SHARED, Sums};
use core::sync::atomic::Ordering;

/// What is held and was held at most, in bytes requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Allocated and not freed yet.
    pub current: u64,
    /// The most that was.
    pub peak: u64,
    /// Neither is further off than this: the sum of what each thread may count before it settles. For `current`
    /// of an exact reading 0.
    pub error: u64,
}

/// Bytes and events over all time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes allocated.
    pub allocated: u64,
    /// Bytes freed.
    pub freed: u64,
    /// Allocations; 0 in the mode [`crate::Bytes`].
    pub allocations: u64,
    /// Frees; 0 in the mode [`crate::Bytes`].
    pub frees: u64,
}

/// What one thread has allocated and freed. Not what it uses: memory that it allocated may have been handed to
/// another thread, and memory of others may have been freed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadFlow {
    /// The kernel's id of the thread; 0 for all that have ended.
    pub tid: u32,
    /// Bytes allocated.
    pub allocated: u64,
    /// Bytes freed.
    pub freed: u64,
}

impl ThreadFlow {
    /// A living thread's. Under the registry's lock, or by the thread itself.
    pub(crate) fn of(account: &Account) -> Self {
        let sums = account.read().sums;
        Self {
            tid: account.tid.load(Ordering::Relaxed),
            allocated: sums.allocated,
            freed: sums.freed,
        }
    }

    /// Bytes that the thread allocated more than it freed: it has sent them away, or holds them still.
    pub fn sent_away(&self) -> u64 {
        self.allocated.saturating_sub(self.freed)
    }

    /// Bytes that the thread freed more than it allocated: it has received them.
    pub fn received(&self) -> u64 {
        self.freed.saturating_sub(self.allocated)
    }
}

fn shown(bytes: i64) -> u64 {
    bytes.max(0) as u64
}

fn margins() -> u64 {
    shown(SHARED.margins.load(Ordering::Relaxed))
}

/// See [`crate::Ledger::usage`].
pub(crate) fn usage() -> Usage {
    usage_of(SHARED.balance.load(Ordering::Relaxed), margins())
}

fn usage_of(balance: i64, error: u64) -> Usage {
    let current = shown(balance);
    Usage {
        current,
        peak: shown(SHARED.peaks.all()).max(current),
        error,
    }
}

/// All that was counted: exactly if no thread counts meanwhile.
pub(crate) fn sums() -> Option<Sums> {
    registry::with_list(|list| {
        let mut sums = SHARED.retired.get();
        list.for_each(|account| sums.add(&account.read().sums));
        sums.add(&SHARED.direct.get());
        sums
    })
}

/// [`sums`], and what is held by them, which may be a new peak.
///
/// Added up while threads run, they are parts of different moments, and a block that was handed on meanwhile may be in
/// two of them or in none. What is held is never further from the balance than all margins together, so the answer is
/// not either.
fn held() -> Option<(Sums, i64)> {
    let range = || {
        let balance = SHARED.balance.load(Ordering::Relaxed);
        let margins = SHARED.margins.load(Ordering::Relaxed);
        (
            balance.saturating_sub(margins),
            balance.saturating_add(margins),
        )
    };
    let (before, sums, after) = (range(), sums()?, range());
    let held = sums
        .net()
        .clamp(before.0.min(after.0), before.1.max(after.1));
    SHARED.peaks.note(held);
    Some((sums, held))
}

/// See [`crate::Ledger::usage_exact`].
pub(crate) fn usage_exact() -> Usage {
    held().map_or_else(usage, |(_, held)| usage_of(held, 0))
}

/// See [`crate::Ledger::totals`].
pub(crate) fn totals() -> Totals {
    totals_of(&sums().unwrap_or_else(|| {
        let mut sums = registry::settled_sums();
        sums.add(&SHARED.retired.get());
        sums.add(&SHARED.direct.get());
        sums
    }))
}

fn totals_of(sums: &Sums) -> Totals {
    Totals {
        allocated: sums.allocated,
        freed: sums.freed,
        allocations: sums.allocations,
        frees: sums.frees,
    }
}

/// Both from one exact reading.
#[cfg(feature = "std")]
pub(crate) fn exact() -> (Usage, Totals) {
    match held() {
        Some((sums, held)) => (usage_of(held, 0), totals_of(&sums)),
        None => (usage(), totals()),
    }
}

/// Threads that are read at a time.
const AT_A_TIME: usize = 32;

/// See [`crate::Ledger::for_each_thread`]. `f` is not called under the lock: it may do anything.
pub(crate) fn for_each_thread(f: &mut dyn FnMut(ThreadFlow)) {
    let mut rest = SHARED.retired.get();
    rest.add(&SHARED.direct.get());
    let mut before = u64::MAX;
    loop {
        let mut flows = [None; AT_A_TIME];
        registry::with_list(|list| {
            if before == u64::MAX {
                rest = SHARED.retired.get();
                rest.add(&SHARED.direct.get());
            }
            // Newer ones were told of already.
            let older = list.skip_while(|account| account.serial.get() >= before);
            let mut last = before;
            for (place, account) in flows.iter_mut().zip(older) {
                last = account.serial.get();
                *place = Some(ThreadFlow::of(account));
            }
            before = last;
        });
        flows.iter().flatten().for_each(|flow| f(*flow));
        if flows.iter().any(Option::is_none) {
            break;
        }
    }
    f(ThreadFlow {
        tid: 0,
        allocated: rest.allocated,
        freed: rest.freed,
    });
}

/// Makes the balance what the sums say. By the only thread there is.
pub(crate) fn correct_balance() {
    let mut settled = SHARED.retired.get().net() + SHARED.direct.get().net();
    registry::with_list(|list| list.for_each(|account| settled += account.settled()));
    SHARED.balance.store(settled, Ordering::Relaxed);
}
