//! Threads as they come and go: their state, their banks, their ids.

use crate::arena::ARENA;
use crate::event::{Event, note};
use crate::process::{self, settings};
use crate::roles;
use crate::tables::Tables;
use crate::unwind::{Bounds, Registers, Unwinder, start_function};
use crate::{clock, modules};
use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use homefree_thread::{ExitHook, Lock, ROUNDS, Slot, ThreadTable, sys};
use homefree_wire::{Bank, PAGE, Site, bank};

pub(crate) const SITE_CACHE: usize = 128;

/// Everything that one thread's events touch. Lives in a mapping of its own, is reused by later
/// threads, never freed.
pub(crate) struct Thread {
    /// Never reused.
    pub id: u32,
    /// The id that frees compare with: `id`, except while an ended thread's event is recorded.
    pub identity: u32,
    pub generation: u32,
    /// Stack of the last recorded allocation and its site.
    pub last_node: u32,
    pub last_site: u32,
    pub free_all: bool,
    /// Mean bytes between samples; 0 for every event.
    pub sample: u64,
    /// Bytes until the next sample.
    pub countdown: i64,
    pub random: u64,
    /// Draws whose lifetimes are measured.
    pub draw: u64,
    pub bank: &'static Bank,
    pub sites: [(u32, u32); SITE_CACHE],
    /// Sites of other threads (references) and their nodes, which never change: a look at the site itself
    /// would take its cache line from the thread that counts there.
    pub others: [(u32, u32); SITE_CACHE],
    pub unwinder: Unwinder,
    pub tables: Tables,
    slot: *const Slot,
    pthread: libc::pthread_t,
    role: AtomicU32,
    rounds: u32,
    next: *mut Thread,
    previous: *mut Thread,
}

/// Role and, for an ended thread's late events, the thread's own id.
pub(crate) static THREADS: ThreadTable = ThreadTable::new();
static EXIT: ExitHook = ExitHook::new();

struct Lists {
    /// Attached threads.
    live: *mut Thread,
    /// States that wait for a thread.
    idle: *mut Thread,
    /// Threads that were named by another one before their first event.
    named: [libc::pthread_t; 64],
    named_next: usize,
}

// SAFETY: the states are reached under the lock or by the one thread that they belong to.
unsafe impl Send for Lists {}

static LISTS: Lock<Lists> = Lock::new(Lists {
    live: core::ptr::null_mut(),
    idle: core::ptr::null_mut(),
    named: [0; 64],
    named_next: 0,
});

static ASK_FOR_NAMES: AtomicBool = AtomicBool::new(false);

pub(crate) fn ask_for_names() {
    ASK_FOR_NAMES.store(true, Ordering::Relaxed);
}

/// Takes the calling thread's name anew where calls that change it are not seen.
#[cold]
pub(crate) fn ask_for_name(thread: &mut Thread) {
    if !ASK_FOR_NAMES.load(Ordering::Relaxed) {
        return;
    }
    let mut name = [0; 16];
    let len = sys::thread_name(&mut name);
    if let Some(role) = roles::of_new_name(&name[..len]) {
        set_role(&thread.role, thread.bank, thread.id, role);
    }
}

/// Makes the exit hook. Once.
pub(crate) fn init() {
    EXIT.create(at_exit);
}

/// Deletes the exit hook: the artifact is being unloaded.
pub(crate) fn forget_exit_hook() {
    EXIT.delete();
}

const LATE: u64 = 1 << 63;

/// Role of a thread id.
pub(crate) fn role_of(id: u32) -> u32 {
    (THREADS.get(id) & 0xffff) as u32
}

/// The thread behind an id: itself, or the ended thread whose late event it was.
pub(crate) fn identity_of(id: u32) -> u32 {
    let word = THREADS.get(id);
    if word & LATE != 0 {
        (word >> 16) as u32 & ((1 << ThreadTable::ID_BITS) - 1)
    } else {
        id
    }
}

/// When no state was to be had, `CLOCK_MONOTONIC` nanoseconds.
static REFUSED: AtomicU64 = AtomicU64::new(u64::MAX / 2);
/// Nanoseconds until it is tried again.
const RETRY: u64 = 1_000_000_000;

/// Whether a state may be had: one waits, or none was refused lately.
fn may_have_state() -> bool {
    let now = sys::clock(libc::CLOCK_MONOTONIC_COARSE);
    now.wrapping_sub(REFUSED.load(Ordering::Relaxed)) >= RETRY || !LISTS.lock().idle.is_null()
}

