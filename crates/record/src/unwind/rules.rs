//! Unwind rules in 16 bits, cached by address for all threads.
//!
//! An entry of the cache is one word: 48 bits of address, 16 bits of rule, so it is read and replaced
//! whole, without a lock. Rules that need more bits live in a small table of their own.

use super::{Registers, cfi};
use crate::modules;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use homefree_thread::{Lock, sys};
use homefree_wire::{node, stacks};

/// How a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// At the thread's first frame.
    Complete,
    /// It could not be followed further.
    Cut,
    /// In a signal frame.
    Signal,
}

impl Ending {
    /// The flags of the outermost node.
    pub fn flags(self) -> u64 {
        match self {
            Ending::Complete => 0,
            Ending::Cut => node::CUT,
            Ending::Signal => node::SIGNAL,
        }
    }
}

/// Endings, with what they depend on. What is cut may go on the next time: never reused.
const COMPLETE: (Ending, Way) = (Ending::Complete, Way::SAME_FP);
const COMPLETE_BY_FP: (Ending, Way) = (Ending::Complete, Way::SAME_FP.using_fp());
const SIGNAL: (Ending, Way) = (Ending::Signal, Way::SAME_FP);
const CUT: (Ending, Way) = (Ending::Cut, Way::SAME_FP.unknown());

/// From a frame to its caller.
pub(crate) struct Step {
    pub caller: Registers,
    pub way: Way,
}

/// How a frame was left, in one word: where the caller's `fp` was read (an address, or 0 if it is the
/// frame's own), and two flags in the bits that are 0 in such an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way(usize);

impl Way {
    /// Nothing but the return address was read.
    pub const SAME_FP: Self = Self(0);
    const UNKNOWN: usize = 1;
    const USES_FP: usize = 2;

    /// `fp` was read at `slot`.
    const fn at(slot: usize) -> Self {
        Self(slot)
    }
    /// The frame address was computed from `fp`.
    const fn using_fp(self) -> Self {
        Self(self.0 | Self::USES_FP)
    }
    /// More was read than `fp` and the return address: the frame can not be reused.
    const fn unknown(self) -> Self {
        Self(self.0 | Self::UNKNOWN)
    }
    /// Where `fp` was read; 0 where it was not.
    #[inline(always)]
    pub const fn slot(self) -> usize {
        self.0 & !7
    }
    #[inline(always)]
    pub const fn is_unknown(self) -> bool {
        self.0 & Self::UNKNOWN != 0
    }
    #[inline(always)]
    pub const fn uses_fp(self) -> bool {
        self.0 & Self::USES_FP != 0
    }
    #[inline(always)]
    pub const fn keeps_fp(self) -> bool {
        self.slot() == 0
    }
}

/// A rule as call-frame information states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Frame {
        /// The frame address is relative to `fp` (else to `sp`).
        from_fp: bool,
        /// The frame address is what lies there (realigned stacks).
        deref: bool,
        offset: i32,
        fp: Fp,
    },
    End(Ending),
    /// No information: try the frame pointer.
    TryFp,
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fp {
    Same,
    /// Relative to the frame address.
    At(i32),
    /// Relative to `fp`.
    FromFrame(i32),
}

/// `cfa = sp + 8 * (low 9 bits)`, `fp` same (bits 9–14 zero) or at `cfa - 8 * (bits 9–14 + 1)`.
const KIND_SP: u16 = 0;
/// `cfa = fp + 16`, `fp` at `cfa - 16`: what frame pointers are.
const FRAME_POINTER: u16 = 1 << 15;
/// Low 13 bits: index into [`LARGE`].
const KIND_LARGE: u16 = 1 << 15 | 1 << 13;
const KIND_END: u16 = 1 << 15 | 2 << 13;
const END_COMPLETE: u16 = KIND_END;
const END_CUT: u16 = KIND_END | 1;
const END_SIGNAL: u16 = KIND_END | 2;
const TRY_FP: u16 = KIND_END | 3;
const KIND_MASK: u16 = 3 << 13 | 1 << 15;

const ENTRIES: usize = 1 << 14;
static CACHE: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];

const LARGE_MAX: usize = 1 << 13;
static LARGE: [AtomicU64; LARGE_MAX] = [const { AtomicU64::new(0) }; LARGE_MAX];
static LARGE_LEN: Lock<usize> = Lock::new(0);

