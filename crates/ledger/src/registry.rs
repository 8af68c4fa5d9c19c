//! All accounts: who has one, and what happens to it when its thread ends or the process forks.

use crate::account::{ANY_GONE, Account};
use crate::events::{self, Quiet};
use crate::pool::Pool;
use crate::reading::ThreadFlow;
use crate::shared::{SHARED, Sums};
use crate::{ledger, limit, reading, scope, state};
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use homefree_thread::counter::{self, CounterSlot};
use homefree_thread::{ExitHook, Lock, LockGuard, sys};

struct Registry {
    pool: Pool<Account>,
    /// The newest account.
    first: Cell<*mut Account>,
    /// Of the next account. Along the list they fall.
    serial: Cell<u64>,
}

// SAFETY: accounts are reached through the list under the lock only; all else of them is atomic.
unsafe impl Send for Registry {}

impl Registry {
    fn list(&self) -> Option<List> {
        (!CLOSED.load(Ordering::Relaxed)).then(|| List {
            next: self.first.get(),
        })
    }

    /// Closes the accounts of threads that have left, or were found gone.
    fn close_gone(&self) {
        if !ANY_GONE.load(Ordering::Acquire) || !ANY_GONE.swap(false, Ordering::AcqRel) {
            return;
        }
        for account in self.list().into_iter().flatten() {
            if account.is_gone() {
                close_held(self, NonNull::from(account), false);
            }
        }
    }
}

static REGISTRY: Lock<Registry> = Lock::new(Registry {
    pool: Pool::new(),
    first: Cell::new(null_mut()),
    serial: Cell::new(1),
});
static EXIT: ExitHook = ExitHook::new();
/// Address of the slot of the thread that forks; 0 while none does.
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// The library is being unloaded, or the process ends: threads are told of no more.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// The list may be half changed, for ever.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether another thread than that of the slot forks: then this one may not begin to settle.
pub(crate) fn another_forks(slot: *const CounterSlot) -> bool {
    let forking = FORKING.load(Ordering::SeqCst);
    forking != 0 && forking != slot as usize
}

/// Whether the thread of the slot forks: it has all locks of the ledger then.
pub(crate) fn forks_here(slot: *const CounterSlot) -> bool {
    FORKING.load(Ordering::Relaxed) == slot as usize
}

/// The living accounts, for one who holds the lock.
pub(crate) struct List {
    next: *mut Account,
}

impl Iterator for List {
    type Item = &'static Account;
    fn next(&mut self) -> Option<&'static Account> {
        let account = NonNull::new(self.next)?;
        // SAFETY: accounts are never unmapped, and those in the list are whole.
        let account = unsafe { account.as_ref() };
        // First: it may be closed meanwhile.
        self.next = account.next.get();
        Some(account)
    }
}

/// Holds the registry's lock.
struct Held {
    // Dropped before the quiet ends.
    guard: Option<LockGuard<'static, Registry>>,
    _quiet: Quiet,
}

fn hold() -> Held {
    let quiet = Quiet::begin();
    // The thread that forks has it.
    let mine = forks_here(quiet.slot());
    Held {
        guard: (!mine).then(|| REGISTRY.lock()),
        _quiet: quiet,
    }
}

impl Held {
    fn registry(&self) -> &Registry {
        match &self.guard {
            Some(guard) => guard,
            // SAFETY: this thread holds the lock, by `before_fork`.
            None => unsafe { REGISTRY.value_of_holder() },
        }
    }
}

/// Calls `f` with the accounts, under the lock. `None` once threads are told of no more. Not for handlers of
/// signals.
pub(crate) fn with_list<T>(f: impl FnOnce(List) -> T) -> Option<T> {
    let held = hold();
    let list = held.registry().list()?;
    let value = f(list);
    held.registry().close_gone();
    Some(value)
}

/// What living threads have settled, once their counters may not be looked at any more.
pub(crate) fn settled_sums() -> Sums {
    let mut sums = Sums::default();
    let held = hold();
    if !BROKEN.load(Ordering::Relaxed) {
        let first = held.registry().first.get();
        (List { next: first }).for_each(|account| sums.add(&account.taken_over()));
    }
    sums
}

/// Opens an account for the calling thread. Leaves the state [`state::LIVE`], or [`state::DIRECT`] where it can not
/// be had: then every event of the thread is counted directly, which is slower and as exact.
pub(crate) fn register(slot: &CounterSlot) {
    if FORKING.load(Ordering::SeqCst) != 0 || !state::change(slot, state::NEW, state::REGISTERING) {
        return;
    }
    // The C library takes a thread's values away as it ends: then it is too late for an account.
    let late = events::was_announced(slot) && EXIT.value().is_null();
    slot.state.set(match hooks() {
        Hooks::InPlace if !late && open(slot) => state::LIVE,
        Hooks::NotYet => state::NEW,
        _ => state::DIRECT,
    });
    if slot.state.get() == state::DIRECT {
        events::take_first(slot);
    }
}

