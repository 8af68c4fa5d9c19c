//! The status line of a running recording: the terminal's last row, kept out of the program's way.
//!
//! The program writes to the same terminal and knows nothing of us. So the last row is taken out of the
//! region that scrolls, as Debian's package manager does for its progress bar: the program's output
//! scrolls above it and is never written over. Nothing is drawn while the program has the terminal
//! in another mode (see [`crate::terminal::is_calm`]).

use crate::size;
use homefree_profile::live::Counters;
use std::io::{self, Write};

/// Fewer rows than this are all the program's.
const ROWS: u16 = 4;

/// The line; it takes the row when first drawn.
#[derive(Debug)]
pub struct StatusLine<W> {
    out: W,
    /// Columns and rows that the region was set up for.
    taken: Option<(u16, u16)>,
}

impl<W: Write> StatusLine<W> {
    /// A line that has not been drawn yet.
    pub fn new(out: W) -> Self {
        Self { out, taken: None }
    }

    /// Shows `text`, cut to the width, on a terminal of `size` (columns, rows).
    ///
    /// # Errors
    /// What writing to the terminal says.
    pub fn draw(&mut self, text: &str, size: (u16, u16)) -> io::Result<()> {
        let (columns, rows) = size;
        if rows < ROWS {
            return self.clear();
        }
        let mut bytes = String::new();
        if self.taken != Some(size) {
            // Down and up again: the cursor leaves the last row, where it may have been.
            bytes += &format!("\x1bD\x1bM\x1b7\x1b[1;{}r\x1b8", rows - 1);
            self.taken = Some(size);
        }
        let text: String = text.chars().take(usize::from(columns) - 1).collect();
        bytes += &format!("\x1b7\x1b[{rows};1H\x1b[0m\x1b[2K\x1b[2m{text}\x1b[0m\x1b8");
        // One write, so that the program's output does not come between the parts.
        self.out.write_all(bytes.as_bytes())?;
        self.out.flush()
    }

    /// Gives the row back, empty.
    ///
    /// # Errors
    /// What writing to the terminal says.
    pub fn clear(&mut self) -> io::Result<()> {
        self.give_back(true)
    }

    /// Gives the row back as it is: a full-screen program has it now.
    ///
    /// # Errors
    /// What writing to the terminal says.
    pub fn leave(&mut self) -> io::Result<()> {
        self.give_back(false)
    }

    fn give_back(&mut self, empty: bool) -> io::Result<()> {
        let Some((_, rows)) = self.taken.take() else {
            return Ok(());
        };
        let wipe = if empty {
            format!("\x1b[{rows};1H\x1b[2K")
        } else {
            String::new()
        };
        write!(self.out, "\x1b7\x1b[r{wipe}\x1b8")?;
        self.out.flush()
    }
}

/// What the line says.
pub fn text(counters: &Counters) -> String {
    let known = counters.frees_home + counters.frees_remote + counters.frees_unknown;
    format!(
        "homefree: {}, {} live, {} of frees remote, {}",
        size::many(counters.events, "event"),
        size::show(counters.live_bytes),
        size::share(counters.frees_remote, known),
        size::many(counters.threads, "thread"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: StatusLine<Vec<u8>>) -> String {
        String::from_utf8(line.out).unwrap()
    }

    #[test]
    fn the_row_is_taken_once_and_given_back_empty() {
        let mut line = StatusLine::new(Vec::new());
        line.draw("one", (80, 24)).unwrap();
        line.draw("two", (80, 24)).unwrap();
        line.clear().unwrap();
        line.clear().unwrap();
        let text = written(line);
        assert_eq!(text.matches("\x1b[1;23r").count(), 1);
        assert_eq!(text.matches("\x1b[24;1H").count(), 3);
        assert!(text.ends_with("\x1b7\x1b[r\x1b[24;1H\x1b[2K\x1b8"));
        assert_eq!(text.matches("\x1b7").count(), text.matches("\x1b8").count());
    }

    #[test]
    fn a_new_size_takes_the_new_row() {
        let mut line = StatusLine::new(Vec::new());
        line.draw("one", (80, 24)).unwrap();
        line.draw("one", (80, 30)).unwrap();
        assert!(written(line).contains("\x1b[1;29r"));
    }

    #[test]
    fn a_long_text_is_cut_and_a_tiny_terminal_left_alone() {
        let mut line = StatusLine::new(Vec::new());
        line.draw("0123456789", (5, 24)).unwrap();
        assert!(written(line).contains("\x1b[2m0123\x1b[0m"));
        let mut line = StatusLine::new(Vec::new());
        line.draw("x", (80, 3)).unwrap();
        assert_eq!(written(line), "");
    }

    #[test]
    fn the_text_names_events_live_bytes_and_the_remote_share() {
        let counters = Counters {
            events: 1_234_567,
            frees_home: 3,
            frees_remote: 1,
            live_bytes: 3 << 20,
            threads: 8,
            ..Counters::default()
        };
        assert_eq!(
            text(&counters),
            "homefree: 1,234,567 events, 3.0 MiB live, 25.0% of frees remote, 8 threads"
        );
    }
}
