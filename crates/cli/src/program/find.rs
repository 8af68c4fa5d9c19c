//! CMD to a file, as a shell and `execvp(3)` find it.

use crate::failure::{Failure, status};
use rustix::fs::{Access, AtFlags, CWD};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Finds the file that CMD names: as it stands if it has a slash, in the folders of `search` (the
/// value of `PATH`) otherwise.
///
/// # Errors
/// 127 where there is none, 126 where there is one that cannot run.
pub fn find(name: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, Failure> {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err(Failure::new(status::NOT_FOUND, "CMD is empty"));
    }
    if bytes.contains(&b'/') {
        let path = PathBuf::from(name);
        return match runnable(&path) {
            Ok(()) => Ok(path),
            Err(Why::Missing) => Err(Failure::new(
                status::NOT_FOUND,
                format!("{}: no such file", path.display()),
            )),
            Err(Why::Folder) => Err(cannot(&path, "is a folder")),
            Err(Why::Denied) => Err(cannot(&path, "permission denied")),
        };
    }
    let mut denied = None;
    let search = search.unwrap_or(OsStr::new("/bin:/usr/bin"));
    for folder in search.as_bytes().split(|b| *b == b':') {
        // An empty entry is the current folder.
        let folder = if folder.is_empty() { b"." } else { folder };
        let path = Path::new(OsStr::from_bytes(folder)).join(name);
        match runnable(&path) {
            Ok(()) => return Ok(path),
            Err(Why::Denied) => denied = Some(path),
            Err(Why::Missing | Why::Folder) => {}
        }
    }
    match denied {
        Some(path) => Err(cannot(&path, "permission denied")),
        None => Err(Failure::new(
            status::NOT_FOUND,
            format!("{}: command not found", name.display()),
        )),
    }
}

fn cannot(path: &Path, why: &str) -> Failure {
    let failure = Failure::new(status::CANNOT_RUN, format!("{}: {why}", path.display()));
    if why == "permission denied" {
        failure.advice("if it is a program, make it executable (chmod +x)")
    } else {
        failure
    }
}

enum Why {
    Missing,
    Folder,
    Denied,
}

fn runnable(path: &Path) -> Result<(), Why> {
    let meta = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Why::Denied,
        _ => Why::Missing,
    })?;
    if meta.is_dir() {
        return Err(Why::Folder);
    }
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).map_err(|_| Why::Denied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(path: &Path, mode: u32) {
        fs::write(path, b"").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_first_executable_in_path_wins() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        for folder in [&a, &b] {
            fs::create_dir(folder).unwrap();
        }
        let search = format!("{}:{}", a.display(), b.display());
        let look = || find(OsStr::new("prog"), Some(OsStr::new(&search)));
        assert_eq!(look().unwrap_err().status, status::NOT_FOUND);
        file(&a.join("prog"), 0o644);
        assert_eq!(look().unwrap_err().status, status::CANNOT_RUN);
        file(&b.join("prog"), 0o755);
        assert_eq!(look().unwrap(), b.join("prog"));
        fs::remove_file(a.join("prog")).unwrap();
        fs::create_dir(a.join("prog")).unwrap();
        assert_eq!(look().unwrap(), b.join("prog"));
    }

    #[test]
    fn a_path_is_taken_as_it_stands() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prog");
        let look = |path: &Path| find(path.as_os_str(), None);
        assert_eq!(look(&path).unwrap_err().status, status::NOT_FOUND);
        assert_eq!(look(dir.path()).unwrap_err().status, status::CANNOT_RUN);
        file(&path, 0o600);
        assert_eq!(look(&path).unwrap_err().status, status::CANNOT_RUN);
        file(&path, 0o700);
        assert_eq!(look(&path).unwrap(), path);
        assert_eq!(
            find(OsStr::new(""), None).unwrap_err().status,
            status::NOT_FOUND
        );
    }
}
