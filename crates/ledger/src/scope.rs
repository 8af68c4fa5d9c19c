//! Scopes: what threads allocate and free while they are in them.

use crate::pool::{Pool, Pooled};
use crate::{events, registry};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use core::task::{Context, Poll};
use homefree_thread::{Lock, LockGuard};

/// Bytes of a name that are kept.
const NAME: usize = 64;

/// A scope's counters.
#[repr(C, align(64))]
pub(crate) struct ScopeNode {
    next: Cell<*mut ScopeNode>,
    /// Grows from scope to scope.
    serial: Cell<u64>,
    previous: Cell<*mut ScopeNode>,
    /// Handles and guards.
    users: AtomicU32,
    len: Cell<usize>,
    name: Cell<[u8; NAME]>,
    allocated: AtomicU64,
    freed: AtomicU64,
    balance: AtomicI64,
    peak: AtomicI64,
}

// SAFETY: all zero bytes are valid for cells of pointers, numbers and bytes, and for atomics.
unsafe impl Pooled for ScopeNode {
    fn link(&self) -> &Cell<*mut Self> {
        &self.next
    }
}

impl ScopeNode {
    /// Counts. By threads that are in the scope.
    pub(crate) fn add(&self, allocated: u64, freed: u64) {
        self.allocated.fetch_add(allocated, Ordering::Relaxed);
        self.freed.fetch_add(freed, Ordering::Relaxed);
        let net = allocated.wrapping_sub(freed) as i64;
        let balance = self.balance.fetch_add(net, Ordering::Relaxed) + net;
        if balance > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(balance, Ordering::Relaxed);
        }
    }

    fn usage(&self) -> ScopeUsage {
        let shown = |bytes: &AtomicI64| bytes.load(Ordering::Relaxed).max(0) as u64;
        ScopeUsage {
            current: shown(&self.balance),
            peak: shown(&self.peak),
            allocated: self.allocated.load(Ordering::Relaxed),
            freed: self.freed.load(Ordering::Relaxed),
        }
    }
}

struct Scopes {
    pool: Pool<ScopeNode>,
    /// The newest scope.
    first: Cell<*mut ScopeNode>,
    /// Of the next scope. Along the list they fall.
    serial: Cell<u64>,
}

// SAFETY: names and links are used under the lock only; counters are atomic.
unsafe impl Send for Scopes {}

static SCOPES: Lock<Scopes> = Lock::new(Scopes {
    pool: Pool::new(),
    first: Cell::new(null_mut()),
    serial: Cell::new(1),
});

/// Holds the lock of the scopes.
struct Held {
    // Dropped before the quiet ends.
    guard: Option<LockGuard<'static, Scopes>>,
    _quiet: events::Quiet,
}

fn hold() -> Held {
    let quiet = events::Quiet::begin();
    // The thread that forks has it.
    let mine = registry::forks_here(quiet.slot());
    Held {
        guard: (!mine).then(|| SCOPES.lock()),
        _quiet: quiet,
    }
}

impl core::ops::Deref for Held {
    type Target = Scopes;
    fn deref(&self) -> &Scopes {
        match &self.guard {
            Some(guard) => guard,
            // SAFETY: this thread holds the lock, by `lock_over_fork`.
            None => unsafe { SCOPES.value_of_holder() },
        }
    }
}

/// What was allocated and freed by threads while they were in a scope.
///
/// What is allocated inside and freed outside stays in `current`; what is freed inside though it was allocated
/// elsewhere is taken off it (and it is never shown below 0). See `docs/scopes.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeUsage {
    /// Allocated less freed, bytes.
    pub current: u64,
    /// The most that `current` was when a thread settled: at least every 64 KiB.
    pub peak: u64,
    /// Bytes allocated.
    pub allocated: u64,
    /// Bytes freed.
    pub freed: u64,
}

