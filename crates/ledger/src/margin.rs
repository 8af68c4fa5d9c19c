//! How much a thread may count before it settles.
//!
//! The margins of all threads together are the error of the cheap reading, so they share one budget. Each takes
//! a [`SHARE`] of what the others have left of it: the first [`MOST`], later ones less and less, down to [`LEAST`].
//! So their sum stays below the budget and [`LEAST`] a thread, however many come and park.

use crate::limit;
use crate::shared::SHARED;
use core::sync::atomic::{AtomicI64, Ordering};

/// Margin of a thread among few, bytes: some thousand settlements for each GiB it allocates.
pub(crate) const MOST: i64 = 1 << 20;
/// Margin of a thread among very many, bytes.
pub(crate) const LEAST: i64 = 8 << 10;
/// The same while a limit is set.
pub(crate) const LEAST_UNDER_LIMIT: i64 = 1 << 10;
/// Margin of a thread inside a scope, whose peak is asked for.
pub(crate) const IN_SCOPE: i64 = 64 << 10;
/// Of all threads together, unless [`set_budget`] says otherwise.
pub(crate) const BUDGET: i64 = 64 << 20;
/// A thread takes one part in so many.
const SHARE: i64 = 64;

static CHOSEN: AtomicI64 = AtomicI64::new(BUDGET);

/// Sets the budget of all threads together, bytes. Each takes it up when it next settles.
pub(crate) fn set_budget(bytes: u64) {
    CHOSEN.store(
        i64::try_from(bytes).unwrap_or(i64::MAX).max(1),
        Ordering::Relaxed,
    );
}

/// The margin for a thread that settles now and had `own`.
pub(crate) fn of_a_thread(own: i64, in_scope: bool) -> i64 {
    let (budget, least) = match limit::of_process() {
        Some(limit) => (
            CHOSEN.load(Ordering::Relaxed).min(limit / 32),
            LEAST_UNDER_LIMIT,
        ),
        None => (CHOSEN.load(Ordering::Relaxed), LEAST),
    };
    let left = budget - (SHARED.margins.load(Ordering::Relaxed) - own);
    let most = if in_scope { IN_SCOPE } else { MOST };
    // A budget below the least is a wish for exactness.
    (left / SHARE).clamp(least.min(budget).max(1), most)
}