fn encode(row: Row) -> Option<u16> {
    Some(match row {
        Row::End(Ending::Complete) => END_COMPLETE,
        Row::End(Ending::Cut) => END_CUT,
        Row::End(Ending::Signal) => END_SIGNAL,
        Row::TryFp => TRY_FP,
        Row::Frame {
            from_fp: true,
            deref: false,
            offset: 16,
            fp: Fp::At(-16),
        } => FRAME_POINTER,
        Row::Frame {
            from_fp: false,
            deref: false,
            offset,
            fp,
        } if offset % 8 == 0 && (8..512 * 8).contains(&offset) => {
            let words = (offset / 8) as u16;
            match fp {
                Fp::Same => KIND_SP | words,
                // Inside the frame.
                Fp::At(at) if at % 8 == 0 && (-64 * 8..=-16).contains(&at) && -at <= offset => {
                    KIND_SP | words | ((-at / 8 - 1) as u16) << 9
                }
                _ => return encode_large(row),
            }
        }
        Row::Frame { .. } => return encode_large(row),
    })
}

const OFFSET_BITS: u32 = 28;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

fn encode_large(row: Row) -> Option<u16> {
    let Row::Frame {
        from_fp,
        deref,
        offset,
        fp,
    } = row
    else {
        return None;
    };
    let (kind, at) = match fp {
        Fp::Same => (0, 0),
        Fp::At(at) => (1, at),
        Fp::FromFrame(at) => (2, at),
    };
    let fits = |x: i32| (-(1 << (OFFSET_BITS - 1))..1 << (OFFSET_BITS - 1)).contains(&x);
    if !fits(offset) || !fits(at) {
        return None;
    }
    let word = 1 << 63
        | u64::from(from_fp) << 62
        | u64::from(deref) << 61
        | kind << 59
        | (offset as u64 & OFFSET_MASK) << OFFSET_BITS
        | at as u64 & OFFSET_MASK;
    let mut len = LARGE_LEN.lock();
    let at = LARGE[..*len]
        .iter()
        .position(|w| w.load(Ordering::Relaxed) == word);
    let at = at.or_else(|| {
        LARGE.get(*len)?.store(word, Ordering::Release);
        *len += 1;
        Some(*len - 1)
    })?;
    Some(KIND_LARGE | at as u16)
}

fn decode_large(rule: u16) -> Row {
    let word = LARGE[(rule & !KIND_MASK) as usize].load(Ordering::Acquire);
    let signed = |bits: u64| ((bits << (64 - OFFSET_BITS)) as i64 >> (64 - OFFSET_BITS)) as i32;
    let at = signed(word);
    Row::Frame {
        from_fp: word >> 62 & 1 == 1,
        deref: word >> 61 & 1 == 1,
        offset: signed(word >> OFFSET_BITS),
        fp: match word >> 59 & 3 {
            0 => Fp::Same,
            1 => Fp::At(at),
            _ => Fp::FromFrame(at),
        },
    }
}

#[inline(always)]
fn place(pc: usize) -> &'static AtomicU64 {
    let mixed = (pc as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &CACHE[(mixed >> 50) as usize & (ENTRIES - 1)]
}

#[inline(always)]
fn rule(mode: u32, pc: usize) -> u16 {
    let entry = place(pc).load(Ordering::Relaxed);
    if entry >> 16 == pc as u64 {
        entry as u16
    } else {
        find_rule(mode, pc)
    }
}

#[cold]
#[inline(never)]
fn find_rule(mode: u32, pc: usize) -> u16 {
    let row = match modules::ensure(pc) {
        None if executable(pc) => Row::TryFp,
        None => return END_CUT,
        Some(_) if mode == stacks::FP => Row::TryFp,
        Some(object) => cfi::row(&object, pc).unwrap_or(Row::TryFp),
    };
    let row = if row == Row::TryFp && mode == stacks::DWARF {
        Row::End(Ending::Cut)
    } else {
        row
    };
    let rule = encode(row).unwrap_or(END_CUT);
    if pc as u64 >> 48 == 0 {
        place(pc).store((pc as u64) << 16 | u64::from(rule), Ordering::Relaxed);
    }
    rule
}

/// Forgets all cached rules.
pub(crate) fn forget() {
    for entry in &CACHE {
        entry.store(0, Ordering::Relaxed);
    }
}

