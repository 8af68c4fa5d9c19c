//! Sources, limits, events.

use crate::binary::Binary;
use std::fmt;

/// A limit on the balance with hysteresis: above once it was more than `high`, until it is less than `low`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimit {
    /// Bytes requested.
    pub high: u64,
    /// Bytes requested, at most `high`. The balance is never below 0.
    pub low: u64,
}

/// A limit on a share, 1.0 for the whole, with hysteresis as [`SoftLimit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Above, once the share was more than this.
    pub high: f64,
    /// Until it is less than this.
    pub low: f64,
}

/// Where pressure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The ledger's balance, bytes requested.
    Balance,
    /// Anonymous memory of the tightest limited cgroup.
    CgroupAnon,
    /// What that cgroup holds and can not give up.
    CgroupWorking,
    /// Some tasks wait for memory.
    PsiSome,
    /// All tasks wait for memory.
    PsiFull,
    /// The ledger says more than can be, see [`Ledger::check`](crate::Ledger::check).
    Discrepancy,
}

/// Which way a line was crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// Upwards, past `high`.
    Above,
    /// Downwards, past `low`.
    Below,
}

/// A figure with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Per cent of time.
    Percent(f64),
}

/// A line was crossed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressure {
    /// Of which source.
    pub source: Source,
    /// Which way.
    pub edge: Edge,
    /// What was found.
    pub value: Amount,
    /// The line: `high` or `low`, for a cgroup's share in bytes.
    pub limit: Amount,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Balance => "memory held (requested)",
            Self::CgroupAnon => "anonymous memory of the cgroup",
            Self::CgroupWorking => "working memory of the cgroup",
            Self::PsiSome => "time that some task waited for memory",
            Self::PsiFull => "time that all tasks waited for memory",
            Self::Discrepancy => "the ledger's balance against the address space",
        })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => Binary(*bytes).fmt(out),
            Self::Percent(percent) => write!(out, "{percent:.2} %"),
        }
    }
}

impl fmt::Display for Pressure {
    /// `memory held (requested): 901.2 MiB, above 900.0 MiB`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = match self.edge {
            Edge::Above => "above",
            Edge::Below => "below",
        };
        let Self {
            source,
            value,
            limit,
            ..
        } = self;
        write!(out, "{source}: {value}, {edge} {limit}")
    }
}