/// What the exit hook is armed with for a thread that has no account yet.
static ANNOUNCED: u8 = 0;

fn announced() -> *mut c_void {
    (&raw const ANNOUNCED).cast_mut().cast()
}

/// Arms the exit hook for a thread at its first events. False where that can not be, or not now.
pub(crate) fn announce() -> bool {
    FORKING.load(Ordering::SeqCst) == 0
        && matches!(hooks(), Hooks::InPlace)
        // SAFETY: `ended` knows the value.
        && unsafe { EXIT.arm(announced()) }
}

fn open(slot: &CounterSlot) -> bool {
    let account = {
        let held = hold();
        let registry = held.registry();
        if CLOSED.load(Ordering::Relaxed) {
            return false;
        }
        let Some(place) = registry.pool.take() else {
            return false;
        };
        // SAFETY: of the pool, and ours alone now.
        let account = unsafe { place.as_ref() };
        account.open(slot, registry.serial.get());
        registry.serial.set(registry.serial.get() + 1);
        // What it counted before it had an account: from nobody's to its own.
        let before = events::take_first(slot);
        account.begin_with(&before);
        SHARED.direct.add(&Sums {
            allocated: before.allocated.wrapping_neg(),
            freed: before.freed.wrapping_neg(),
            ..Sums::default()
        });
        let first = registry.first.replace(place.as_ptr());
        account.next.set(first);
        account.previous.set(null_mut());
        if let Some(first) = NonNull::new(first) {
            // SAFETY: in the list.
            unsafe { first.as_ref() }.previous.set(place.as_ptr());
        }
        SHARED.threads.fetch_add(1, Ordering::Relaxed);
        place
    };
    slot.account.set(account.as_ptr().cast());
    // SAFETY: `ended` takes an account; they are never unmapped.
    let armed = unsafe { EXIT.arm(account.as_ptr().cast()) };
    if !armed {
        // Nobody would tell of its end, and the slot goes with the thread.
        close(account);
    }
    armed
}

/// Takes the calling thread's account from the list and keeps what it counted.
fn close(place: NonNull<Account>) {
    let quiet = Quiet::begin();
    let slot = quiet.slot();
    let mut waits = 0u32;
    loop {
        if let Some(registry) = REGISTRY.try_lock() {
            close_held(&registry, place, true);
            slot.account.set(null_mut());
            return;
        }
        if another_forks(slot) {
            // That may be waiting for this very thread's end, in a handler of the program's.
            // SAFETY: never unmapped.
            unsafe { place.as_ref() }.depart();
            return;
        }
        waits += 1;
        match waits {
            0..64 => core::hint::spin_loop(),
            64..1000 => sys::yield_now(),
            _ => sys::sleep(50_000),
        }
    }
}

fn close_held(registry: &Registry, place: NonNull<Account>, own: bool) {
    // SAFETY: never unmapped.
    let account = unsafe { place.as_ref() };
    SHARED.retired.add(&account.close(own));
    let (next, previous) = (account.next.get(), account.previous.get());
    match NonNull::new(previous) {
        // SAFETY: in the list.
        Some(previous) => unsafe { previous.as_ref() }.next.set(next),
        None => registry.first.set(next),
    }
    if let Some(next) = NonNull::new(next) {
        // SAFETY: in the list.
        unsafe { next.as_ref() }.previous.set(previous);
    }
    SHARED.threads.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: out of the list.
    unsafe { registry.pool.put(place) };
}

/// This code is part of a library that is never unloaded.
static STAYS: AtomicBool = AtomicBool::new(false);

/// See [`crate::raw::never_unloaded`].
pub(crate) fn never_unloaded() {
    STAYS.store(true, Ordering::Relaxed);
}

/// Whom to tell of threads that end; null for nobody.
static TOLD: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// See [`crate::raw::when_a_thread_ends`].
pub(crate) fn when_a_thread_ends(f: fn(ThreadFlow)) {
    TOLD.store(f as *mut (), Ordering::Release);
}

fn tell_of_end(account: &Account) {
    let told = TOLD.load(Ordering::Acquire);
    if !told.is_null() {
        // SAFETY: stored by `when_a_thread_ends` from this type.
        let told = unsafe { core::mem::transmute::<*mut (), fn(ThreadFlow)>(told) };
        told(ThreadFlow::of(account));
    }
}

