//! Which part of memory may be read as stack.

use homefree_thread::sys;
use homefree_wire::PAGE;

/// Bounds of a thread's stacks: its own, and others that its code has switched to (coroutines, signal
/// stacks), found out page by page by asking the kernel.
pub(crate) struct Bounds {
    own: Range,
    others: [Range; 8],
    next: usize,
}

#[derive(Clone, Copy, Default)]
struct Range {
    low: usize,
    high: usize,
}

/// How far a foreign stack is explored.
const FOREIGN_PAGES: usize = 64;

impl Bounds {
    /// Bounds of the calling thread, which has `sp` as its stack pointer.
    pub fn of_this_thread(sp: usize) -> Self {
        let main = sys::thread_id() == sys::process_id();
        let own = if main { main_stack() } else { thread_stack() };
        // A thread on a stack of its own making is treated like a coroutine.
        let own = own
            .filter(|r| (r.low..r.high).contains(&sp))
            .unwrap_or_default();
        Self {
            own,
            others: [Range::default(); 8],
            next: 0,
        }
    }

    /// The first address above `sp` that must not be read as this stack.
    #[inline]
    pub fn high(&mut self, sp: usize) -> usize {
        if sp >= self.own.low && sp < self.own.high {
            self.own.high
        } else {
            self.foreign(sp)
        }
    }

    #[cold]
    fn foreign(&mut self, sp: usize) -> usize {
        if let Some(r) = self.others.iter().find(|r| sp >= r.low && sp < r.high) {
            return r.high;
        }
        let low = sp & !(PAGE - 1);
        let pages = (1..FOREIGN_PAGES)
            .take_while(|n| sys::readable(low + n * PAGE))
            .count();
        let range = Range {
            low,
            high: low + (pages + 1) * PAGE,
        };
        self.others[self.next % self.others.len()] = range;
        self.next += 1;
        range.high
    }
}

/// The main thread's stack: up to where the loader found its end, down to the limit.
fn main_stack() -> Option<Range> {
    let end = stack_end();
    if end == 0 {
        return thread_stack();
    }
    Some(Range {
        low: end.saturating_sub(sys::stack_limit().min(1 << 32)),
        high: end,
    })
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
    if place.is_null() {
        0
    } else {
        unsafe { *place }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn stack_end() -> usize {
    0
}

/// What pthread says of the calling thread's stack. May allocate inside libc.
fn thread_stack() -> Option<Range> {
    // SAFETY: an all-zero attribute object is filled by the call.
    let mut attr: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
    // SAFETY: the calling thread, a valid out-pointer.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &mut attr) } != 0 {
        return None;
    }
    let (mut low, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: filled by the call above.
    let r = unsafe { libc::pthread_attr_getstack(&attr, &mut low, &mut size) };
    // SAFETY: as above; not used afterwards.
    unsafe { libc::pthread_attr_destroy(&mut attr) };
    (r == 0).then_some(Range {
        low: low as usize,
        high: low as usize + size,
    })
}
