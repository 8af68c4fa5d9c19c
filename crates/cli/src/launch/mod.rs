//! Runs a program as if we were not there: its terminal, its signals, its exit status.
//!
//! The launcher stays in the program's process group, so a terminal's Ctrl-C, Ctrl-\ and Ctrl-Z reach
//! the program by themselves. It blocks every signal and takes them one by one: what a terminal sent
//! to the whole group is dropped here, what somebody sent to the launcher alone is passed on.

mod signals;

use crate::failure::{Failure, status};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signals::Event;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exit(u8),
    /// This signal ended it.
    Signal(i32),
}

impl Ending {
    /// The status that a shell would give: the program's own, or 128 + signal.
    pub fn status(self) -> u8 {
        match self {
            Ending::Exit(code) => code,
            Ending::Signal(signal) => status::SIGNAL.wrapping_add(signal as u8),
        }
    }
}

/// Somebody who looks on while the program runs.
pub trait Watch {
    /// How often to be called.
    fn interval(&self) -> Duration;
    /// Called once in a while; `program` is the process id.
    fn tick(&mut self, program: u32);
    /// The program was stopped (Ctrl-Z): leave the terminal alone.
    fn pause(&mut self);
    /// The program has ended, but its process id is still taken.
    fn ended(&mut self, program: u32);
}

/// Looks at nothing.
pub struct Nobody;

impl Watch for Nobody {
    fn interval(&self) -> Duration {
        Duration::from_secs(3600)
    }
    fn tick(&mut self, _: u32) {}
    fn pause(&mut self) {}
    fn ended(&mut self, _: u32) {}
}

/// Starts `path` with `args` (the first is its name for itself) and `environment` changes, and waits
/// until it has ended.
///
/// # Errors
/// 126 or 127 as a shell says it where the program cannot be started.
pub fn run(
    path: &Path,
    args: &[OsString],
    environment: &[(&str, Option<OsString>)],
    watch: &mut dyn Watch,
) -> Result<Ending, Failure> {
    let mut command = Command::new(path);
    let name = args.first().map_or(path.as_os_str(), OsString::as_os_str);
    command.arg0(name).args(args.iter().skip(1));
    for (variable, value) in environment {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    let inherited = signals::take_over();
    let to_child = inherited.clone();
    // SAFETY: the closure runs between fork and exec in a process with one thread; it calls only
    // sigaction and sigprocmask, which are async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(move || to_child.restore()) };
    let started = command.spawn();
    let result = match started {
        // Waited for by its id below, so that stops are seen too.
        Ok(child) => wait(child.id(), watch),
        Err(error) => Err(cannot_start(name, &error)),
    };
    inherited.give_back();
    result
}

fn cannot_start(name: &OsStr, error: &io::Error) -> Failure {
    let status = if error.kind() == io::ErrorKind::NotFound {
        status::NOT_FOUND
    } else {
        status::CANNOT_RUN
    };
    Failure::new(status, format!("{}: cannot start: {error}", name.display()))
}

fn wait(program: u32, watch: &mut dyn Watch) -> Result<Ending, Failure> {
    let lost = || Failure::new(status::FAILED, "lost track of the program that was started");
    let pid = Pid::from_raw(program as i32).ok_or_else(lost)?;
    loop {
        match signals::next(watch.interval()) {
            Event::Child => {}
            Event::Tick => watch.tick(program),
            Event::Signal { number, pass_on } => {
                if pass_on {
                    signals::send(program, number);
                }
            }
        }
        // A look that leaves the process where it is: its last state can still be read.
        if has_ended(pid) {
            watch.ended(program);
        }
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        let waited = rustix::process::waitpid(Some(pid), options).map_err(|_| lost())?;
        let Some((_, state)) = waited else {
            continue;
        };
        if let Some(ending) = ending(state) {
            return Ok(ending);
        }
        if let Some(signal) = state.stopping_signal() {
            stop_with(pid, signal, watch);
        }
    }
}

fn has_ended(pid: Pid) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)))
}

fn ending(state: WaitStatus) -> Option<Ending> {
    if let Some(code) = state.exit_status() {
        return Some(Ending::Exit(code as u8));
    }
    state.terminating_signal().map(Ending::Signal)
}

/// The program was stopped by the terminal: stop too, so that the shell notices, and go on together.
fn stop_with(pid: Pid, signal: i32, watch: &mut dyn Watch) {
    let by_terminal = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
    // A program in a group of its own (a shell with job control) is none of our shell's business, and
    // without a terminal nobody would wake us again.
    let ours = rustix::process::getpgid(Some(pid)) == Ok(rustix::process::getpgrp());
    if !by_terminal || !ours || std::fs::File::open("/dev/tty").is_err() {
        return;
    }
    watch.pause();
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    let _ = rustix::process::kill_process(pid, Signal::CONT);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;
    impl Watch for Nobody {
        fn interval(&self) -> Duration {
            Duration::from_millis(20)
        }
        fn tick(&mut self, _: u32) {}
        fn pause(&mut self) {}
        fn ended(&mut self, program: u32) {
            // The process is still there to be read.
            assert!(std::fs::read(format!("/proc/{program}/stat")).is_ok());
        }
    }

    fn sh(script: &str) -> Ending {
        start("/bin/sh", &["sh", "-c", script])
    }

    fn start(path: &str, args: &[&str]) -> Ending {
        let args: Vec<OsString> = args.iter().map(Into::into).collect();
        let environment = [("HOMEFREE_TEST", Some("yes".into())), ("HOME", None)];
        // One at a time: the signal mask belongs to the whole process.
        static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _one = ONE.lock();
        run(Path::new(path), &args, &environment, &mut Nobody).unwrap()
    }

    #[test]
    fn the_status_is_the_programs_own() {
        assert_eq!(sh("exit 0"), Ending::Exit(0));
        assert_eq!(sh("exit 7"), Ending::Exit(7));
        assert_eq!(sh("kill -9 $$"), Ending::Signal(9));
        assert_eq!(sh("kill -9 $$").status(), 137);
        assert_eq!(sh("exit 255").status(), 255);
    }

    #[test]
    fn the_environment_is_changed_as_asked() {
        assert_eq!(sh("test \"$HOMEFREE_TEST\" = yes"), Ending::Exit(0));
        assert_eq!(sh("test -z \"${HOME+x}\""), Ending::Exit(0));
    }

    #[test]
    fn the_program_starts_with_nothing_blocked_that_was_not_before() {
        let script = "grep -q '^SigBlk:.*0000000000000000' /proc/self/status";
        assert_eq!(sh(script), Ending::Exit(0));
    }

    #[test]
    fn what_was_blocked_before_us_stays_blocked() {
        // A thread of its own: the mask of a test's thread must not change for others.
        let ending = std::thread::spawn(|| {
            // SAFETY: the set is initialised by sigemptyset before it is used; plain library calls.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGUSR2);
                libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            }
            // Not through a shell: some clear the mask.
            let pattern = "^SigBlk:.*0000000000000800";
            start("/bin/grep", &["grep", "-q", pattern, "/proc/self/status"])
        });
        assert_eq!(ending.join().unwrap(), Ending::Exit(0));
    }

    #[test]
    fn what_is_not_there_is_127() {
        let failure = run(
            Path::new("/no/such/program"),
            &["x".into()],
            &[],
            &mut Nobody,
        );
        assert_eq!(failure.unwrap_err().status, status::NOT_FOUND);
    }
}
