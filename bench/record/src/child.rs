//! Runs a command and takes its whole use of the processor from `wait4`.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What a run used.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// From the spawn to the end of the command, seconds.
    pub wall: f64,
    /// User + system time, seconds: of the command and of all its descendants that were waited for.
    pub cpu: f64,
}

/// A command that runs, in a process group of its own, and is killed when its time is over.
pub struct Running {
    pid: libc::pid_t,
    start: Instant,
    /// Dropped at the end, which stops the watch.
    _watch: mpsc::Sender<()>,
    reaped: bool,
}

impl Running {
    /// Starts `command`, its output going to two files in `dir`.
    ///
    /// # Errors
    /// The command cannot be started, or the files not be made.
    pub fn start(mut command: Command, dir: &Path, timeout: Duration) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("stdout"))?)
            .stderr(File::create(dir.join("stderr"))?)
            .process_group(0);
        let start = Instant::now();
        let child = command
            .spawn()
            .with_context(|| command.get_program().to_string_lossy().into_owned())?;
        let pid = libc::pid_t::try_from(child.id())?;
        let (watch, over) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if over.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Timeout) {
                kill_group(pid);
            }
        });
        Ok(Self {
            pid,
            start,
            _watch: watch,
            reaped: false,
        })
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// `wait4` fails, or the command did not end with status 0; the message has the end of its output.
    pub fn finish(mut self, dir: &Path) -> Result<Use> {
        let mut status = 0;
        // SAFETY: all-zero is a valid `rusage`, which is plain numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: both pointers are to live locals; the pid is of our own child, not yet waited for
            // (nothing else waits: `Child` was dropped, which does not).
            let got = unsafe { libc::wait4(self.pid, &raw mut status, 0, &raw mut usage) };
            if got == self.pid {
                break;
            }
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error).context("wait4");
            }
        }
        let wall = self.start.elapsed().as_secs_f64();
        self.reaped = true;
        let status = ExitStatus::from_raw(status);
        if !status.success() {
            let tail = |name| {
                let text = std::fs::read(dir.join(name)).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                let lines: Vec<&str> = text.lines().rev().take(4).collect();
                lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
            };
            bail!("{status}; {} {}", tail("stdout"), tail("stderr"));
        }
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
        Ok(Use {
            wall,
            cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        })
    }
}

impl Drop for Running {
    /// A run that an error leaves behind is ended with all that it started.
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        kill_group(self.pid);
        // SAFETY: our own child, not waited for yet; a null status is allowed.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

fn kill_group(pid: libc::pid_t) {
    // SAFETY: no memory is involved. The group is the child's own and still exists, for its leader has
    // not been waited for.
    unsafe { libc::kill(-pid, libc::SIGKILL) };
}

/// Runs a command to its end.
///
/// # Errors
/// As [`Running::start`] and [`Running::finish`].
pub fn run(command: Command, dir: &Path, timeout: Duration) -> Result<Use> {
    Running::start(command, dir, timeout)?.finish(dir)
}
