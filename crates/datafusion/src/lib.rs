#![doc = include_str!("../README.md")]
//!
//! # What each figure is of
//!
//! | figure | of what |
//! | --- | --- |
//! | [`Difference::declared`] | this pool, however many threads and handles share it: one number, not one a thread |
//! | [`Difference::real`] | the ledger, so everything that this executable or library allocated through Rust's global allocator, less the baseline; with [`LedgerPool::of_scope`] what threads allocated inside the scope |
//! | [`Difference::resident`] | the process: anonymous pages, of everything in it |
//! | [`declared_in_process`] | every [`LedgerPool`] of the executable or library, each once |
//!
//! Never add up the `real` of several pools: they all read the same ledger. Add up their `declared` or, simpler, ask
//! [`declared_in_process`].
//!
//! # What was found about such pools
//!
//! `docs/datafusion.md` has the whole of it with sources. In short:
//!
//! * Declared reservations followed the bytes that Rust had really allocated to about 10 % at the median on TPC-H
//!   (apache/datafusion-comet#4576). The gap has a long tail; the tail is what this crate shows.
//! * The balance does not lead the resident set: no lead was found at any horizon there. A [`RealLimit`] bounds what
//!   the program holds, not what the kernel counts; do not build a guard against the OOM killer out of it alone.
//! * A refusal helps where an operator can spill. What nobody declared cannot be made smaller by refusing those who
//!   do declare.
//!
//! # Your duties
//!
//! Install [`homefree_ledger::Accounted`] as `#[global_allocator]` in the executable or `cdylib` that contains
//! DataFusion: each has a ledger of its own. Where none is installed, a limit is refused with an error instead of
//! silently never firing.

mod book;
mod consumers;
mod difference;
mod figures;
mod limit;
mod pool;
mod source;

pub use book::declared_in_process;
pub use consumers::{ConsumerUse, EndedConsumers};
pub use difference::Difference;
pub use homefree_ledger::ProcessMemory;
pub use limit::RealLimit;
pub use pool::LedgerPool;
