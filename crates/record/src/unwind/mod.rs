//! Stacks: from a call's registers to a node of the calling-context tree.
//!
//! Each frame is left by a compact rule for its address (see [`rules`]), found once from the module's
//! call-frame information and cached. What makes it cheap is the thread's last stack: the outer frames
//! of two stacks taken one after the other are mostly the same frames. A frame is known to be the same
//! as before by its address, stack pointer and frame pointer; its caller is the same if the two slots
//! that the rule reads still hold what they held; and so on outwards. That induction makes the reuse
//! exact, not a guess, and turns a chain of dependent loads into independent ones.
//!
//! Reads are confined to the thread's stack ([`stack`]).

mod cfi;
pub(crate) mod rules;
mod stack;

use crate::config::MAX_DEPTH;
use crate::nodes;
use homefree_wire::{node, stacks};
pub(crate) use rules::forget as forget_rules;
use rules::{Ending, Step};
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
    /// Where the caller's `fp` was read; 0 where it is `regs.fp` itself, 1 where the frame can not be
    /// reused from here on.
    fp_slot: usize,
    node: u32,
}

const SAME_FP: usize = 0;
const NO_REUSE: usize = 1;

const CACHE: usize = 256;

#[derive(Clone, Copy)]
struct Cached {
    pc: u64,
    parent: u32,
    node: u32,
}

/// A thread's stack-taking state.
pub(crate) struct Unwinder {
    /// The last stack: `last[top..]`, innermost first.
    last: [Frame; MAX_DEPTH],
    top: usize,
    /// The last stack was cut by the depth limit.
    last_deep: bool,
    fresh: [Frame; MAX_DEPTH],
    cache: [Cached; CACHE],
    pub bounds: Bounds,
    depth: usize,
    mode: u32,
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
        self.top = MAX_DEPTH;
        self.last_deep = false;
        self.cache = [Cached {
            pc: 0,
            parent: 0,
            node: 0,
        }; CACHE];
    }

    /// The node of the stack that starts at `regs`; 0 where no node was to be had.
    #[inline]
    pub fn take(&mut self, regs: Registers) -> u32 {
        if self.mode == stacks::NONE {
            return self.intern(0, regs.pc as u64);
        }
        // The commonest case: the same call on the same stack.
        if let Some(first) = self.last.get(self.top)
            && first.regs == regs
            && !self.last_deep
            && self.verified(self.top) == MAX_DEPTH
        {
            return first.node;
        }
        self.walk(regs)
    }

    /// Checks, from the frame at `from` outwards, that each caller is what it was. Returns the index of
    /// the first frame that is not known to be, `MAX_DEPTH` if all are.
    #[inline]
    fn verified(&self, from: usize) -> usize {
        let mut at = from;
        while at + 1 < MAX_DEPTH {
            let (frame, caller) = (&self.last[at], &self.last[at + 1]);
            if frame.fp_slot == NO_REUSE {
                return at + 1;
            }
            let fp = if frame.fp_slot == SAME_FP {
                frame.regs.fp
            } else {
                // SAFETY: the slot was inside the stack when this chain was walked. All frames inside of
                // it have just been found unchanged, so it is the slot that a walk would read now.
                unsafe { *(frame.fp_slot as *const usize) }
            };
            // SAFETY: as above, for the return address.
            let pc = unsafe { *((caller.regs.sp - 8) as *const usize) };
            if pc != caller.regs.pc || fp != caller.regs.fp {
                return at + 1;
            }
            at += 1;
        }
        MAX_DEPTH
    }

    #[inline(never)]
    fn walk(&mut self, regs: Registers) -> u32 {
        let high = self.bounds.high(regs.sp);
        let mut regs = regs;
        let mut count = 0;
        let mut seen = self.top;
        // Flags of the outermost frame; `base` is where the reused part of the last stack starts.
        let (flags, base) = 'walk: loop {
            while seen < MAX_DEPTH && self.last[seen].regs.sp < regs.sp {
                seen += 1;
            }
            if seen < MAX_DEPTH && self.last[seen].regs == regs {
                let end = self.verified(seen);
                let total = count + MAX_DEPTH - seen;
                let whole = end == MAX_DEPTH
                    && if self.last_deep {
                        total == self.depth
                    } else {
                        total <= self.depth
                    };
                if whole {
                    break 'walk (0, seen);
                }
                // The frames up to `end` are as they were; their callers, or how far to go, are not.
                let end = end.max(seen + 1);
                while seen < end && count < self.depth {
                    self.fresh[count] = self.last[seen];
                    count += 1;
                    seen += 1;
                }
                regs = self.fresh[count - 1].regs;
            } else {
                self.fresh[count] = Frame {
                    regs,
                    fp_slot: NO_REUSE,
                    node: 0,
                };
                count += 1;
            }
            match rules::step(self.mode, regs, high) {
                Ok(Step { caller, fp_slot }) => {
                    self.fresh[count - 1].fp_slot = fp_slot;
                    if count == self.depth {
                        break 'walk (node::DEEP, MAX_DEPTH);
                    }
                    regs = caller;
                }
                Err(Ending::Complete) => break 'walk (0, MAX_DEPTH),
                Err(Ending::Cut) => break 'walk (node::CUT, MAX_DEPTH),
                Err(Ending::Signal) => break 'walk (node::SIGNAL, MAX_DEPTH),
            }
        };
        if base == MAX_DEPTH {
            self.last_deep = flags == node::DEEP;
        }
        let mut parent = self.last.get(base).map_or(0, |f| f.node);
        for at in (0..count).rev() {
            let outermost = at == count - 1 && base == MAX_DEPTH;
            let pc = self.fresh[at].regs.pc as u64 & node::PC_MASK;
            parent = self.intern(parent, pc | if outermost { flags } else { 0 });
            self.fresh[at].node = parent;
            if parent == 0 {
                // No room for nodes: nothing to reuse.
                self.top = MAX_DEPTH;
                return 0;
            }
        }
        self.top = base - count;
        self.last[self.top..base].copy_from_slice(&self.fresh[..count]);
        parent
    }

    #[inline]
    fn intern(&mut self, parent: u32, pc: u64) -> u32 {
        let mixed = (pc ^ u64::from(parent) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let cached = &mut self.cache[(mixed >> 56) as usize & (CACHE - 1)];
        if cached.pc == pc && cached.parent == parent && cached.node != 0 {
            return cached.node;
        }
        let node = nodes::intern(parent, pc);
        *cached = Cached { pc, parent, node };
        node
    }
}

/// Start address of the function that a thread was started with: of the outermost frame that is not
/// libc's or the C++ runtime's. 0 where it can not be told.
pub(crate) fn start_function(mode: u32, regs: Registers, bounds: &mut Bounds) -> usize {
    let high = bounds.high(regs.sp);
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
