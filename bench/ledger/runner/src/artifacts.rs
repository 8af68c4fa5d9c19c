//! Builds and finds the artifacts, and makes commands of them.

use crate::arms::{Arm, Kind};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the artifacts are.
pub struct Artifacts {
    dir: PathBuf,
    preload: Option<PathBuf>,
}

impl Artifacts {
    /// Builds the arms, in release, beside this very program.
    ///
    /// # Errors
    /// This program does not lie where cargo puts it, or the build fails.
    pub fn build(preload: Option<&Path>, build: bool) -> Result<Self> {
        let exe = std::env::current_exe()?;
        let dir = exe
            .parent()
            .context("this program has no directory")?
            .to_owned();
        let target = dir.parent().context("not in a target directory")?;
        if build {
            let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
            let status = Command::new("cargo")
                .args(["build", "--quiet", "--release", "--package", "ledger-arms"])
                .args(["--bins", "--examples", "--manifest-path", manifest])
                .arg("--target-dir")
                .arg(target)
                .status()
                .context("cargo")?;
            ensure!(status.success(), "the arms could not be built");
        }
        let preload = preload
            .map(|path| {
                path.canonicalize()
                    .with_context(|| path.display().to_string())
            })
            .transpose()?;
        Ok(Self {
            dir: target.join("release"),
            preload,
        })
    }

    /// The kinds that can run: without its library, not the preload kind.
    pub fn can_run(&self, kind: Kind) -> bool {
        kind != Kind::Preload || self.preload.is_some()
    }

    /// The file with the arm's code in it.
    pub fn file(&self, arm: Arm, kind: Kind) -> PathBuf {
        match kind {
            Kind::Cdylib => self.dir.join(format!("examples/liblib_{}.so", arm.stem())),
            Kind::Executable => self.dir.join(format!("exe_{}", arm.stem())),
            Kind::Preload => self.dir.join("exe_system"),
        }
    }

    /// The soak's command, as an executable or as a library.
    pub fn soak(&self, kind: Kind) -> Command {
        match kind {
            Kind::Cdylib => self.host(&self.dir.join("examples/liblib_soak.so")),
            _ => Command::new(self.dir.join("exe_soak")),
        }
    }

    fn host(&self, library: &Path) -> Command {
        let mut command = Command::new(self.dir.join("host"));
        command.arg(library);
        command
    }

    /// The arm's command, under `wrapper` if that is not empty.
    pub fn command(&self, arm: Arm, kind: Kind, wrapper: &[&str]) -> Command {
        let file = self.file(arm, kind);
        let plain = match kind {
            Kind::Cdylib => self.host(&file),
            _ => Command::new(&file),
        };
        let mut command = match wrapper {
            [] => plain,
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command
                    .args(rest)
                    .arg(plain.get_program())
                    .args(plain.get_args());
                command
            }
        };
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["HOMEFREE_", "MALLOC_", "LD_PRELOAD", "GLIBC_TUNABLES"]
                .iter()
                .any(|start| text.starts_with(start))
            {
                command.env_remove(&name);
            }
        }
        if let (Kind::Preload, Arm::Ours, Some(library)) = (kind, arm, &self.preload) {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    /// The library whose `malloc` the arm must have.
    pub fn malloc(&self, arm: Arm, kind: Kind) -> String {
        match (kind, arm, &self.preload) {
            (Kind::Preload, Arm::Ours, Some(library)) => library
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            _ => "libc.so.6".into(),
        }
    }
}
