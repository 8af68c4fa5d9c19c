//! The process: start, fork, end.

use crate::arena::ARENA;
use crate::config::{Config, Naming, PATH};
use crate::event::{Event, note};
use crate::threads::{self, Thread};
use crate::unwind::{Registers, rules};
use crate::{clock, modules, nodes, roles, shadow, tables};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering, compiler_fence};
use homefree_thread::{Lock, Slot, sys};
use homefree_wire::{
    BANKS, Bank, FLOWS, FLOWS_AT, Flow, Header, MAGIC, PAGE, PAGE_MAGIC, PageHead, SITES, Site,
    VERSION, kind, records, state,
};

/// What every thread needs to know of the environment.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub stacks: u32,
    pub depth: u32,
    pub free_stacks_all: bool,
    pub sample_bytes: u64,
}

struct Process {
    settings: Settings,
    naming: Naming,
    run_id: u64,
    /// Children are recorded too.
    follow: bool,
}

/// Written once, before `STATE` says so.
static PROCESS: Once = Once(UnsafeCell::new(Process {
    settings: Settings {
        stacks: 0,
        depth: 64,
        free_stacks_all: false,
        sample_bytes: 0,
    },
    naming: Naming::new(),
    run_id: 0,
    follow: false,
}));

struct Once(UnsafeCell<Process>);
// SAFETY: written by one thread, before `STATE` lets others read.
unsafe impl Sync for Once {}

/// Not started: the first event starts it.
const NEW: u32 = 0;
/// One thread starts it; others pass through.
const STARTING: u32 = 1;
const ON: u32 = 2;
/// Not to be recorded, or recording could not start.
const OFF: u32 = 3;
/// A forked child that has no file yet.
const FORKED: u32 = 4;

static STATE: AtomicU32 = AtomicU32::new(NEW);

/// Events that a forked child records before it gets its file.
const CHILD_EVENTS: u32 = 64;

struct Child {
    events: u32,
    private: bool,
}
static CHILD: Lock<Child> = Lock::new(Child {
    events: 0,
    private: false,
});
/// State of the thread that forked, in the child; null elsewhere or if it had none.
static FORKING: AtomicPtr<Thread> = AtomicPtr::new(core::ptr::null_mut());
/// Pages and nodes in use when the child was forked (the parent goes on in the shared mapping).
static PAGES_AT_FORK: AtomicU32 = AtomicU32::new(0);
static PARENT_PROFILE: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

pub(crate) fn settings() -> Settings {
    process().settings
}

fn process() -> &'static Process {
    // SAFETY: written before `STATE` left `STARTING`; every caller comes after that.
    unsafe { &*PROCESS.0.get() }
}

/// Whether events are to be recorded; starts recording at the first call.
#[inline]
pub(crate) fn recording() -> bool {
    match STATE.load(Ordering::Acquire) {
        ON | FORKED => true,
        NEW => start(),
        _ => false,
    }
}

/// Whether this is a forked child without a file.
pub(crate) fn forked() -> bool {
    STATE.load(Ordering::Acquire) == FORKED
}

/// Runs `f` and puts `errno` back.
pub(crate) fn keep_errno<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: the calling thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    let result = f();
    // SAFETY: as above.
    unsafe { *errno = saved };
    result
}

#[cold]
#[inline(never)]
fn start() -> bool {
    // Too early for the environment: later events try again.
    if !homefree_thread::environment::is_ready() {
        return false;
    }
    if STATE
        .compare_exchange(NEW, STARTING, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        return STATE.load(Ordering::Acquire) == ON;
    }
    let mut on = false;
    keep_errno(|| on = start_once());
    STATE.store(if on { ON } else { OFF }, Ordering::Release);
    on
}

fn start_once() -> bool {
    let config = Config::from_env();
    let mut command_line = [0; PATH];
    let len = sys::read_file(c"/proc/self/cmdline", &mut command_line);
    let command_line = &command_line[..len];
    // SAFETY: only the thread that won the change to `STARTING` is here, once.
    let process = unsafe { &mut *PROCESS.0.get() };
    process.settings = Settings {
        stacks: config.stacks,
        depth: config.depth,
        free_stacks_all: config.free_stacks_all,
        sample_bytes: config.sample_bytes,
    };
    process.run_id = config.run_id;
    process.follow = config.follow;
    process.naming.set(&config, command_line);
    if !config.record || !shadow::init() || !ARENA.reserve() {
        return false;
    }
    modules::init();
    write_header(process, clock::choose());
    let mut path = [0; PATH];
    let len = sys::read_link(c"/proc/self/exe", &mut path);
    modules::append_text(records::tag::EXE, &path[..len]);
    modules::append_text(records::tag::CMDLINE, command_line);
    let len = sys::host_name(&mut path);
    modules::append_text(records::tag::HOST, &path[..len]);
    let mut name = [0; 16];
    let len = sys::thread_name(&mut name);
    // The process's name is its main thread's, whichever thread is first here.
    if sys::thread_id() == sys::process_id() {
        roles::note_main(&name[..len]);
    } else {
        let len = sys::read_file(c"/proc/self/comm", &mut name);
        roles::note_main(name[..len].trim_ascii_end());
    }
    if !ARENA.publish(&process.naming, sys::process_id()) {
        return false;
    }
    threads::init();
    homefree_thread::on_fork_child(in_child);
    true
}