/// A handle of a scope, see [`Ledger::open_scope`](crate::Ledger::open_scope). It can be cloned, sent, and entered on many threads.
#[derive(Debug)]
pub struct Scope {
    /// `None` where the system had no memory for one: then nothing is attributed.
    node: Option<NonNull<ScopeNode>>,
}

// SAFETY: a counted reference to atomics.
unsafe impl Send for Scope {}
// SAFETY: as above.
unsafe impl Sync for Scope {}

impl Scope {
    /// The scope of a name: the one that is in use, or a new one.
    pub(crate) fn open(name: &str) -> Self {
        let cut = name.floor_char_boundary(NAME);
        let wanted = &name.as_bytes()[..cut];
        // A signal's handler on this thread must not come upon the lock.
        let scopes = hold();
        let mut next = scopes.first.get();
        while let Some(node) = NonNull::new(next) {
            // SAFETY: in the list, under the lock.
            let known = unsafe { node.as_ref() };
            if known.name.get()[..known.len.get()] == *wanted {
                known.users.fetch_add(1, Ordering::Relaxed);
                return Self { node: Some(node) };
            }
            next = known.next.get();
        }
        let Some(node) = scopes.pool.take() else {
            return Self { node: None };
        };
        // SAFETY: of the pool, ours alone now.
        let fresh = unsafe { node.as_ref() };
        let mut bytes = [0; NAME];
        bytes[..cut].copy_from_slice(wanted);
        fresh.serial.set(scopes.serial.get());
        scopes.serial.set(scopes.serial.get() + 1);
        fresh.name.set(bytes);
        fresh.len.set(cut);
        fresh.users.store(1, Ordering::Relaxed);
        for place in [&fresh.allocated, &fresh.freed] {
            place.store(0, Ordering::Relaxed);
        }
        for place in [&fresh.balance, &fresh.peak] {
            place.store(0, Ordering::Relaxed);
        }
        let first = scopes.first.replace(node.as_ptr());
        fresh.next.set(first);
        fresh.previous.set(null_mut());
        if let Some(first) = NonNull::new(first) {
            // SAFETY: in the list.
            unsafe { first.as_ref() }.previous.set(node.as_ptr());
        }
        Self { node: Some(node) }
    }

    fn node(&self) -> Option<&ScopeNode> {
        // SAFETY: this handle is one of its users.
        self.node.as_ref().map(|node| unsafe { node.as_ref() })
    }

    /// Enters the scope on this thread until the guard is dropped. Scopes nest: what is allocated in an inner one
    /// counts in the outer ones too. A thread can be in 16 at once; what is entered beyond is not attributed.
    pub fn enter(&self) -> Entered {
        let place = self.node.map_or(null_mut(), NonNull::as_ptr);
        let entered = !place.is_null()
            && events::settling_in_time()
                .is_some_and(|(account, settling)| account.enter(&settling, place));
        Entered {
            scope: self.clone(),
            entered,
            on_this_thread: PhantomData,
        }
    }

    /// A future that is in the scope whenever it is polled, on whichever thread.
    pub fn wrap<F>(&self, future: F) -> InScope<F> {
        InScope {
            scope: self.clone(),
            future: ManuallyDrop::new(future),
        }
    }

    /// What was counted in the scope. What threads that are in it have not settled yet, up to 64 KiB each, is
    /// missing; what this thread has not, is settled first.
    pub fn usage(&self) -> ScopeUsage {
        events::settle_here();
        self.node().map_or(ScopeUsage::default(), ScopeNode::usage)
    }
}

