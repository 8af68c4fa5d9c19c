//! Regions: ranges of addresses cut into units of 64 KiB, with one [`Page`] for each beside them.
//!
//! The first region starts at a random place far from where the kernel maps, and grows upwards by
//! mappings that the kernel merges into one: nothing is reserved that is not used, so limits of address
//! space hold no surprise. Where that is not possible (a tool that restricts addresses, something in the
//! way) a further region is set aside wherever the kernel gives one.

use crate::page::{Page, UNIT, UNIT_SHIFT, kind};
use crate::source::source;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use homefree_thread::sys;

/// Regions at most; further ones are at least as large as what is mapped already, so they suffice.
pub const REGIONS: usize = 24;
/// Units of the first region at most: 1 TiB.
const WINDOW_UNITS: usize = 1 << 24;
/// Bytes of entries are mapped in steps of this many: for 32 MiB of units.
const ENTRIES_STEP: usize = 64 << 10;
const ENTRY: usize = size_of::<Page>();

/// What `free` needs to know of a region.
#[repr(C)]
pub struct Range {
    /// Address of the first unit.
    pub base: AtomicUsize,
    /// Bytes in use from there; only grows.
    pub len: AtomicUsize,
    /// Entry of the first unit.
    pub entries: AtomicPtr<Page>,
}

/// All regions; those not made yet have length 0. The first one is what the fast path knows.
pub static RANGES: [Range; REGIONS] = [const {
    Range {
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        entries: AtomicPtr::new(null_mut()),
    }
}; REGIONS];

/// The page of the calling thread that an address lies in, if it lies in the first unit of one in the
/// first region. `None`: somebody else's, or not ours at all, which arithmetic alone tells.
///
/// Eleven instructions, inlined. In assembly, since compilers do not compare with atomics in place. The
/// owner is read with acquire order, as every load on x86 is.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn own_page(address: usize) -> Option<&'static Page> {
    use core::arch::asm;
    let mut at = address;
    // SAFETY: reads words of `RANGES[0]`, and an entry only where `len` says that there is one: entries
    // are never unmapped.
    unsafe {
        asm!(
            "sub {at}, qword ptr [rip + {first}]",
            at = inout(reg) at, first = sym RANGES,
            options(pure, readonly, nostack),
        );
        asm!(
            "cmp {at}, qword ptr [rip + {first} + 8]",
            "jae {foreign}",
            at = in(reg) at, first = sym RANGES, foreign = label { return None },
            options(readonly, nostack),
        );
        let mut page = at >> UNIT_SHIFT << size_of::<Page>().ilog2();
        asm!(
            "add {page}, qword ptr [rip + {first} + 16]",
            page = inout(reg) page, first = sym RANGES,
            options(pure, readonly, nostack),
        );
        asm!(
            "cmp qword ptr [{page} + {owner}], {tag}",
            "jne {other}",
            page = in(reg) page, tag = in(reg) crate::slot::thread_tag(),
            owner = const core::mem::offset_of!(Page, owner), other = label { return None },
            options(readonly, nostack),
        );
        Some(&*(page as *const Page))
    }
}

/// The same.
#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub fn own_page(address: usize) -> Option<&'static Page> {
    let first = &RANGES[0];
    let offset = address.wrapping_sub(first.base.load(Relaxed));
    if offset >= first.len.load(Relaxed) {
        return None;
    }
    // SAFETY: entries exist for all of `len`, and are never unmapped.
    let page = unsafe { &*first.entries.load(Relaxed).add(offset >> UNIT_SHIFT) };
    (page.owner.load(Acquire) == crate::slot::thread_tag()).then_some(page)
}

/// The entry of the page or span that an address lies in, whichever the region. `None` for what is not ours.
pub fn find(address: usize) -> Option<&'static Page> {
    for range in &RANGES {
        let len = range.len.load(Acquire);
        if len == 0 {
            return None;
        }
        let offset = address.wrapping_sub(range.base.load(Relaxed));
        if offset < len {
            let unit = offset >> UNIT_SHIFT;
            let entries = range.entries.load(Relaxed);
            // SAFETY: as above.
            let page = unsafe { &*entries.add(unit) };
            return match page.kind.load(Acquire) {
                kind::FREE => None,
                kind::REST => {
                    let back = page.units.load(Relaxed) as usize;
                    // SAFETY: the first unit of the same page lies before.
                    (back <= unit).then(|| unsafe { &*entries.add(unit - back) })
                }
                _ => Some(page),
            };
        }
    }
    None
}

