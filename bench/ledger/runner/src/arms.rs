//! The arms and the kinds of artifact they come in.

use clap::ValueEnum;
use serde::Serialize;

/// A kind of artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A library that is loaded with `dlopen`
    Cdylib,
    /// An executable
    Executable,
    /// The executable of the arm `system`, with the ledger's library in LD_PRELOAD
    Preload,
}

impl Kind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cdylib => "cdylib, by dlopen",
            Self::Executable => "executable",
            Self::Preload => "preload library",
        }
    }

    /// Most instructions that the ledger may add to a pair.
    pub fn bar(self) -> f64 {
        match self {
            Self::Cdylib => 30.0,
            Self::Executable => 12.0,
            Self::Preload => 20.0,
        }
    }
}

/// A way of counting, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Arm {
    /// The system's allocator
    System,
    /// The same again
    Null,
    /// What everybody writes: a thread_local! with a destructor
    Local,
    /// The crate stats_alloc
    StatsAlloc,
    /// The crate cap
    Cap,
    /// The crate tracking-allocator
    TrackingAllocator,
    /// The ledger, Accounted<System>; under LD_PRELOAD, the ledger's library
    Ours,
    /// The ledger, Accounted<System, Bytes, InitialExec>: executables only
    OursExecutable,
    /// The ledger, Accounted<System, Counts>
    OursCounts,
    /// The ledger in a library whose thread-locals have no constant distance
    OursLargeTls,
    /// Rejected: a counter for each processor, in restartable sequences
    Rseq,
    /// Rejected: shared counters, one for each processor, by sched_getcpu
    Getcpu,
    /// Rejected: a slot for each thread, added up by whoever reads
    Slots,
    /// Rejected: settle after so many bytes of volume
    Churn,
}

impl Arm {
    /// All, in the order of the tables.
    pub const ALL: [Self; 14] = [
        Self::System,
        Self::Null,
        Self::Local,
        Self::StatsAlloc,
        Self::Cap,
        Self::TrackingAllocator,
        Self::Ours,
        Self::OursExecutable,
        Self::OursCounts,
        Self::OursLargeTls,
        Self::Rseq,
        Self::Getcpu,
        Self::Slots,
        Self::Churn,
    ];

    /// Its name in tables, and what its artifact says.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Null => "null",
            Self::Local => "local",
            Self::StatsAlloc => "stats_alloc",
            Self::Cap => "cap",
            Self::TrackingAllocator => "tracking-allocator",
            Self::Ours => "ours",
            Self::OursExecutable => "ours-executable",
            Self::OursCounts => "ours-counts",
            Self::OursLargeTls => "ours-large-tls",
            Self::Rseq => "rseq",
            Self::Getcpu => "getcpu",
            Self::Slots => "slots",
            Self::Churn => "churn",
        }
    }

    /// End of its artifact's name.
    pub fn stem(self) -> String {
        match self {
            Self::OursLargeTls => "large_tls".into(),
            _ => self.name().replace('-', "_"),
        }
    }

    /// Whether it exists in a kind of artifact.
    pub fn is_in(self, kind: Kind) -> bool {
        match kind {
            Kind::Cdylib => self != Self::OursExecutable,
            Kind::Executable => self != Self::OursLargeTls,
            Kind::Preload => matches!(self, Self::System | Self::Null | Self::Ours),
        }
    }

    /// Whether its counters must have moved.
    pub fn counts(self, kind: Kind) -> bool {
        kind != Kind::Preload && !matches!(self, Self::System | Self::Null)
    }

    /// Whether the bar is for it.
    pub fn has_bar(self, kind: Kind) -> bool {
        match kind {
            Kind::Executable => self == Self::OursExecutable,
            _ => self == Self::Ours,
        }
    }
}
