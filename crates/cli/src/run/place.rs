//! Where the Prometheus page goes: into a file's place, or into what is no file.

use crate::failure::{Failure, status};
use rustix::fs::OFlags;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a pipe's reader may take to make room.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);
/// Links to links; the system's own limit.
const LINKS: usize = 40;

/// Whether the page can go to `path`, as far as its kind tells: before anything is run.
///
/// # Errors
/// What it is, where it is nothing that a page can go to.
pub fn check(path: &Path) -> Result<(), Failure> {
    let refused = |what: &str| {
        Failure::new(
            status::USAGE,
            format!("cannot write a page for Prometheus to {}: it is {what}", path.display()),
        )
        .why("the page is renamed into a file's place, or written to a pipe or a character device; nothing was run")
        .advice("name a file of its own, as in --prometheus page.prom")
    };
    // What is missing, or cannot be looked at, is told when it is written to.
    let Ok(found) = path.metadata() else {
        return Ok(());
    };
    if found.is_file() {
        return if is_a_stream_of_ours(&found) {
            Err(refused("where the output goes"))
        } else {
            Ok(())
        };
    }
    let kind = found.file_type();
    if kind.is_char_device() || kind.is_fifo() {
        Ok(())
    } else if kind.is_dir() {
        Err(refused("a folder"))
    } else if kind.is_block_device() {
        Err(refused("a block device"))
    } else {
        Err(refused("a socket"))
    }
}

fn is_a_stream_of_ours(file: &Metadata) -> bool {
    ["/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"]
        .into_iter()
        .filter_map(|stream| Path::new(stream).metadata().ok())
        .any(|stream| (stream.dev(), stream.ino()) == (file.dev(), file.ino()))
}

/// Writes a page: into the place of the file that `path` leads to, whole, so that nobody reads half of one. A pipe or a
/// device is written to.
///
/// # Errors
/// Those of the file system.
pub fn put(path: &Path, page: &str) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if !found.is_file() => write_to(path, &found, page.as_bytes()),
        _ => replace(&end_of_links(path), page),
    }
}

/// A link stays; what it leads to is replaced, there or not.
fn end_of_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match path.read_link() {
            // A relative one begins in the link's folder; an absolute one replaces it.
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => break,
        }
    }
    path
}

fn replace(path: &Path, page: &str) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".homefree.")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(page.as_bytes())?;
    // It may have become something else meanwhile.
    if path.symlink_metadata().is_ok_and(|now| !now.is_file()) {
        return Err(io::Error::other("it is no file any more"));
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn write_to(path: &Path, found: &Metadata, page: &[u8]) -> io::Result<()> {
    let kind = found.file_type();
    if !kind.is_char_device() && !kind.is_fifo() {
        return Err(io::Error::other("it is no file, pipe or character device"));
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits() as i32)
        .open(path);
    let result = match opened {
        Ok(file) => write_patiently(&file, page),
        Err(error) => Err(error),
    };
    match result {
        // Nobody reads the pipe now.
        Err(error)
            if kind.is_fifo()
                && (error.kind() == ErrorKind::BrokenPipe
                    || error.raw_os_error() == Some(libc::ENXIO)) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Writes all, or gives up where nobody takes it.
fn write_patiently(mut file: &File, mut page: &[u8]) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    while !page.is_empty() {
        match file.write(page) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => page = &page[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && waited < PATIENCE => {
                std::thread::sleep(STEP);
                waited += STEP;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn entries(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.prom");
        std::fs::write(&path, "old").unwrap();
        let before = path.metadata().unwrap().ino();
        put(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_ne!(path.metadata().unwrap().ino(), before);
        assert_eq!(entries(dir.path()), 1);
        assert!(put(Path::new("/no/such/folder/x"), "new").is_err());
    }

    #[test]
    fn links_stay_and_what_they_lead_to_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let [end, link, first] = ["end", "link", "first"].map(|name| dir.path().join(name));
        symlink("end", &link).unwrap();
        symlink(&link, &first).unwrap();
        for page in ["not there yet", "there"] {
            put(&first, page).unwrap();
            assert_eq!(std::fs::read_to_string(&end).unwrap(), page);
            assert!(end.symlink_metadata().unwrap().is_file());
            assert!(link.is_symlink() && first.is_symlink());
        }
        assert_eq!(entries(dir.path()), 3);
    }

    #[test]
    fn a_pipe_stays_one_and_nobody_waits_for_its_reader() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        check(&pipe).unwrap();
        put(&pipe, "nobody reads").unwrap();
        let mut reader = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(&pipe)
            .unwrap();
        put(&pipe, "somebody does").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "somebody does");
        assert!(pipe.metadata().unwrap().file_type().is_fifo());
        // More than it holds, and nobody takes it.
        let error = put(&pipe, &"x".repeat(1 << 20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(entries(dir.path()), 1);
    }

    #[test]
    fn folders_sockets_and_the_output_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for (path, kind) in [(dir.path(), "a folder"), (&*socket, "a socket")] {
            let failure = check(path).unwrap_err();
            assert_eq!(failure.status, status::USAGE);
            assert!(failure.what.ends_with(kind), "{failure}");
            assert!(put(path, "page").is_err());
        }
        assert_eq!(entries(dir.path()), 1);
        let own = dir.path().join("own");
        std::fs::write(&own, "").unwrap();
        assert!(check(&own).is_ok() && check(&dir.path().join("missing")).is_ok());
        let file = File::open(&own).unwrap();
        assert!(!is_a_stream_of_ours(&file.metadata().unwrap()));
    }
}
