//! A library that counts what it allocates, to be opened with `dlopen`: the host of `tests/plugin.rs`, and a look
//! at what a library author writes. Its ledger is its own, whatever else is in the process.
//!
//! Built with `--cfg plugin_of_bytes` it counts bytes alone, as most will; with `--cfg plugin_with_much_tls` it brings more thread-local storage than the loader has
//! room for in a library opened late, so that its counters lie at no constant distance.

use homefree_ledger::Accounted;
use std::alloc::{Layout, System, alloc, dealloc};

#[cfg(not(plugin_of_bytes))]
type Mode = homefree_ledger::Counts;
#[cfg(plugin_of_bytes)]
type Mode = homefree_ledger::Bytes;

#[global_allocator]
static A: Accounted<System, Mode> = Accounted::new(System);

#[cfg(plugin_with_much_tls)]
thread_local! {
    static MUCH: std::cell::Cell<[u64; 1024]> = const { std::cell::Cell::new([0; 1024]) };
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap_or(Layout::new::<u64>())
}

/// Allocates.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_alloc(size: usize) -> *mut u8 {
    #[cfg(plugin_with_much_tls)]
    MUCH.with(|much| std::hint::black_box(much).set([1; 1024]));
    // SAFETY: the host asks for no 0 bytes.
    unsafe { alloc(layout(size)) }
}

/// Frees.
///
/// # Safety
/// `p` is a block of `size` bytes from [`plugin_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_free(p: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(p, layout(size)) }
}

/// The exact balance.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_exact() -> u64 {
    A.usage_exact().current
}

/// The cheap balance, with this thread's part settled.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_cheap() -> u64 {
    A.settle();
    A.usage().current
}

/// The error of the cheap balance.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_error() -> u64 {
    A.usage().error
}

/// Allocations less frees.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_blocks() -> u64 {
    A.totals().allocations.wrapping_sub(A.totals().frees)
}

/// Whether the counters lie at a constant distance from the thread pointer.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_constant() -> bool {
    homefree_thread::counter::has_constant_distance()
}
