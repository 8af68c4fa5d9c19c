//! The page that the launcher reads: a file of this process, mapped shared, so that it outlives a SIGKILL.
//!
//! It is written when a thread settles, which is where the figures change, and at the process's end.

use crate::environment::Settings;
use crate::{careful, confined, hot, next, own, process, roles};
use core::ffi::CStr;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use homefree_ledger::{HardLimit, Ledger, ledger, raw};
use homefree_thread::{Lock, sys};
use homefree_wire::account::{
    ALLOCATOR, Account, COMMAND, MAGIC, ROLES_AT, Role, RoleValue, SIZE, VERSION, flags, state,
};

/// The page; null where there is none.
static PAGE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// This is a child that makes its page when it has something to say.
static AWAITED: AtomicBool = AtomicBool::new(false);
/// The process ends: all that comes is written at once, and exactly.
static ENDING: AtomicBool = AtomicBool::new(false);
static RUN_ID: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(0);
static RESERVE: AtomicU64 = AtomicU64::new(0);
/// The most that the balance can have been off at a peak.
static PEAK_ERROR: AtomicU64 = AtomicU64::new(0);

static FOLDER: Lock<Path> = Lock::new(Path::new());
static WRITER: Lock<()> = Lock::new(());
/// The writer is to write again.
static AGAIN: AtomicBool = AtomicBool::new(false);

/// A path that is put together; cut where it is too long.
pub(crate) struct Path {
    bytes: [u8; 4096],
    len: usize,
}

impl Path {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; 4096],
            len: 0,
        }
    }

    pub(crate) fn push(&mut self, text: &[u8]) {
        let n = text.len().min(self.bytes.len() - 1 - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&text[..n]);
        self.len += n;
    }

    pub(crate) fn push_number(&mut self, mut number: u64, radix: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(number % radix) as usize % 16];
            number /= radix;
            if number == 0 || at == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }

    pub(crate) fn as_cstr(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

fn account(page: NonNull<u8>) -> &'static Account {
    // SAFETY: a page is mapped for the life of the process, aligned, and all of its words are atomic.
    unsafe { page.cast::<Account>().as_ref() }
}

fn role(page: NonNull<u8>, index: usize) -> &'static Role {
    // SAFETY: as above; the entries lie within the page.
    unsafe { page.byte_add(ROLES_AT).cast::<Role>().add(index).as_ref() }
}

/// The page, if it is this memory's. No system call: it is asked for at each settlement.
fn current() -> Option<NonNull<u8>> {
    let page = NonNull::new(PAGE.load(Ordering::Acquire))?;
    own::is_no_copy().then_some(page)
}

/// Makes the page, if the environment names a folder for it. At the process's beginning.
pub(crate) fn begin(settings: &Settings, limit: Option<HardLimit>) {
    if let Some(limit) = limit {
        LIMIT.store(limit.bytes, Ordering::Relaxed);
        RESERVE.store(limit.reserve, Ordering::Relaxed);
    }
    let Some(folder) = settings.folder else {
        return;
    };
    FOLDER.lock().push(folder);
    RUN_ID.store(settings.run_id, Ordering::Relaxed);
    make();
}

/// Makes it. Not if the file can not be had: then the program just runs.
fn make() {
    let pid = sys::process_id();
    let Some(page) = file(pid) else { return };
    let account = account(page);
    let set = |place: &AtomicU32, value| place.store(value, Ordering::Relaxed);
    set(&account.version, VERSION);
    set(&account.state, state::RUNNING);
    set(&account.pid, pid);
    set(&account.ppid, sys::parent_id());
    for (place, value) in [
        (&account.run_id, &RUN_ID),
        (&account.limit, &LIMIT),
        (&account.reserve, &RESERVE),
    ] {
        place.store(value.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    account
        .started
        .store(sys::clock(libc::CLOCK_REALTIME), Ordering::Relaxed);
    let mut facts = 0;
    if careful::COUNTS.load(Ordering::Relaxed) {
        facts |= flags::COUNTS;
    }
    if hot::HOT.is_inline() {
        facts |= flags::HEADERS;
    }
    if let Some(bytes) = process::inherited() {
        facts |= flags::FORKED;
        account.inherited.store(bytes, Ordering::Relaxed);
    }
    set(&account.flags, facts);
    let mut text = [0; COMMAND.end - COMMAND.start];
    let len = homefree_next::module_name(
        next::NEXT.malloc.address(),
        &mut text[..ALLOCATOR.len() - 1],
    );
    put(page, ALLOCATOR.start, &text[..len]);
    let len = sys::read_file(c"/proc/self/cmdline", &mut text);
    put(page, COMMAND.start, &text[..len.min(COMMAND.len() - 1)]);
    fence(Ordering::Release);
    // Last: a page without it is none.
    account
        .magic
        .store(u64::from_le_bytes(MAGIC), Ordering::Release);
    PAGE.store(page.as_ptr(), Ordering::Release);
    publish();
}

/// Makes it in a child that has none yet. By the process itself.
pub(crate) fn make_if_awaited() {
    if AWAITED.load(Ordering::Relaxed) && AWAITED.swap(false, Ordering::AcqRel) {
        make();
    }
}

fn put(page: NonNull<u8>, at: usize, text: &[u8]) {
    // SAFETY: within the page, which is published to nobody in this process yet.
    unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), page.as_ptr().add(at), text.len()) };
}