/// Opens the locks in fork's child.
///
/// # Safety
/// No other thread exists and the caller holds no guard.
pub(crate) unsafe fn after_fork() {
    // SAFETY: the caller's promise. An entry is stored before the length that covers it.
    unsafe { LARGE_LEN.force_open() };
    // SAFETY: as above.
    unsafe { cfi::after_fork() };
    // SAFETY: as above. The list is read again at the next miss.
    unsafe { READING.force_open() };
}

/// The frame's caller. Nothing is read outside `regs.sp..high`.
#[inline(always)]
pub(crate) fn step<const BY_FP: bool>(
    mode: u32,
    regs: Registers,
    high: usize,
) -> Result<Step, (Ending, Way)> {
    if BY_FP {
        return match by_frame_pointer(regs, high) {
            // The outermost frame's caller has no address.
            Some(step) if step.caller.pc == 0 => Err(COMPLETE_BY_FP),
            // Where code keeps no frame pointers, what is found instead mostly leads to no code: without
            // this, each such stack would be a new one.
            Some(step) if rule(mode, step.caller.pc) != END_CUT => Ok(step),
            _ => Err(end_of_frame_pointers(regs)),
        };
    }
    let rule = rule(mode, regs.pc);
    if rule & 1 << 15 == 0 {
        return by_stack_pointer(rule, regs, high);
    }
    if rule == FRAME_POINTER {
        return by_frame_pointer(regs, high).ok_or(CUT);
    }
    other(rule, regs, high)
}

/// A rule of the kind [`KIND_SP`]. The stack pointer is a multiple of 8 and below `high`.
#[inline(always)]
fn by_stack_pointer(rule: u16, regs: Registers, high: usize) -> Result<Step, (Ending, Way)> {
    let words = (rule & 511) as usize;
    let cfa = regs.sp + words * 8;
    if cfa > high || words == 0 {
        // A return to 0 is how some stacks end. (It has no rule, which reads as one of no length.)
        return Err(if regs.pc == 0 { COMPLETE } else { CUT });
    }
    // SAFETY: the last word of `sp..cfa`, which is not empty and ends below `high`.
    let pc = unsafe { *((cfa - 8) as *const usize) };
    let saved = (rule >> 9) as usize;
    if saved == 0 {
        let caller = Registers {
            pc,
            sp: cfa,
            fp: regs.fp,
        };
        return Ok(Step {
            caller,
            way: Way::SAME_FP,
        });
    }
    let slot = cfa - (saved + 1) * 8;
    // SAFETY: in `sp..cfa` as well: `encode` makes no other rule.
    let fp = unsafe { *(slot as *const usize) };
    Ok(Step {
        caller: Registers { pc, sp: cfa, fp },
        way: Way::at(slot),
    })
}

/// How a chain of frame pointers ended: in the code that starts threads and `main`, which keeps none,
/// it is complete.
#[cold]
fn end_of_frame_pointers(regs: Registers) -> (Ending, Way) {
    let started = regs.fp == 0 || modules::object(regs.pc).is_some_and(|o| o.starts_threads());
    if started { COMPLETE_BY_FP } else { CUT }
}

/// Any other frame: its address and where `fp` is are checked first.
fn finish(regs: Registers, cfa: usize, way: Way, high: usize) -> Result<Step, (Ending, Way)> {
    if cfa <= regs.sp || cfa > high || !cfa.is_multiple_of(8) {
        return Err(CUT);
    }
    let mut fp = regs.fp;
    if !way.keeps_fp() {
        // In `sp..high`, of which the last word is the caller's.
        if way.slot().wrapping_sub(regs.sp) > high - 8 - regs.sp {
            return Err(CUT);
        }
        // SAFETY: inside the stack's readable part, aligned, checked above.
        fp = unsafe { *(way.slot() as *const usize) };
    }
    // SAFETY: `cfa - 8` is at least `sp` and below `high`, aligned: all checked above.
    let pc = unsafe { *((cfa - 8) as *const usize) };
    Ok(Step {
        caller: Registers { pc, sp: cfa, fp },
        way,
    })
}

