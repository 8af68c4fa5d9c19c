//! The folder that the processes of a run publish in.

use super::account::{BYTES, Process, Report};
use crate::failure::{Failure, status};
use crate::launch::Ending;
use homefree_wire::account::EXTENSION;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use tempfile::TempDir;

/// The folder; removed with what is in it when dropped.
#[derive(Debug)]
pub struct Pages {
    folder: TempDir,
}

impl Pages {
    /// Makes one, in memory if the system has a place there.
    ///
    /// # Errors
    /// Where no place can be written to.
    pub fn new() -> Result<Self, Failure> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in places() {
            match tempfile::Builder::new()
                .prefix("homefree-")
                .tempdir_in(place)
            {
                Ok(folder) => return Ok(Self { folder }),
                Err(error) => last = error,
            }
        }
        Err(Failure::new(
            status::FAILED,
            format!("cannot make a folder for the account: {last}"),
        )
        .advice("set TMPDIR to a folder that can be written to"))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Reads all pages of a run.
    fn read(&self, run: u64) -> Vec<Process> {
        let Ok(entries) = fs::read_dir(self.path()) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == EXTENSION))
            .filter_map(|path| read_page(&path))
            .filter(|process| process.figures.run_id == run)
            .collect()
    }

    /// What is known of a run whose program is process `program`.
    pub fn report(&self, run: u64, program: u32, ending: Option<Ending>, seconds: f64) -> Report {
        let (mut main, mut others): (Vec<_>, Vec<_>) = self
            .read(run)
            .into_iter()
            .partition(|process| process.figures.pid == program && !process.forked());
        main.sort_by_key(|process| process.figures.started);
        let last = main.pop();
        // Earlier images of the program: it turned into another by exec.
        others.extend(main);
        others
            .sort_by_key(|process| std::cmp::Reverse((process.figures.peak, process.figures.pid)));
        Report {
            main: last,
            others,
            ending,
            seconds,
        }
    }
}

fn places() -> Vec<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let memory = PathBuf::from("/dev/shm");
    let all = runtime.into_iter().chain([memory, env::temp_dir()]);
    all.filter(|place| place.is_absolute()).collect()
}

/// Reads a page whole: the same before and after.
fn read_page(path: &Path) -> Option<Process> {
    let file = File::open(path).ok()?;
    let mut last = None;
    for _ in 0..100 {
        let mut page = vec![0; BYTES];
        file.read_exact_at(&mut page, 0).ok()?;
        let now = Process::read(&page);
        if now.is_some() && now == last {
            return now;
        }
        last = now;
    }
    last
}
