//! Compiles the workloads, each with and without frame pointers.

use crate::Options;
use crate::workload::Build;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: [(&str, &str); 6] = [
    ("workload.h", include_str!("../../programs/workload.h")),
    ("frames.h", include_str!("../../programs/frames.h")),
    ("pair.c", include_str!("../../programs/pair.c")),
    ("maps.cpp", include_str!("../../programs/maps.cpp")),
    ("fork_join.c", include_str!("../../programs/fork_join.c")),
    ("pass_on.cpp", include_str!("../../programs/pass_on.cpp")),
];

/// Flags of all programs. Tail calls are kept as calls: the depth of the stacks is part of the workload.
const FLAGS: [&str; 5] = [
    "-O2",
    "-g1",
    "-fno-optimize-sibling-calls",
    "-pthread",
    "-Wall",
];

/// Where the compiled workloads are.
pub struct Programs {
    dir: PathBuf,
}

impl Programs {
    /// Compiles what `options` asks for into `dir`.
    ///
    /// # Errors
    /// `cc` or `c++` is missing or fails; the message has its output.
    pub fn build(dir: &Path, options: &Options) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        for (name, text) in SOURCES {
            std::fs::write(dir.join(name), text)?;
        }
        let programs = Self {
            dir: dir.to_owned(),
        };
        for (source, _) in SOURCES {
            let Some((stem, ending)) = source.rsplit_once('.') else {
                continue;
            };
            let wanted = |w: &crate::Workload| w.program().is_some_and(|(p, _)| p == stem);
            let counted = stem == "pair" && !options.no_instructions;
            if ending == "h" || !(counted || options.workloads.iter().any(wanted)) {
                continue;
            }
            for &build in &options.builds {
                let mut compiler = Command::new(if ending == "cpp" { "c++" } else { "cc" });
                if ending == "cpp" {
                    compiler.arg("-std=c++17");
                }
                compiler
                    .args(FLAGS)
                    .arg(match build {
                        Build::Fp => "-fno-omit-frame-pointer",
                        _ => "-fomit-frame-pointer",
                    })
                    .arg(dir.join(source))
                    .arg("-o")
                    .arg(programs.path(stem, build));
                let output = compiler
                    .output()
                    .with_context(|| format!("{:?}", compiler.get_program()))?;
                if !output.status.success() {
                    bail!("{source}: {}", String::from_utf8_lossy(&output.stderr));
                }
            }
        }
        Ok(programs)
    }

    /// Path of a compiled program.
    pub fn path(&self, stem: &str, build: Build) -> PathBuf {
        self.dir.join(format!("{stem}.{}", build.name()))
    }
}
