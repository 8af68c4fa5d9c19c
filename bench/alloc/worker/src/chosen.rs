//! The allocator that this program was built with, and proof of it.

macro_rules! choose {
    ($($feature:literal $path:expr, $type:ty;)*) => { $(
        #[cfg(feature = $feature)]
        #[global_allocator]
        static CHOSEN: $type = $path;
    )* };
}

choose! {
    "homefree" homefree_alloc::Alloc::new(), homefree_alloc::Alloc;
    "mimalloc2" mimalloc::MiMalloc, mimalloc::MiMalloc;
    "mimalloc3" mimalloc::MiMalloc, mimalloc::MiMalloc;
    "snmalloc" snmalloc_rs::SnMalloc, snmalloc_rs::SnMalloc;
    "rpmalloc" rpmalloc::RpMalloc, rpmalloc::RpMalloc;
    "rusty" rusty::Rusty, rusty::Rusty;
    "tcmalloc" tcmalloc_better::TCMalloc, tcmalloc_better::TCMalloc;
}

/// rusty_alloc has functions only; this is what its documentation tells to write around them.
#[cfg(feature = "rusty")]
mod rusty {
    use rusty_alloc::alloc;
    use std::alloc::{GlobalAlloc, Layout};

    pub struct Rusty;

    // SAFETY: the crate's own functions of the same meaning.
    unsafe impl GlobalAlloc for Rusty {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if layout.align() <= 16 && layout.align() <= layout.size() {
                alloc::malloc(layout.size())
            } else {
                // SAFETY: an alignment of a layout is a power of two.
                unsafe { alloc::malloc_aligned_pow2(layout.size(), layout.align()) }
            }
        }

        #[inline]
        unsafe fn dealloc(&self, p: *mut u8, _: Layout) {
            // SAFETY: the caller's promise.
            unsafe { alloc::free_inline(p) }
        }

        #[inline]
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            if layout.align() <= 16 {
                alloc::zalloc(layout.size())
            } else {
                alloc::zalloc_aligned(layout.size(), layout.align())
            }
        }

        #[inline]
        unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            // SAFETY: the caller's promise.
            unsafe {
                if layout.align() <= 16 {
                    alloc::realloc(p, size)
                } else {
                    alloc::realloc_aligned(p, size, layout.align())
                }
            }
        }
    }
}

#[cfg(feature = "rallocator")]
rallocator::rallocator!();

/// Name of the allocator that serves this program: the feature, or for none the file that `malloc` is in.
/// With a feature, blocks must not come from the C library: its `malloc_usable_size` is asked for none.
pub fn name() -> String {
    let features = [
        ("homefree", cfg!(feature = "homefree")),
        ("mimalloc2", cfg!(feature = "mimalloc2")),
        ("mimalloc3", cfg!(feature = "mimalloc3")),
        ("snmalloc", cfg!(feature = "snmalloc")),
        ("rpmalloc", cfg!(feature = "rpmalloc")),
        ("rusty", cfg!(feature = "rusty")),
        ("rallocator", cfg!(feature = "rallocator")),
        ("tcmalloc", cfg!(feature = "tcmalloc")),
    ];
    if let Some((name, _)) = features.iter().find(|(_, on)| *on) {
        assert!(
            !is_in_heap_of_libc(),
            "{name} was asked for, but blocks come from malloc"
        );
        return (*name).to_owned();
    }
    // SAFETY: an all-zero record is a valid value, filled by the call.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let malloc = libc::malloc as *const () as *const libc::c_void;
        assert!(libc::dladdr(malloc, &mut info) != 0);
        let path = std::ffi::CStr::from_ptr(info.dli_fname)
            .to_string_lossy()
            .into_owned();
        path.rsplit('/').next().unwrap_or(&path).to_owned()
    }
}

/// Whether the C library's count of its own bytes moves when a block is taken.
fn is_in_heap_of_libc() -> bool {
    // SAFETY: plain calls.
    let before = unsafe { libc::mallinfo2() };
    let blocks: Vec<Box<[u8; 200]>> = (0..100).map(|_| Box::new([1; 200])).collect();
    // SAFETY: plain call.
    let after = unsafe { libc::mallinfo2() };
    drop(std::hint::black_box(blocks));
    after.uordblks >= before.uordblks + 20_000
}
