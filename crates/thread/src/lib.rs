//! What every part of Homefree that runs inside a program stands on: the per-thread slot, and the few
//! events of a thread's and a process's life.
//!
//! **For:** the recorder, the ledger and the allocator, which keep their hot state behind one
//! thread-local access. **Not for:** programs; nothing here is useful alone.
//!
//! * [`slot`]: one const-initialised thread-local without a destructor, readable before `main`, inside
//!   `dlopen`, in other thread-locals' destructors and after ours has run. On x86-64 it is reached by
//!   the initial-exec model or by a TLS descriptor, as the artifact needs; elsewhere by `thread_local!`.
//! * [`counter`]: the ledger's slot in the same manner, with the one add and one branch that it is for.
//! * [`tls_descriptor!`]: the look-up behind both, for whoever has a block of his own.
//! * [`ExitHook`]: a pthread key, which can be armed again from its own destructor, to run as late as keys can.
//! * [`on_fork`], [`on_fork_child`]: the sides of `fork`.
//! * [`ThreadTable`]: ids that are never used twice, with one word each.
//! * [`fold_role`]: `rpc-worker-17` → `rpc-worker-*`.
//! * [`Lock`]: for slow paths; never allocates, can be forced open in fork's child.
//! * [`environment`]: variables, before and without the C library's functions for them.
//! * [`sys`]: the system calls, which leave `errno` alone.
//!
//! No `std`, no allocation, no panic.
//!
//! ```
//! let mut out = [0; 16];
//! assert_eq!(homefree_thread::fold_role(b"rpc-worker-17", &mut out), b"rpc-worker-*");
//! ```
#![no_std]

#[cfg(test)]
extern crate std;

pub mod counter;
pub mod environment;
mod exit;
mod lock;
mod role;
pub mod slot;
pub mod sys;
mod table;
mod tls;

pub use exit::{ExitHook, ROUNDS, on_fork, on_fork_child};
pub use lock::{Lock, LockGuard};
pub use role::fold_role;
pub use slot::Slot;
pub use table::ThreadTable;
