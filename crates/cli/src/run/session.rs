//! A program under the ledger, from its start to what became of it.

use super::account::{Process, Report};
use super::memory::Memory;
use super::pages::Pages;
use super::{place, prometheus, text};
use crate::failure::Failure;
use crate::launch::{self, Ending, Watch};
use crate::library;
use crate::program::Program;
use crate::record::{Image, run_id};
use crate::say::say;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the Prometheus page is written unless it is said.
const PAGE_EVERY: Duration = Duration::from_secs(5);

/// Variables for the library.
pub type Settings = Vec<(&'static str, Option<OsString>)>;

/// What is shown while the program runs.
#[derive(Debug, Default)]
pub struct Outputs {
    /// A line on stderr so often.
    pub every: Option<Duration>,
    /// A Prometheus page.
    pub prometheus: Option<PathBuf>,
}

/// One run of one program.
#[derive(Debug)]
pub struct Session {
    pages: Pages,
    run: u64,
    image: Image,
    started: Instant,
    outputs: Outputs,
    /// When something was shown last.
    shown: Instant,
    /// What the system said of the program's memory last.
    memory: Option<Memory>,
    process: u32,
    page_failed: bool,
}

/// What became of a run.
#[derive(Debug)]
pub struct Recording {
    /// The account.
    pub report: Report,
    /// How the program ended.
    pub ending: Ending,
    /// The program that ran without the library at the end, as far as it was seen.
    pub became: Option<String>,
}

impl Session {
    /// Runs the program with the library in it and waits for its end.
    ///
    /// # Errors
    /// 126 or 127 where it cannot be started; where the library cannot be unpacked, or there is no place for pages.
    pub fn run(
        program: &Program,
        args: &[OsString],
        settings: Settings,
        outputs: Outputs,
    ) -> Result<Recording, Failure> {
        let run = run_id()?;
        let pages = Pages::new()?;
        let library = library::unpack(&library::LEDGER)?;
        let others = std::env::var_os("LD_PRELOAD");
        let mut environment = vec![
            (
                "LD_PRELOAD",
                Some(library::preload_value(&library, others.as_deref())),
            ),
            ("HOMEFREE_LEDGER_DIR", Some(pages.path().into())),
            ("HOMEFREE_LEDGER_RUN", Some(format!("{run:x}").into())),
            (
                "HOMEFREE_LEDGER_LAUNCHER",
                Some(std::process::id().to_string().into()),
            ),
        ];
        environment.extend(settings);
        let now = Instant::now();
        let mut session = Self {
            pages,
            run,
            image: Image::new(&library::LEDGER),
            started: now,
            outputs,
            shown: now,
            memory: None,
            process: 0,
            page_failed: false,
        };
        let ending = launch::run(&program.path, args, &environment, &mut session)?;
        let report = session.report(Some(ending));
        session.write_page(&report);
        let cut_short = report.main.as_ref().is_some_and(|main| !main.ended());
        let became = session.image.became(&program.path, cut_short, ending);
        Ok(Recording {
            report,
            ending,
            became,
        })
    }

    fn report(&self, ending: Option<Ending>) -> Report {
        let seconds = self.started.elapsed().as_secs_f64();
        let mut report = self.pages.report(self.run, self.process, ending, seconds);
        let fill = |process: &mut Process, memory: Option<Memory>| {
            // At an orderly end it says so itself, if it may still ask.
            if !process.ended() || process.memory == Memory::default() {
                process.memory = memory.unwrap_or_default();
            }
        };
        if let Some(main) = &mut report.main {
            fill(main, self.memory);
        }
        for other in &mut report.others {
            let pid = other.figures.pid;
            fill(other, Memory::of(pid));
        }
        report
    }

    fn write_page(&mut self, report: &Report) {
        let Some(path) = &self.outputs.prometheus else {
            return;
        };
        if let Err(error) = place::put(path, &prometheus::page(report))
            && !std::mem::replace(&mut self.page_failed, true)
        {
            say!("homefree: cannot write {}: {error}", path.display());
        }
    }

    fn show(&mut self) {
        let every = match (&self.outputs.prometheus, self.outputs.every) {
            (_, Some(every)) => every,
            (Some(_), None) => PAGE_EVERY,
            (None, None) => return,
        };
        if self.shown.elapsed() < every {
            return;
        }
        // Not drifting with the time that a look takes.
        self.shown += every;
        if self.shown.elapsed() > every {
            self.shown = Instant::now();
        }
        let report = self.report(None);
        if self.outputs.every.is_some() {
            say!("homefree: {}", text::line(&report));
        }
        self.write_page(&report);
    }
}

impl Watch for Session {
    fn interval(&self) -> Duration {
        // Short programs are looked at more often: their memory can only be read while they run.
        let often = if self.started.elapsed() < Duration::from_millis(500) {
            Duration::from_millis(20)
        } else {
            Duration::from_millis(250)
        };
        self.outputs.every.map_or(often, |every| every.min(often))
    }

    fn tick(&mut self, program: u32) {
        self.process = program;
        self.image.look(program);
        self.memory = Memory::of(program).or(self.memory);
        self.show();
    }

    fn pause(&mut self) {}

    fn ended(&mut self, program: u32) {
        self.process = program;
        self.image.look_last(program);
    }
}
