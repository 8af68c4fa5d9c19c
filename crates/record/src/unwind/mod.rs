//! Stacks: from a call's registers to a node of the calling-context tree.
//!
//! Each frame is left by a compact rule for its address (see [`rules`]), found once from the module's
//! call-frame information and cached. What makes it cheap is the thread's last stack: the outer frames
//! of two stacks taken one after the other are mostly the same frames. A frame is known to be the same
//! as before by its address and stack pointer (and its frame pointer, where a rule further out depends
//! on it); its caller is the same if the slots that the rule reads still hold what they held; and so on
//! outwards. That induction makes the reuse exact, not a guess, and turns a chain of dependent loads
//! into comparisons that do not depend on each other.
//!
//! Reads are confined to the thread's stack ([`stack`]). On other stacks (coroutines, signal stacks)
//! nothing is reused: they may have been unmapped meanwhile.

mod cfi;
mod checks;
pub(crate) mod rules;
mod stack;

use crate::config::MAX_DEPTH;
use crate::nodes;
use checks::Checks;
use homefree_wire::{node, stacks};
pub(crate) use rules::forget as forget_rules;
use rules::{Ending, SAME, Slot, UNKNOWN};
pub(crate) use stack::Bounds;

/// Registers of a call: the frame that called, as it is right after the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Return address.
    pub pc: usize,
    /// Stack pointer after the return.
    pub sp: usize,
    /// `rbp` (the frame pointer, where the caller keeps one).
    pub fp: usize,
}

/// A frame of the last stack.
#[derive(Clone, Copy)]
struct Frame {
    regs: Registers,
    node: u32,
    /// The first so many checks vouch for all callers; [`NEVER`] if none can.
    checks: u16,
    /// A rule from here on outwards depends on this frame's `fp`.
    fp_matters: bool,
}

/// A frame found anew, and how it was left.
#[derive(Clone, Copy)]
struct Fresh {
    regs: Registers,
    slot: Slot,
    uses_fp: bool,
}

/// More checks than there are.
const NEVER: u16 = u16::MAX;

const CACHE: usize = 256;

#[derive(Clone, Copy)]
struct Cached {
    pc: u64,
    parent: u32,
    node: u32,
}

/// Frames lately interned, by the bits of a hash.
struct Cache([Cached; CACHE]);

/// A thread's stack-taking state.
pub(crate) struct Unwinder {
    len: usize,
    /// The last stack was cut by the depth limit.
    last_deep: bool,
    mode: u32,
    depth: usize,
    pub bounds: Bounds,
    checks: Checks,
    /// The last stack, outermost frame first.
    last: [Frame; MAX_DEPTH],
    /// Frames found anew, innermost first.
    fresh: [Fresh; MAX_DEPTH],
    cache: Cache,
}

impl Frame {
    /// Whether a frame with these registers is this one.
    #[inline(always)]
    fn is(&self, regs: Registers) -> bool {
        self.regs.pc == regs.pc
            && self.regs.sp == regs.sp
            && (!self.fp_matters || self.regs.fp == regs.fp)
    }
}

impl Unwinder {
    pub fn init(&mut self, mode: u32, depth: usize, bounds: Bounds) {
        self.mode = mode;
        self.depth = depth.clamp(1, MAX_DEPTH);
        self.bounds = bounds;
        self.forget();
    }

    /// Forgets addresses: a module may have gone.
    #[cold]
    pub fn forget(&mut self) {
        self.len = 0;
        self.last_deep = false;
        self.cache.0 = [Cached {
            pc: 0,
            parent: 0,
            node: 0,
        }; CACHE];
    }

    /// The node of the stack that starts at `regs`; 0 where no node was to be had.
    #[inline]
    pub fn take(&mut self, mut regs: Registers) -> u32 {
        if self.mode == stacks::NONE {
            return self.cache.intern(0, regs.pc as u64);
        }
        let foreign = self.bounds.own_high(regs.sp).is_none();
        let (high, mut seen, held) = self.reusable(regs.sp);
        let mut count = 0;
        // Flags of the outermost frame; `base` frames of the last stack stay.
        let (flags, base) = loop {
            while seen > 0 && self.last[seen - 1].regs.sp < regs.sp {
                seen -= 1;
            }
            if seen > 0 {
                let known = &self.last[seen - 1];
                if known.is(regs) && known.checks <= held && count + seen <= self.depth {
                    break (0, seen);
                }
            }
            if count == self.depth {
                break (node::DEEP, 0);
            }
            let fresh = &mut self.fresh[count];
            count += 1;
            fresh.regs = regs;
            match rules::step(self.mode, regs, high) {
                Ok(step) => {
                    fresh.slot = step.slot;
                    fresh.uses_fp = step.uses_fp;
                    regs = step.caller;
                }
                Err(ending) => {
                    fresh.slot = SAME;
                    fresh.uses_fp = false;
                    break (ending.flags(), 0);
                }
            }
        };
        if count == 0 {
            return self.last[base - 1].node;
        }
        if base == 0 {
            self.last_deep = flags == node::DEEP;
        }
        let node = self.replace(count, base, flags);
        if foreign {
            // Nothing of it may be looked at again: the stack may be unmapped by then.
            self.len = 0;
        }
        node
    }

