//! What the launcher says on stderr.

/// As `eprintln!`, but where stderr cannot be written to (a pipe that nobody reads any more, a full disk) nothing is said.
///
/// `eprintln!` panics then: the launcher would leave the program that it has started, and its status would be lost.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::say::line(format_args!($($part)*))
    };
}
pub(crate) use say;

use std::fmt;
use std::io::{Write, stderr};

/// A line; see [`say`].
pub fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(stderr(), "{text}");
}

/// Text of whole lines; see [`say`].
pub fn text(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}
