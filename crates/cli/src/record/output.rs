//! The folder and file that profiles are written to.

use crate::failure::{Failure, status};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the library reserves for a profile when it starts, bytes.
const FIRST_BYTES: u64 = 2 << 20;

/// Where the profiles of a run go; both paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Their folder.
    pub folder: PathBuf,
    /// The file asked for with `-o`; the first process writes it, others add to its name.
    pub file: Option<PathBuf>,
}

impl Output {
    /// From `-o FILE`, or else the folder that `HOMEFREE_DIR` names, or else the current one.
    ///
    /// # Errors
    /// [`status::USAGE`] where FILE exists, for a profile is never overwritten, and where it names no file.
    pub fn choose(file: Option<&Path>, folder: Option<OsString>) -> Result<Self, Failure> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| {
                Failure::new(status::FAILED, format!("{}: {error}", path.display()))
            })
        };
        let Some(file) = file else {
            let folder = folder.filter(|f| !f.is_empty()).unwrap_or(".".into());
            return Ok(Self {
                folder: absolute(Path::new(&folder))?,
                file: None,
            });
        };
        let name = file.display();
        let in_it =
            "name a file in it, or set HOMEFREE_DIR to it to get files named after the program";
        if let Ok(meta) = fs::symlink_metadata(file) {
            let failure = if meta.is_dir() {
                Failure::new(status::USAGE, format!("-o {name} is a folder")).advice(in_it)
            } else {
                let advice = match meta.is_file() {
                    true => format!("name another file, or remove it: rm {name}"),
                    false => "name another file".into(),
                };
                Failure::new(status::USAGE, format!("-o {name} exists already"))
                    .why("a profile is never overwritten, and nothing was run")
                    .advice(advice)
            };
            return Err(failure);
        }
        if !names_a_file(file) {
            return Err(
                Failure::new(status::USAGE, format!("-o '{name}' names no file")).advice(in_it),
            );
        }
        let file = absolute(file)?;
        Ok(Self {
            folder: file.parent().unwrap_or(Path::new("/")).into(),
            file: Some(file),
        })
    }

    /// Tries to write what a profile needs at first.
    ///
    /// # Errors
    /// What the system says, for a person.
    pub fn try_writing(&self) -> Result<(), String> {
        let said = |error: io::Error| format!("{}: {error}", self.folder.display());
        let file = tempfile::tempfile_in(&self.folder).map_err(said)?;
        // The folder will do; the name may not, where it is too long.
        if let Some(name) = &self.file
            && let Err(error) = fs::symlink_metadata(name)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(format!("{}: {error}", name.display()));
        }
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, FIRST_BYTES) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(said(error.into())),
        }
    }
}

/// Whether the last part of a path can be a file's name: not `d/`, `d/.`, `d/..` or nothing.
fn names_a_file(path: &Path) -> bool {
    let last = path.as_os_str().as_bytes().rsplit(|&b| b == b'/').next();
    !matches!(last, None | Some(b"" | b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_current_one_unless_said_otherwise() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(Output::choose(None, None).unwrap().folder, here);
        let there = Output::choose(None, Some("/there".into())).unwrap();
        assert_eq!((there.folder, there.file), ("/there".into(), None));
        let file = Output::choose(Some(Path::new("x.hfp")), Some("/there".into())).unwrap();
        assert_eq!(file.file, Some(here.join("x.hfp")));
        assert_eq!(file.folder, here);
    }

    #[test]
    fn what_exists_is_refused_before_anything_runs() {
        let dir = tempfile::tempdir().unwrap();
        let failure = Output::choose(Some(dir.path()), None).unwrap_err();
        assert!(failure.what.contains("is a folder"));
        let file = dir.path().join("x");
        std::os::unix::fs::symlink("/nowhere", &file).unwrap();
        let failure = Output::choose(Some(&file), None).unwrap_err();
        assert_eq!(failure.status, status::USAGE);
        assert!(failure.what.contains("exists already"));
    }

    #[test]
    fn only_a_file_is_offered_for_removal() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        fs::write(&file, "x").unwrap();
        let advice = |path: &Path| Output::choose(Some(path), None).unwrap_err().advice;
        assert!(advice(&file).contains("rm "));
        assert!(!advice(Path::new("/dev/null")).contains("rm "));
        assert!(!advice(dir.path()).contains("rm "));
    }

    #[test]
    fn what_names_no_file_is_a_usage_error() {
        for path in ["", "new/", "no/such/", "no/such/.", "no/such/.."] {
            let failure = Output::choose(Some(Path::new(path)), None).unwrap_err();
            assert_eq!(failure.status, status::USAGE, "{path}");
            assert!(failure.what.contains("names no file"), "{failure}");
        }
        assert!(Output::choose(Some(Path::new("no/such/x.hfp")), None).is_ok());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let output = Output {
            folder: dir.path().into(),
            file: None,
        };
        assert_eq!(output.try_writing(), Ok(()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        for folder in ["/no/such/folder", "/proc"] {
            let output = Output {
                folder: folder.into(),
                file: None,
            };
            assert!(output.try_writing().unwrap_err().starts_with(folder));
        }
        let long = dir.path().join("x".repeat(300));
        let output = Output::choose(Some(&long), None).unwrap();
        assert!(output.try_writing().unwrap_err().contains("too long"));
    }
}
