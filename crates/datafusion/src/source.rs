//! Where the real number comes from.

use homefree_ledger::{Mark, Scope, ledger};
use std::sync::{Mutex, PoisonError};

/// What is really held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Real {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Off by at most this many bytes.
    pub(crate) error: u64,
}

/// The whole ledger, or one scope of it.
#[derive(Debug)]
pub(crate) enum Source {
    /// With the moment from which on the peak counts.
    Process(Mutex<Mark>),
    Scope(Scope),
}

impl Source {
    pub(crate) fn process() -> Self {
        Self::Process(Mutex::new(ledger().mark()))
    }

    /// A few loads for the process. A scope settles this thread first; other threads that are in it may each have
    /// 64 KiB unsettled.
    pub(crate) fn quick(&self) -> Real {
        let usage = ledger().usage();
        let bytes = match self {
            Self::Process(_) => usage.current,
            Self::Scope(scope) => scope.usage().current,
        };
        Real {
            bytes,
            error: usage.error,
        }
    }

    /// As exactly as it can be known.
    pub(crate) fn exact(&self) -> Real {
        match self {
            Self::Process(_) => {
                let usage = ledger().usage_exact();
                Real {
                    bytes: usage.current,
                    error: usage.error,
                }
            }
            Self::Scope(_) => self.quick(),
        }
    }

    /// From now on the peak begins anew.
    pub(crate) fn restart_peak(&self) {
        if let Self::Process(mark) = self {
            *mark.lock().unwrap_or_else(PoisonError::into_inner) = ledger().mark();
        }
    }

    /// The most that was held since the last restart, bytes, as the ledger saw it between our own readings. A
    /// scope's own peak is of its whole life, so it is no answer.
    pub(crate) fn peak(&self) -> u64 {
        match self {
            Self::Process(mark) => {
                ledger().peak_since(*mark.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Self::Scope(_) => 0,
        }
    }
}

/// Whether the ledger counts anything: no program comes this far without an allocation.
pub(crate) fn is_counting() -> bool {
    ledger().totals().allocated > 0
}
