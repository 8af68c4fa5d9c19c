//! What vouches for the last stack: words of the stack that must be what they were.

use super::rules::SAME;
use super::{Frame, Slot};
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
    pub len: u16,
    list: [Check; 2 * MAX_DEPTH],
}

/// Checks that are looked at together, before the first branch.
const BLOCK: usize = 4;

impl Checks {
    /// Notes what must stay as it is for `caller` to be the caller of a frame that is as it was: the
    /// return address and, if it matters, the frame pointer, where it was saved. Returns how many checks
    /// there are now.
    #[inline]
    pub fn add(&mut self, slot: Slot, caller: &Frame) -> u16 {
        // The return address, and the word below it, which mostly is the saved `fp`.
        let address = caller.regs.sp - 16;
        let expected = [caller.regs.fp, caller.regs.pc];
        let elsewhere = caller.fp_matters && slot != SAME && slot != address;
        let saved_here = caller.fp_matters && slot == address;
        let mut add = |address, mask| {
            if let Some(place) = self.list.get_mut(self.len as usize) {
                *place = Check {
                    expected,
                    mask,
                    address,
                };
                self.len += 1;
            }
        };
        add(address, [if saved_here { !0 } else { 0 }, !0]);
        if elsewhere {
            add(slot, [!0, 0]);
        }
        self.len
    }

    /// How many of the first `wanted` checks hold, up to the first that does not.
    #[inline]
    pub fn held(&self, wanted: u16) -> u16 {
        let checks = &self.list[..wanted.min(self.len) as usize];
        let mut held = 0;
        for block in checks.chunks(BLOCK) {
            if !all_hold(block) {
                held += block
                    .iter()
                    .take_while(|c| all_hold(core::slice::from_ref(c)))
                    .count();
                break;
            }
            held += block.len();
        }
        held as u16
    }
}

/// Whether all of these hold, without a branch between them.
#[inline(always)]
fn all_hold(checks: &[Check]) -> bool {
    let differences = checks.iter().fold([0; 2], |sum: [usize; 2], c| {
        // SAFETY: the words lay inside the thread's own stack, at or above its stack pointer now, when
        // the last stack was taken; no part of that is unmapped while the thread runs on it.
        let words = unsafe { (c.address as *const [usize; 2]).read() };
        let differs = |i: usize| (words[i] ^ c.expected[i]) & c.mask[i];
        [sum[0] | differs(0), sum[1] | differs(1)]
    });
    differences[0] | differences[1] == 0
}
