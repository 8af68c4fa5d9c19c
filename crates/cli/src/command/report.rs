//! `homefree report`.

use crate::failure::{Failure, status};
use crate::{size, terminal};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use homefree_profile::report::{By, Format};
use homefree_profile::{Options, Profile, ProgressEvent, Regex, TextStyle};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Show which memory was freed on another thread, ranked
///
/// Totals first, then one row for each flow: memory allocated at one site by one role of threads and
/// freed at another site by another role. Several profiles are merged. Symbols are read now, from
/// the files on this machine that the recorded program was made of.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{STATUS}"))]
pub struct Report {
    /// Profiles, as `homefree record` leaves them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Rows at most; in JSON flows at most. [default: 20; all in JSON]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    top: Option<usize>,
    /// What a row stands for
    #[arg(long, value_name = "WHAT", default_value = "flow")]
    by: What,
    /// Only flows from or to a thread role that matches
    #[arg(long, value_name = "REGEX")]
    thread: Option<Regex>,
    /// Only flows with a site that matches (function, file:line and module are looked at)
    #[arg(long, value_name = "REGEX")]
    site: Option<Regex>,
    /// Only rows of at least so many bytes, as in 64KiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0")]
    min_bytes: u64,
    /// Write JSON (its form is versioned, see docs/json.md)
    #[arg(long)]
    json: bool,
    /// Show the whole stacks below each row
    #[arg(long)]
    full_stacks: bool,
}

/// `--by`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// Allocation site and role, free site and role
    Flow,
    /// Allocation site
    AllocSite,
    /// Free site
    FreeSite,
    /// Allocating and freeing role
    Role,
}

impl From<What> for By {
    fn from(what: What) -> Self {
        match what {
            What::Flow => By::Flow,
            What::AllocSite => By::AllocSite,
            What::FreeSite => By::FreeSite,
            What::Role => By::Role,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  homefree report homefree.server.4242.hfp
  homefree report --thread 'rpc-.*' --full-stacks server.hfp
  homefree report --by role node-*.hfp
  homefree report --json server.hfp | jq '.flows[0]'";

const STATUS: &str = "\
Exit status:
  0  the report was written; of a cut or damaged file, of what could be read
  1  a file cannot be read, is not a profile, is empty or of a newer version
  2  the command line is wrong

Environment:
  NO_COLOR, CLICOLOR and CLICOLOR_FORCE decide about colours; piped output is plain.";

impl Report {
    /// Writes the report to stdout.
    pub fn run(self) -> Result<u8, Failure> {
        let profiles = open(&self.files)?;
        let options = Options {
            top: self.top,
            by: self.by.into(),
            thread: self.thread,
            site: self.site,
            min_bytes: self.min_bytes,
            full_stacks: self.full_stacks,
            format: if self.json {
                Format::Json
            } else {
                Format::Text
            },
        };
        super::written(write(profiles, &options)?)
    }
}

/// Opens them all; the first that cannot be read ends it, for half a sum would pass for a whole one.
fn open(files: &[PathBuf]) -> Result<Vec<Profile>, Failure> {
    files
        .iter()
        .map(|file| {
            Profile::open(file).map_err(|error| Failure::new(status::FAILED, error.to_string()))
        })
        .collect()
}

/// Builds the report, with a progress bar where it takes long, and writes it to stdout.
///
/// # Errors
/// Where there is nothing to report on. What writing said is inside, for a reader may just have left.
pub fn write(profiles: Vec<Profile>, options: &Options) -> Result<io::Result<()>, Failure> {
    let bar = Bar::new();
    let report = homefree_profile::Report::build(profiles, options, &|event| bar.show(event));
    bar.clear();
    let report = report.map_err(|error| Failure::new(status::FAILED, error.to_string()))?;
    let stdout = io::stdout();
    let style = TextStyle {
        width: terminal::width(&stdout).unwrap_or(TextStyle::default().width),
        colour: terminal::colour(&stdout),
    };
    let mut out = BufWriter::new(stdout.lock());
    let result = match options.format {
        Format::Json => report.write_json(&mut out),
        Format::Text => report.write_text(&mut out, &style),
    };
    Ok(result.and_then(|()| out.flush()))
}

/// A progress bar on stderr (if that is a terminal) that appears only when it takes a while.
struct Bar {
    started: Instant,
    bar: RefCell<Option<ProgressBar>>,
}

impl Bar {
    const PATIENCE: Duration = Duration::from_millis(300);

    fn new() -> Self {
        Self {
            started: Instant::now(),
            bar: RefCell::new(None),
        }
    }

    fn show(&self, event: ProgressEvent) {
        if self.started.elapsed() < Self::PATIENCE {
            return;
        }
        let (what, done, total) = match event {
            ProgressEvent::Merging { done, total } => ("merging profiles", done, total),
            ProgressEvent::Symbolizing { done, total } => ("looking up symbols", done, total),
            _ => return,
        };
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}");
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_message(what);
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    }

    fn clear(&self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rows_at_all_are_a_usage_error() {
        use clap::Parser;
        let parse =
            |top| crate::command::Cli::try_parse_from(["homefree", "report", "--top", top, "x"]);
        assert_eq!(parse("0").unwrap_err().exit_code(), 2);
        assert!(parse("1").is_ok());
    }

    #[test]
    fn a_file_that_is_no_profile_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.hfp");
        for (bytes, said) in [
            (&b""[..], "empty"),
            (b"hello", "not a Homefree profile"),
            (b"HOMEFREE", "cut"),
        ] {
            std::fs::write(&file, bytes).unwrap();
            let Err(failure) = open(std::slice::from_ref(&file)) else {
                panic!("opened {bytes:?}");
            };
            assert_eq!(failure.status, status::FAILED);
            assert!(failure.what.contains("x.hfp"), "{failure}");
            assert!(failure.what.contains(said), "{failure}");
        }
    }
}