fn write_header(process: &Process, clock: u32) {
    let header = ARENA.header();
    let set64 =
        |place: &core::sync::atomic::AtomicU64, value| place.store(value, Ordering::Relaxed);
    let set32 = |place: &AtomicU32, value| place.store(value, Ordering::Relaxed);
    set64(&header.magic, u64::from_le_bytes(MAGIC));
    set32(&header.version, VERSION);
    set32(&header.page_size, PAGE as u32);
    set32(&header.stacks, process.settings.stacks);
    set32(&header.depth, process.settings.depth);
    set32(
        &header.free_stacks,
        u32::from(process.settings.free_stacks_all),
    );
    set64(&header.sample_bytes, process.settings.sample_bytes);
    set64(&header.run_id, process.run_id);
    set32(&header.clock, clock);
    identify(header, 0);
}

/// The parts of the header that name one process.
fn identify(header: &Header, parent_profile: u64) {
    header.pid.store(sys::process_id(), Ordering::Relaxed);
    header.ppid.store(sys::parent_id(), Ordering::Relaxed);
    header.id.store(sys::random() | 1, Ordering::Relaxed);
    header.parent_id.store(parent_profile, Ordering::Relaxed);
    header.state.store(state::RUNNING, Ordering::Relaxed);
    header.full.store(0, Ordering::Relaxed);
    header.unattached.store(0, Ordering::Relaxed);
    header
        .start_realtime_ns
        .store(sys::clock(libc::CLOCK_REALTIME), Ordering::Relaxed);
    let (now, ticks) = (sys::clock(libc::CLOCK_MONOTONIC), clock::ticks());
    for (place, value) in [
        (&header.start_monotonic_ns, now),
        (&header.start_ticks, ticks),
        (&header.last_monotonic_ns, now),
        (&header.last_ticks, ticks),
    ] {
        place.store(value, Ordering::Relaxed);
    }
}

/// Notes both clocks side by side, so that the reader knows how long a tick is.
pub(crate) fn look_at_clock() {
    let header = ARENA.header();
    header
        .last_monotonic_ns
        .store(sys::clock(libc::CLOCK_MONOTONIC), Ordering::Relaxed);
    header.last_ticks.store(clock::ticks(), Ordering::Relaxed);
}

/// Names the allocator that serves the program: the module at an address.
pub(crate) fn name_allocator(address: usize) {
    if STATE.load(Ordering::Acquire) != ON {
        return;
    }
    let mut path = [0; PATH];
    let len = modules::path_of(address, &mut path);
    modules::append_text(records::tag::ALLOCATOR, &path[..len]);
}

/// The process ends in order: says so in the file and gives back what it does not need.
pub(crate) fn end(slot: &Slot) {
    // In a child of vfork this is the parent's memory.
    let own = || ARENA.header().pid.load(Ordering::Relaxed) == sys::process_id();
    if forked() {
        let child = CHILD.lock();
        let wants_file = child.private && child.events > 0 && own();
        drop(child);
        if !wants_file || !give_child_its_file(slot) {
            return;
        }
    }
    if STATE.load(Ordering::Acquire) != ON || !own() {
        return;
    }
    look_at_clock();
    ARENA.header().state.store(state::ENDED, Ordering::Release);
    ARENA.trim();
}

/// In the child of a fork: stops writing to the parent's file at once. The rest waits for the first
/// event: most children call exec before they allocate.
unsafe extern "C" fn in_child() {
    if !matches!(STATE.load(Ordering::Acquire), ON | FORKED) {
        return;
    }
    // SAFETY: the child has one thread, and this handler runs outside of our own code.
    unsafe {
        ARENA.after_fork();
        modules::after_fork();
        rules::after_fork();
        roles::open_locks();
        threads::open_lock();
        CHILD.force_open();
    }
    let slot = crate::current_slot();
    if !process().follow {
        STATE.store(OFF, Ordering::Release);
        // SAFETY: the slot of the calling thread.
        if let Some(slot) = unsafe { slot.as_ref() } {
            slot.record.set(core::ptr::null_mut());
        }
        return;
    }
    let again = STATE.load(Ordering::Acquire) == FORKED;
    if !again {
        // SAFETY: the slot of the calling thread.
        let own = unsafe { slot.as_ref() }.map_or(core::ptr::null_mut(), |s| s.record.get().cast());
        FORKING.store(own, Ordering::Relaxed);
        PAGES_AT_FORK.store(ARENA.pages() as u32, Ordering::Relaxed);
        PARENT_PROFILE.store(ARENA.header().id.load(Ordering::Relaxed), Ordering::Relaxed);
        // SAFETY: as above.
        if let Some(slot) = unsafe { slot.as_ref() } {
            slot.record.set(core::ptr::null_mut());
        }
    }
    let mut child = CHILD.lock();
    // A child of a child that had no file yet has private memory already; its counts are not its own.
    child.events = 0;
    child.private &= again;
    if child.private {
        start_from_zero();
    }
    STATE.store(FORKED, Ordering::Release);
}

