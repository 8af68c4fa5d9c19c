//! The events: a block was allocated, a block is about to be freed.
//!
//! Budget at home, besides taking the stack: an allocation reads the slot and the clock, adds to two
//! words of one cache line and stores two shadow words; a free loads and clears a shadow word and adds
//! to two words of one cache line. No lock, no read-modify-write, no call but the stack's.

use crate::arena::ARENA;
use crate::process;
use crate::shadow::{self, Block, Words};
use crate::tables::{FlowKey, add, add_double};
use crate::threads::{self, Thread};
use crate::unwind::Registers;
use crate::{clock, modules, sample};
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use homefree_thread::{Slot, sys};
use homefree_wire::{PAGE, Site, flow, life_bucket, size_bucket};

/// Something that happened, on its way through the slow path.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    Allocated {
        address: usize,
        size: usize,
    },
    Freed {
        address: usize,
    },
    Moved {
        address: usize,
        words: Option<Words>,
        new: usize,
        size: usize,
    },
    Failed,
    /// A call from inside, already dealt with.
    Passed,
}

/// The calling thread's state, and the slot made `busy`: a hooked call made until [`done`], by a signal
/// handler or by libc itself, sees that and passes through. `None` where the slow path must be taken.
#[inline(always)]
fn ready(slot: &Slot) -> Option<&'static mut Thread> {
    let state = slot.record.get().cast::<Thread>();
    if state.is_null() || slot.busy.get() != 0 {
        return None;
    }
    slot.busy.set(1);
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the calling thread's own state, which is never freed; `busy` keeps others on this thread out.
    Some(unsafe { &mut *state })
}

#[inline(always)]
fn done(slot: &Slot) {
    compiler_fence(Ordering::SeqCst);
    slot.busy.set(0);
}

#[cold]
#[inline(never)]
fn slow(slot: &Slot, regs: Registers, event: Event) {
    if slot.busy.get() != 0 {
        // SAFETY: as in `ready`; only a counter is touched, in one instruction's time.
        if let Some(thread) = unsafe { slot.record.get().cast::<Thread>().as_ref() } {
            thread.bank.reentrant.fetch_add(1, Ordering::Relaxed);
        }
        return;
    }
    slot.busy.set(1);
    compiler_fence(Ordering::SeqCst);
    process::keep_errno(|| {
        if !process::recording() {
        } else if process::forked() {
            process::event_in_child(slot, regs, event);
        } else {
            threads::note_first(slot, regs, event);
        }
    });
    done(slot);
}

/// Notes an event of any kind.
#[inline(never)]
pub(crate) fn note(thread: &mut Thread, event: Event, regs: Registers) {
    match event {
        Event::Allocated { address, size } => note_allocation(thread, address, size, regs),
        Event::Freed { address } => note_free_of(thread, address, regs),
        Event::Moved {
            address,
            words,
            new,
            size,
        } => note_move(thread, address, words, new, size, regs),
        Event::Failed => add(&thread.bank.failed, 1),
        Event::Passed => {}
    }
}

/// A block was allocated: `address` is what the allocator behind returned, not null.
#[inline(always)]
pub fn allocated(slot: &Slot, address: usize, size: usize, regs: Registers) {
    match ready(slot) {
        Some(thread) => {
            note_allocation(thread, address, size, regs);
            done(slot);
        }
        None => slow(slot, regs, Event::Allocated { address, size }),
    }
}

/// A block is about to be freed; `address` is not null.
#[inline(always)]
pub fn freed(slot: &Slot, address: usize, regs: Registers) {
    match ready(slot) {
        Some(thread) => {
            note_free_of(thread, address, regs);
            done(slot);
        }
        None => freed_slow(slot, address, regs),
    }
}

#[cold]
#[inline(never)]
fn freed_slow(slot: &Slot, address: usize, regs: Registers) {
    if slot.busy.get() != 0 {
        // Not recorded, but the block's words must not outlive it.
        shadow::take(address);
        return slow(slot, regs, Event::Passed);
    }
    slow(slot, regs, Event::Freed { address });
}

