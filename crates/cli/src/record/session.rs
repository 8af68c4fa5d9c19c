//! A program under the recorder, from the first look at it to what became of it.

use super::{Image, Outcome, Output, Profiles};
use crate::failure::Failure;
use crate::launch::{self, Ending, Watch};
use crate::program::Program;
use crate::status::{self, StatusLine};
use crate::{library, terminal};
use homefree_profile::live::Counters;
use homefree_wire::state;
use std::ffi::OsString;
use std::io::{IsTerminal, Stderr, stderr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A short program is not worth a status line.
const QUIET: Duration = Duration::from_millis(500);

/// Variables for the library; none of a value: as inherited.
pub type Variables = Vec<(&'static str, Option<OsString>)>;

/// One run of one program under the recorder.
#[derive(Debug)]
pub struct Session {
    profiles: Profiles,
    image: Image,
    started: Instant,
    line: Option<StatusLine<Stderr>>,
    process: u32,
}

/// What became of a run.
#[derive(Debug)]
pub struct Recording {
    /// How the program ended.
    pub ending: Ending,
    /// Whether it was recorded to its end.
    pub outcome: Outcome,
    /// The profiles, the first process's first.
    pub profiles: Vec<PathBuf>,
    /// Sums over all of them.
    pub counters: Counters,
}

impl Session {
    /// Runs the program with the recorder in it and waits for its end. A status line is shown if
    /// `status` asks for it and stderr is a terminal that can.
    ///
    /// # Errors
    /// 126 or 127 where it cannot be started; where the library cannot be unpacked or no run id drawn.
    pub fn run(
        program: &Program,
        args: &[OsString],
        output: &Output,
        variables: Variables,
        status: bool,
    ) -> Result<Recording, Failure> {
        let run = run_id()?;
        let mut environment = vec![
            ("HOMEFREE_DIR", Some(output.folder.clone().into())),
            // One that was inherited belongs to a recording around this one.
            ("HOMEFREE_OUTPUT", output.file.clone().map(Into::into)),
            ("HOMEFREE_RUN", Some(format!("{run:x}").into())),
            (
                "HOMEFREE_LAUNCHER",
                Some(std::process::id().to_string().into()),
            ),
        ];
        if !program.by_itself {
            let library = library::unpack(&library::RECORDER)?;
            let others = std::env::var_os("LD_PRELOAD");
            let value = library::preload_value(&library, others.as_deref());
            environment.push(("LD_PRELOAD", Some(value)));
        }
        environment.extend(variables.into_iter().filter(|(_, value)| value.is_some()));

        let shown = status && stderr().is_terminal() && terminal::has_regions();
        let mut session = Self {
            profiles: Profiles::new(&output.folder, output.file.as_deref(), run),
            image: Image::new(&library::RECORDER),
            started: Instant::now(),
            line: shown.then(|| StatusLine::new(stderr())),
            process: 0,
        };
        let ending = launch::run(&program.path, args, &environment, &mut session)?;
        Ok(session.finish(program, ending))
    }

    fn finish(mut self, program: &Program, ending: Ending) -> Recording {
        self.profiles.scan();
        self.profiles.trim();
        let outcome = self.outcome(program, ending);
        Recording {
            ending,
            outcome,
            counters: self.profiles.counters(),
            profiles: self.profiles.found().to_vec(),
        }
    }

    fn outcome(&self, program: &Program, ending: Ending) -> Outcome {
        if self.profiles.found().is_empty() {
            return Outcome::NoProfile;
        }
        // The library cannot be seen in it, and need not.
        if program.by_itself {
            return Outcome::Recorded;
        }
        let own = self.profiles.of_process(self.process);
        let cut_short = matches!(own.as_slice(), [only] if only.state == state::RUNNING);
        match self.image.became(&program.path, cut_short, ending) {
            Some(other) => Outcome::Became(other),
            None => Outcome::Recorded,
        }
    }

    fn draw(&mut self) {
        let Some(line) = &mut self.line else {
            return;
        };
        // The terminal may be gone; the program does not care, and neither do we.
        let _ = if !terminal::is_calm(stderr()) {
            line.leave()
        } else if self.started.elapsed() < QUIET {
            Ok(())
        } else if let Some(size) = terminal::size(stderr()) {
            self.profiles.scan();
            line.draw(&status::text(&self.profiles.counters()), size)
        } else {
            line.clear()
        };
    }
}

impl Watch for Session {
    fn interval(&self) -> Duration {
        if self.started.elapsed() < QUIET {
            Duration::from_millis(50)
        } else if self.line.is_some() {
            Duration::from_millis(250)
        } else {
            Duration::from_secs(1)
        }
    }

    fn tick(&mut self, program: u32) {
        self.image.look(program);
        self.draw();
    }

    fn pause(&mut self) {
        if let Some(line) = &mut self.line {
            let _ = line.clear();
        }
    }

    fn ended(&mut self, program: u32) {
        self.process = program;
        self.image.look_last(program);
        self.pause();
    }
}

/// A random id, never 0.
///
/// # Errors
/// Where the system has no random bytes.
pub fn run_id() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_ne_bytes(bytes).max(1)),
        _ => Err(Failure::new(
            crate::failure::status::FAILED,
            "the system gives no random bytes (getrandom)",
        )),
    }
}