/// Makes the memory of the profile private and zeroes all counts.
fn become_private() -> bool {
    // SAFETY: called by the child's only thread: no other one exists before its first event.
    if !unsafe { ARENA.make_private(PAGES_AT_FORK.load(Ordering::Relaxed) as usize) } {
        return false;
    }
    start_from_zero();
    true
}

/// Makes the copied profile the child's own: no counts, one thread.
fn start_from_zero() {
    zero_counts();
    modules::forget_newer_records();
    roles::forget_ended();
    // SAFETY: the child has one thread.
    unsafe {
        threads::after_fork(FORKING.load(Ordering::Relaxed));
    }
    let header = ARENA.header();
    header
        .nodes
        .store(u64::from(nodes::count()), Ordering::Relaxed);
    header.threads.store(
        u64::from(!FORKING.load(Ordering::Relaxed).is_null()),
        Ordering::Relaxed,
    );
    header
        .threads_live
        .store(header.threads.load(Ordering::Relaxed), Ordering::Relaxed);
    identify(header, PARENT_PROFILE.load(Ordering::Relaxed));
}

/// Zeroes the counters of all banks, sites and flows; what they count stays known.
fn zero_counts() {
    for number in 1..ARENA.pages() as u32 {
        let page = ARENA.page(number);
        // SAFETY: a page handed out, in private memory; atomics only.
        let head = unsafe { page.cast::<PageHead>().as_ref() };
        if head.magic.load(Ordering::Relaxed) != PAGE_MAGIC {
            continue;
        }
        // SAFETY: slots of the page, by its kind; atomics only.
        unsafe {
            match head.kind.load(Ordering::Relaxed) {
                kind::BANKS => (1..BANKS)
                    .for_each(|i| tables::zero_bank(&*page.as_ptr().cast::<Bank>().add(i))),
                kind::SITES => (1..SITES)
                    .for_each(|i| tables::zero_site(&*page.as_ptr().cast::<Site>().add(i))),
                kind::FLOWS => {
                    let first = page.as_ptr().add(FLOWS_AT).cast::<Flow>();
                    (0..FLOWS).for_each(|i| tables::zero_flow(&*first.add(i)));
                }
                _ => {}
            }
        }
    }
}

/// An event in a forked child that has no file yet. `slot.busy` is set.
pub(crate) fn event_in_child(slot: &Slot, regs: Registers, event: Event) {
    let mut child = CHILD.lock();
    if !child.private {
        if !become_private() {
            STATE.store(OFF, Ordering::Release);
            return;
        }
        child.private = true;
    }
    child.events += 1;
    let forking = FORKING.load(Ordering::Relaxed);
    // SAFETY: the forking thread's state, or null.
    let own = unsafe { forking.as_mut() }.filter(|_| slot.ended.get() == 0 && is_forking_thread());
    let publish = child.events >= CHILD_EVENTS;
    if let Some(thread) = own {
        note(thread, event, regs);
        drop(child);
        if publish {
            give_child_its_file(slot);
        }
        return;
    }
    drop(child);
    // A thread that is new in the child: from here on several may write, so the file comes first.
    if !give_child_its_file(slot) {
        return;
    }
    threads::note_first(slot, regs, event);
}

/// Whether what is counted now is this process's own: not so in a forked child before its first event.
pub(crate) fn owns_profile() -> bool {
    match STATE.load(Ordering::Acquire) {
        ON => true,
        FORKED => CHILD.lock().private,
        _ => false,
    }
}

/// The thread that forked this process has ended.
pub(crate) fn forget_state_before_fork() {
    FORKING.store(core::ptr::null_mut(), Ordering::Release);
}

/// The state that the calling thread had when it forked this process, given back once.
pub(crate) fn state_before_fork(slot: &Slot) -> Option<&'static mut Thread> {
    if FORKING.load(Ordering::Relaxed).is_null() || !is_forking_thread() {
        return None;
    }
    let state = FORKING.swap(core::ptr::null_mut(), Ordering::AcqRel);
    slot.record.set(state.cast());
    // SAFETY: this thread's own state from before the fork, taken out once.
    unsafe { state.as_mut() }
}

/// In a forked child the thread that forked is the main one.
fn is_forking_thread() -> bool {
    sys::thread_id() == sys::process_id()
}

/// Creates the child's file and turns to normal recording.
fn give_child_its_file(slot: &Slot) -> bool {
    let child = CHILD.lock();
    if STATE.load(Ordering::Acquire) != FORKED {
        return STATE.load(Ordering::Acquire) == ON;
    }
    if !ARENA.publish(&process().naming, sys::process_id()) {
        STATE.store(OFF, Ordering::Release);
        return false;
    }
    if slot.ended.get() == 0 {
        state_before_fork(slot);
    }
    STATE.store(ON, Ordering::Release);
    drop(child);
    compiler_fence(Ordering::SeqCst);
    true
}
