//! The profile in memory: one reserved range of addresses, page by page, shared with the file.
//!
//! The range is mapped once and never moves, so an entry's place in the file is its place in memory.
//! Only the part that the file has room for is touched: room on the disk is promised by the kernel
//! before a page is handed out, so a full disk is a counted refusal and never a fault in the program.
//! The file is not kept open (programs close what they did not open, and would find their own file
//! under our number): it is opened by its path to grow, and checked to be the same file.

use crate::config::{Naming, Text};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use homefree_thread::{Lock, sys};
use homefree_wire::{BANKS, Bank, Flow, Header, PAGE, PAGE_MAGIC, PageHead, Site};

/// Address space to ask for, in this order. Site references have 24 bits of 64 bytes: 1 GiB.
const RESERVE: [usize; 5] = [1 << 30, 256 << 20, 64 << 20, 16 << 20, 4 << 20];
/// Pages that the file starts with.
const FIRST: usize = 128;
/// Nanoseconds until a file that could not grow is tried again.
const RETRY: u64 = 1_000_000_000;

pub(crate) struct Arena {
    base: AtomicPtr<u8>,
    reserved: AtomicUsize,
    /// Pages handed out (low half) and pages there is room for (high half), changed together.
    room: AtomicU64,
    backing: Lock<Backing>,
    /// Page of the last bank, and the next bank's id.
    banks: Lock<(u32, u32)>,
}

struct Backing {
    path: Text,
    identity: (u64, u64),
    private: bool,
    /// When the file last could not grow, `CLOCK_MONOTONIC` nanoseconds; 0 for never.
    refused: u64,
}

pub(crate) static ARENA: Arena = Arena {
    base: AtomicPtr::new(core::ptr::null_mut()),
    reserved: AtomicUsize::new(0),
    room: AtomicU64::new(0),
    backing: Lock::new(Backing {
        path: Text::new(),
        identity: (0, 0),
        private: true,
        refused: 0,
    }),
    banks: Lock::new((0, 0)),
};

const fn pack(used: usize, have: usize) -> u64 {
    used as u64 | (have as u64) << 32
}
const fn unpack(room: u64) -> (usize, usize) {
    (room as u32 as usize, (room >> 32) as usize)
}