    /// Where this stack ends, how many frames of the last one may be looked at, and how many of the
    /// checks, outermost first, hold.
    #[inline]
    fn reusable(&mut self, sp: usize) -> (usize, usize, u16) {
        let Some(high) = self.bounds.own_high(sp) else {
            return (self.bounds.foreign_high(sp), 0, 0);
        };
        if self.last_deep {
            return (high, 0, 0);
        }
        // Frames inside of the calling one have been left.
        let mut seen = self.len;
        while seen > 0 && self.last[seen - 1].regs.sp < sp {
            seen -= 1;
        }
        let wanted = match seen {
            0 => 0,
            _ => self.last[seen - 1].checks,
        };
        let wanted = if wanted == NEVER {
            2 * MAX_DEPTH as u16
        } else {
            wanted
        };
        (high, seen, self.checks.held(wanted))
    }

    /// Makes the `count` fresh frames on top of `base` old ones the last stack; returns its node.
    #[inline]
    fn replace(&mut self, count: usize, base: usize, mut flags: u64) -> u32 {
        const NONE: Frame = Frame {
            regs: Registers {
                pc: 0,
                sp: 0,
                fp: 0,
            },
            node: 0,
            checks: 0,
            fp_matters: false,
        };
        let mut caller = if base > 0 { self.last[base - 1] } else { NONE };
        self.checks.len = caller.checks;
        self.len = 0;
        let mut len = base;
        for fresh in self.fresh[..count].iter().rev() {
            let Fresh {
                regs,
                slot,
                uses_fp,
            } = *fresh;
            let pc = regs.pc as u64 & node::PC_MASK | flags;
            flags = 0;
            let node = self.cache.intern(caller.node, pc);
            if node == 0 {
                // No room for nodes: nothing to reuse.
                return 0;
            }
            let mut frame = Frame {
                regs,
                node,
                checks: 0,
                fp_matters: uses_fp,
            };
            if len > 0 {
                frame.fp_matters |= slot == SAME && caller.fp_matters;
                frame.checks = if slot == UNKNOWN || caller.checks == NEVER {
                    NEVER
                } else {
                    self.checks.add(slot, &caller)
                };
            }
            self.last[len] = frame;
            len += 1;
            caller = frame;
        }
        self.len = len;
        caller.node
    }
}

impl Cache {
    /// The node of a frame under `parent`; 0 where there is no room.
    #[inline(always)]
    fn intern(&mut self, parent: u32, pc: u64) -> u32 {
        let mixed = (pc ^ u64::from(parent) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let cached = &mut self.0[(mixed >> 56) as usize & (CACHE - 1)];
        if cached.pc != pc || cached.parent != parent || cached.node == 0 {
            *cached = Cached {
                pc,
                parent,
                node: nodes::intern(parent, pc),
            };
        }
        cached.node
    }
}

/// Start address of the function that a thread was started with: of the outermost frame that is not
/// libc's or the C++ runtime's. 0 where it can not be told.
pub(crate) fn start_function(mode: u32, regs: Registers, bounds: &Bounds) -> usize {
    // From another stack (a signal handler's) there is no way to the start.
    let Some(high) = bounds.own_high(regs.sp) else {
        return 0;
    };
    let mut regs = regs;
    let mut found = 0;
    for _ in 0..512 {
        match crate::modules::object(regs.pc) {
            Some(object) if !object.starts_threads() => found = regs.pc,
            _ => {}
        }
        match rules::step(mode, regs, high) {
            Ok(step) => regs = step.caller,
            Err(Ending::Complete) => return cfi::function_start(found).unwrap_or(found),
            Err(_) => return 0,
        }
    }
    0
}
