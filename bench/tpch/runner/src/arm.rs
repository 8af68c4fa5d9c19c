//! The arms: which library, and what it must prove.

use crate::protocol::{HELD, Ready};
use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a library's allocator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// No allocator of its own: malloc
    Plain,
    /// Plain once more, in a process of its own: what noise looks like
    Null,
    /// Accounting with three accesses of thread-locals a call
    Three,
    /// Accounting with one access a call
    One,
    /// homefree-ledger
    Ours,
    /// Every call counted; not for timing
    #[value(skip)]
    Calls,
}

/// Bytes by which an account may be off: two drifts of 64 KiB, and what the library allocates beside.
const SLACK: i64 = 256 << 10;

impl Arm {
    /// All that are timed, in order.
    pub const TIMED: [Self; 5] = [Self::Plain, Self::Null, Self::Three, Self::One, Self::Ours];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Null => "null",
            Self::Three => "three",
            Self::One => "one",
            Self::Ours => "ours",
            Self::Calls => "calls",
        }
    }

    /// Name that the library gives itself.
    pub fn library_name(self) -> &'static str {
        if self == Self::Null {
            Self::Plain.name()
        } else {
            self.name()
        }
    }

    /// The arm's library.
    pub fn library(self, directory: &Path) -> PathBuf {
        directory.join(format!("libtpch_{}.so", self.library_name()))
    }

    /// Checks that a child runs on this arm's allocator.
    ///
    /// # Errors
    /// It is another library, or its account did not move with a block, or moved where there should be none.
    pub fn check(self, ready: &Ready) -> Result<()> {
        if ready.arm != self.library_name() {
            bail!("{} is wanted, the library says {}", self.name(), ready.arm);
        }
        let counts = !matches!(self, Self::Plain | Self::Null);
        match ready.moved {
            None if counts => bail!("{}: no account", self.name()),
            Some(_) if !counts => bail!("{}: an account", self.name()),
            Some(moved) if (moved - HELD as i64).abs() > SLACK => bail!(
                "{}: the account moved by {moved} bytes for a block of {HELD}",
                self.name()
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(arm: &str, moved: Option<i64>) -> Ready {
        Ready {
            arm: arm.to_owned(),
            scale: 1.0,
            moved,
            static_tls: false,
            descriptors: Vec::new(),
        }
    }

    #[test]
    fn an_arm_that_is_another_or_does_not_count_is_refused() {
        let held = HELD as i64;
        assert!(Arm::Ours.check(&ready("ours", Some(held + 4096))).is_ok());
        assert!(Arm::Null.check(&ready("plain", None)).is_ok());
        assert!(Arm::Ours.check(&ready("one", Some(held))).is_err());
        assert!(Arm::Ours.check(&ready("ours", None)).is_err());
        assert!(Arm::Ours.check(&ready("ours", Some(0))).is_err());
        assert!(Arm::Plain.check(&ready("plain", Some(held))).is_err());
    }
}
