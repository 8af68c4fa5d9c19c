//! The slot, and the ways to reach it.
//!
//! The thread-local is defined in assembly, zero-filled, hidden: each artifact that links this crate
//! (executable, preload library, a `dlopen`ed cdylib) has its own. Which access to use is the choice of
//! the artifact:
//!
//! * [`initial_exec`]: one load of a constant offset. For what is loaded at start-up: the preload
//!   library and executables. In a library that is `dlopen`ed it would use up the static TLS surplus.
//! * [`descriptor`]: a TLS descriptor. For everything else; the linker relaxes it to a constant in an
//!   executable, and the loader's resolver is a load and a `ret` where the block is static.
//!
//! Both exist in every build; only the one that is called is linked in.

use core::cell::Cell;

/// A thread's hot state. All zero until the thread is first seen.
#[repr(C, align(64))]
pub struct Slot {
    /// The recorder's state of this thread; null before it is attached and after its end.
    pub record: Cell<*mut ()>,
    /// Not zero while the recorder's own code runs on this thread: hooked calls made meanwhile (by a
    /// signal handler, by the loader) are passed through.
    pub busy: Cell<usize>,
    /// Id of the thread in the recorder once its exit hook has run; 0 before.
    pub ended: Cell<u32>,
    /// Set when the thread was given a name of its own.
    pub named: Cell<bool>,
    /// Address of the last block that a hook recorded.
    pub recorded: Cell<usize>,
    /// Address of a block whose free is recorded, and which further hooks may be asked to free.
    pub freeing: Cell<usize>,
    /// Return address, stack pointer and frame pointer of a hooked call on whose behalf further hooks are
    /// called; a stack pointer of 0 for none.
    pub outer: Cell<[usize; 3]>,
}

const _: () = assert!(size_of::<Slot>() == 64, "one cache line");

/// How to reach the slot; chosen by the artifact as a type, so that the unused way is not linked.
pub trait Access {
    /// The calling thread's slot. Valid until the thread is gone; never null.
    fn slot() -> *const Slot;
}

/// Reaches the slot in the fewest instructions: in executables and what is loaded with them, not in libraries that
/// may be opened with `dlopen`, for which the loader can run out of room. ([`initial_exec`] as a type.)
pub struct InitialExec;
/// [`descriptor`] as a type.
pub struct Descriptor;

impl Access for InitialExec {
    #[inline(always)]
    fn slot() -> *const Slot {
        initial_exec()
    }
}
impl Access for Descriptor {
    #[inline(always)]
    fn slot() -> *const Slot {
        descriptor()
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86_64 {
    use super::Slot;
    use core::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.homefree_slot_v1,\"awT\",@nobits",
        ".hidden homefree_slot_v1",
        ".globl homefree_slot_v1",
        ".type homefree_slot_v1,@object",
        ".size homefree_slot_v1,{size}",
        ".p2align 6",
        "homefree_slot_v1:",
        ".zero {size}",
        ".popsection",
        size = const size_of::<Slot>(),
    );

    /// The slot by the initial-exec model: two loads.
    #[inline(always)]
    pub fn initial_exec() -> *const Slot {
        let slot: *const Slot;
        // SAFETY: reads the thread pointer and a GOT entry that the loader filled; both exist on every
        // thread of a process that glibc or musl started. Writes only the output register and flags.
        unsafe {
            asm!(
                "mov {slot}, qword ptr [rip + homefree_slot_v1@GOTTPOFF]",
                "add {slot}, qword ptr fs:[0]",
                slot = out(reg) slot,
                options(readonly, nostack),
            );
        }
        slot
    }

    crate::tls_descriptor!(distance, "homefree_slot_v1");

    /// The slot by a TLS descriptor.
    #[inline(always)]
    pub fn descriptor() -> *const Slot {
        let thread: usize;
        // SAFETY: the thread pointer's first word is its own address.
        unsafe {
            asm!(
                "mov {thread}, qword ptr fs:[0]",
                thread = out(reg) thread,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        thread.wrapping_add(distance()) as *const Slot
    }
}
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use x86_64::{descriptor, initial_exec};

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod portable {
    extern crate std;
    use super::Slot;
    use core::cell::Cell;

    std::thread_local! {
        static SLOT: Slot = const {
            Slot {
                record: Cell::new(core::ptr::null_mut()),
                busy: Cell::new(0),
                ended: Cell::new(0),
                named: Cell::new(false),
                recorded: Cell::new(0),
                freeing: Cell::new(0),
                outer: Cell::new([0; 3]),
            }
        };
    }

    /// The slot by `thread_local!` (const, no destructor, so it is never refused).
    #[inline(always)]
    pub fn descriptor() -> *const Slot {
        SLOT.with(|s| core::ptr::from_ref(s))
    }

    /// The same as [`descriptor`] here.
    #[inline(always)]
    pub fn initial_exec() -> *const Slot {
        descriptor()
    }
}
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub use portable::{descriptor, initial_exec};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_reach_one_slot_a_thread() {
        let here = initial_exec();
        assert_eq!(here, descriptor());
        let there = std::thread::spawn(|| {
            assert_eq!(initial_exec(), descriptor());
            initial_exec() as usize
        });
        assert_ne!(here as usize, there.join().unwrap());
    }

    #[test]
    fn a_new_slot_is_zero() {
        std::thread::spawn(|| {
            // SAFETY: the slot of the calling thread, alive while it runs.
            let slot = unsafe { &*descriptor() };
            assert!(slot.record.get().is_null());
            assert_eq!(
                (slot.busy.get(), slot.ended.get(), slot.named.get()),
                (0, 0, false)
            );
        })
        .join()
        .unwrap();
    }
}
