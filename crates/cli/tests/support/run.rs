//! Runs a child with a time limit and keeps all it said.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A child to be run.
pub struct Run {
    pub command: Command,
    limit: Duration,
    stdin: Option<Vec<u8>>,
}

impl Run {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        // Tests decide what the child sees of the recorder.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"HOMEFREE_") || name == "LD_PRELOAD" {
                command.env_remove(name);
            }
        }
        command.process_group(0);
        Self {
            command,
            limit: Duration::from_secs(60),
            stdin: None,
        }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    pub fn stdin(mut self, bytes: &[u8]) -> Self {
        self.stdin = Some(bytes.to_vec());
        self
    }

    /// How long the child may take before it is killed and the test fails.
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Starts the child; its output goes to files, so that a left-over grandchild cannot hold it open.
    pub fn start(mut self) -> Running {
        let files = tempfile::tempdir().expect("a directory for the child's output");
        let file = |name| File::create(files.path().join(name)).expect("an output file");
        let stdin = match &self.stdin {
            Some(bytes) => {
                let path = files.path().join("stdin");
                std::fs::write(&path, bytes).expect("the child's input");
                Stdio::from(File::open(path).expect("the child's input"))
            }
            None => Stdio::null(),
        };
        self.command.stdin(stdin);
        self.command.stdout(file("stdout")).stderr(file("stderr"));
        let child = self
            .command
            .spawn()
            .unwrap_or_else(|e| panic!("{:?}: {e}", self.command));
        Running {
            child,
            files,
            what: format!("{:?}", self.command),
            deadline: Instant::now() + self.limit,
        }
    }

    /// Runs the child to its end.
    ///
    /// # Panics
    /// When it takes longer than its limit.
    pub fn run(self) -> Ran {
        self.start().wait()
    }
}

/// A child that runs.
pub struct Running {
    pub child: Child,
    files: tempfile::TempDir,
    what: String,
    deadline: Instant,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the child has written to stdout so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(self.files.path().join("stdout")).unwrap_or_default()
    }

    /// Waits until the child's output holds `text` and ends a line.
    pub fn wait_for_output(&mut self, text: &str) {
        self.until("its output", |files| {
            std::fs::read_to_string(files.join("stdout"))
                .is_ok_and(|t| t.contains(text) && t.ends_with('\n'))
        });
    }

    /// Waits until `done` says so, while the child runs.
    pub fn until(&mut self, what: &str, done: impl Fn(&Path) -> bool) {
        while !done(self.files.path()) {
            if let Some(status) = self.child.try_wait().expect("the child's state") {
                panic!("{} ended ({status}) before {what}", self.what);
            }
            self.check_deadline(what);
        }
    }

    pub fn signal(&self, signal: Signal) {
        signal_process(self.child.id(), signal);
    }

    /// Signals the child and all that it started, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        let group = Pid::from_raw(self.child.id() as i32).expect("a group");
        kill_process_group(group, signal).expect("a signal to the child's group");
    }

    pub fn wait(mut self) -> Ran {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the child's state") {
                break status;
            }
            self.check_deadline("its end");
        };
        let read = |name| std::fs::read(self.files.path().join(name)).expect("the child's output");
        Ran {
            what: self.what.clone(),
            status,
            stdout: read("stdout"),
            stderr: read("stderr"),
        }
    }

    fn check_deadline(&mut self, what: &str) {
        if Instant::now() > self.deadline {
            self.signal_group(Signal::KILL);
            let read = |name| std::fs::read(self.files.path().join(name)).unwrap_or_default();
            panic!(
                "{} hangs, waiting for {what}\nstdout: {}\nstderr: {}",
                self.what,
                String::from_utf8_lossy(&read("stdout")),
                String::from_utf8_lossy(&read("stderr"))
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal_group(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

pub fn signal_process(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, signal).expect("a signal to the process");
}

/// A child that has ended.
#[derive(Debug)]
pub struct Ran {
    pub what: String,
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Ran {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The exit code as a shell would tell it: 128 + n for a signal.
    pub fn code(&self) -> i32 {
        match self.status.signal() {
            Some(signal) => 128 + signal,
            None => self.status.code().unwrap_or(-1),
        }
    }

    /// Fails the test unless the child ended with `code`.
    #[track_caller]
    pub fn ended_with(self, code: i32) -> Self {
        assert!(
            self.code() == code,
            "{} ended with {}, not {code}\nstdout: {}\nstderr: {}",
            self.what,
            self.status,
            self.out(),
            self.err()
        );
        self
    }

    /// Fails the test unless the child ended well.
    #[track_caller]
    pub fn ended_well(self) -> Self {
        self.ended_with(0)
    }
}

/// Path of an installed program; says that a test is skipped where there is none.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed");
    }
    found
}