fn new_state() -> Option<NonNull<Thread>> {
    let mut lists = LISTS.lock();
    if let Some(idle) = NonNull::new(lists.idle) {
        // SAFETY: states on the list are whole and nobody's.
        lists.idle = unsafe { idle.as_ref() }.next;
        return Some(idle);
    }
    drop(lists);
    // A file that has no room is not asked again by every event of every new thread.
    let now = sys::clock(libc::CLOCK_MONOTONIC_COARSE);
    if now.wrapping_sub(REFUSED.load(Ordering::Relaxed)) < RETRY {
        return None;
    }
    let mut tables = Tables::new();
    let made = tables
        .bank()
        .zip(sys::map(size_of::<Thread>().next_multiple_of(PAGE)));
    let Some((bank, state)) = made else {
        REFUSED.store(now, Ordering::Relaxed);
        return None;
    };
    let state = state.cast::<Thread>();
    // SAFETY: the mapping just made is large enough and zeroed, which is a valid value of every field
    // but these two, written here without reading what was there.
    unsafe {
        (&raw mut (*state.as_ptr()).bank).write(bank);
        (&raw mut (*state.as_ptr()).tables).write(tables);
    }
    Some(state)
}

/// The state for the calling thread, with `role` and a new id.
fn take_state(slot: &Slot, word: u64, bounds: Bounds) -> Option<&'static mut Thread> {
    let mut state = new_state()?;
    let Some(id) = THREADS.add(word) else {
        put_idle(state);
        return None;
    };
    let settings = settings();
    // SAFETY: taken off the idle list or just made: nobody else's.
    let thread = unsafe { state.as_mut() };
    thread.id = id;
    thread.identity = id;
    thread.generation = modules::generation();
    (thread.last_node, thread.last_site) = (0, 0);
    thread.free_all = settings.free_stacks_all;
    thread.sample = settings.sample_bytes;
    thread.random = sys::random() ^ u64::from(id) ^ clock::ticks();
    thread.countdown = 0;
    thread
        .unwinder
        .init(settings.stacks, settings.depth as usize, bounds);
    thread.slot = slot;
    thread.rounds = 0;
    let role = (word & 0xffff) as u32;
    thread.role.store(role, Ordering::Relaxed);
    thread.bank.role.store(role, Ordering::Relaxed);
    thread.bank.tid.store(sys::thread_id(), Ordering::Relaxed);
    thread.bank.state.store(bank::LIVE, Ordering::Release);
    if thread.sample != 0 {
        crate::sample::next(thread);
    }
    Some(thread)
}

fn put_idle(mut state: NonNull<Thread>) {
    let mut lists = LISTS.lock();
    // SAFETY: the caller gives it up.
    unsafe { state.as_mut() }.next = lists.idle;
    lists.idle = state.as_ptr();
}

/// Makes the calling thread known. `None` where memory is refused. The caller has `slot.busy` set.
#[cold]
#[inline(never)]
pub(crate) fn attach(slot: &Slot, regs: Registers) -> Option<&'static mut Thread> {
    if !may_have_state() {
        return None;
    }
    let bounds = Bounds::of_this_thread(regs.sp);
    // SAFETY: plain call.
    let pthread = unsafe { libc::pthread_self() };
    let named = slot.named.get() || {
        let mut lists = LISTS.lock();
        let found = lists.named.iter().position(|&t| t == pthread);
        if let Some(at) = found {
            lists.named[at] = 0;
        }
        found.is_some()
    };
    let role = roles::of_this_thread(named, || start_function(settings().stacks, regs, &bounds));
    let thread = take_state(slot, u64::from(role), bounds)?;
    thread.pthread = pthread;
    {
        let mut lists = LISTS.lock();
        thread.previous = core::ptr::null_mut();
        thread.next = lists.live;
        // SAFETY: states on the list are alive and their links change under the lock only.
        if let Some(first) = unsafe { lists.live.as_mut() } {
            first.previous = thread;
        }
        lists.live = thread;
        // Named meanwhile?
        if let Some(at) = lists.named.iter().position(|&t| t == pthread) {
            lists.named[at] = 0;
            drop(lists);
            slot.record.set(core::ptr::from_mut(thread).cast());
            renamed(slot);
        }
    }
    let header = ARENA.header();
    header.threads.fetch_add(1, Ordering::Relaxed);
    header.threads_live.fetch_add(1, Ordering::Relaxed);
    process::look_at_clock();
    slot.record.set(core::ptr::from_mut(thread).cast());
    // SAFETY: `at_exit` takes a state, which lives for ever. libc may call a hook of ours in here; the
    // thread is known by now and `busy`, so the call is passed through.
    unsafe { EXIT.arm(core::ptr::from_mut(thread).cast()) };
    Some(thread)
}

