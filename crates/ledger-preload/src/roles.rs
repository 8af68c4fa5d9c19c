//! What threads allocated and freed, by role: a thread's name with its numbers folded.

use crate::{confined, own, page};
use core::sync::atomic::{AtomicBool, Ordering};
use homefree_ledger::{ThreadFlow, ledger};
use homefree_thread::{Lock, LockGuard, fold_role, sys};
use homefree_wire::account::{ROLES, RoleValue};

/// Roles, each once; the last is for all that have no room.
pub(crate) struct Table {
    entries: [RoleValue; ROLES],
    len: usize,
}

const NONE: RoleValue = RoleValue {
    name: 0,
    name_end: 0,
    threads: 0,
    allocated: 0,
    freed: 0,
};

static ENDED: Lock<Table> = Lock::new(Table::new());

/// A lock, unless it is held for long: this may be the handler of a signal that came to its holder.
pub(crate) fn lock_soon<T>(lock: &Lock<T>) -> Option<LockGuard<'_, T>> {
    (0..1000).find_map(|_| {
        let guard = lock.try_lock();
        if guard.is_none() {
            sys::yield_now();
        }
        guard
    })
}

impl Table {
    const fn new() -> Self {
        Self {
            entries: [NONE; ROLES],
            len: 0,
        }
    }

    /// Adds a thread's flow; returns its role's index. Negative figures take away.
    fn add(&mut self, name: &[u8], threads: u64, allocated: u64, freed: u64) -> usize {
        let mut place = [0; 16];
        let role = fold_role(name, &mut place);
        let mut name = [0; 16];
        name[..role.len().min(15)].copy_from_slice(&role[..role.len().min(15)]);
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&name[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let mut words = (word(0), word(8));
        let known = self.entries[..self.len]
            .iter()
            .position(|r| (r.name, r.name_end) == words);
        let index = known.unwrap_or(self.len).min(ROLES - 1);
        if known.is_none() {
            if index == ROLES - 1 {
                words = (u64::from_le_bytes(*b"(others)"), 0);
            }
            self.len = index + 1;
        }
        let entry = &mut self.entries[index];
        (entry.name, entry.name_end) = words;
        entry.threads = entry.threads.wrapping_add(threads);
        entry.allocated = entry.allocated.wrapping_add(allocated);
        entry.freed = entry.freed.wrapping_add(freed);
        index
    }

    /// The entries in use.
    pub(crate) fn entries(&self) -> &[RoleValue] {
        &self.entries[..self.len]
    }
}

/// The role of threads whose names may not be asked for.
const UNKNOWN: &[u8] = b"(unknown)";

/// The calling thread's name.
fn own_name(out: &mut [u8; 16]) -> usize {
    if confined::is_set() {
        return unknown(out);
    }
    sys::thread_name(out)
}

fn unknown(out: &mut [u8; 16]) -> usize {
    out[..UNKNOWN.len()].copy_from_slice(UNKNOWN);
    UNKNOWN.len()
}

/// A thread has ended; on that thread.
pub(crate) fn thread_ended(flow: ThreadFlow) {
    if !own::is_no_copy() {
        return;
    }
    let mut name = [0; 16];
    let len = own_name(&mut name);
    let Some(mut ended) = lock_soon(&ENDED) else {
        return;
    };
    let index = ended.add(&name[..len], 1, flow.allocated, flow.freed);
    page::store_role(index, &ended.entries[index], ended.len);
}

/// The threads that have ended and those that live. `None` where it can not be told now.
pub(crate) fn all() -> Option<Table> {
    let mut table = {
        let ended = lock_soon(&ENDED)?;
        Table {
            entries: ended.entries,
            len: ended.len,
        }
    };
    ledger().for_each_thread(|flow| {
        if flow.tid != 0 {
            let mut name = [0; 16];
            let len = name_of(flow.tid, &mut name);
            table.add(&name[..len], 1, flow.allocated, flow.freed);
        }
    });
    Some(table)
}

/// A living thread's name.
fn name_of(tid: u32, out: &mut [u8; 16]) -> usize {
    if confined::is_set() {
        return unknown(out);
    }
    let mut path = page::Path::new();
    path.push(b"/proc/self/task/");
    path.push_number(u64::from(tid), 10);
    path.push(b"/comm");
    let len = sys::read_file(path.as_cstr(), out);
    out[..len].trim_ascii_end().len()
}

/// In fork's child: nobody has ended yet, and what its one thread did before does not count.
pub(crate) fn begin_anew() {
    // SAFETY: no other thread exists, and this one holds no guard of it: it forked from outside of this file.
    unsafe { ENDED.force_open() };
    let mut table = Table::new();
    ledger().for_each_thread(|flow| {
        if flow.tid != 0 {
            let mut name = [0; 16];
            let len = own_name(&mut name);
            let less = |bytes: u64| bytes.wrapping_neg();
            table.add(&name[..len], 0, less(flow.allocated), less(flow.freed));
        }
    });
    *ENDED.lock() = table;
}

/// Has the ledger tell of threads that end.
pub(crate) fn watch() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        homefree_ledger::raw::when_a_thread_ends(thread_ended);
    }
}
