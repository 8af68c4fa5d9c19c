//! What the runner and its children say to each other, a line of JSON each.

use serde::{Deserialize, Serialize};

/// What a child is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Run a query and say what it took.
    Run(u32),
    /// Run a query and write its rows to a file.
    Write(u32, String),
    /// Close the engine and say what its allocator has left.
    Close,
}

/// What a child says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Say {
    /// The library is loaded, and the tables are open.
    Ready(Ready),
    /// A query has run.
    Ran(Ran),
    /// The rows are written.
    Written,
    /// The engine is closed.
    Closed {
        /// Bytes on the account; `None` where none is kept.
        left: Option<i64>,
    },
}

/// What a child found when it had loaded its library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ready {
    /// The arm that the library says it is.
    pub arm: String,
    /// Scale factor of the data.
    pub scale: f64,
    /// By how many bytes the account moved while a block of [`HELD`] bytes was held; `None` where no account
    /// is kept.
    pub moved: Option<i64>,
    /// Whether all threads have the library's thread-locals at the same distance from their thread pointer.
    pub static_tls: bool,
    /// For each TLS descriptor in the library: whether its resolver is the one that only loads an offset.
    pub descriptors: Vec<bool>,
}

/// Size of the block by which an arm proves that its allocator counts.
pub const HELD: usize = 64 << 20;

/// What a query took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Ran {
    /// Rows of the answer.
    pub rows: u64,
    /// Checksum of the answer.
    pub checksum: u64,
    /// Seconds from the call to its return.
    pub wall: f64,
    /// User and system seconds of the whole process meanwhile.
    pub cpu: f64,
    /// Calls of the allocator meanwhile, where they are counted.
    pub calls: Option<Calls>,
}

/// Calls of the allocator.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Calls {
    /// Of `alloc` and `alloc_zeroed`.
    pub allocs: u64,
    /// Of `dealloc`.
    pub frees: u64,
    /// Of `realloc`.
    pub reallocs: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Calls that change the balance by 64 KiB or more.
    pub large: u64,
}