/// A new file of this process, mapped.
fn file(pid: u32) -> Option<NonNull<u8>> {
    let mut path = Path::new();
    path.push(FOLDER.lock().as_cstr().to_bytes());
    path.push(b"/");
    path.push_number(u64::from(pid), 10);
    path.push(b".");
    path.push_number(sys::random(), 16);
    path.push(b".account");
    let file = sys::File::create_new(path.as_cstr()).ok()?;
    file.allocate(0, SIZE).ok()?;
    let page = sys::map(SIZE)?;
    // SAFETY: the mapping just made, as long as the file.
    if unsafe { sys::map_file_over(page, SIZE, file.fd()) }.is_err() {
        // SAFETY: the same, used by nobody.
        unsafe { sys::unmap(page, SIZE) };
        return None;
    }
    Some(page)
}

/// In fork's child: the page is the parent's.
pub(crate) fn leave_to_parent(follow: bool) {
    // SAFETY: no other thread exists, and this one holds no guard of these.
    unsafe {
        FOLDER.force_open();
        WRITER.force_open();
    }
    let had = PAGE.swap(null_mut(), Ordering::AcqRel);
    let page = NonNull::new(had).filter(|_| !confined::is_set());
    if let Some(page) = page {
        // SAFETY: the mapping of this process, which nothing refers to any more.
        unsafe { sys::unmap(page, SIZE) };
    }
    let awaited = AWAITED.load(Ordering::Relaxed);
    // Of a confined one nothing is told: its page would take calls that its parent never made.
    let told = follow && !confined::is_set() && (awaited || !had.is_null());
    AWAITED.store(told, Ordering::Release);
    ENDING.store(false, Ordering::Relaxed);
    PEAK_ERROR.store(0, Ordering::Relaxed);
}

/// Writes the figures. After a thread has settled.
pub(crate) fn publish() {
    if AWAITED.load(Ordering::Relaxed) && own::is_this_process() {
        make_if_awaited();
    }
    let Some(page) = current() else { return };
    AGAIN.store(true, Ordering::Release);
    // Whoever writes meanwhile does so again.
    while AGAIN.load(Ordering::Acquire) {
        let Some(_writer) = WRITER.try_lock() else {
            return;
        };
        AGAIN.store(false, Ordering::Release);
        write(account(page), ledger());
    }
}

fn write(account: &Account, ledger: &Ledger) {
    let cheap = ledger.usage();
    let exact = ENDING.load(Ordering::Relaxed) && !raw::holds_a_lock();
    PEAK_ERROR.fetch_max(cheap.error, Ordering::Relaxed);
    let usage = if exact { ledger.usage_exact() } else { cheap };
    let totals = exact.then(process::totals);
    let peak = process::peak(usage.peak);
    let turn = account.turn.load(Ordering::Relaxed) | 1;
    account.turn.store(turn, Ordering::Relaxed);
    fence(Ordering::Release);
    let set = |place: &AtomicU64, value| place.store(value, Ordering::Relaxed);
    set(&account.current, usage.current);
    set(&account.peak, peak.max(usage.current));
    set(&account.error, usage.error);
    set(&account.peak_error, PEAK_ERROR.load(Ordering::Relaxed));
    set(&account.refused, ledger.refused());
    if let Some(totals) = totals {
        set(&account.allocated, totals.allocated);
        set(&account.freed, totals.freed);
        set(&account.allocations, totals.allocations);
        set(&account.frees, totals.frees);
    }
    account.turn.store(turn.wrapping_add(1), Ordering::Release);
}

/// A role of ended threads has new figures.
pub(crate) fn store_role(index: usize, value: &RoleValue, len: usize) {
    if ENDING.load(Ordering::Relaxed) {
        return;
    }
    if let Some(page) = current() {
        write_role(role(page, index), value);
        account(page).roles.store(len as u32, Ordering::Release);
    }
}

fn write_role(place: &Role, value: &RoleValue) {
    let set = |place: &AtomicU64, value| place.store(value, Ordering::Relaxed);
    set(&place.name, value.name);
    set(&place.name_end, value.name_end);
    set(&place.threads, value.threads);
    set(&place.allocated, value.allocated);
    set(&place.freed, value.freed);
}

/// At an orderly end: exact figures, what the system says, and all threads.
pub(crate) fn end() {
    if !own::is_this_process() || raw::holds_a_lock() {
        return;
    }
    if AWAITED.load(Ordering::Relaxed) && !process::has_done_anything() {
        return;
    }
    if !ENDING.swap(true, Ordering::AcqRel) {
        PEAK_ERROR.fetch_max(ledger().usage().error, Ordering::Relaxed);
        // From here on every event is written at once: destructors still run.
        ledger().set_drift_budget(1);
        ledger().settle();
    }
    publish();
    let Some(page) = current() else { return };
    let account = account(page);
    if let Some(table) = roles::all() {
        for (index, value) in table.entries().iter().enumerate() {
            write_role(role(page, index), value);
        }
        account
            .roles
            .store(table.entries().len() as u32, Ordering::Release);
    }
    // Of a confined one the launcher has what it saw last.
    if !confined::is_set() {
        let (reserved, resident) = memory();
        account.reserved.store(reserved, Ordering::Relaxed);
        account.resident.store(resident, Ordering::Relaxed);
    }
    account.state.store(state::ENDED, Ordering::Release);
}

/// `VmData` and `RssAnon`, bytes; 0 where the system does not say.
fn memory() -> (u64, u64) {
    let mut text = [0; 4096];
    let len = sys::read_file(c"/proc/self/status", &mut text);
    let field = |name: &[u8]| -> u64 {
        let line = text[..len]
            .split(|&b| b == b'\n')
            .find_map(|line| line.strip_prefix(name));
        let digits = line.unwrap_or(b"").iter().filter(|b| b.is_ascii_digit());
        digits.fold(0u64, |n, &b| {
            n.wrapping_mul(10).wrapping_add(u64::from(b - b'0'))
        }) << 10
    };
    (field(b"VmData:"), field(b"RssAnon:"))
}