impl Arena {
    /// Reserves the range as private memory, with page 0 for the header. False where not even the
    /// smallest range is to be had.
    pub fn reserve(&self) -> bool {
        // Of a limited address space only a small part.
        let limit = sys::address_space_limit() / 16;
        for len in RESERVE {
            if len > limit && len != RESERVE[RESERVE.len() - 1] {
                continue;
            }
            if let Some(at) = sys::map(len) {
                // SAFETY: the mapping just made.
                unsafe { sys::small_pages(at, len) };
                self.base.store(at.as_ptr(), Ordering::Relaxed);
                self.reserved.store(len, Ordering::Relaxed);
                self.room.store(pack(1, len / PAGE), Ordering::Release);
                self.header().pages.store(1, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.base.load(Ordering::Relaxed)
    }

    pub fn header(&self) -> &Header {
        // SAFETY: page 0 is mapped once the arena is reserved, and never moves; nothing calls this
        // before. `Header` is atomics only.
        unsafe { &*self.base().cast::<Header>() }
    }

    /// The site behind a reference (its place in units of 64 bytes).
    ///
    /// # Safety
    /// `site` was given out by this arena.
    #[inline(always)]
    pub unsafe fn site(&self, site: u32) -> &Site {
        // SAFETY: within a page handed out, which stays mapped; atomics only.
        unsafe {
            &*self
                .base()
                .add(site as usize * size_of::<Site>())
                .cast::<Site>()
        }
    }

    /// Start of page `number`.
    pub fn page(&self, number: u32) -> NonNull<u8> {
        debug_assert!((number as usize) < self.pages());
        // SAFETY: pages handed out lie in the reserved range, which does not start at 0.
        unsafe { NonNull::new_unchecked(self.base().add(number as usize * PAGE)) }
    }

    /// Pages handed out.
    pub fn pages(&self) -> usize {
        unpack(self.room.load(Ordering::Acquire)).0
    }

    /// Hands out a zeroed page with its head written. `None` where there is no room (counted).
    pub fn add_page(&self, kind: u16, seq: u32, owner: u32) -> Option<u32> {
        let number = loop {
            let room = self.room.load(Ordering::Acquire);
            let (used, have) = unpack(room);
            if used >= have {
                if !self.grow(have) {
                    self.header().full.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                continue;
            }
            let next = pack(used + 1, have);
            if self
                .room
                .compare_exchange(room, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                self.header()
                    .pages
                    .fetch_max(used as u64 + 1, Ordering::Relaxed);
                break used as u32;
            }
        };
        // SAFETY: the page is this caller's alone, zeroed, inside the file; atomics only.
        let head = unsafe { self.page(number).cast::<PageHead>().as_ref() };
        head.kind.store(kind, Ordering::Relaxed);
        head.seq.store(seq, Ordering::Relaxed);
        head.owner.store(owner, Ordering::Relaxed);
        head.magic.store(PAGE_MAGIC, Ordering::Release);
        crate::process::look_at_clock();
        Some(number)
    }

    /// Makes room past `have` pages. True where there is more room now.
    #[cold]
    fn grow(&self, have: usize) -> bool {
        let mut backing = self.backing.lock();
        let (_, now) = unpack(self.room.load(Ordering::Acquire));
        if now > have {
            return true;
        }
        let limit = self.reserved.load(Ordering::Relaxed) / PAGE;
        let want = (have + (have / 2).max(FIRST / 2)).min(limit);
        if backing.private || want <= have {
            return false;
        }
        // A full disk is not asked again at every event.
        let now = sys::clock(libc::CLOCK_MONOTONIC_COARSE);
        if backing.refused != 0 && now.saturating_sub(backing.refused) < RETRY {
            return false;
        }
        let room = || backing.reopen()?.allocate(have * PAGE, want * PAGE).ok();
        if want * PAGE > sys::file_size_limit() || room().is_none() {
            backing.refused = now;
            return false;
        }
        self.room
            .fetch_add(((want - have) as u64) << 32, Ordering::AcqRel);
        true
    }

    /// Gives the profile its file: creates the first name of `naming` that does not exist and maps it
    /// over the private memory. The caller makes sure that no other thread writes meanwhile.
    pub fn publish(&self, naming: &Naming, pid: u32) -> bool {
        let mut backing = self.backing.lock();
        let backing = &mut *backing;
        let mut attempt = 0;
        let file = loop {
            naming.candidate(attempt, pid, &mut backing.path);
            match sys::File::create_new(backing.path.as_cstr()) {
                Ok(file) => break file,
                Err(sys::Errno(libc::EEXIST)) if attempt < 1000 => attempt += 1,
                Err(_) => return false,
            }
        };
        let len = self.reserved.load(Ordering::Relaxed);
        let used = self.pages();
        let have = (used + FIRST).min(len / PAGE);
        // SAFETY: the pages in use, mapped and initialised.
        let bytes = unsafe { core::slice::from_raw_parts(self.base(), used * PAGE) };
        let Some(base) = NonNull::new(self.base()) else {
            return false;
        };
        let ready = have * PAGE <= sys::file_size_limit()
            && file.allocate(0, have * PAGE).is_ok()
            && file.write_at(bytes, 0).is_ok();
        // SAFETY: the reserved range; only pages that the file has are touched from here on.
        let ready = ready && unsafe { sys::map_file_over(base, len, file.fd()) }.is_ok();
        if !ready {
            sys::unlink(backing.path.as_cstr());
            return false;
        }
        self.room.store(pack(used, have), Ordering::Release);
        backing.identity = file.identity().unwrap_or((0, 0));
        backing.private = false;
        true
    }

    /// Replaces the shared mapping by a private copy of its first `pages` pages, in fork's child.
    ///
    /// # Safety
    /// No other thread exists.
    pub unsafe fn make_private(&self, pages: usize) -> bool {
        let mut backing = self.backing.lock();
        let len = self.reserved.load(Ordering::Relaxed);
        let (Some(copy), Some(base)) = (sys::map(len), NonNull::new(self.base())) else {
            return false;
        };
        // SAFETY: both are mapped for that many pages and do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(base.as_ptr(), copy.as_ptr(), pages * PAGE) };
        // SAFETY: `copy` is referred to by nobody, and nobody reads the old mapping meanwhile.
        if unsafe { sys::move_over(copy, base, len) }.is_err() {
            // SAFETY: mapped above.
            unsafe { sys::unmap(copy, len) };
            return false;
        }
        backing.private = true;
        self.room.store(pack(pages, len / PAGE), Ordering::Release);
        self.header().pages.store(pages as u64, Ordering::Relaxed);
        true
    }

    /// Cuts the file to the pages in use. Recording may go on: the next page grows it again.
    pub fn trim(&self) {
        let backing = self.backing.lock();
        if backing.private {
            return;
        }
        let Some(file) = backing.reopen() else { return };
        // From here on pages need `grow`, which waits for the lock.
        let frozen = self
            .room
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |room| {
                let (used, _) = unpack(room);
                Some(pack(used, used))
            });
        if let Ok(room) = frozen {
            let _ = file.set_len(unpack(room).0 * PAGE);
        }
    }

    /// Opens the lock in fork's child.
    ///
    /// # Safety
    /// No other thread exists and the caller holds no guard.
    pub unsafe fn after_fork(&self) {
        // SAFETY: the caller's promise. What the lock guards is written last, and only by `publish`.
        unsafe { self.backing.force_open() };
        // SAFETY: as above; a page or an id may be lost, no more.
        unsafe { self.banks.force_open() };
    }

    /// The flow behind a reference (page number, slot in the low 4 bits).
    ///
    /// # Safety
    /// `flow` was given out by this arena.
    pub unsafe fn flow(&self, flow: u32) -> &Flow {
        let page = self.page(flow >> 4);
        let at = homefree_wire::FLOWS_AT + (flow & 15) as usize * size_of::<Flow>();
        // SAFETY: within a page handed out; atomics only.
        unsafe { &*page.as_ptr().add(at).cast::<Flow>() }
    }

    /// A zeroed bank; returns its id and itself.
    pub fn add_bank(&self) -> Option<(u32, &Bank)> {
        let mut next = self.banks.lock();
        let (page, id) = &mut *next;
        if (*id).is_multiple_of(BANKS as u32) {
            *page = self.add_page(homefree_wire::kind::BANKS, *id / BANKS as u32, 0)?;
            *id += 1;
        }
        let at = (*id % BANKS as u32) as usize * size_of::<Bank>();
        // SAFETY: a slot of the page just handed out or of the last one; atomics only.
        let bank = unsafe { &*self.page(*page).as_ptr().add(at).cast::<Bank>() };
        *id += 1;
        Some((*id - 1, bank))
    }
}

impl Backing {
    /// The file, if it is still the one that was created.
    fn reopen(&self) -> Option<sys::File> {
        let file = sys::File::open(self.path.as_cstr()).ok()?;
        (file.identity() == Ok(self.identity)).then_some(file)
    }
}
