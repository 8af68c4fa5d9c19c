//! The libraries that the program carries inside, and unpacks where the loader can use them.
//!
//! One goes to `<place>/<hash of the contents>/<its name>`, so that versions never meet, written
//! under another name first and renamed, so that nobody ever loads half of one. What is there
//! already is used only if it is ours, nobody else can change it, and every byte is the same.

mod place;

use crate::failure::{Failure, status};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use place::candidates;

/// A library that is carried.
#[derive(Debug)]
pub struct Library {
    /// File name; a process that has it mapped is recorded, or counted.
    pub name: &'static str,
    /// As built by `build.rs`.
    bytes: &'static [u8],
    /// Names the contents.
    hash: &'static str,
}

macro_rules! carried {
    ($($(#[$m:meta])* $name:ident = $file:literal;)*) => { $(
        $(#[$m])*
        pub static $name: Library = Library {
            name: $file,
            bytes: include_bytes!(env!(concat!("HOMEFREE_CARRIED_", stringify!($name)))),
            hash: env!(concat!("HOMEFREE_CARRIED_", stringify!($name), "_HASH")),
        };
    )*
        /// File names of all of them.
        const NAMES: &[&str] = &[$($file),*];
    };
}

carried! {
    /// Records which memory threads free for each other: `homefree record`.
    RECORDER = "libhomefree.so";
    /// Counts bytes: `homefree run --ledger`.
    LEDGER = "libhomefree_ledger.so";
    /// Allocates: `homefree run`.
    ALLOCATOR = "libhomefree_alloc.so";
}

/// Why a place does not serve.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The loader splits `LD_PRELOAD` at spaces and colons, and expands `$`.
    #[error("the path has a space, a colon or a `$` in it, which LD_PRELOAD cannot carry")]
    Path,
    /// The folder belongs to someone else.
    #[error("{path} belongs to user {owner}")]
    Owner {
        /// The folder.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// Others could put another library there.
    #[error("{0} can be written by others")]
    Shared(PathBuf),
    /// Something that is no folder is in the way.
    #[error("{0} is not a folder")]
    NotAFolder(PathBuf),
    /// Mounted `noexec`, or forbidden by a security module.
    #[error("programs may not be loaded from there (mounted noexec?)")]
    NoExec,
    /// Any other error of the system.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Unpacks the library to the first place that serves and returns its absolute path.
///
/// # Errors
/// Where no place serves, says for each why not.
pub fn unpack(library: &Library) -> Result<PathBuf, Failure> {
    let mut tried = Vec::new();
    for candidate in candidates() {
        match unpack_to(&candidate, library.name, library.bytes, library.hash) {
            Ok(path) => return Ok(path),
            Err(unfit) => tried.push(format!("{}: {unfit}", candidate.display())),
        }
    }
    Err(Failure::new(
        status::NOT_RECORDED,
        format!("found no place to unpack {} to", library.name),
    )
    .why(tried.join("; "))
    .advice("set XDG_CACHE_HOME to a folder of your own that is writable and not mounted noexec"))
}

/// Unpacks `bytes` as `name` below `place` (made if missing), or verifies what is there.
///
/// # Errors
/// Why the place does not serve.
fn unpack_to(place: &Path, name: &str, bytes: &[u8], hash: &str) -> Result<PathBuf, Unfit> {
    if !place.is_absolute() || !can_be_preloaded(place) {
        return Err(Unfit::Path);
    }
    if let Some(parent) = place.parent() {
        // A missing ~/.cache is made as its specification says: for its owner only.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    own_folder(place)?;
    let folder = place.join(hash);
    own_folder(&folder)?;
    let path = folder.join(name);
    if !is_ours(&path, bytes)? {
        let mut file = tempfile::Builder::new()
            .prefix(".libhomefree.")
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(&folder)?;
        file.write_all(bytes)?;
        // tempfile's permissions pass through the umask; the library is no secret.
        file.as_file()
            .set_permissions(Permissions::from_mode(0o644))?;
        file.persist(&path).map_err(|error| error.error)?;
    }
    if !can_be_loaded(&path)? {
        return Err(Unfit::NoExec);
    }
    Ok(path)
}

/// Whether the loader can find a path in `LD_PRELOAD` again: it splits at spaces and colons.
pub fn can_be_preloaded(path: &Path) -> bool {
    !path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|b| b.is_ascii_whitespace() || matches!(b, b':' | b'$'))
}

/// Makes the folder, or checks that nobody but us (and root) can change what is in it.
fn own_folder(path: &Path) -> Result<(), Unfit> {
    match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => {
            // A umask of 0 or 0077 must not decide who can write, or load, the library.
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.into()),
    }
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_dir() {
        return Err(Unfit::NotAFolder(path.into()));
    }
    trusted(path, &meta)
}

fn trusted(path: &Path, meta: &fs::Metadata) -> Result<(), Unfit> {
    let owner = meta.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Unfit::Owner {
            path: path.into(),
            owner,
        });
    }
    if meta.mode() & 0o022 != 0 {
        return Err(Unfit::Shared(path.into()));
    }
    Ok(())
}

/// Whether the file at `path` is a plain file that only we can change, with exactly these bytes.
fn is_ours(path: &Path, bytes: &[u8]) -> Result<bool, Unfit> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if !meta.is_file() || meta.len() != bytes.len() as u64 || trusted(path, &meta).is_err() {
        return Ok(false);
    }
    Ok(fs::read(path)? == bytes)
}

