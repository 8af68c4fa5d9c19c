//! What the environment asks for. Every variable is optional; a bad value counts as none.

use core::ffi::CStr;
use homefree_thread::environment::variable as var;
use homefree_thread::sys;
use homefree_wire::stacks;

/// Longest path handled, NUL included.
pub(crate) const PATH: usize = 4096;

/// Frames kept at most.
pub(crate) const MAX_DEPTH: usize = 128;

/// Settings of this process.
pub(crate) struct Config {
    pub stacks: u32,
    pub depth: u32,
    pub free_stacks_all: bool,
    pub sample_bytes: u64,
    pub run_id: u64,
    /// False where the environment says that this process is not to be recorded.
    pub record: bool,
    /// Children are recorded too.
    pub follow: bool,
    output: Option<&'static [u8]>,
    dir: Option<&'static [u8]>,
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, radix).ok()
}

impl Config {
    /// Reads the environment.
    pub fn from_env() -> Self {
        let ignore_children = var(b"HOMEFREE_CHILDREN") == Some(b"ignore");
        let launcher = var(b"HOMEFREE_LAUNCHER").and_then(|v| number(v, 10));
        let depth = var(b"HOMEFREE_DEPTH")
            .and_then(|v| number(v, 10))
            .filter(|&d| d > 0);
        Self {
            stacks: match var(b"HOMEFREE_STACKS") {
                Some(b"fp") => stacks::FP,
                Some(b"dwarf") => stacks::DWARF,
                Some(b"none") => stacks::NONE,
                _ => stacks::AUTO,
            },
            depth: depth.map_or(64, |d| d.min(MAX_DEPTH as u64) as u32),
            free_stacks_all: var(b"HOMEFREE_FREE_STACKS") == Some(b"all"),
            sample_bytes: var(b"HOMEFREE_SAMPLE")
                .and_then(|v| number(v, 10))
                .unwrap_or(0),
            run_id: var(b"HOMEFREE_RUN")
                .and_then(|v| number(v, 16))
                .unwrap_or(0),
            record: !ignore_children
                || launcher.is_none()
                || launcher == Some(u64::from(sys::parent_id())),
            follow: !ignore_children,
            output: var(b"HOMEFREE_OUTPUT").filter(|v| !v.is_empty()),
            dir: var(b"HOMEFREE_DIR").filter(|v| !v.is_empty()),
        }
    }
}

/// Where profiles go, fixed at the start: the environment and the current directory may change.
pub(crate) struct Naming {
    /// The name asked for with `-o`; empty where none was.
    output: Text,
    dir: Text,
    command: Text<48>,
}

/// Bytes of bounded length.
pub(crate) struct Text<const N: usize = PATH> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }
    /// Appends what fits, keeping one byte free for a NUL.
    pub fn push(&mut self, text: &[u8]) {
        let n = text.len().min(N - 1 - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&text[..n]);
        self.len += n;
        self.bytes[self.len] = 0;
    }
    pub fn clear(&mut self) {
        self.len = 0;
        self.bytes[0] = 0;
    }
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    pub fn as_cstr(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
    fn push_number(&mut self, mut n: u64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }
}

impl Naming {
    pub const fn new() -> Self {
        Self {
            output: Text::new(),
            dir: Text::new(),
            command: Text::new(),
        }
    }

    /// Takes what `config` and the command line (NUL-separated) say.
    pub fn set(&mut self, config: &Config, command_line: &[u8]) {
        self.output.clear();
        self.dir.clear();
        self.command.clear();
        let mut current = [0; PATH];
        let len = sys::current_dir(&mut current);
        let current = &current[..len];
        // The program may change its directory later.
        let absolute = |text: &mut Text, path: &[u8]| {
            if !path.starts_with(b"/") {
                text.push(current);
                text.push(b"/");
            }
            text.push(path);
        };
        if let Some(output) = config.output {
            absolute(&mut self.output, output);
        }
        match config.dir {
            Some(dir) => absolute(&mut self.dir, dir),
            None => self.dir.push(current),
        }
        let arg0 = command_line.split(|&b| b == 0).next().unwrap_or(b"");
        let base = arg0.rsplit(|&b| b == b'/').next().unwrap_or(arg0);
        for &b in base.iter().take(40) {
            let plain = b.is_ascii_alphanumeric() || b"._+-".contains(&b);
            self.command.push(&[if plain { b } else { b'_' }]);
        }
        if self.command.as_bytes().is_empty() {
            self.command.push(b"unknown");
        }
    }

    /// The `attempt`-th name to try for the profile of process `pid`, in `out`.
    pub fn candidate(&self, attempt: u32, pid: u32, out: &mut Text) {
        out.clear();
        let output = self.output.as_bytes();
        if attempt == 0 && !output.is_empty() {
            out.push(output);
            return;
        }
        if output.is_empty() {
            out.push(self.dir.as_bytes());
            out.push(b"/homefree");
        } else {
            out.push(output.strip_suffix(b".hfp").unwrap_or(output));
        }
        out.push(b".");
        out.push(self.command.as_bytes());
        out.push(b".");
        out.push_number(u64::from(pid));
        let again = if output.is_empty() {
            attempt
        } else {
            attempt - 1
        };
        if again > 0 {
            out.push(b".");
            out.push_number(u64::from(again));
        }
        out.push(b".hfp");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(output: Option<&'static [u8]>) -> Config {
        Config {
            output,
            dir: Some(b"/d"),
            ..Config::from_env()
        }
    }

    #[test]
    fn names_never_repeat() {
        let mut naming = Naming::new();
        let mut out = Text::new();
        naming.set(&config(None), b"/usr/bin/my server\0-x\0");
        let mut name = |attempt| {
            naming.candidate(attempt, 42, &mut out);
            std::string::String::from_utf8(out.as_bytes().to_vec()).unwrap()
        };
        assert_eq!(name(0), "/d/homefree.my_server.42.hfp");
        assert_eq!(name(1), "/d/homefree.my_server.42.1.hfp");
        assert_eq!(name(2), "/d/homefree.my_server.42.2.hfp");
        let mut naming = Naming::new();
        naming.set(&config(Some(b"/tmp/out.hfp")), b"worker\0");
        let mut name = |attempt| {
            naming.candidate(attempt, 42, &mut out);
            std::string::String::from_utf8(out.as_bytes().to_vec()).unwrap()
        };
        assert_eq!(name(0), "/tmp/out.hfp");
        assert_eq!(name(1), "/tmp/out.worker.42.hfp");
        assert_eq!(name(2), "/tmp/out.worker.42.1.hfp");
    }

    #[test]
    fn text_is_cut_not_overrun() {
        let mut text = Text::<8>::new();
        text.push(b"0123456789");
        text.push(b"x");
        assert_eq!(text.as_bytes(), b"0123456");
        assert_eq!(text.as_cstr().to_bytes(), b"0123456");
    }
}
