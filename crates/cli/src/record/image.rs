//! Which program a process is at the moment, and whether the recorder is in it: a process can turn
//! into another program (exec) without our environment.

use crate::launch::Ending;
use crate::library::Library;
use std::fs;
use std::path::{Path, PathBuf};

/// What was last seen of a process.
#[derive(Debug)]
pub struct Image {
    /// The recorder.
    library: &'static Library,
    /// The program's file.
    exe: Option<PathBuf>,
    /// The recorder was mapped.
    recorded: bool,
    /// How often in a row this program was seen without the recorder: a loader needs a moment.
    without: u32,
    /// Name of the process when it ended (of the file last executed, 15 bytes, unless it renamed itself).
    last_name: Option<String>,
}

impl Image {
    /// Nothing seen yet.
    pub fn new(library: &'static Library) -> Self {
        Self {
            library,
            exe: None,
            recorded: false,
            without: 0,
            last_name: None,
        }
    }

    /// Looks at a living process.
    pub fn look(&mut self, pid: u32) {
        let Ok(exe) = fs::read_link(format!("/proc/{pid}/exe")) else {
            return;
        };
        if self.exe.as_ref() != Some(&exe) {
            *self = Self {
                exe: Some(exe),
                ..Self::new(self.library)
            };
        }
        if self.recorded {
            return;
        }
        let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else {
            return;
        };
        let name = self.library.name.as_bytes();
        self.recorded = maps.windows(name.len()).any(|w| w == name);
        self.without += u32::from(!self.recorded);
    }

    /// Looks at a process that has ended and not been waited for.
    pub fn look_last(&mut self, pid: u32) {
        self.last_name = fs::read_to_string(format!("/proc/{pid}/comm"))
            .ok()
            .map(|name| name.trim_end().to_string());
    }

    /// The program that ran without the recorder at the end, as far as it was seen.
    fn without_recorder(&self) -> Option<String> {
        if self.recorded || self.without < 2 {
            return None;
        }
        self.exe.as_ref().map(|exe| exe.display().to_string())
    }

    /// What `program` turned into, if the library was not in that: as far as it was seen, or, of one that was too short
    /// to be looked at in time, by its name: what it left stops in the middle (`cut_short`), though it was not killed,
    /// and it ended under another name.
    pub fn became(&self, program: &Path, cut_short: bool, ending: Ending) -> Option<String> {
        self.without_recorder().or_else(|| {
            let last = self.last_name.as_deref()?;
            let first = program.file_name()?.to_string_lossy();
            let unseen = cut_short && matches!(ending, Ending::Exit(_)) && !first.starts_with(last);
            unseen.then(|| last.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_recorder_is_named_after_two_looks() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env_remove("LD_PRELOAD")
            .spawn()
            .unwrap();
        let mut image = Image::new(&crate::library::RECORDER);
        // Until the child has become sleep.
        while !image.exe.as_ref().is_some_and(|e| e.ends_with("sleep")) {
            image.look(child.id());
        }
        image.look(child.id());
        image.look(child.id());
        assert!(image.without_recorder().unwrap().ends_with("/sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
        image.look(child.id());
        image.look_last(child.id());
        assert_eq!(image.last_name, None);
    }
}