/// Whether the system maps the file for execution, which a `noexec` mount refuses.
fn can_be_loaded(path: &Path) -> io::Result<bool> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let file: File =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into();
    // SAFETY: a fresh private mapping of one page at an address the system picks; nothing points
    // into it, nothing is read from it, and it is unmapped below.
    let mapped = unsafe {
        mmap(
            std::ptr::null_mut(),
            4096,
            ProtFlags::READ | ProtFlags::EXEC,
            MapFlags::PRIVATE,
            &file,
            0,
        )
    };
    let Ok(address) = mapped else {
        return Ok(false);
    };
    // SAFETY: exactly the mapping made above; no reference into it exists.
    unsafe { munmap(address, 4096) }?;
    Ok(true)
}

/// The value of `LD_PRELOAD` with `library` first and what was there kept, except for libraries of
/// ours (a `homefree record` inside another).
pub fn preload_value(library: &Path, existing: Option<&OsStr>) -> std::ffi::OsString {
    let mut value = library.as_os_str().to_owned();
    let existing = existing.unwrap_or_default();
    for entry in existing
        .as_bytes()
        .split(|b| b.is_ascii_whitespace() || *b == b':')
    {
        let entry = OsStr::from_bytes(entry);
        if entry.is_empty() || is_ours_by_name(entry) {
            continue;
        }
        value.push(":");
        value.push(entry);
    }
    value
}

fn is_ours_by_name(entry: &OsStr) -> bool {
    let name = Path::new(entry).file_name();
    NAMES.iter().any(|ours| name == Some(OsStr::new(ours)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack_to(place: &Path, bytes: &[u8], hash: &str) -> Result<PathBuf, Unfit> {
        super::unpack_to(place, RECORDER.name, bytes, hash)
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("cache/homefree");
        (dir, place)
    }

    #[test]
    fn unpacks_once_and_verifies_the_second_time() {
        let (_dir, place) = place();
        let path = unpack_to(&place, b"library", "1").unwrap();
        assert_eq!(path, place.join("1/libhomefree.so"));
        let before = fs::metadata(&path).unwrap();
        assert_eq!(before.mode() & 0o777, 0o644);
        assert_eq!(unpack_to(&place, b"library", "1").unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), before.ino());
        assert_eq!(fs::read_dir(place.join("1")).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_library_is_replaced_not_used() {
        let (_dir, place) = place();
        let path = unpack_to(&place, b"library", "1").unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        fs::write(&path, b"librarx").unwrap();
        unpack_to(&place, b"library", "1").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"library");
        assert_ne!(fs::metadata(&path).unwrap().ino(), before);
    }

    #[test]
    fn a_link_in_its_place_is_replaced_and_its_target_left_alone() {
        let (dir, place) = place();
        let path = unpack_to(&place, b"library", "1").unwrap();
        let other = dir.path().join("other");
        fs::write(&other, b"library").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        unpack_to(&place, b"library", "1").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert!(other.exists());
    }

    #[test]
    fn versions_live_side_by_side() {
        let (_dir, place) = place();
        let one = unpack_to(&place, b"one", "1").unwrap();
        let two = unpack_to(&place, b"two", "2").unwrap();
        assert_eq!(fs::read(one).unwrap(), b"one");
        assert_eq!(fs::read(two).unwrap(), b"two");
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let (_dir, place) = place();
        fs::create_dir_all(&place).unwrap();
        fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            unpack_to(&place, b"library", "1"),
            Err(Unfit::Shared(_))
        ));
        fs::remove_dir(&place).unwrap();
        fs::write(&place, b"").unwrap();
        assert!(matches!(
            unpack_to(&place, b"library", "1"),
            Err(Unfit::NotAFolder(_))
        ));
    }

    #[test]
    fn many_at_once_all_see_a_whole_library() {
        let (_dir, place) = place();
        let bytes = vec![7_u8; 1 << 20];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let path = unpack_to(&place, &bytes, "1").unwrap();
                    assert_eq!(fs::read(path).unwrap(), bytes);
                });
            }
        });
    }

    #[test]
    fn a_path_that_ld_preload_cannot_carry_is_refused() {
        for path in ["/tmp/a b", "/tmp/a:b", "/tmp/$LIB", "relative"] {
            assert!(matches!(
                unpack_to(Path::new(path), b"", "1"),
                Err(Unfit::Path)
            ));
        }
    }

    #[test]
    fn ours_comes_first_and_what_was_there_is_kept() {
        let ours = Path::new("/c/libhomefree.so");
        let value = |existing: &str| {
            preload_value(ours, Some(OsStr::new(existing)))
                .into_string()
                .unwrap()
        };
        assert_eq!(preload_value(ours, None), "/c/libhomefree.so");
        assert_eq!(value(""), "/c/libhomefree.so");
        assert_eq!(value("libx.so /y.so"), "/c/libhomefree.so:libx.so:/y.so");
        assert_eq!(value("/old/libhomefree.so:z.so"), "/c/libhomefree.so:z.so");
        assert_eq!(value("/old/libhomefree_ledger.so"), "/c/libhomefree.so");
    }
}
