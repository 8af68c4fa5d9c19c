//! Beginnings and ends: of threads, of the process, and `fork`.

use crate::heap::{Heap, ORPHANS};
use crate::slot::{STATE_ATTACHED, STATE_ENDED, Slot, thread_tag};
use crate::{background, checked, huge, pool, registry, ring_of_sleeper};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use homefree_thread::{ExitHook, ROUNDS, sys};

static EXIT: ExitHook = ExitHook::new();

const NEW: usize = 0;
const DONE: usize = 1;
/// Anything else: tag of the thread that does it.
static STATE: AtomicUsize = AtomicUsize::new(NEW);

/// Makes the hooks, before the first block is given out. What libc allocates for them comes back here on
/// the same thread, and passes.
pub(crate) fn begin() {
    if STATE.load(Acquire) == DONE {
        return;
    }
    let me = thread_tag();
    loop {
        match STATE.compare_exchange(NEW, me, AcqRel, Acquire) {
            Ok(_) => {
                EXIT.create(thread_ends);
                // SAFETY: plain call; the handlers live as long as the artifact (glibc drops them on `dlclose`).
                unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
                STATE.store(DONE, Release);
                return;
            }
            Err(DONE) => return,
            Err(who) if who == me => return,
            Err(_) => sys::sleep(50_000),
        }
    }
}

/// The calling thread's heap, made at its first call. `None` after its end, and where the system has no
/// memory.
#[cold]
pub(crate) fn attach(slot: &Slot) -> Option<&'static Heap> {
    if slot.state.get() == STATE_ENDED {
        return None;
    }
    if STATE.load(Acquire) != DONE {
        begin();
        // SAFETY: null or a heap.
        if let Some(heap) = unsafe { slot.heap.get().as_ref() } {
            return Some(heap);
        }
    }
    let heap = registry::take()?;
    heap.rounds.store(0, Relaxed);
    heap.slot
        .store(core::ptr::from_ref(slot).cast_mut(), Relaxed);
    heap.owner.store(thread_tag(), SeqCst);
    slot.heap.set(heap);
    slot.state.set(STATE_ATTACHED);
    // May allocate, so the slot is ready before.
    // SAFETY: heaps are never freed.
    unsafe { EXIT.arm(core::ptr::from_ref(heap).cast_mut().cast()) };
    Some(heap)
}

/// Runs in each round of the thread's key destructors.
unsafe extern "C" fn thread_ends(value: *mut c_void) {
    // SAFETY: the value given to `arm`.
    let heap = unsafe { &*value.cast::<Heap>() };
    let rounds = heap.rounds.load(Relaxed) + 1;
    heap.rounds.store(rounds, Relaxed);
    if rounds < ROUNDS as usize {
        // SAFETY: as in `attach`.
        unsafe { EXIT.arm(value) };
        return;
    }
    // SAFETY: the slot of this very thread.
    let slot = unsafe { &*heap.slot.load(Relaxed) };
    slot.forget_pages();
    slot.heap.set(core::ptr::null());
    slot.state.set(STATE_ENDED);
    heap.flush();
    heap.abandon();
    registry::release(heap);
    crate::purge::tick(None);
}

/// Of the artifact, or of the process.
extern "C" fn unload() {
    EXIT.delete();
    background::stop();
}

/// No code of an unloaded artifact may run any more: not at a thread's end, and not in the background.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".fini_array"))]
static UNLOAD: extern "C" fn() = unload;

/// Every lock there is, in the order in which they may be held together: the taking of rings, heaps,
/// orphans, pool; the rest is never held with another. A test compares the list with the source.
unsafe extern "C" fn prepare() {
    core::mem::forget(ring_of_sleeper::TAKING.lock());
    core::mem::forget(registry::FREE.lock());
    registry::each(|heap| core::mem::forget(heap.inner.lock()));
    core::mem::forget(ORPHANS.inner.lock());
    core::mem::forget(huge::HUGE.lock());
    core::mem::forget(checked::QUEUE.lock());
    core::mem::forget(pool::POOL.lock());
}

fn open_all() {
    // SAFETY: this thread took them in `prepare`, and its guards are forgotten; in the child no other
    // thread exists, in the parent all others wait.
    unsafe {
        checked::QUEUE.force_open();
        pool::POOL.force_open();
        huge::HUGE.force_open();
        ORPHANS.inner.force_open();
        registry::each(|heap| {
            heap.inner.force_open();
        });
        registry::FREE.force_open();
        ring_of_sleeper::TAKING.force_open();
    }
}

unsafe extern "C" fn parent() {
    open_all();
}

/// The other threads do not exist here: their pages can be adopted. A block that one of them was just
/// taking or freeing is lost at most.
unsafe extern "C" fn child() {
    open_all();
    background::forget();
    ring_of_sleeper::forget();
    let me = thread_tag();
    registry::each(|heap| {
        let owner = heap.owner.load(Relaxed);
        if owner != 0 && owner != me {
            // SAFETY: its owner does not exist.
            unsafe { (*heap.ring.get()).forget() };
            heap.abandon();
            registry::release(heap);
        }
    });
}
