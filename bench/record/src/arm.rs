//! The arms: what a workload runs under.

use clap::ValueEnum;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a workload runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// The program alone
    Plain,
    /// The program alone, once more
    Null,
    /// libhomefree.so, HOMEFREE_STACKS=auto
    Auto,
    /// libhomefree.so, HOMEFREE_STACKS=fp
    Fp,
    /// libhomefree.so, HOMEFREE_STACKS=none
    None,
    /// heaptrack, its interpreter counted in
    Heaptrack,
}

/// A command line under an arm, with the place of the profile that it leaves.
pub struct Armed {
    /// Ready to run, but for its output.
    pub command: Command,
    /// The profile, where the arm makes one.
    pub profile: Option<PathBuf>,
}

impl Arm {
    /// All, in the order of the tables.
    pub const ALL: [Arm; 6] = [
        Arm::Plain,
        Arm::Null,
        Arm::Auto,
        Arm::Fp,
        Arm::None,
        Arm::Heaptrack,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Plain => "plain",
            Arm::Null => "plain again",
            Arm::Auto => "homefree auto",
            Arm::Fp => "homefree fp",
            Arm::None => "homefree none",
            Arm::Heaptrack => "heaptrack",
        }
    }

    /// Value of `HOMEFREE_STACKS` for the arms of the recorder.
    pub fn stacks(self) -> Option<&'static str> {
        match self {
            Arm::Auto => Some("auto"),
            Arm::Fp => Some("fp"),
            Arm::None => Some("none"),
            _ => None,
        }
    }

    /// What the workload must find among its own mappings.
    pub fn library(self) -> &'static str {
        match self {
            Arm::Plain | Arm::Null => "none",
            Arm::Heaptrack => "heaptrack",
            _ => "homefree",
        }
    }

    /// `program args…` under this arm; what it leaves goes to `dir`, which must be empty.
    pub fn command<S: AsRef<OsStr>>(
        self,
        lib: Option<&Path>,
        dir: &Path,
        program: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> Armed {
        let mut command = Command::new(if self == Arm::Heaptrack {
            Path::new("heaptrack")
        } else {
            program
        });
        let mut profile = None;
        if self == Arm::Heaptrack {
            // heaptrack adds the ending of its compressor (.zst or .gz) to the name.
            command.arg("-o").arg(dir.join("heaptrack")).arg(program);
        }
        command.args(args).current_dir(dir);
        clear(&mut command);
        if let (Some(stacks), Some(lib)) = (self.stacks(), lib) {
            let path = dir.join("bench.hfp");
            command
                .env("LD_PRELOAD", lib)
                .env("HOMEFREE_OUTPUT", &path)
                .env("HOMEFREE_STACKS", stacks);
            profile = Some(path);
        }
        Armed { command, profile }
    }
}

/// Takes away what the caller's environment may say to the recorder or to glibc's malloc.
pub fn clear(command: &mut Command) {
    command
        .env_remove("LD_PRELOAD")
        .env_remove("GLIBC_TUNABLES");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("HOMEFREE_") || text.starts_with("MALLOC_") {
            command.env_remove(&name);
        }
    }
}
