//! Pages and fixed entries.
//!
//! Each entry is defined once and exists in two forms: with atomic fields, for the mapping that the
//! recorder counts in, and as plain values decoded from bytes, for the reader.

use crate::{Error, LIFE_BUCKETS, SIZE_BUCKETS};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Bytes in a page of the file.
pub const PAGE: usize = 4096;
/// First bytes of a profile.
pub const MAGIC: [u8; 8] = *b"HOMEFREE";
/// Format version written and the newest read.
pub const VERSION: u32 = 1;
/// Marks a page whose head was written: "HFPG".
pub const PAGE_MAGIC: u32 = u32::from_le_bytes(*b"HFPG");

/// Defines an entry with atomic fields, its plain twin and the decoder between them.
macro_rules! entry {
    ($(#[$m:meta])* $live:ident / $plain:ident { $($(#[$fm:meta])* $f:ident : $at:ident $t:ident,)* }) => {
        $(#[$m])*
        #[repr(C)]
        #[derive(Debug, Default)]
        pub struct $live { $($(#[$fm])* pub $f: $at,)* }

        #[doc = concat!("[`", stringify!($live), "`] as plain values.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $plain { $($(#[$fm])* pub $f: $t,)* }

        impl $plain {
            /// Decodes the fixed part from the start of `bytes`; `None` where it is too short.
            pub fn decode(bytes: &[u8]) -> Option<Self> {
                $(
                    let at = core::mem::offset_of!($live, $f);
                    let $f = $t::from_le_bytes(bytes.get(at..at + size_of::<$t>())?.try_into().ok()?);
                )*
                Some(Self { $($f,)* })
            }
        }
    };
}

pub(crate) use entry;

entry! {
    /// Page 0. Fields after `state` change while the program runs.
    Header / HeaderValue {
        /// [`MAGIC`] as a little-endian word.
        magic: AtomicU64 u64,
        /// [`VERSION`].
        version: AtomicU32 u32,
        /// [`PAGE`].
        page_size: AtomicU32 u32,
        /// Process id (in its own pid namespace).
        pid: AtomicU32 u32,
        /// Parent's process id.
        ppid: AtomicU32 u32,
        /// Identity of this profile: random, never zero.
        id: AtomicU64 u64,
        /// `id` of the profile of the process that forked this one; 0 where there is none.
        parent_id: AtomicU64 u64,
        /// The same for all profiles of one `homefree record`; 0 without the launcher.
        run_id: AtomicU64 u64,
        /// How stacks are taken: one of [`stacks`].
        stacks: AtomicU32 u32,
        /// Frames kept of a stack, innermost first.
        depth: AtomicU32 u32,
        /// 0: free stacks on remote frees; 1: on all frees.
        free_stacks: AtomicU32 u32,
        /// One of [`clock`].
        clock: AtomicU32 u32,
        /// Mean bytes between samples; 0: every event is recorded.
        sample_bytes: AtomicU64 u64,
        /// `CLOCK_REALTIME` at the start, nanoseconds.
        start_realtime_ns: AtomicU64 u64,
        /// `CLOCK_MONOTONIC` at the start, nanoseconds.
        start_monotonic_ns: AtomicU64 u64,
        /// The event clock at the start, ticks (see [`clock`]).
        start_ticks: AtomicU64 u64,
        /// One of [`state`].
        state: AtomicU32 u32,
        /// How many times the file could not grow (disk full, or the reserved range used up): from
        /// then on events at new sites are counted in [`Bank::lost`] only.
        full: AtomicU32 u32,
        /// `CLOCK_MONOTONIC` at the last look, nanoseconds; with `last_ticks`, the length of a tick.
        last_monotonic_ns: AtomicU64 u64,
        /// The event clock at the last look.
        last_ticks: AtomicU64 u64,
        /// Pages handed out, page 0 included.
        pages: AtomicU64 u64,
        /// Nodes handed out (slots, including slot 0 of each page).
        nodes: AtomicU64 u64,
        /// Threads ever seen.
        threads: AtomicU64 u64,
        /// Threads alive (attached) now.
        threads_live: AtomicU64 u64,
        /// Events of threads for which there was no room: counted here alone.
        unattached: AtomicU64 u64,
    }
}

/// Values of [`Header::stacks`].
pub mod stacks {
    /// Call-frame information, cached as compact rules; frame pointers where there is none.
    pub const AUTO: u32 = 0;
    /// Frame pointers only.
    pub const FP: u32 = 1;
    /// Call-frame information only.
    pub const DWARF: u32 = 2;
    /// The immediate caller only.
    pub const NONE: u32 = 3;
}

/// Values of [`Header::clock`]: what a tick is.
pub mod clock {
    /// Time-stamp counter shifted right by [`TSC_SHIFT`].
    pub const TSC: u32 = 0;
    /// `CLOCK_MONOTONIC` nanoseconds shifted right by [`NS_SHIFT`].
    pub const MONOTONIC: u32 = 1;
    /// See [`TSC`].
    pub const TSC_SHIFT: u32 = 4;
    /// See [`MONOTONIC`].
    pub const NS_SHIFT: u32 = 2;
}

/// Values of [`Header::state`].
pub mod state {
    /// The program runs, or was killed.
    pub const RUNNING: u32 = 0;
    /// The program ended in order.
    pub const ENDED: u32 = 1;
}

impl Header {
    /// Checks that `file` starts like a profile of a version that this crate reads.
    ///
    /// # Errors
    /// Says which of the ways in which it is not, see [`Error`].
    pub fn check(file: &[u8]) -> Result<HeaderValue, Error> {
        if file.is_empty() {
            return Err(Error::Empty);
        }
        if file.len() >= 8 && file[..8] == [0; 8] {
            // The file was made, but nothing was written to it before the program ended.
            return Err(Error::Empty);
        }
        if !file.starts_with(&MAGIC) {
            return Err(Error::NotAProfile);
        }
        let Some(header) = HeaderValue::decode(file) else {
            return Err(Error::CutInHeader { len: file.len() });
        };
        if header.version > VERSION {
            return Err(Error::Newer {
                version: header.version,
            });
        }
        if file.len() < PAGE {
            return Err(Error::CutInHeader { len: file.len() });
        }
        Ok(header)
    }
}

entry! {
    /// First 16 bytes of every page but page 0. (The first slot of the page's entries is left empty
    /// for it, so the entries keep their own alignment.)
    PageHead / PageHeadValue {
        /// [`PAGE_MAGIC`], stored last.
        magic: AtomicU32 u32,
        /// One of [`kind`].
        kind: AtomicU16 u16,
        /// Unused, zero.
        flags: AtomicU16 u16,
        /// Which page of its kind (and of its bank) this is, from 0.
        seq: AtomicU32 u32,
        /// The bank that a [`kind::SITES`] or [`kind::FLOWS`] page belongs to; for
        /// [`kind::RECORDS`], bytes of the page in use.
        owner: AtomicU32 u32,
    }
}

/// Values of [`PageHead::kind`].
pub mod kind {
    /// [`super::Node`]s.
    pub const NODES: u16 = 1;
    /// [`super::Bank`]s.
    pub const BANKS: u16 = 2;
    /// [`super::Site`]s of a bank.
    pub const SITES: u16 = 3;
    /// [`super::Flow`]s of a bank.
    pub const FLOWS: u16 = 4;
    /// [`crate::records`].
    pub const RECORDS: u16 = 5;
}

/// Slots of a [`kind::NODES`] page; slot 0 is the page's head. Node id = `seq * NODES + slot`.
pub const NODES: usize = PAGE / size_of::<Node>();
/// Slots of a [`kind::BANKS`] page; slot 0 is the page's head. Bank id = `seq * BANKS + slot`.
pub const BANKS: usize = PAGE / size_of::<Bank>();
/// Slots of a [`kind::SITES`] page; slot 0 is the page's head. Site index = `seq * SITES + slot`.
pub const SITES: usize = PAGE / size_of::<Site>();
/// Entries of a [`kind::FLOWS`] page, which start at [`FLOWS_AT`].
pub const FLOWS: usize = (PAGE - FLOWS_AT) / size_of::<Flow>();
/// Offset of the first [`Flow`] of a page.
pub const FLOWS_AT: usize = 64;

entry! {
    /// One frame of the calling-context tree. A stack is named by its innermost node; `parent` leads
    /// outwards. Valid once `pc` is not zero (it is stored last).
    Node / NodeValue {
        /// Bits 0–47: the return address (absolute); bits 48–63: [`node`] flags.
        pc: AtomicU64 u64,
        /// The caller's node; 0 at the outermost frame kept.
        parent: AtomicU32 u32,
        /// Link of the recorder's own index; no meaning to a reader.
        link: AtomicU32 u32,
    }
}

/// Flags of [`Node::pc`], only on the outermost frame kept, except for `DEAD`.
pub mod node {
    /// Bits that hold the address.
    pub const PC_MASK: u64 = (1 << 48) - 1;
    /// The stack goes on, but could not be followed from here ("cut").
    pub const CUT: u64 = 1 << 48;
    /// The stack goes on; the depth limit was reached.
    pub const DEEP: u64 = 1 << 49;
    /// The stack ends here in a signal frame, not followed further.
    pub const SIGNAL: u64 = 1 << 50;
    /// The module behind the address was unloaded; a newer node may have the same address.
    pub const DEAD: u64 = 1 << 51;
}

entry! {
    /// A set of counters with one writer: a live thread's, or the sum over the ended threads of a
    /// role. 256 bytes, so that two threads never share a cache line.
    #[repr(align(256))]
    Bank / BankValue {
        /// One of [`bank`]; 0 while unused.
        state: AtomicU32 u32,
        /// Role id (see [`crate::records`]) that all counts of this bank belong to.
        role: AtomicU32 u32,
        /// Kernel thread id of the live thread; 0 in an archive.
        tid: AtomicU32 u32,
        /// Sites handed out (slots, including slot 0 of each page).
        sites: AtomicU32 u32,
        /// Flows handed out.
        flows: AtomicU32 u32,
        /// Unused, zero.
        reserved: AtomicU32 u32,
        /// Frees (not of NULL) of blocks with no recorded allocation.
        unknown_frees: AtomicU64 u64,
        /// Calls from inside the recorder or from inside another hooked call, passed through.
        reentrant: AtomicU64 u64,
        /// Allocations that could not be recorded (address outside the tracked range, no memory for
        /// tables).
        untracked: AtomicU64 u64,
        /// Events whose site or flow had no room in the file.
        lost: AtomicU64 u64,
        /// Events after the thread's exit hook had run (recorded all the same, more slowly).
        late: AtomicU64 u64,
        /// Allocation calls that failed.
        failed: AtomicU64 u64,
        /// Bytes of `lost` allocations, and their count in `lost_allocs`.
        lost_bytes: AtomicU64 u64,
        /// Part of `lost` that were allocations.
        lost_allocs: AtomicU64 u64,
        /// Part of `lost` that were remote frees.
        lost_remote: AtomicU64 u64,
    }
}

/// Values of [`Bank::state`].
pub mod bank {
    /// Belongs to a live thread (or to one that was alive when the program was killed).
    pub const LIVE: u32 = 1;
    /// Its thread ended and its counts were moved to the archive of its role; all counts are zero.
    pub const IDLE: u32 = 2;
    /// Sum over the ended threads of a role.
    pub const ARCHIVE: u32 = 3;
}

entry! {
    /// Counts of one allocation site (one whole stack) in one bank. 64 bytes: one cache line, all that
    /// a home free touches.
    ///
    /// With sampling, counts and bytes are estimates (already weighted), `samples_*` are the numbers
    /// of sampled events behind them, and `var_*` (IEEE double bits) the estimated variance of the
    /// counts.
    Site / SiteValue {
        /// Innermost node of the allocating stack; 0 while unused.
        node: AtomicU32 u32,
        /// Unused, zero.
        flags: AtomicU32 u32,
        /// Allocations.
        allocs: AtomicU64 u64,
        /// Bytes requested by them.
        bytes: AtomicU64 u64,
        /// Frees of this site's blocks by the allocating thread.
        home_frees: AtomicU64 u64,
        /// Bytes of those.
        home_bytes: AtomicU64 u64,
        /// Variance of `allocs`, double bits.
        var_allocs: AtomicU64 u64,
        /// Variance of `home_frees`, double bits.
        var_home: AtomicU64 u64,
        /// Sampled allocations.
        samples_allocs: AtomicU32 u32,
        /// Sampled home frees.
        samples_home: AtomicU32 u32,
    }
}

entry! {
    /// Fixed part of a flow; the histograms follow it, see [`Flow`].
    FlowHead / FlowHeadValue {
        /// Innermost node of the allocating stack; 0 while unused (stored last).
        alloc_node: AtomicU32 u32,
        /// Innermost node of the freeing stack.
        free_node: AtomicU32 u32,
        /// Role of the allocating thread at the time of the free.
        alloc_role: AtomicU32 u32,
        /// [`flow`] flags.
        flags: AtomicU32 u32,
        /// Frees.
        count: AtomicU64 u64,
        /// Bytes freed (as requested at the allocation).
        bytes: AtomicU64 u64,
        /// Variance of `count`, double bits (sampling only).
        var: AtomicU64 u64,
        /// Sampled frees (sampling only).
        samples: AtomicU64 u64,
        /// Sum of the lifetimes that were measured, each times the number of blocks it stands for, ticks.
        /// (A site's first blocks are all measured, then some, drawn at random: divide by the sum of the
        /// lifetime histogram, which is near `count`, not by `count` itself.)
        life_ticks: AtomicU64 u64,
        /// Unused, zero.
        reserved: AtomicU64 u64,
    }
}

/// Flags of [`FlowHead::flags`].
pub mod flow {
    /// A free on the allocating thread (recorded with `--free-stacks all` only).
    pub const HOME: u32 = 1;
}

/// Frees of one (allocation site, allocating role, free site) by one bank's thread. 448 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct Flow {
    /// Key and sums.
    pub head: FlowHead,
    /// Lifetime histogram of the measured ones, see [`crate::life_bucket`].
    pub life: [AtomicU32; LIFE_BUCKETS],
    /// Size histogram of the same ones, see [`crate::size_bucket`].
    pub size: [AtomicU32; SIZE_BUCKETS],
}

/// [`Flow`] as plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowValue {
    /// Key and sums.
    pub head: FlowHeadValue,
    /// Lifetime histogram.
    pub life: [u32; LIFE_BUCKETS],
    /// Size histogram.
    pub size: [u32; SIZE_BUCKETS],
}

impl FlowValue {
    /// Decodes an entry from the start of `bytes`; `None` where it is too short.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..size_of::<Flow>())?;
        let head = FlowHeadValue::decode(bytes)?;
        let word = |at: usize| {
            let at = at * 4;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let life_at = core::mem::offset_of!(Flow, life) / 4;
        let size_at = core::mem::offset_of!(Flow, size) / 4;
        Some(Self {
            head,
            life: core::array::from_fn(|i| word(life_at + i)),
            size: core::array::from_fn(|i| word(size_at + i)),
        })
    }
}

/// Whether a page only holds counters that are all zero: of threads that ended, whose counts went to
/// their role. Such a page may be left out of a copy (with [`Header::pages`] one less).
pub fn counts_nothing(page: &[u8]) -> bool {
    let Some(head) = PageHeadValue::decode(page).filter(|head| head.magic == PAGE_MAGIC) else {
        return false;
    };
    let entries = |at: usize, size: usize| page.get(at..).unwrap_or(&[]).chunks_exact(size);
    match head.kind {
        kind::SITES => entries(size_of::<Site>(), size_of::<Site>())
            .filter_map(SiteValue::decode)
            .all(|site| site.allocs == 0 && site.home_frees == 0),
        kind::FLOWS => entries(FLOWS_AT, size_of::<Flow>())
            .filter_map(FlowHeadValue::decode)
            .all(|flow| flow.count == 0),
        _ => false,
    }
}

const _: () = {
    assert!(size_of::<Header>() <= PAGE);
    assert!(size_of::<PageHead>() == 16);
    assert!(size_of::<Node>() == 16 && NODES == 256);
    assert!(size_of::<Bank>() == 256 && BANKS == 16);
    assert!(size_of::<Site>() == 64 && SITES == 64);
    assert!(size_of::<FlowHead>() == 64);
    assert!(size_of::<Flow>() == 448 && FLOWS == 9);
};