#[inline(always)]
fn by_frame_pointer(regs: Registers, high: usize) -> Option<Step> {
    let fp = regs.fp;
    if fp < regs.sp || fp.checked_add(16)? > high || !fp.is_multiple_of(8) {
        return None;
    }
    // SAFETY: both words lie in `sp..high`, aligned, checked above.
    let (caller_fp, pc) = unsafe { (*(fp as *const usize), *((fp + 8) as *const usize)) };
    let caller = Registers {
        pc,
        sp: fp + 16,
        fp: caller_fp,
    };
    Some(Step {
        caller,
        way: Way::at(fp).using_fp(),
    })
}

#[cold]
#[inline(never)]
fn other(rule: u16, regs: Registers, high: usize) -> Result<Step, (Ending, Way)> {
    match rule {
        END_COMPLETE => return Err(COMPLETE),
        END_SIGNAL => return Err(SIGNAL),
        // The outermost frame's caller has none: the loader and `_start` see to that.
        TRY_FP if regs.fp == 0 => return Err(COMPLETE_BY_FP),
        TRY_FP => {
            let step = by_frame_pointer(regs, high).ok_or(CUT)?;
            // Without information a frame pointer is a guess: it must lead to code.
            let known = modules::object(step.caller.pc).is_some() || executable(step.caller.pc);
            return if known {
                Ok(Step {
                    way: step.way.unknown(),
                    ..step
                })
            } else {
                Err(CUT)
            };
        }
        _ if rule & KIND_MASK == KIND_LARGE => {}
        _ => return Err(CUT),
    }
    let Row::Frame {
        from_fp,
        deref,
        offset,
        fp,
    } = decode_large(rule)
    else {
        return Err(CUT);
    };
    let base = if from_fp { regs.fp } else { regs.sp };
    let mut cfa = base.wrapping_add_signed(offset as isize);
    if deref {
        if cfa < regs.sp
            || cfa.checked_add(8).is_none_or(|end| end > high)
            || !cfa.is_multiple_of(8)
        {
            return Err(CUT);
        }
        // SAFETY: inside the stack's readable part, aligned, checked above.
        cfa = unsafe { *(cfa as *const usize) };
    }
    let slot = match fp {
        Fp::Same => 0,
        Fp::At(at) => cfa.wrapping_add_signed(at as isize),
        Fp::FromFrame(at) => regs.fp.wrapping_add_signed(at as isize),
    };
    if !slot.is_multiple_of(8) {
        return Err(CUT);
    }
    let by_fp = from_fp || matches!(fp, Fp::FromFrame(_));
    let way = if by_fp {
        Way::at(slot).using_fp()
    } else {
        Way::at(slot)
    };
    // What `deref` read is not checked when the frame is met again.
    finish(regs, cfa, if deref { way.unknown() } else { way }, high)
}

/// Executable mappings that belong to no module: generated code.
const RANGES: usize = 64;
static STARTS: [AtomicUsize; RANGES] = [const { AtomicUsize::new(0) }; RANGES];
static ENDS: [AtomicUsize; RANGES] = [const { AtomicUsize::new(0) }; RANGES];
static RANGES_LEN: AtomicU32 = AtomicU32::new(0);
static READING: Lock<Reading> = Lock::new(Reading {
    last: 0,
    buffer: [0; 1024],
});

struct Reading {
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    last: u64,
    /// Not on the program's stack.
    buffer: [u8; 1024],
}

/// Whether an address that belongs to no module is in an executable mapping, as of a reading of
/// `/proc/self/maps` at most a tenth of a second ago for addresses not yet known.
fn executable(pc: usize) -> bool {
    let known = || {
        let len = (RANGES_LEN.load(Ordering::Acquire) as usize).min(RANGES);
        (0..len).any(|i| {
            (STARTS[i].load(Ordering::Relaxed)..ENDS[i].load(Ordering::Relaxed)).contains(&pc)
        })
    };
    if known() {
        return true;
    }
    if pc < 4096 || pc as u64 >> 47 != 0 {
        return false;
    }
    let Some(mut reading) = READING.try_lock() else {
        return false;
    };
    let now = sys::clock(libc::CLOCK_MONOTONIC_COARSE);
    if reading.last != 0 && now.saturating_sub(reading.last) < 100_000_000 {
        return false;
    }
    reading.last = now;
    read_maps(&mut reading.buffer);
    known()
}

