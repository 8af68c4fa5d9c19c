//! Where and on what the bench runs.

use serde::Serialize;
use std::path::Path;
use std::process::Command;

/// Machine and versions.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// Model of the processor.
    pub cpu: String,
    /// Cores that may be used.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// The C library, as `ldd` says it.
    pub libc: Option<String>,
    /// The C compiler.
    pub cc: Option<String>,
    /// heaptrack.
    pub heaptrack: Option<String>,
    /// redis-server, its allocator included.
    pub redis: Option<String>,
    /// valgrind.
    pub valgrind: Option<String>,
    /// Size in bytes and build id of the recorder's library.
    pub library: Option<String>,
}

impl Host {
    /// Looks around.
    pub fn look(lib: Option<&Path>) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo")
            .lines()
            .find_map(|l| {
                Some(
                    l.strip_prefix("model name")?
                        .split_once(':')?
                        .1
                        .trim()
                        .to_owned(),
                )
            })
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        Self {
            cpu,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            libc: first_line("ldd", "--version"),
            cc: first_line("cc", "--version"),
            heaptrack: first_line("heaptrack", "--version"),
            redis: first_line("redis-benchmark", "--version")
                .and_then(|_| first_line("redis-server", "--version")),
            valgrind: first_line("valgrind", "--version"),
            library: lib.map(library),
        }
    }

    /// The same as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("processor: {}, {} cores", self.cpu, self.cores),
            format!("kernel: Linux {}", self.kernel),
        ];
        for (name, value) in [
            ("C library", &self.libc),
            ("compiler", &self.cc),
            ("heaptrack", &self.heaptrack),
            ("redis", &self.redis),
            ("valgrind", &self.valgrind),
            ("libhomefree.so", &self.library),
        ] {
            lines.push(format!("{name}: {}", value.as_deref().unwrap_or("none")));
        }
        lines
    }
}

/// First line that `program option` prints; `None` where it cannot run.
fn first_line(program: &str, option: &str) -> Option<String> {
    let output = Command::new(program).arg(option).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().map(str::trim).unwrap_or_default();
    Some(line.to_owned())
}

fn library(path: &Path) -> String {
    let bytes = path.metadata().map_or(0, |m| m.len());
    let notes = Command::new("readelf").arg("-n").arg(path).output();
    let notes = notes.map_or_else(
        |_| String::new(),
        |o| String::from_utf8_lossy(&o.stdout).into_owned(),
    );
    let id = notes
        .lines()
        .find_map(|l| l.trim().strip_prefix("Build ID: "));
    format!("{bytes} bytes, build id {}", id.unwrap_or("none"))
}