impl Clone for Scope {
    fn clone(&self) -> Self {
        if let Some(node) = self.node() {
            node.users.fetch_add(1, Ordering::Relaxed);
        }
        Self { node: self.node }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let Some(place) = self.node else { return };
        // SAFETY: this handle is one of its users.
        let node = unsafe { place.as_ref() };
        // Only the last user needs the lock, under which others may become users.
        let not_last = |users: u32| (users > 1).then(|| users - 1);
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        if node.users.fetch_update(release, relaxed, not_last).is_ok() {
            return;
        }
        let scopes = hold();
        if node.users.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let (next, previous) = (node.next.get(), node.previous.get());
        match NonNull::new(previous) {
            // SAFETY: in the list.
            Some(previous) => unsafe { previous.as_ref() }.next.set(next),
            None => scopes.first.set(next),
        }
        if let Some(next) = NonNull::new(next) {
            // SAFETY: in the list.
            unsafe { next.as_ref() }.previous.set(previous);
        }
        // SAFETY: out of the list, and this was the last user.
        unsafe { scopes.pool.put(place) };
    }
}

/// A scope that this thread is in, until dropped. See [`Ledger::scope`](crate::Ledger::scope).
#[derive(Debug)]
#[must_use = "the scope is left when this is dropped"]
pub struct Entered {
    scope: Scope,
    entered: bool,
    /// It is left where it was entered.
    on_this_thread: PhantomData<*mut ()>,
}

impl Entered {
    /// A handle, to enter the scope elsewhere or to read it later.
    pub fn handle(&self) -> Scope {
        self.scope.clone()
    }

    /// As [`Scope::usage`].
    pub fn usage(&self) -> ScopeUsage {
        self.scope.usage()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let (true, Some(node)) = (self.entered, self.scope.node) else {
            return;
        };
        // A thread that has ended has left all its scopes.
        if let Some((account, settling)) = events::settling_in_time() {
            account.leave(&settling, node.as_ptr());
        }
    }
}

/// A future in a scope, see [`Scope::wrap`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct InScope<F> {
    scope: Scope,
    /// Dropped in the scope.
    future: ManuallyDrop<F>,
}

impl<F> Drop for InScope<F> {
    fn drop(&mut self) {
        let _entered = self.scope.enter();
        // SAFETY: dropped here only, and not used after.
        unsafe { ManuallyDrop::drop(&mut self.future) };
    }
}

impl<F: Future> Future for InScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.scope.enter();
        // SAFETY: the future is pinned where `self` is, never moved out of it, and dropped in place.
        unsafe { self.map_unchecked_mut(|this| &mut *this.future) }.poll(context)
    }
}

/// Scopes that are read at a time.
const AT_A_TIME: usize = 16;

/// What is told of a scope.
#[derive(Clone, Copy)]
struct Told {
    name: [u8; NAME],
    len: usize,
    usage: ScopeUsage,
}

/// Calls `f` with the name and the counters of every scope in use. Not under the lock: `f` may do anything.
pub(crate) fn for_each(f: &mut dyn FnMut(&str, ScopeUsage)) {
    events::settle_here();
    let mut before = u64::MAX;
    loop {
        let mut told = [None; AT_A_TIME];
        {
            let scopes = hold();
            let mut next = scopes.first.get();
            let mut places = told.iter_mut();
            while let Some(node) = NonNull::new(next) {
                // SAFETY: in the list, under the lock.
                let node = unsafe { node.as_ref() };
                next = node.next.get();
                if node.serial.get() >= before {
                    continue;
                }
                let Some(place) = places.next() else { break };
                before = node.serial.get();
                *place = Some(Told {
                    name: node.name.get(),
                    len: node.len.get(),
                    usage: node.usage(),
                });
            }
        }
        for told in told.iter().flatten() {
            f(
                core::str::from_utf8(&told.name[..told.len]).unwrap_or(""),
                told.usage,
            );
        }
        if told.iter().any(Option::is_none) {
            return;
        }
    }
}

/// Before a fork, after it in the parent, and in the child.
pub(crate) fn lock_over_fork() {
    core::mem::forget(SCOPES.lock());
}

/// See [`lock_over_fork`].
///
/// # Safety
/// By the thread that called it, or its twin in the child.
pub(crate) unsafe fn unlock_after_fork() {
    // SAFETY: the caller's promise.
    unsafe { SCOPES.force_open() };
}