/// Like [`freed`], by a hook whose call may reach further hooks: these do not count the block again.
#[inline]
pub fn freed_by_outer(slot: &Slot, address: usize, regs: Registers) {
    freed(slot, address, regs);
    if slot.busy.get() == 0 {
        slot.freeing.set(address);
    }
}

/// An allocation call failed.
#[cold]
pub fn failed(slot: &Slot, regs: Registers) {
    match ready(slot) {
        Some(thread) => {
            note(thread, Event::Failed, regs);
            done(slot);
        }
        None => slow(slot, regs, Event::Failed),
    }
}

/// What a realloc holds of its old block while the allocator behind works.
pub struct Moving(Option<Words>);

/// A block is about to be reallocated; `address` is not null. Hooks that the call reaches do not count
/// its free again.
#[inline]
pub fn moving(slot: &Slot, address: usize) -> Moving {
    if slot.busy.get() == 0 {
        slot.recorded.set(0);
        slot.freeing.set(address);
    }
    Moving(shadow::take(address))
}

/// The reallocation failed: the old block lives on as it was.
pub fn not_moved(slot: &Slot, address: usize, moving: Moving) {
    slot.freeing.set(0);
    if let Some(words) = moving.0 {
        shadow::put_back(address, words);
    }
}

/// The reallocation succeeded: the old block is gone and, unless `new` is null, `new` was allocated.
#[inline]
pub fn moved(
    slot: &Slot,
    address: usize,
    moving: Moving,
    new: usize,
    size: usize,
    regs: Registers,
) {
    let words = moving.0;
    match ready(slot) {
        Some(thread) => {
            note_move(thread, address, words, new, size, regs);
            done(slot);
        }
        None => slow(
            slot,
            regs,
            Event::Moved {
                address,
                words,
                new,
                size,
            },
        ),
    }
}

#[inline(never)]
fn note_move(
    thread: &mut Thread,
    address: usize,
    words: Option<Words>,
    new: usize,
    size: usize,
    regs: Registers,
) {
    let slot = thread.slot();
    let recorded = new != 0 && slot.recorded.get() == new;
    slot.freeing.set(0);
    match words {
        Some(words) => note_free(thread, words.block(), regs),
        None => unknown(thread, address),
    }
    if new != 0 && !recorded {
        note_allocation(thread, new, size, regs);
    }
}

#[inline(always)]
fn note_free_of(thread: &mut Thread, address: usize, regs: Registers) {
    match shadow::take(address) {
        Some(words) => note_free(thread, words.block(), regs),
        None => unknown(thread, address),
    }
}

#[inline(always)]
fn node(thread: &mut Thread, regs: Registers) -> u32 {
    let generation = modules::generation();
    if thread.generation != generation {
        thread.generation = generation;
        thread.last_node = 0;
        thread.unwinder.forget();
    }
    if thread.slot().outer.get()[1] != 0 {
        let regs = outer(thread, regs);
        return thread.unwinder.take(regs);
    }
    thread.unwinder.take(regs)
}

/// The call that [`crate::enter`] announced, if `regs` is a call made on its behalf.
#[cold]
fn outer(thread: &mut Thread, regs: Registers) -> Registers {
    let slot = thread.slot();
    if inside_outer(slot, regs) {
        let [pc, sp, fp] = slot.outer.get();
        return Registers { pc, sp, fp };
    }
    slot.outer.set([0; 3]);
    regs
}

