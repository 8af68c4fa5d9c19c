//! `homefree man`.

use super::Cli;
use crate::failure::{Failure, status};
use clap::{Args, CommandFactory};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Print the manual page, or write all pages to a folder
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Man {
    /// Write homefree.1 and one page for each subcommand here (made if missing) instead of printing
    /// the first
    folder: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  homefree man | man -l -
  homefree man ~/.local/share/man/man1 && man homefree-record";

impl Man {
    /// Prints or writes the pages.
    pub fn run(self) -> Result<u8, Failure> {
        let pages = pages();
        let Some(folder) = self.folder else {
            let first = pages.first().map_or(&[][..], |(_, page)| page);
            return super::written(io::stdout().write_all(first));
        };
        let write = || -> io::Result<()> {
            fs::create_dir_all(&folder)?;
            pages
                .iter()
                .try_for_each(|(name, page)| fs::write(folder.join(name), page))
        };
        write().map(|()| 0).map_err(|error| {
            Failure::new(
                status::FAILED,
                format!("cannot write to {}: {error}", folder.display()),
            )
        })
    }
}

/// File names and contents: the program's page, then the subcommands'.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut program = Cli::command();
    program.build();
    let subcommands: Vec<_> = program
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .cloned()
        .collect();
    std::iter::once(program.clone())
        .chain(subcommands)
        .map(|command| {
            let name = match command.get_name() {
                "homefree" => "homefree".to_string(),
                sub => format!("homefree-{sub}"),
            };
            (format!("{name}.1"), page(command, name))
        })
        .collect()
}

/// One page. The sections at the end of the help (examples, exit status) become sections here.
fn page(command: clap::Command, name: String) -> Vec<u8> {
    let after = command
        .get_after_long_help()
        .or(command.get_after_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    let command = command
        .after_help(None::<&str>)
        .after_long_help(None::<&str>)
        .display_name(name);
    let man =
        clap_mangen::Man::new(command).source(concat!("homefree ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = man.render(&mut page);
    page.extend_from_slice(sections(&after).as_bytes());
    page
}

/// Help text with `Title:` lines to roff sections, kept line by line.
fn sections(text: &str) -> String {
    let mut out = String::new();
    let mut open = false;
    for line in text.lines() {
        let title = line
            .strip_suffix(':')
            .filter(|title| !title.starts_with(' '));
        if let Some(title) = title {
            if open {
                out += ".fi\n";
            }
            out += &format!(".SH \"{}\"\n.nf\n", title.to_uppercase());
            open = true;
        } else if open {
            let line = line.strip_prefix("  ").unwrap_or(line);
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            let guard = if line.starts_with(['.', '\'']) {
                "\\&"
            } else {
                ""
            };
            out += &format!("{guard}{line}\n");
        } else if !line.is_empty() {
            out += &format!("{line}\n");
        }
    }
    if open {
        out += ".fi\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_everything_that_is_not_hidden() {
        let pages = pages();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "homefree.1");
        assert!(names.contains(&"homefree-record.1"), "{names:?}");
        assert!(!names.iter().any(|n| n.contains("server")), "{names:?}");
    }

    #[test]
    fn examples_and_exit_status_are_sections() {
        let pages = pages();
        let (_, page) = pages
            .iter()
            .find(|(name, _)| name == "homefree-record.1")
            .unwrap();
        let text = String::from_utf8_lossy(page);
        let foot = concat!("\"homefree ", env!("CARGO_PKG_VERSION"), "\"");
        assert!(text.contains(foot), "{text}");
        assert!(!text.contains(".SH EXTRA"), "{text}");
        assert!(text.contains(".SH \"EXAMPLES\""), "{text}");
        assert!(text.contains(".SH \"EXIT STATUS\""), "{text}");
    }

    #[test]
    fn sections_are_kept_line_by_line() {
        assert_eq!(
            sections("Examples:\n  a -b\n  .c\n\nExit status:\n  0  fine"),
            ".SH \"EXAMPLES\"\n.nf\na \\-b\n\\&.c\n\n.fi\n.SH \"EXIT STATUS\"\n.nf\n0  fine\n.fi\n"
        );
    }
}