/// The part of a region that only the pool uses, under its lock.
pub struct Region {
    range: &'static Range,
    /// Units mapped.
    pub units: usize,
    /// Units that there is room for.
    capacity: usize,
    /// Bytes of entries mapped.
    entries_mapped: usize,
    /// Whether addresses were set aside in advance.
    reserved: bool,
}

impl Region {
    /// A region of up to 1 TiB that reserves nothing. `None` where such addresses can not be had.
    pub fn window(range: &'static Range) -> Option<Self> {
        for _ in 0..4 {
            // From 17 to 33 TiB: above the shadow of AddressSanitizer, below programs and libraries.
            let random = sys::random() as usize % (16 << 40);
            let entries = (17 << 40) + (random & !((1 << 21) - 1));
            let base = entries + (WINDOW_UNITS * ENTRY).next_multiple_of(UNIT);
            let mut region = Self {
                range,
                units: 0,
                capacity: WINDOW_UNITS,
                entries_mapped: 0,
                reserved: false,
            };
            range.entries.store(entries as *mut Page, Relaxed);
            range.base.store(base, Relaxed);
            if region.grow(1, 64) != 0 {
                return Some(region);
            }
        }
        None
    }

    /// A region wherever the kernel gives one, of `least` units or more, `best` if possible.
    pub fn reserved(range: &'static Range, least: usize, best: usize) -> Option<Self> {
        let limit = sys::address_space_limit() / 8 / UNIT;
        let mut capacity = best.min(limit).max(least);
        loop {
            let entries_len = (capacity * ENTRY).next_multiple_of(ENTRIES_STEP);
            // A unit more, for the alignment.
            if let Some(at) = source().reserve(entries_len + (capacity + 1) * UNIT) {
                range.entries.store(at as *mut Page, Relaxed);
                range
                    .base
                    .store((at + entries_len).next_multiple_of(UNIT), Relaxed);
                return Some(Self {
                    range,
                    units: 0,
                    capacity,
                    entries_mapped: 0,
                    reserved: true,
                });
            }
            if capacity == least {
                return None;
            }
            capacity = (capacity / 2).max(least);
        }
    }

    pub fn base(&self) -> usize {
        self.range.base.load(Relaxed)
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The entry of a unit.
    pub fn entry(&self, unit: usize) -> &'static Page {
        debug_assert!(unit < self.units);
        // SAFETY: entries exist for all mapped units, and are never unmapped.
        unsafe { &*self.range.entries.load(Relaxed).add(unit) }
    }

    /// Maps `least` units more, `best` if possible; returns how many it did.
    pub fn grow(&mut self, least: usize, best: usize) -> usize {
        let room = self.capacity - self.units;
        if least > room {
            return 0;
        }
        for count in [best.min(room).max(least), least] {
            if self.map_entries(self.units + count)
                && self.map(self.base() + self.units * UNIT, count * UNIT)
            {
                self.units += count;
                self.range.len.store(self.units * UNIT, Release);
                return count;
            }
        }
        0
    }

    fn map(&self, at: usize, len: usize) -> bool {
        if self.reserved {
            // SAFETY: within the reservation.
            unsafe { source().commit(at, len) }
        } else {
            source().map_at(at, len)
        }
    }

    fn map_entries(&mut self, units: usize) -> bool {
        let needed = (units * ENTRY).next_multiple_of(ENTRIES_STEP);
        if needed > self.entries_mapped {
            let at = self.range.entries.load(Relaxed) as usize + self.entries_mapped;
            if !self.map(at, needed - self.entries_mapped) {
                return false;
            }
            self.entries_mapped = needed;
        }
        true
    }
}

/// Calls `see` with the first entry of every page and span there is. What others do meanwhile may be
/// seen or not.
pub fn each(mut see: impl FnMut(&'static Page)) {
    for range in &RANGES {
        let units = range.len.load(Acquire) >> UNIT_SHIFT;
        for unit in 0..units {
            // SAFETY: entries exist for all of `len`, and are never unmapped.
            let page = unsafe { &*range.entries.load(Relaxed).add(unit) };
            if matches!(page.kind.load(Acquire), kind::SMALL | kind::SPAN) {
                see(page);
            }
        }
    }
}
