//! Counting with every question asked: in front of any allocator, with counts of events, and under a limit.
//!
//! A function of the next allocator may call another hooked one for the same block (`calloc` that calls `malloc`,
//! `operator delete` that calls `free`). Who comes to a block first counts it, the inner one for a new block, the
//! outer one for one that is given back; the thread remembers which that was.

use crate::next::{NEXT, Ptr};
use crate::{hooks, page, size};
use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use homefree_ledger::raw;
use homefree_thread::counter::{self, ALLOCATED, FREED, Reach};
use homefree_thread::slot::InitialExec;

/// Whether events are counted besides bytes. Set at start-up.
pub(crate) static COUNTS: AtomicBool = AtomicBool::new(false);
/// Whether there is more to do than to add bytes: events are counted, or there is a limit. Set at start-up.
pub(crate) static MORE: AtomicBool = AtomicBool::new(false);

#[inline(always)]
fn more() -> bool {
    MORE.load(Ordering::Relaxed)
}

/// A thread's own.
#[repr(C)]
struct Own {
    /// The block counted last, since the outermost call began.
    fresh: Cell<usize>,
    /// The block that is being given back, and was counted.
    leaving: Cell<usize>,
}

global_asm!(
    ".pushsection .tbss.homefree_careful_v1,\"awT\",@nobits",
    ".hidden homefree_careful_v1",
    ".globl homefree_careful_v1",
    ".type homefree_careful_v1,@object",
    ".size homefree_careful_v1,{size}",
    ".p2align 4",
    "homefree_careful_v1:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Own>(),
);

fn own() -> &'static Own {
    let own: *const Own;
    // SAFETY: as `homefree_thread::slot::initial_exec`: reads the thread pointer and a GOT entry.
    unsafe {
        asm!(
            "mov {own}, qword ptr [rip + homefree_careful_v1@GOTTPOFF]",
            "add {own}, qword ptr fs:[0]",
            own = out(reg) own,
            options(readonly, nostack),
        );
    }
    // SAFETY: the calling thread's, alive while it runs; the reference does not leave it.
    unsafe { &*own }
}

fn add<const WORD: usize>(bytes: usize, counts: bool) -> bool {
    if counts {
        InitialExec::add::<WORD, true>(bytes)
    } else {
        InitialExec::add::<WORD, false>(bytes)
    }
}

/// Counts an allocation; `event` is false where it is the growth of a block.
fn count_allocated(bytes: usize, event: bool) {
    let counts = event && COUNTS.load(Ordering::Relaxed);
    if !add::<ALLOCATED>(bytes, counts) {
        crate::keep_errno(|| {
            if counts {
                raw::allocated::<InitialExec, true>(bytes);
            } else {
                raw::allocated::<InitialExec, false>(bytes);
            }
            page::publish();
        });
    }
}

fn count_freed(bytes: usize, event: bool) {
    let counts = event && COUNTS.load(Ordering::Relaxed);
    if !add::<FREED>(bytes, counts) {
        crate::keep_errno(|| {
            if counts {
                raw::freed::<InitialExec, true>(bytes);
            } else {
                raw::freed::<InitialExec, false>(bytes);
            }
            page::publish();
        });
    }
}

/// Room under the limit for a request.
enum Room {
    /// There is no limit.
    Any,
    /// So many bytes were counted already, out of the thread's credit.
    Counted(usize),
    /// Granted until the request is counted.
    Granted(i64),
}

/// What a block of `bytes` may be at the most.
fn at_most(bytes: usize) -> usize {
    let slack = if bytes < 64 << 10 { 32 } else { 4128 };
    bytes.saturating_add(slack)
}

fn room(bytes: usize) -> Option<Room> {
    if !raw::has_limit() {
        return Some(Room::Any);
    }
    if InitialExec::add::<ALLOCATED, false>(bytes) {
        return Some(Room::Counted(bytes));
    }
    crate::keep_errno(|| {
        let room = raw::ask(bytes).map(Room::Granted);
        page::publish();
        room
    })
}