fn read_maps(buffer: &mut [u8]) {
    let Ok(file) = sys::File::read_only(c"/proc/self/maps") else {
        return;
    };
    let mut line = [0u8; 64];
    let (mut at, mut count) = (0, 0);
    while let Ok(n @ 1..) = file.read(buffer) {
        for &byte in &buffer[..n] {
            if byte != b'\n' {
                if at < line.len() {
                    line[at] = byte;
                }
                at += 1;
                continue;
            }
            // "start-end rwxp offset dev inode path"
            // Modules are found by the loader's own means.
            if let Some((start, end)) = executable_line(&line[..at.min(line.len())])
                && count < RANGES
                && modules::object(start).is_none()
            {
                STARTS[count].store(start, Ordering::Relaxed);
                ENDS[count].store(end, Ordering::Relaxed);
                count += 1;
            }
            at = 0;
        }
    }
    RANGES_LEN.store(count as u32, Ordering::Release);
}

fn executable_line(line: &[u8]) -> Option<(usize, usize)> {
    let text = core::str::from_utf8(line).ok()?;
    let (range, rest) = text.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    if rest.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    Some((
        usize::from_str_radix(start, 16).ok()?,
        usize::from_str_radix(end, 16).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_encode_and_decode() {
        let large = |row| decode_large(encode(row).unwrap());
        for row in [
            Row::Frame {
                from_fp: true,
                deref: false,
                offset: 32,
                fp: Fp::At(-16),
            },
            Row::Frame {
                from_fp: false,
                deref: false,
                offset: 65536,
                fp: Fp::At(-24),
            },
            Row::Frame {
                from_fp: true,
                deref: true,
                offset: -8,
                fp: Fp::FromFrame(0),
            },
            Row::Frame {
                from_fp: false,
                deref: false,
                offset: 4096,
                fp: Fp::Same,
            },
        ] {
            assert_eq!(large(row), row);
        }
        assert_eq!(
            encode(Row::Frame {
                from_fp: true,
                deref: false,
                offset: 16,
                fp: Fp::At(-16)
            }),
            Some(FRAME_POINTER)
        );
        let huge = Row::Frame {
            from_fp: false,
            deref: false,
            offset: i32::MAX,
            fp: Fp::Same,
        };
        assert_eq!(encode(huge), None);
    }

    #[test]
    fn a_step_never_leaves_the_stack() {
        let stack = [0usize; 8];
        let low = stack.as_ptr() as usize;
        let high = low + size_of_val(&stack);
        for fp in [
            0,
            1,
            low - 16,
            low + 4,
            high - 8,
            high,
            usize::MAX - 8,
            usize::MAX - 16,
        ] {
            assert!(
                by_frame_pointer(Registers { pc: 1, sp: low, fp }, high).is_none(),
                "{fp:#x}"
            );
        }
        let regs = Registers {
            pc: 1,
            sp: low,
            fp: low,
        };
        assert!(by_frame_pointer(regs, high).is_some());
        let at = Way::at;
        for (cfa, way) in [
            (low, Way::SAME_FP),
            (high + 8, Way::SAME_FP),
            (low + 4, Way::SAME_FP),
            (high, at(high)),
            (high, at(low - 8)),
            (high, at(usize::MAX - 7)),
        ] {
            assert!(finish(regs, cfa, way, high).is_err());
        }
        assert!(finish(regs, high, at(low), high).is_ok());
        let words = size_of_val(&stack) as u16 / 8;
        assert!(by_stack_pointer(words, regs, high).is_ok());
        assert!(by_stack_pointer(words + 1, regs, high).is_err());
        assert!(by_stack_pointer(0, regs, high).is_err());
        // A rule whose saved `fp` lay outside its frame is not made a short one.
        let outside = Row::Frame {
            from_fp: false,
            deref: false,
            offset: 16,
            fp: Fp::At(-24),
        };
        assert_eq!(
            encode(outside).map(|rule| rule & KIND_MASK),
            Some(KIND_LARGE)
        );
        let inside = Row::Frame {
            from_fp: false,
            deref: false,
            offset: 16,
            fp: Fp::At(-16),
        };
        assert_eq!(encode(inside).map(|rule| rule & 1 << 15), Some(0));
    }

    #[test]
    fn maps_lines() {
        let line = b"7f00-7fff r-xp 00000000 00:00 0 ";
        assert_eq!(executable_line(line), Some((0x7f00, 0x7fff)));
        assert_eq!(executable_line(b"7f00-7fff rw-p 00000000 00:00 0 "), None);
        assert_eq!(executable_line(b"garbage"), None);
    }
}