/// The exit hook: closes the account in the first round of the thread's key destructors that it is called in. What
/// later ones allocate and free is counted directly.
///
/// It does not arm itself again for a later round. A thread whose first event comes from a destructor opens its account in
/// the midst of the rounds; it would wait for one that does not come, and leave an account behind whose counters have
/// gone with the thread.
unsafe extern "C" fn ended(value: *mut c_void) {
    if value == announced() {
        // It did little: all of it is counted.
        let slot = events::slot();
        slot.state.set(state::DIRECT);
        events::take_first(slot);
        return;
    }
    let Some(place) = NonNull::new(value.cast::<Account>()) else {
        return;
    };
    // SAFETY: never unmapped.
    let account = unsafe { place.as_ref() };
    tell_of_end(account);
    // SAFETY: by the thread itself, whose account this is.
    let slot = unsafe { account.slot() };
    slot.state.set(state::DIRECT);
    close(place);
}

/// Whether a thread's end, and forks, will be told.
enum Hooks {
    InPlace,
    /// Another thread is putting them in place. (To wait for it could be to wait for oneself: it may need a
    /// lock of the C library that this thread holds.)
    NotYet,
    Impossible,
}

fn hooks() -> Hooks {
    const NEW: usize = 0;
    const DONE: usize = 1;
    const NOT: usize = 2;
    const AT_IT: usize = 3;
    static STATE: AtomicUsize = AtomicUsize::new(NEW);
    match STATE.compare_exchange(NEW, AT_IT, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            let done =
                EXIT.create(ended) && homefree_thread::on_fork(before_fork, after_fork, in_child);
            if done && !counter::is_executable() && !STAYS.load(Ordering::Relaxed) {
                // SAFETY: plain call. In a library that is closed again, the C library runs it then.
                unsafe { libc::atexit(unloaded) };
            }
            STATE.store(if done { DONE } else { NOT }, Ordering::Release);
            if done {
                Hooks::InPlace
            } else {
                Hooks::Impossible
            }
        }
        Err(DONE) => Hooks::InPlace,
        Err(AT_IT) => Hooks::NotYet,
        Err(_) => Hooks::Impossible,
    }
}

/// In a library: it is being closed, or the process ends. Threads are told of no more, so from now on nobody
/// looks at another thread's counters.
extern "C" fn unloaded() {
    // A callback that holds the lock may call `exit`.
    let _held = (events::slot().state.get() & state::HOLDS == 0).then(hold);
    CLOSED.store(true, Ordering::Relaxed);
    EXIT.delete();
}

unsafe extern "C" fn before_fork() {
    let slot = events::slot();
    if slot.state.get() & state::HOLDS != 0 {
        // A signal's handler forks while its thread has a lock of ours. See `in_child`.
        return;
    }
    scope::lock_over_fork();
    core::mem::forget(REGISTRY.lock());
    FORKING.store(core::ptr::from_ref(slot) as usize, Ordering::SeqCst);
    // SAFETY: this thread holds the lock.
    let list = unsafe { REGISTRY.value_of_holder() }.list();
    for account in list.into_iter().flatten() {
        let mut waits = 0;
        // A thread that was stopped in the midst of it must not stop the fork.
        while !account.is_of(slot) && account.is_busy() && waits < 2000 {
            waits += 1;
            match waits {
                0..1000 => sys::yield_now(),
                _ => sys::sleep(50_000),
            }
        }
    }
}

unsafe extern "C" fn after_fork() {
    if FORKING.load(Ordering::Relaxed) == core::ptr::from_ref(events::slot()) as usize {
        FORKING.store(0, Ordering::SeqCst);
        // SAFETY: this thread holds the lock.
        unsafe { REGISTRY.value_of_holder() }.close_gone();
        // SAFETY: locked by `before_fork` on this thread.
        unsafe { REGISTRY.force_open() };
        // SAFETY: as above.
        unsafe { scope::unlock_after_fork() };
    }
}

unsafe extern "C" fn in_child() {
    let slot = events::slot();
    if slot.state.get() & state::HOLDS == 0 {
        // SAFETY: the one thread of the child; it would be in that state if it was making a mark.
        unsafe { ledger::open_marks_in_child() };
    }
    if FORKING.load(Ordering::Relaxed) != core::ptr::from_ref(slot) as usize {
        // The list may be half changed. Nobody may look at it any more; the balance stays as near as it is.
        CLOSED.store(true, Ordering::Relaxed);
        BROKEN.store(true, Ordering::Relaxed);
        FORKING.store(0, Ordering::Relaxed);
        return;
    }
    // SAFETY: this thread holds the lock.
    let registry = unsafe { REGISTRY.value_of_holder() };
    let mut granted = 0;
    for account in registry.list().into_iter().flatten() {
        // The storage of threads that are not here any more is still as it was.
        if account.is_of(slot) {
            account.go_on_in_child();
            granted = account.read().granted;
        } else {
            close_held(registry, NonNull::from(account), false);
        }
    }
    limit::keep_only(granted);
    // What a thread counted directly at that very moment may be in its sum and not in the balance.
    reading::correct_balance();
    // SAFETY: as in the parent.
    unsafe { after_fork() };
}