impl Room {
    /// The request is over, and `bytes` of it are to be counted; `None`: nothing is.
    fn used(self, bytes: Option<usize>, event: bool) {
        match self {
            Self::Any => {
                if let Some(bytes) = bytes {
                    count_allocated(bytes, event);
                }
            }
            Self::Counted(already) => {
                // SAFETY: the calling thread's slot, alive while it runs.
                let slot = unsafe { &*counter::slot() };
                // SAFETY: same size and alignment; the thread's own word.
                let word = unsafe { AtomicI64::from_ptr(slot.allocated.as_ptr()) };
                word.fetch_sub(already as i64, Ordering::Relaxed);
                if let Some(bytes) = bytes {
                    count_allocated(bytes, event);
                }
            }
            Self::Granted(room) => {
                if let Some(bytes) = bytes {
                    count_allocated(bytes, event);
                }
                raw::done(room);
            }
        }
    }
}

/// Allocates by `call` and counts; `bytes` is what was asked for. `None`: a limit forbids it.
#[inline]
pub(crate) fn allocate(bytes: usize, call: impl FnOnce() -> Ptr) -> Option<Ptr> {
    if more() {
        return allocate_with_more(bytes, call);
    }
    let own = own();
    own.fresh.set(0);
    let p = call();
    if !p.is_null() && own.fresh.get() != p as usize {
        hooks::count_allocated(size::of(p));
    }
    own.fresh.set(p as usize);
    Some(p)
}

#[cold]
#[inline(never)]
fn allocate_with_more(bytes: usize, call: impl FnOnce() -> Ptr) -> Option<Ptr> {
    let own = own();
    let room = room(at_most(bytes))?;
    own.fresh.set(0);
    let p = call();
    let count = !p.is_null() && own.fresh.get() != p as usize;
    room.used(count.then(|| size::of(p)), true);
    own.fresh.set(p as usize);
    Some(p)
}

/// Reallocates by `call` and books the difference. `None`: a limit forbids it.
pub(crate) fn reallocate(p: Ptr, bytes: usize, call: impl FnOnce() -> Ptr) -> Option<Ptr> {
    let own = own();
    if own.leaving.get() == p as usize {
        return Some(call());
    }
    let before = size::of(p);
    let growth = bytes.saturating_sub(before);
    let room = if growth == 0 {
        Room::Any
    } else {
        room(at_most(growth))?
    };
    own.fresh.set(0);
    let outer = own.leaving.replace(p as usize);
    let new = call();
    own.leaving.set(outer);
    if new.is_null() {
        room.used(None, false);
        if bytes == 0 {
            count_freed(before, true);
        }
        return Some(new);
    }
    if own.fresh.get() == new as usize {
        room.used(None, false);
        count_freed(before, false);
        return Some(new);
    }
    let after = size::of(new);
    room.used((after > before).then(|| after - before), false);
    if after < before {
        count_freed(before - after, false);
    }
    own.fresh.set(new as usize);
    Some(new)
}

/// The next `malloc`, counted.
pub(crate) unsafe extern "C" fn malloc(size: usize) -> Ptr {
    // SAFETY: any size may be asked for.
    allocate(size, || unsafe { NEXT.malloc.get()(size) }).unwrap_or_else(crate::no_memory)
}

/// The next `free`, counted. Neither null nor the loader's block.
pub(crate) unsafe extern "C" fn free(p: Ptr) {
    // SAFETY: the program's own call, passed on.
    release(p, || unsafe { NEXT.free.get()(p) });
}

/// Counts a block that `call` gives back.
pub(crate) fn release(p: Ptr, call: impl FnOnce()) {
    let own = own();
    if p.is_null() || own.leaving.get() == p as usize {
        return call();
    }
    if more() {
        count_freed(size::of(p), true);
    } else {
        hooks::count_freed(size::of(p));
    }
    let outer = own.leaving.replace(p as usize);
    call();
    own.leaving.set(outer);
}

/// Before an `operator new` of the next allocator's own. False where a limit forbids it.
pub(crate) fn begin(bytes: usize) -> bool {
    let own = own();
    own.fresh.set(0);
    match room(at_most(bytes)) {
        // Given back at once: the operator may throw, and never come back.
        Some(room) => room.used(None, false),
        None => return false,
    }
    own.fresh.set(0);
    true
}

/// After it: counts the block unless an inner call has.
pub(crate) fn finish(p: Ptr) {
    let own = own();
    if !p.is_null() && own.fresh.get() != p as usize {
        count_allocated(size::of(p), true);
    }
    own.fresh.set(p as usize);
}
