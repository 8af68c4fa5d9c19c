//! Thread roles, and the sums over their ended threads.

use crate::modules::append_role;
use crate::tables::Tables;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use homefree_thread::{Lock, fold_role, sys};
use homefree_wire::{bank, records};

/// Roles at most; the last one takes all further ones.
pub(crate) const MAX: usize = 1024;

#[derive(Clone, Copy)]
struct Entry {
    kind: u32,
    name: [u8; 16],
    len: usize,
    start: usize,
}

const NO_ENTRY: Entry = Entry {
    kind: 0,
    name: [0; 16],
    len: 0,
    start: 0,
};

struct Roles {
    entries: [Entry; MAX],
    /// Ids handed out, from 1 on.
    last: usize,
}

static ROLES: Lock<Roles> = Lock::new(Roles {
    entries: [NO_ENTRY; MAX],
    last: 0,
});
/// Address of the `ended` counter in each role's record; 0 where it has none.
static ENDED: [AtomicUsize; MAX] = [const { AtomicUsize::new(0) }; MAX];
/// One bank a role for the threads of it that ended.
static ARCHIVES: [Lock<Tables>; MAX] = [const { Lock::new(Tables::new()) }; MAX];

/// Id of a role, put on record at first sight. Never 0.
pub(crate) fn id(kind: u32, name: &[u8], start: usize) -> u32 {
    let mut folded = [0; 16];
    let name = fold_role(name, &mut folded);
    let mut roles = ROLES.lock();
    let len = roles.last + 1;
    let found = roles.entries[..len]
        .iter()
        .skip(1)
        .position(|e| e.kind == kind && &e.name[..e.len] == name && e.start == start);
    if let Some(at) = found {
        return at as u32 + 1;
    }
    if len >= MAX {
        return MAX as u32 - 1;
    }
    let (kind, name, start) = if len == MAX - 1 {
        (records::role_kind::OTHER, &b"other"[..], 0)
    } else {
        (kind, name, start)
    };
    let mut entry = Entry {
        kind,
        len: name.len(),
        start,
        ..NO_ENTRY
    };
    entry.name[..name.len()].copy_from_slice(name);
    roles.entries[len] = entry;
    roles.last += 1;
    let role = records::Role {
        id: len as u32,
        kind,
        ended: 0,
        start: start as u64,
        name,
    };
    let place = append_role(&role);
    if place != 0 {
        ENDED[len].store(place + records::ROLE_ENDED_AT, Ordering::Release);
    }
    len as u32
}

/// Moves the counts of a thread of `role` that ended to the role's archive.
pub(crate) fn archive(role: u32, tables: &mut Tables, thread_ended: bool) {
    let role = role as usize % MAX;
    let mut archive = ARCHIVES[role].lock();
    let mut fresh = Tables::new();
    if archive.is_new() && fresh.bank().is_some() {
        // The first one's bank becomes the archive.
        *archive = core::mem::replace(tables, fresh);
    }
    if let Some(bank) = archive.bank() {
        bank.role.store(role as u32, Ordering::Relaxed);
        bank.state.store(bank::ARCHIVE, Ordering::Relaxed);
    }
    tables.drain_into(&mut archive);
    let place = ENDED[role].load(Ordering::Acquire);
    if thread_ended && place != 0 {
        // SAFETY: the word in the record in the arena, 8-byte aligned, never unmapped.
        let ended = unsafe { &*(place as *const AtomicU64) };
        ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Opens the locks in fork's child. Touches nothing that the parent shares.
///
/// # Safety
/// No other thread exists and the caller holds no guard.
pub(crate) unsafe fn open_locks() {
    // SAFETY: the caller's promise. An entry is written before the count that covers it.
    unsafe { ROLES.force_open() };
    for archive in &ARCHIVES {
        // SAFETY: as above.
        if unsafe { archive.force_open() } {
            // Half changed: its sites stay readable in the file, its index is not to be trusted.
            *archive.lock() = Tables::new();
        }
    }
}

/// In fork's child, once the profile is its own: no thread of a role has ended yet.
pub(crate) fn forget_ended() {
    for ended in &ENDED {
        let place = ended.load(Ordering::Relaxed);
        if place != 0 {
            // SAFETY: as in `archive`.
            unsafe { &*(place as *const AtomicU64) }.store(0, Ordering::Relaxed);
        }
    }
}

/// Names that threads were given by calls we saw, as a filter over their hashes: an unnamed thread that
/// carries one of them has inherited it.
static GIVEN: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn given_bit(name: &[u8]) -> (usize, u64) {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    ((hash >> 58) as usize, 1 << (hash >> 52 & 63))
}

/// Notes that a name was given to a thread.
pub(crate) fn note_given(name: &[u8]) {
    let (word, bit) = given_bit(&name[..name.len().min(15)]);
    GIVEN[word].fetch_or(bit, Ordering::Relaxed);
}

/// Role of the calling thread. `named`: it was seen to be given a name of its own. `start` is asked for
/// the address of its start function if the name says nothing.
pub(crate) fn of_this_thread(named: bool, start: impl FnOnce() -> usize) -> u32 {
    use records::role_kind::{MAIN, NAME, START};
    let mut name = [0; 16];
    let len = sys::thread_name(&mut name);
    let name = &name[..len];
    if sys::thread_id() == sys::process_id() {
        note_main(name);
        return id(MAIN, name, 0);
    }
    let (word, bit) = given_bit(name);
    let inherited = GIVEN[word].load(Ordering::Relaxed) & bit != 0;
    if named || !inherited {
        return id(NAME, name, 0);
    }
    match start() {
        0 => id(NAME, name, 0),
        start => id(START, b"", start),
    }
}

/// Role of a thread that carries `name` now; `None` if it may have inherited it.
pub(crate) fn of_new_name(name: &[u8]) -> Option<u32> {
    if sys::thread_id() == sys::process_id() {
        return None;
    }
    let (word, bit) = given_bit(name);
    let inherited = GIVEN[word].load(Ordering::Relaxed) & bit != 0;
    (!inherited).then(|| id(records::role_kind::NAME, name, 0))
}

/// Notes the process's own name, which every unnamed thread carries.
pub(crate) fn note_main(name: &[u8]) {
    note_given(name);
}
