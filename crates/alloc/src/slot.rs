//! The thread's slot: for each size class the page that it allocates from, and its heap.
//!
//! Like the slot of `homefree-thread`, it is a thread-local defined in assembly, hidden, without a
//! destructor; each artifact has its own. It starts with every class at one page without a block, so the
//! states "no heap yet" and "thread has ended" need no test on the fast path.

use crate::class::{CLASSES, DIRECT_CLASSES, DIRECT_ENTRIES, direct_entries};
use crate::heap::Heap;
use crate::page::Page;
use core::cell::Cell;

/// A thread's hot state.
#[repr(C, align(64))]
pub struct Slot {
    /// Pages by size, up to 1 KiB in steps of 8 bytes.
    direct: [Cell<*const Page>; DIRECT_ENTRIES],
    /// Pages of the larger classes.
    larger: [Cell<*const Page>; CLASSES - DIRECT_CLASSES],
    /// The heap; null before the first use and after the exit hook ran.
    pub heap: Cell<*const Heap>,
    /// [`STATE_NEW`] and so on.
    pub state: Cell<usize>,
}

/// The thread has not been seen.
pub const STATE_NEW: usize = 0;
/// It has a heap.
pub const STATE_ATTACHED: usize = 1;
/// Its exit hook has run: calls are served from the heap of late calls.
pub const STATE_ENDED: usize = 2;

/// The page that all classes start with.
pub(crate) static EMPTY: Page = Page::empty();

const PAGES: usize = DIRECT_ENTRIES + CLASSES - DIRECT_CLASSES;
const _: () = assert!(core::mem::offset_of!(Slot, larger) == DIRECT_ENTRIES * 8);
const _: () = assert!(core::mem::offset_of!(Slot, heap) == PAGES * 8);

impl Slot {
    /// The page that a class allocates from.
    #[inline(always)]
    pub fn page(&self, class: usize) -> *const Page {
        if class < DIRECT_CLASSES {
            self.direct[direct_entries(class).1].get()
        } else {
            self.larger[class - DIRECT_CLASSES].get()
        }
    }

    /// Sets it. Null for none.
    pub fn set_page(&self, class: usize, page: *const Page) {
        let page = if page.is_null() {
            &raw const EMPTY
        } else {
            page
        };
        if class < DIRECT_CLASSES {
            let (from, to) = direct_entries(class);
            self.direct[from..=to].iter().for_each(|e| e.set(page));
        } else {
            self.larger[class - DIRECT_CLASSES].set(page);
        }
    }

    /// Back to no page at all.
    pub fn forget_pages(&self) {
        for entry in self.direct.iter().chain(&self.larger) {
            entry.set(&raw const EMPTY);
        }
    }
}

/// How an artifact reaches the slot: a type, so that the unused way is not linked.
pub trait Access {
    /// The calling thread's slot, valid as long as it runs.
    fn slot() -> *const Slot;
    /// The page at an entry of the direct table, given as the entry's offset in bytes.
    fn direct_page(offset: usize) -> *const Page;
    /// What else has to be done where null is returned for want of memory.
    fn refused() {}
}

/// For what is loaded at start-up: the preload library. Sets `errno`, as C programs expect.
pub struct InitialExec;
/// For executables, where the linker makes a constant of it, and for libraries that are `dlopen`ed.
pub struct Descriptor;

#[cold]
fn no_memory() {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86_64 {
    use super::*;
    use core::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tdata.homefree_alloc_slot_v1,\"awT\",@progbits",
        ".hidden homefree_alloc_slot_v1",
        ".globl homefree_alloc_slot_v1",
        ".type homefree_alloc_slot_v1,@object",
        ".size homefree_alloc_slot_v1,{size}",
        ".p2align 6",
        "homefree_alloc_slot_v1:",
        ".rept {pages}",
        ".quad {empty}",
        ".endr",
        ".zero {size} - {pages} * 8",
        ".popsection",
        size = const size_of::<Slot>(),
        pages = const PAGES,
        empty = sym EMPTY,
    );

    /// What tells threads apart: the thread pointer, even and never 0.
    #[inline(always)]
    pub fn thread_tag() -> usize {
        let tag: usize;
        // SAFETY: reads the word that the x86-64 ABI keeps at the thread pointer.
        unsafe {
            asm!("mov {tag}, qword ptr fs:[0]", tag = out(reg) tag, options(pure, readonly, nostack, preserves_flags))
        };
        tag
    }

    impl Access for InitialExec {
        fn refused() {
            no_memory();
        }

        #[inline(always)]
        fn slot() -> *const Slot {
            let slot: *const Slot;
            // SAFETY: reads the thread pointer and a GOT entry that the loader filled.
            unsafe {
                asm!(
                    "mov {slot}, qword ptr [rip + homefree_alloc_slot_v1@GOTTPOFF]",
                    "add {slot}, qword ptr fs:[0]",
                    slot = out(reg) slot,
                    options(pure, readonly, nostack),
                );
            }
            slot
        }

        #[inline(always)]
        fn direct_page(offset: usize) -> *const Page {
            let page: *const Page;
            // SAFETY: the same, and reads an entry of this thread's slot.
            unsafe {
                asm!(
                    "mov {page}, qword ptr [rip + homefree_alloc_slot_v1@GOTTPOFF]",
                    "mov {page}, qword ptr fs:[{page} + {offset}]",
                    page = out(reg) page,
                    offset = in(reg) offset,
                    options(readonly, nostack, preserves_flags),
                );
            }
            page
        }
    }

    homefree_thread::tls_descriptor!(offset, "homefree_alloc_slot_v1");

    impl Access for Descriptor {
        #[inline(always)]
        fn slot() -> *const Slot {
            (offset().wrapping_add(thread_tag())) as *const Slot
        }

        #[inline(always)]
        fn direct_page(at: usize) -> *const Page {
            let page: *const Page;
            // SAFETY: reads an entry of this thread's slot.
            unsafe {
                asm!(
                    "mov {page}, qword ptr fs:[{offset} + {at}]",
                    page = out(reg) page,
                    offset = in(reg) offset(),
                    at = in(reg) at,
                    options(readonly, nostack, preserves_flags),
                );
            }
            page
        }
    }
}
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use x86_64::thread_tag;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod portable {
    extern crate std;
    use super::*;

    std::thread_local! {
        static SLOT: Slot = const {
            Slot {
                direct: [const { Cell::new(&raw const EMPTY) }; DIRECT_ENTRIES],
                larger: [const { Cell::new(&raw const EMPTY) }; CLASSES - DIRECT_CLASSES],
                heap: Cell::new(core::ptr::null()),
                state: Cell::new(STATE_NEW),
            }
        };
    }

    /// What tells threads apart: the slot's address, even and never 0.
    #[inline(always)]
    pub fn thread_tag() -> usize {
        Descriptor::slot() as usize
    }

    impl Access for Descriptor {
        #[inline(always)]
        fn slot() -> *const Slot {
            SLOT.with(|s| core::ptr::from_ref(s))
        }

        #[inline(always)]
        fn direct_page(offset: usize) -> *const Page {
            // SAFETY: the calling thread's slot.
            unsafe { &*Self::slot() }.direct[offset / 8].get()
        }
    }
    impl Access for InitialExec {
        fn refused() {
            no_memory();
        }

        #[inline(always)]
        fn slot() -> *const Slot {
            Descriptor::slot()
        }

        #[inline(always)]
        fn direct_page(offset: usize) -> *const Page {
            Descriptor::direct_page(offset)
        }
    }
}
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub use portable::thread_tag;
