//! What the terminal, or the lack of one, asks for.

use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp, tcgetwinsize};
use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Columns and rows, if the stream is a terminal that tells.
pub fn size(stream: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(stream).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Width to lay text out for: the terminal's, or what `COLUMNS` says on a terminal that does not tell;
/// none for pipes and files.
pub fn width(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    if let Some((columns, _)) = size(stream) {
        return Some(columns.into());
    }
    std::env::var("COLUMNS").ok()?.parse().ok()
}

/// Whether to colour: `NO_COLOR` never, `CLICOLOR_FORCE` always, otherwise on a terminal that can,
/// unless `CLICOLOR` is 0.
pub fn colour(stream: &impl IsTerminal) -> bool {
    if anstyle_query::no_color() {
        return false;
    }
    if anstyle_query::clicolor_force() {
        return true;
    }
    stream.is_terminal()
        && anstyle_query::term_supports_ansi_color()
        && anstyle_query::clicolor().unwrap_or(true)
}

/// Whether a line of ours would disturb nobody: our group has the terminal, and it is in line mode
/// (full-screen programs, pagers and line editors are not).
pub fn is_calm(stream: impl AsFd) -> bool {
    let stream = stream.as_fd();
    tcgetpgrp(stream) == Ok(rustix::process::getpgrp())
        && tcgetattr(stream).is_ok_and(|t| t.local_modes.contains(LocalModes::ICANON))
}

/// Whether the terminal understands what [`crate::status::StatusLine`] writes.
pub fn has_regions() -> bool {
    !matches!(
        std::env::var("TERM").as_deref(),
        Err(_) | Ok("" | "dumb" | "unknown" | "emacs")
    )
}