/// Whether the call that [`crate::enter`] announced is still under way around the call `regs`. It may
/// have been left by an exception: then its return address is not where it was, or not near.
pub(crate) fn inside_outer(slot: &Slot, regs: Registers) -> bool {
    let [pc, sp, _] = slot.outer.get();
    let distance = sp.wrapping_sub(regs.sp);
    // The same page, or the one above, which is asked for: what was announced may have been on a stack
    // that is gone.
    let near = sp != 0 && distance != 0 && distance < 1024;
    let same_page = |a: usize, b: usize| a / PAGE == b / PAGE;
    // SAFETY: on the page of this call's stack pointer, or found readable just now.
    near && (same_page(sp - 8, regs.sp) || sys::readable(sp - 8))
        && unsafe { *((sp - 8) as *const usize) } == pc
}

#[inline(always)]
fn note_allocation(thread: &mut Thread, address: usize, size: usize, regs: Registers) {
    let size = size as u64;
    let slot = thread.slot();
    slot.recorded.set(address);
    if slot.freeing.get() == address {
        slot.freeing.set(0);
    }
    if thread.sample != 0 && !sample::chosen(thread, size) {
        return;
    }
    let node = node(thread, regs);
    let Some(site) = thread.site(node) else {
        return lose_allocation(thread, address, size);
    };
    // SAFETY: a reference that the tables gave.
    let counts = unsafe { thread.site_at(site) };
    let stamp = stamp(thread, counts);
    let block = Block {
        thread: thread.id,
        site,
        size,
        stamp,
    };
    if thread.sample == 0 {
        add(&counts.allocs, 1);
        add(&counts.bytes, size);
    } else {
        let weight = sample::weight(size, thread.sample, stamp);
        add(&counts.allocs, weight.count);
        add(&counts.bytes, weight.bytes);
        add_double(&counts.var_allocs, weight.variance);
        counts.samples_allocs.fetch_add(1, Ordering::Relaxed);
    }
    if !shadow::put(address, block) {
        add(&thread.bank.untracked, 1);
    }
}

/// A block's time stamp, or 0 where its lifetime is not measured: of a site's blocks the first 64 are,
/// then one in 16, and past 16,384 one in 64, drawn at random. Reading the clock costs as much as all the
/// rest, and so does the memory for the stamp; for a median and a 99th percentile a sample serves as
/// well. The two low bits say for how many blocks it stands ([`stands_for`]).
#[inline(always)]
fn stamp(thread: &mut Thread, site: &Site) -> u64 {
    let allocs = site.allocs.load(Ordering::Relaxed);
    if allocs < 64 || thread.sample != 0 {
        return read_clock();
    }
    // A linear congruential step (Knuth's constants); its top bits are good enough for this.
    thread.draw = thread
        .draw
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let (bits, class) = if allocs < 1 << 14 { (4, 1) } else { (6, 2) };
    if thread.draw >> (64 - bits) != 0 {
        return 0;
    }
    read_clock() | class
}

/// The clock, with room for the class. Now and then it is noted in the file how far it got.
#[inline]
fn read_clock() -> u64 {
    let now = clock::ticks();
    if now.wrapping_sub(ARENA.header().last_ticks.load(Ordering::Relaxed)) > clock::OFTEN {
        process::look_at_clock();
    }
    now & !3
}

/// How many blocks a measured lifetime stands for.
fn stands_for(stamp: u64) -> u64 {
    match stamp & 3 {
        0 => 1,
        1 => 16,
        _ => 64,
    }
}

/// No room for the site: the allocation is counted as lost, and the block is noted without a site, so
/// that its free is too.
#[cold]
#[inline(never)]
fn lose_allocation(thread: &mut Thread, address: usize, size: u64) {
    add(&thread.bank.lost, 1);
    add(&thread.bank.lost_allocs, 1);
    add(&thread.bank.lost_bytes, size);
    shadow::put(
        address,
        Block {
            thread: thread.id,
            site: NO_SITE,
            size,
            stamp: 0,
        },
    );
}

/// Site reference of blocks whose site had no room. (It is the place of the header.)
const NO_SITE: u32 = 0;

#[cold]
#[inline(never)]
fn lose_free(thread: &mut Thread, block: Block) {
    add(&thread.bank.lost, 1);
    if threads::identity_of(block.thread) != thread.identity {
        add(&thread.bank.lost_remote, 1);
    }
}

