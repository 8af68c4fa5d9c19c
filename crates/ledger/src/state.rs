//! States of a thread, in its counting slot.

/// Never seen.
pub(crate) const NEW: u64 = 0;
/// Its account is being opened, or its first attempt failed in passing: counts directly meanwhile.
pub(crate) const REGISTERING: u64 = 1;
/// It has an account.
pub(crate) const LIVE: u64 = 2;
/// It has ended, or can have no account: every event is counted directly.
pub(crate) const DIRECT: u64 = 3;
/// Added to the others while the thread holds the registry's lock.
pub(crate) const HOLDS: u64 = 8;
