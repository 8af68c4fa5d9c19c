//! Which part of memory may be read as stack.

use homefree_thread::sys;
use homefree_wire::PAGE;

/// Bounds of a thread's stacks: its own, and others that its code has switched to (coroutines, signal
/// stacks), found out page by page by asking the kernel.
pub(crate) struct Bounds {
    own: Range,
}

#[derive(Clone, Copy, Default)]
struct Range {
    low: usize,
    high: usize,
}

/// How far a foreign stack is explored at first, and then if that was not enough.
pub(crate) const FOREIGN_PAGES: [usize; 2] = [4, 64];
/// How far the thread's own stack is taken to go on below what is known of it.
const OWN_LIMIT: usize = 64 << 20;

impl Bounds {
    /// Bounds of the calling thread, which has `sp` as its stack pointer.
    ///
    /// Pthread is not asked (`pthread_getattr_np`): it allocates under the thread's lock, and this may
    /// be the call that it makes then. The main thread's end is the loader's; another thread's stack
    /// ends, with glibc and musl, in the thread control block.
    pub fn of_this_thread(sp: usize) -> Self {
        let main = sys::thread_id() == sys::process_id();
        let own = if main {
            main_stack()
        } else {
            Range {
                low: page_of(sp),
                high: page_of(sp) + PAGE,
            }
        };
        let mut bounds = Self { own };
        if main {
            // A main thread on a stack of its own making is treated like a coroutine.
            if !(own.low..own.high).contains(&sp) {
                bounds.own = Range::default();
            }
            return bounds;
        }
        let control_block = thread_pointer();
        let distance = control_block.wrapping_sub(sp);
        if distance < OWN_LIMIT && readable(bounds.own.high, page_of(control_block)) {
            bounds.own.high = control_block & !15;
        } else {
            bounds.own = Range::default();
        }
        bounds
    }

    /// The first address above the thread's own stack, if `sp` is on what is known of it.
    #[inline(always)]
    pub fn own_high(&self, sp: usize) -> Option<usize> {
        (sp >= self.own.low && sp < self.own.high).then_some(self.own.high)
    }

    /// The first address above `sp` that must not be read as this stack, where [`Bounds::own_high`] does
    /// not know it, at most `pages` pages up. Asked anew each time: such a stack may be unmapped, or its
    /// neighbour, and another one mapped in its place.
    #[cold]
    #[inline(never)]
    pub fn foreign_high(&mut self, sp: usize, pages: usize) -> usize {
        let low = page_of(sp);
        // Deeper than ever on the thread's own stack: nothing but stack lies between.
        if self.own.low.wrapping_sub(sp) < OWN_LIMIT && readable(low + PAGE, self.own.low) {
            self.own.low = low;
            return self.own.high;
        }
        low + (1
            + (1..pages)
                .take_while(|n| sys::readable(low + n * PAGE))
                .count())
            * PAGE
    }
}

fn page_of(address: usize) -> usize {
    address & !(PAGE - 1)
}

/// Whether all pages of `from..to` can be read.
fn readable(from: usize, to: usize) -> bool {
    (from..to).step_by(PAGE).all(sys::readable)
}

/// The main thread's stack: up to where the loader found its end, down to the limit.
fn main_stack() -> Range {
    let limit = sys::stack_limit();
    let size = if limit > 1 << 30 { OWN_LIMIT } else { limit };
    let end = stack_end();
    Range {
        low: end.saturating_sub(size),
        high: end,
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the word at the thread pointer is the thread pointer itself, by the ABI.
    unsafe {
        core::arch::asm!("mov {pointer}, qword ptr fs:[0]", pointer = out(reg) pointer, options(nostack, readonly));
    }
    pointer
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn thread_pointer() -> usize {
    0
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn stack_end() -> usize {
    let place: *const usize;
    // SAFETY: loads a GOT entry: the variable's address, or 0 where the libc has none (weak).
    unsafe {
        core::arch::asm!(
            ".weak __libc_stack_end",
            "mov {place}, qword ptr [rip + __libc_stack_end@GOTPCREL]",
            place = out(reg) place,
            options(nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: null or the loader's variable, set before any code of ours runs.
    unsafe { place.as_ref() }.map_or(0, |end| *end)
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn stack_end() -> usize {
    0
}