#[inline(always)]
fn note_free(thread: &mut Thread, block: Block, regs: Registers) {
    if block.site == NO_SITE {
        return lose_free(thread, block);
    }
    if block.thread != thread.id {
        return note_other_free(thread, block, regs);
    }
    note_home_free(thread, block, regs);
}

#[inline(always)]
fn note_home_free(thread: &mut Thread, block: Block, regs: Registers) {
    // SAFETY: a reference from a shadow word, which only holds what the tables gave.
    let counts = unsafe { thread.site_at(block.site) };
    if thread.sample == 0 {
        add(&counts.home_frees, 1);
        add(&counts.home_bytes, block.size);
    } else {
        let weight = sample::weight(block.size, thread.sample, block.stamp);
        add(&counts.home_frees, weight.count);
        add(&counts.home_bytes, weight.bytes);
        add_double(&counts.var_home, weight.variance);
        counts.samples_home.fetch_add(1, Ordering::Relaxed);
    }
    if thread.free_all {
        note_flow(thread, block, regs, flow::HOME);
    }
}

/// The allocating thread's id is not this one's: a remote free, unless both belong to one thread before
/// and after its end.
#[inline(never)]
fn note_other_free(thread: &mut Thread, block: Block, regs: Registers) {
    if threads::identity_of(block.thread) != thread.identity {
        return note_flow(thread, block, regs, 0);
    }
    // At home, but the site belongs to another bank, which may have another writer by now.
    // SAFETY: as in `note_home_free`.
    let node = unsafe { thread.site_at(block.site) }
        .node
        .load(Ordering::Relaxed);
    match thread.site(node) {
        Some(site) => note_home_free(thread, Block { site, ..block }, regs),
        None => add(&thread.bank.lost, 1),
    }
}

fn note_flow(thread: &mut Thread, block: Block, regs: Registers, flags: u32) {
    let now = if block.stamp == 0 { 0 } else { clock::ticks() };
    let free_node = node(thread, regs);
    // SAFETY: as in `note_home_free`.
    let alloc_node = unsafe { thread.node_of(block.site) };
    let key = FlowKey {
        alloc_node,
        free_node,
        alloc_role: threads::role_of(block.thread),
        flags,
    };
    let Some(flow) = thread.tables.flow(key) else {
        add(&thread.bank.lost, 1);
        if flags == 0 {
            add(&thread.bank.lost_remote, 1);
        }
        return;
    };
    // SAFETY: a reference that the tables gave.
    let flow = unsafe { ARENA.flow(flow) };
    let count = if thread.sample == 0 {
        add(&flow.head.count, 1);
        add(&flow.head.bytes, block.size);
        1
    } else {
        let weight = sample::weight(block.size, thread.sample, block.stamp);
        add(&flow.head.count, weight.count);
        add(&flow.head.bytes, weight.bytes);
        add_double(&flow.head.var, weight.variance);
        add(&flow.head.samples, 1);
        weight.count
    };
    let count = count * stands_for(block.stamp);
    let tally = |bucket: &AtomicU32| {
        let n = bucket.load(Ordering::Relaxed);
        bucket.store(
            n.saturating_add(count.min(u64::from(u32::MAX)) as u32),
            Ordering::Relaxed,
        );
    };
    if block.stamp != 0 {
        tally(&flow.size[size_bucket(block.size)]);
        // Clocks of two processors may differ by a tick.
        let life = now.saturating_sub(block.stamp);
        add(&flow.head.life_ticks, life.saturating_mul(count));
        tally(&flow.life[life_bucket(life)]);
    }
}

#[cold]
#[inline(never)]
fn unknown(thread: &mut Thread, address: usize) {
    // With sampling most blocks are unknown.
    if thread.slot().freeing.get() != address && thread.sample == 0 {
        add(&thread.bank.unknown_frees, 1);
    }
}
