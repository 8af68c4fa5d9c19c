//! What the program says when it cannot do what it was asked to, and the exit status that goes with it.

use std::fmt;

/// Exit statuses; `docs/exit-codes.md` is their page for users.
pub mod status {
    /// A file could not be read or written, or is not what it should be.
    pub const FAILED: u8 = 1;
    /// The command line is wrong (clap uses the same), or `-o FILE` exists.
    pub const USAGE: u8 = 2;
    /// `record`: nothing was, or can be, recorded.
    pub const NOT_RECORDED: u8 = 3;
    /// `record`: CMD was found but cannot run, as a shell says it.
    pub const CANNOT_RUN: u8 = 126;
    /// `record`: CMD was not found, as a shell says it.
    pub const NOT_FOUND: u8 = 127;
    /// `record`: CMD was ended by signal n: this + n.
    pub const SIGNAL: u8 = 128;
}

/// A clear answer: what happened, why it cannot work, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One line: what happened.
    pub what: String,
    /// Why it cannot work that way; may be empty where `what` says it all.
    pub why: String,
    /// What to do next; may be empty.
    pub advice: String,
    /// Exit status of the program.
    pub status: u8,
}

impl Failure {
    /// A failure with the given exit status and first line.
    pub fn new(status: u8, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: String::new(),
            advice: String::new(),
            status,
        }
    }

    /// Says why.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Says what to do.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "homefree: {}", self.what)?;
        if !self.why.is_empty() {
            write!(f, "\n  why: {}", self.why)?;
        }
        if !self.advice.is_empty() {
            write!(f, "\n  what to do: {}", self.advice)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_why_and_what_to_do_and_leaves_out_what_is_empty() {
        let all = Failure::new(status::NOT_RECORDED, "a").why("b").advice("c");
        assert_eq!(all.to_string(), "homefree: a\n  why: b\n  what to do: c");
        assert_eq!(Failure::new(1, "a").to_string(), "homefree: a");
    }
}