/// Last rounds of a thread's key destructors.
unsafe extern "C" fn at_exit(value: *mut c_void) {
    let Some(state) = NonNull::new(value.cast::<Thread>()) else {
        return;
    };
    // SAFETY: a live thread's state; this is that thread, and no event of its own is under way.
    let thread = unsafe { &mut *state.as_ptr() };
    // SAFETY: the slot lies in the thread's static TLS block, which outlives its key destructors.
    let slot = unsafe { &*thread.slot };
    if !process::owns_profile() {
        // A child of fork in which the forking thread ends before anything was recorded: what the state
        // counts in is still the parent's.
        slot.record.set(core::ptr::null_mut());
        process::forget_state_before_fork();
        return;
    }
    thread.rounds += 1;
    if thread.rounds < ROUNDS {
        // SAFETY: as in `attach`.
        unsafe { EXIT.arm(value) };
        return;
    }
    slot.busy.set(1);
    ask_for_name(thread);
    slot.ended.set(thread.id);
    slot.record.set(core::ptr::null_mut());
    {
        let mut lists = LISTS.lock();
        // SAFETY: neighbours on the list are alive; links change under the lock only.
        match unsafe { thread.previous.as_mut() } {
            Some(previous) => previous.next = thread.next,
            None => lists.live = thread.next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { thread.next.as_mut() } {
            next.previous = thread.previous;
        }
    }
    ARENA.header().threads_live.fetch_sub(1, Ordering::Relaxed);
    process::look_at_clock();
    release(thread, true);
    slot.busy.set(0);
}

fn release(thread: &mut Thread, ended: bool) {
    thread.bank.state.store(bank::IDLE, Ordering::Relaxed);
    thread.bank.tid.store(0, Ordering::Relaxed);
    let role = thread.role.load(Ordering::Relaxed);
    roles::archive(role, &mut thread.tables, ended);
    match thread.tables.bank() {
        Some(bank) if !core::ptr::eq(bank, thread.bank) => {
            // The old one went to the archive as it was: its sites are no longer this state's.
            thread.bank = bank;
            thread.sites = [(0, 0); SITE_CACHE];
        }
        _ => {}
    }
    put_idle(NonNull::from(thread));
}

/// Notes the first event of a thread that has no state: a new one, one that has ended, or the one that
/// forked this process. Where none is to be had, a block that is freed is at least forgotten.
pub(crate) fn note_first(slot: &Slot, regs: Registers, event: Event) {
    let noted = if slot.ended.get() != 0 {
        late(slot, regs, event)
    } else {
        let thread = process::state_before_fork(slot).or_else(|| attach(slot, regs));
        thread.map(|thread| note(thread, event, regs)).is_some()
    };
    if !noted {
        ARENA.header().unattached.fetch_add(1, Ordering::Relaxed);
        if let Event::Freed { address } = event {
            crate::shadow::take(address);
        }
    }
}

/// Records one event of a thread whose exit hook has run, with a state borrowed for it.
fn late(slot: &Slot, regs: Registers, event: Event) -> bool {
    if !may_have_state() {
        return false;
    }
    let owner = slot.ended.get();
    let role = role_of(owner);
    let word = LATE | u64::from(owner) << 16 | u64::from(role);
    let bounds = Bounds::of_this_thread(regs.sp);
    let Some(thread) = take_state(slot, word, bounds) else {
        return false;
    };
    thread.identity = owner;
    crate::tables::add(&thread.bank.late, 1);
    note(thread, event, regs);
    release(thread, false);
    true
}

/// The calling thread was given a name.
pub(crate) fn renamed(slot: &Slot) {
    slot.named.set(true);
    let mut name = [0; 16];
    let len = sys::thread_name(&mut name);
    let name = &name[..len];
    roles::note_given(name);
    let state = slot.record.get().cast::<Thread>();
    // SAFETY: the calling thread's own state, or null.
    let Some(thread) = (unsafe { state.as_mut() }) else {
        return;
    };
    let main = sys::thread_id() == sys::process_id();
    let kind = if main {
        homefree_wire::records::role_kind::MAIN
    } else {
        homefree_wire::records::role_kind::NAME
    };
    set_role(
        &thread.role,
        thread.bank,
        thread.id,
        roles::id(kind, name, 0),
    );
}

/// Another thread was given a name.
pub(crate) fn renamed_other(pthread: libc::pthread_t, name: &[u8]) {
    roles::note_given(name);
    let role = roles::id(homefree_wire::records::role_kind::NAME, name, 0);
    let mut lists = LISTS.lock();
    let mut at = lists.live.cast_const();
    while !at.is_null() {
        // SAFETY: states on the list are alive, and these fields are written before one is put there.
        let (same, next) = unsafe { ((*at).pthread == pthread, (*at).next) };
        if same {
            // SAFETY: as above; the role is an atomic, the bank shared.
            let (own, bank, id) = unsafe { (&(*at).role, (*at).bank, (*at).id) };
            set_role(own, bank, id, role);
            return;
        }
        at = next;
    }
    // Not seen yet: it will find its name when it is.
    let at = lists.named_next % lists.named.len();
    lists.named[at] = pthread;
    lists.named_next += 1;
}

fn set_role(own: &AtomicU32, bank: &Bank, id: u32, role: u32) {
    own.store(role, Ordering::Relaxed);
    bank.role.store(role, Ordering::Relaxed);
    THREADS.set(id, u64::from(role));
}

/// Opens the lock in fork's child.
///
/// # Safety
/// No other thread exists and the caller holds no guard.
pub(crate) unsafe fn open_lock() {
    // SAFETY: the caller's promise.
    unsafe { LISTS.force_open() };
}

/// Puts things in order in fork's child: the calling thread is the only one.
///
/// # Safety
/// No other thread exists and the caller holds no guard.
pub(crate) unsafe fn after_fork(own: *mut Thread) {
    let mut lists = LISTS.lock();
    // The other threads' states may be half changed: they are left.
    lists.live = own;
    // The idle list may be half changed too.
    lists.idle = core::ptr::null_mut();
    // SAFETY: the calling thread's own state, or null.
    if let Some(own) = unsafe { own.as_mut() } {
        own.previous = core::ptr::null_mut();
        own.next = core::ptr::null_mut();
        own.bank.tid.store(sys::thread_id(), Ordering::Relaxed);
        own.bank.state.store(bank::LIVE, Ordering::Relaxed);
    }
}

impl Thread {
    /// The slot that this state is, or was, attached to.
    #[inline(always)]
    pub fn slot(&self) -> &'static Slot {
        // SAFETY: set when the state was taken for the thread that uses it now, whose slot is alive.
        unsafe { &*self.slot }
    }

    /// Reference of the site of a stack in this thread's bank.
    #[inline]
    pub fn site(&mut self, node: u32) -> Option<u32> {
        if node != 0 && node == self.last_node {
            return Some(self.last_site);
        }
        let cached = &mut self.sites[node as usize % SITE_CACHE];
        if node == 0 {
            return None;
        }
        if cached.0 != node {
            let sites = self.bank.sites.load(Ordering::Relaxed);
            *cached = (node, self.tables.site(node)?);
            let new = sites != self.bank.sites.load(Ordering::Relaxed);
            if new {
                ask_for_name(self);
            }
        }
        (self.last_node, self.last_site) = self.sites[node as usize % SITE_CACHE];
        Some(self.last_site)
    }

    /// The node of another thread's site.
    ///
    /// # Safety
    /// `site` was given out by the arena.
    #[inline]
    pub unsafe fn node_of(&mut self, site: u32) -> u32 {
        let cached = &mut self.others[site as usize % SITE_CACHE];
        if cached.0 != site {
            // SAFETY: the caller's promise.
            let node = unsafe { ARENA.site(site) }.node.load(Ordering::Acquire);
            *cached = (site, node);
        }
        cached.1
    }

    /// The site behind a reference.
    ///
    /// # Safety
    /// `site` was given out by the arena.
    #[inline(always)]
    pub unsafe fn site_at(&self, site: u32) -> &'static Site {
        // SAFETY: the caller's promise; the arena is never unmapped.
        unsafe { &*core::ptr::from_ref(ARENA.site(site)) }
    }
}
