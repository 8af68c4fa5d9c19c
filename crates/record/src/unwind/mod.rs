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
use rules::{Ending, Way};
pub(crate) use stack::Bounds;
use stack::FOREIGN_PAGES;

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

/// A frame of the last stack. 32 bytes.
#[derive(Clone, Copy)]
struct Frame {
    regs: Registers,
    node: u32,
    /// The first so many checks vouch for all callers; [`NEVER`] if none can.
    checks: u16,
    /// A rule from here on outwards depends on this frame's `fp`.
    fp_matters: bool,
}

/// Frames found anew, innermost first, and how they were left. Apart by field: they are read back right
/// after they were written, one word at a time, which the processor forwards only if it is not asked for
/// two words at once.
struct Fresh {
    pc: [usize; MAX_DEPTH],
    sp: [usize; MAX_DEPTH],
    fp: [usize; MAX_DEPTH],
    way: [Way; MAX_DEPTH],
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
    fresh: Fresh,
    cache: Cache,
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
    pub fn take(&mut self, regs: Registers) -> u32 {
        match self.mode {
            stacks::NONE => self.cache.intern(0, regs.pc as u64),
            stacks::FP => self.walk::<true>(regs),
            _ => self.walk::<false>(regs),
        }
    }

    fn walk<const BY_FP: bool>(&mut self, start: Registers) -> u32 {
        let Registers {
            mut pc,
            mut sp,
            mut fp,
        } = start;
        let own = self.bounds.own_high(sp);
        let mut high = match own {
            Some(high) => high,
            None => self.bounds.foreign_high(sp, FOREIGN_PAGES[0]),
        };
        // Frames of the last stack that may be looked at: on the thread's own stack, outside of this
        // call's frame (those inside have been left), and not cut by the depth limit.
        let mut seen = if own.is_none() || self.last_deep {
            0
        } else {
            self.len
        };
        seen = self.outside(seen, sp);
        let held = match seen {
            0 => 0,
            _ => self.checks.held(self.last[seen - 1].checks),
        };
        let mut count = 0;
        let mut far = false;
        // Flags of the outermost frame; `base` frames of the last stack stay.
        let (flags, base) = loop {
            if seen > 0 {
                let known = &self.last[seen - 1];
                let same = known.regs.pc == pc
                    && known.regs.sp == sp
                    && (!known.fp_matters || known.regs.fp == fp);
                if same && known.checks <= held && count + seen <= self.depth {
                    break (0, seen);
                }
            }
            if count >= self.depth {
                break (node::DEEP, 0);
            }
            self.fresh.pc[count] = pc;
            self.fresh.sp[count] = sp;
            self.fresh.fp[count] = fp;
            count += 1;
            match rules::step::<BY_FP>(self.mode, Registers { pc, sp, fp }, high) {
                Ok(step) => {
                    self.fresh.way[count - 1] = step.way;
                    (pc, sp, fp) = (step.caller.pc, step.caller.sp, step.caller.fp);
                }
                Err((Ending::Cut, _)) if own.is_none() && !far => {
                    // Once more, further up.
                    far = true;
                    high = self.bounds.foreign_high(start.sp, FOREIGN_PAGES[1]);
                    Registers { pc, sp, fp } = start;
                    count = 0;
                    continue;
                }
                Err((ending, way)) => {
                    self.fresh.way[count - 1] = way;
                    break (ending.flags(), 0);
                }
            }
            seen = self.outside(seen, sp);
        };
        if count == 0 {
            return self.last[base - 1].node;
        }
        if base == 0 {
            self.last_deep = flags == node::DEEP;
        }
        let node = self.replace(count, base, flags);
        if own.is_none() {
            // Nothing of it may be looked at again: the stack may be unmapped by then.
            self.len = 0;
        }
        node
    }

    /// Of the first `seen` frames of the last stack, those whose stack pointer is not below `sp`.
    #[inline(always)]
    fn outside(&self, mut seen: usize, sp: usize) -> usize {
        while seen > 0 && self.last[seen - 1].regs.sp < sp {
            seen -= 1;
        }
        seen
    }

    /// Makes the `count` fresh frames on top of `base` old ones the last stack; returns its node.
    #[inline]
    fn replace(&mut self, count: usize, base: usize, mut flags: u64) -> u32 {
        let (mut caller, mut checks, mut fp_matters) = (0, 0, false);
        let mut callers_regs = Registers {
            pc: 0,
            sp: 0,
            fp: 0,
        };
        if base > 0 {
            let kept = &self.last[base - 1];
            (caller, checks, fp_matters) = (kept.node, kept.checks, kept.fp_matters);
            callers_regs = Registers {
                pc: kept.regs.pc,
                sp: kept.regs.sp,
                fp: kept.regs.fp,
            };
        }
        // The outermost kept frame is vouched for, so this is no [`NEVER`].
        self.checks.len = usize::from(checks);
        self.len = 0;
        let mut len = base;
        for at in (0..count.min(MAX_DEPTH)).rev() {
            let (pc, sp, fp, way) = (
                self.fresh.pc[at],
                self.fresh.sp[at],
                self.fresh.fp[at],
                self.fresh.way[at],
            );
            let node = self.cache.intern(caller, pc as u64 & node::PC_MASK | flags);
            flags = 0;
            if node == 0 {
                // No room for nodes: nothing to reuse.
                return 0;
            }
            if caller == 0 {
                // How the stack ended may depend on more than this frame's registers.
                checks = if way.is_unknown() { NEVER } else { 0 };
            } else {
                checks = if way.is_unknown() || checks == NEVER {
                    NEVER
                } else {
                    self.checks.add(way, callers_regs, fp_matters)
                };
            }
            fp_matters = way.uses_fp() || way.keeps_fp() && fp_matters;
            let Some(frame) = self.last.get_mut(len) else {
                return 0;
            };
            callers_regs = Registers { pc, sp, fp };
            *frame = Frame {
                regs: callers_regs,
                node,
                checks,
                fp_matters,
            };
            caller = node;
            len += 1;
        }
        self.len = len;
        caller
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
        let step = if mode == stacks::FP {
            rules::step::<true>(mode, regs, high)
        } else {
            rules::step::<false>(mode, regs, high)
        };
        match step {
            Ok(step) => regs = step.caller,
            Err((Ending::Complete, _)) => return cfi::function_start(found).unwrap_or(found),
            Err(_) => return 0,
        }
    }
    0
}
