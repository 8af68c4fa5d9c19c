//! `homefree demo`: the newcomer's first look.

use super::report;
use crate::demo_server;
use crate::failure::{Failure, status};
use crate::launch::Ending;
use crate::program;
use crate::record::{Output, Session, unrecorded};
use crate::say::say;
use clap::Args;
use homefree_profile::{Options, Profile};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Record a small built-in server for a second and explain its report
///
/// A reactor thread reads requests and hands them to workers in boxes; the workers send boxed replies
/// back. Each box is freed on the other side: what homefree is there to show.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Demo {
    /// How long the server runs
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Keep the profile here
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  homefree demo
  homefree demo -o demo.hfp && homefree report --full-stacks demo.hfp";

/// What the report means, for somebody who sees one for the first time.
const EXPLAINED: [&str; 3] = [
    "The reactor boxes requests that workers free; workers box replies that it frees.",
    "Such remote frees cost locks and cache misses in the allocator, home frees do not.",
    "Your turn: `homefree record -- ./your-program`, then `homefree report` its profile.",
];

impl Demo {
    /// Runs the server under the recorder and prints the report.
    pub fn run(self) -> Result<u8, Failure> {
        let failed = |error: io::Error| {
            Failure::new(status::FAILED, format!("cannot run the demo: {error}"))
        };
        let folder = tempfile::tempdir().map_err(failed)?;
        let file = match &self.output {
            Some(file) => file.clone(),
            None => folder.path().join("demo.hfp"),
        };
        let output = Output::choose(Some(&file), None)?;
        output.try_writing().map_err(|reason| {
            Failure::new(status::NOT_RECORDED, "the profile cannot be written").why(reason)
        })?;
        let this = std::env::current_exe().map_err(failed)?;
        self.record(&this, &output)?;

        let profile = Profile::open(&file)
            .map_err(|error| Failure::new(status::FAILED, error.to_string()))?;
        let options = Options {
            top: Some(4),
            ..Options::default()
        };
        let result =
            report::write(vec![profile], &options)?.and_then(|()| explain(&mut io::stdout()));
        super::written(result)
    }

    fn record(&self, this: &Path, output: &Output) -> Result<(), Failure> {
        let program = program::examine(this.as_os_str(), None)?;
        let seconds = self.seconds.to_string();
        let args: Vec<OsString> = ["homefree", demo_server::NAME, "--seconds", &seconds]
            .map(Into::into)
            .into();
        say!(
            "homefree: recording a small server for {seconds} s: a reactor, 4 workers, boxed requests and replies"
        );
        // The demo is the same whatever the user's variables say.
        let variables = vec![
            ("HOMEFREE_STACKS", Some("auto".into())),
            ("HOMEFREE_DEPTH", Some("64".into())),
            ("HOMEFREE_FREE_STACKS", Some("cross".into())),
            ("HOMEFREE_SAMPLE", Some("0".into())),
        ];
        let recording = Session::run(&program, &args, output, variables, false)?;
        if let Some(failure) = unrecorded("the demo server", &recording.outcome) {
            return Err(failure);
        }
        match recording.ending {
            Ending::Exit(0) => Ok(()),
            Ending::Exit(code) => Err(Failure::new(
                status::FAILED,
                format!("the demo server failed with status {code}"),
            )),
            ending @ Ending::Signal(signal) => Err(Failure::new(
                ending.status(),
                format!("the demo server was ended by signal {signal}"),
            )),
        }
    }
}

fn explain(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    EXPLAINED
        .iter()
        .try_for_each(|line| writeln!(out, "{line}"))
}
