//! What vouches for the last stack: words of the stack that must be what they were.

use super::Registers;
use super::rules::Way;
use crate::config::MAX_DEPTH;

/// Two neighbouring words and which bits of them count.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Check {
    expected: [usize; 2],
    mask: [usize; 2],
    address: usize,
}

/// Checks of the last stack, outermost first.
pub(super) struct Checks {
    /// (A whole word: it is written and read back within a few instructions.)
    pub len: usize,
    list: [Check; 2 * MAX_DEPTH],
}

/// Checks that are looked at together, before the first branch.
const BLOCK: usize = 4;

impl Checks {
    /// Notes what must stay as it is for `caller` to be the caller of a frame that is as it was: the
    /// return address and, if it matters, the frame pointer, where it was saved. Returns how many checks
    /// there are now.
    #[inline(always)]
    pub fn add(&mut self, way: Way, caller: Registers, fp_matters: bool) -> u16 {
        // The return address, and the word below it, which mostly is the saved `fp`.
        let address = caller.sp - 16;
        let expected = [caller.fp, caller.pc];
        let saved = if fp_matters { way.slot() } else { 0 };
        let fp_mask = if saved == address { !0 } else { 0 };
        let Some(place) = self.list.get_mut(self.len) else {
            return super::NEVER;
        };
        *place = Check {
            expected,
            mask: [fp_mask, !0],
            address,
        };
        self.len += 1;
        if saved != 0 && saved != address {
            return self.add_slot(saved, expected);
        }
        self.len as u16
    }

    #[cold]
    fn add_slot(&mut self, address: usize, expected: [usize; 2]) -> u16 {
        let Some(place) = self.list.get_mut(self.len) else {
            return super::NEVER;
        };
        *place = Check {
            expected,
            mask: [!0, 0],
            address,
        };
        self.len += 1;
        self.len as u16
    }

    /// How many of the first `wanted` checks hold, up to the first that does not.
    #[inline(always)]
    pub fn held(&self, wanted: u16) -> u16 {
        let checks = &self.list[..usize::from(wanted).min(self.len)];
        let (blocks, rest) = checks.as_chunks::<BLOCK>();
        let mut held = 0;
        for block in blocks {
            if !all_hold(block) {
                return held + first_holding(block);
            }
            held += BLOCK as u16;
        }
        held + first_holding(rest)
    }
}

#[inline(always)]
fn first_holding(checks: &[Check]) -> u16 {
    let mut held = 0;
    for check in checks {
        if !all_hold(core::array::from_ref(check)) {
            break;
        }
        held += 1;
    }
    held
}

/// Whether all of these hold, without a branch between them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn all_hold<const N: usize>(checks: &[Check; N]) -> bool {
    use core::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86-64. The words lay inside the thread's own stack, at or above its stack
    // pointer now, when the last stack was taken there; no part of that is unmapped while the thread
    // runs on it.
    unsafe {
        let mut differences = _mm_setzero_si128();
        for check in checks {
            let words = _mm_loadu_si128(check.address as *const __m128i);
            let expected = _mm_load_si128(check.expected.as_ptr().cast());
            let mask = _mm_load_si128(check.mask.as_ptr().cast());
            let differs = _mm_and_si128(_mm_xor_si128(words, expected), mask);
            differences = _mm_or_si128(differences, differs);
        }
        _mm_movemask_epi8(_mm_cmpeq_epi8(differences, _mm_setzero_si128())) == 0xffff
    }
}

/// Whether all of these hold, without a branch between them.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn all_hold<const N: usize>(checks: &[Check; N]) -> bool {
    let differences = checks.iter().fold(0, |sum, c| {
        // SAFETY: the words lay inside the thread's own stack, at or above its stack pointer now, when
        // the last stack was taken there; no part of that is unmapped while the thread runs on it.
        let words = unsafe { (c.address as *const [usize; 2]).read() };
        let differs = |i: usize| (words[i] ^ c.expected[i]) & c.mask[i];
        sum | differs(0) | differs(1)
    });
    differences == 0
}
