//! What the runner and a library with the engine in it say to each other.
//!
//! A library exports one symbol, [`SYMBOL`], of type [`Entry`]. The runner links neither the engine nor
//! its allocator: everything that a library allocates, it allocates through its own.

use std::ffi::{c_char, c_void};

/// Name of the function that every library exports.
pub const SYMBOL: &str = "tpch_library";

/// The function behind [`SYMBOL`].
pub type Entry = extern "C" fn() -> Library;

/// What a query gave.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows.
    pub rows: u64,
    /// A sum over the rows, whatever their order.
    pub checksum: u64,
}

/// What the library's allocator knows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes that are allocated now.
    pub balance: i64,
    /// Whether the calls below are counted; they are 0 otherwise.
    pub counted: bool,
    /// Calls of `alloc` and `alloc_zeroed`.
    pub allocs: u64,
    /// Calls of `dealloc`.
    pub frees: u64,
    /// Calls of `realloc`.
    pub reallocs: u64,
    /// Bytes that `alloc` and `alloc_zeroed` were asked for, and by which `realloc` grew blocks.
    pub bytes: u64,
    /// Calls whose change of the balance is 64 KiB or more: each settles a drift with that threshold.
    pub large: u64,
}

/// A library's functions. `engine` is always what `open` returned, before `close`.
#[repr(C)]
pub struct Library {
    /// Which allocator the library has, a C string with static lifetime.
    pub arm: *const c_char,
    /// Opens a directory of Parquet files (a C string) with as many worker threads; null after an error,
    /// which goes to standard error.
    pub open: unsafe extern "C" fn(directory: *const c_char, threads: usize) -> *mut c_void,
    /// The scale factor of the data.
    pub scale: unsafe extern "C" fn(engine: *const c_void) -> f64,
    /// Runs a query, 1 to 22; false after an error, which goes to standard error.
    pub run: unsafe extern "C" fn(engine: *const c_void, query: u32, answer: *mut Answer) -> bool,
    /// Runs a query and writes its rows to a file (a C string), columns parted by `|`; false as above.
    pub write: unsafe extern "C" fn(engine: *const c_void, query: u32, path: *const c_char) -> bool,
    /// Closes the engine and ends its threads.
    pub close: unsafe extern "C" fn(engine: *mut c_void),
    /// Allocates `bytes` bytes, calls `look` with `context`, and frees them.
    pub hold: unsafe extern "C" fn(
        bytes: usize,
        look: extern "C" fn(context: *mut c_void),
        context: *mut c_void,
    ),
    /// What the allocator knows; false where it keeps no account.
    pub account: unsafe extern "C" fn(account: *mut Account) -> bool,
}
