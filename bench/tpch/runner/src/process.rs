//! A child as the runner sees it.

use crate::protocol::{Ask, Ran, Ready, Say};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How a child is started.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// Its library.
    pub library: &'a Path,
    /// Directory of the Parquet files.
    pub data: &'a Path,
    /// Worker threads of its engine.
    pub threads: usize,
    /// For one answer.
    pub timeout: Duration,
}

/// A child that does not outlive this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A child that was waited for is not killed again; one that has ended cannot be: both are fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child with its library loaded and its tables open.
pub struct Process {
    child: Running,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    timeout: Duration,
    /// What the child found.
    pub ready: Ready,
}

impl Process {
    /// Starts a child; it is killed when an answer takes longer than `timeout`. With `under`, a program and its
    /// options, the child is run by that.
    ///
    /// # Errors
    /// It cannot be started, or ends before it is ready.
    pub fn start(start: &Start<'_>, under: &[OsString]) -> Result<Self> {
        let own = std::env::current_exe()?.into_os_string();
        let mut words = under.iter().cloned().chain([own]);
        let program = words.next().context("no program")?;
        let timeout = start.timeout;
        let child = Command::new(&program)
            .args(words)
            .arg("child")
            .args([start.library, start.data])
            .arg(start.threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| program.to_string_lossy().into_owned())?;
        let mut child = Running(child);
        let input = child.0.stdin.take();
        let output = child.0.stdout.take().context("no output")?;
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        match hear(&answers, timeout, "a child that starts")? {
            Say::Ready(ready) => Ok(Self {
                child,
                input,
                answers,
                timeout,
                ready,
            }),
            other => bail!("unexpected: {other:?}"),
        }
    }

    /// Runs a query.
    ///
    /// # Errors
    /// It fails, or takes too long.
    pub fn run(&mut self, query: u32) -> Result<Ran> {
        match self.ask(&Ask::Run(query))? {
            Say::Ran(ran) => Ok(ran),
            other => bail!("unexpected: {other:?}"),
        }
    }

    /// Runs a query and has its rows written to a file.
    ///
    /// # Errors
    /// As [`Process::run`].
    pub fn write(&mut self, query: u32, path: &Path) -> Result<()> {
        let path = path.to_str().context("a path that is no text")?.to_owned();
        match self.ask(&Ask::Write(query, path))? {
            Say::Written => Ok(()),
            other => bail!("unexpected: {other:?}"),
        }
    }

    /// Closes the engine; the bytes that are left on its account, where one is kept.
    ///
    /// # Errors
    /// The child does not end well.
    pub fn close(mut self) -> Result<Option<i64>> {
        let Say::Closed { left } = self.ask(&Ask::Close)? else {
            bail!("the engine was not closed");
        };
        self.input = None;
        let status = self.child.0.wait()?;
        if !status.success() {
            bail!("{}: {status}", self.ready.arm);
        }
        Ok(left)
    }

    fn ask(&mut self, what: &Ask) -> Result<Say> {
        let mut line = serde_json::to_string(what)?;
        line.push('\n');
        let input = self.input.as_mut().context("the child is closed")?;
        input.write_all(line.as_bytes())?;
        hear(&self.answers, self.timeout, &self.ready.arm)
    }
}

fn hear(answers: &Receiver<String>, timeout: Duration, who: &str) -> Result<Say> {
    match answers.recv_timeout(timeout) {
        Ok(line) => Ok(serde_json::from_str(&line)?),
        Err(RecvTimeoutError::Timeout) => bail!("{who}: no answer in {timeout:?}"),
        Err(RecvTimeoutError::Disconnected) => bail!("{who}: ended early"),
    }
}
