//! Finding the file with a module's symbols.

use object::{Object, ObjectSection, ReadCache};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where distributions put separate debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, b| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// The kernel's and the loader's mark for a mapped file that was unlinked, taken off.
pub(crate) fn undeleted(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}

/// What an ELF file offers.
pub(super) struct Found {
    pub path: PathBuf,
    pub build_id: Vec<u8>,
    /// Sections of debug information.
    pub debug: bool,
    /// A full symbol table.
    pub symtab: bool,
    /// `.gnu_debuglink`: file name and CRC.
    link: Option<(Vec<u8>, u32)>,
    /// `.gnu_debugaltlink`: file name and build id.
    alt: Option<(Vec<u8>, Vec<u8>)>,
}

/// Looks into a file; `None` where it cannot be read as ELF.
pub(super) fn look(path: &Path) -> Option<Found> {
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    let section = |name: &str| {
        elf.section_by_name(name)
            .is_some_and(|s| s.size() > 0 && s.file_range().is_some())
    };
    let owned = |(name, rest): (&[u8], &[u8])| (name.to_vec(), rest.to_vec());
    Some(Found {
        path: path.to_owned(),
        build_id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
        debug: section(".debug_info"),
        symtab: section(".symtab"),
        link: elf
            .gnu_debuglink()
            .ok()
            .flatten()
            .map(|(name, crc)| (name.to_vec(), crc)),
        alt: elf.gnu_debugaltlink().ok().flatten().map(owned),
    })
}

/// The separate debug file of a module: by build id, then by the link in the file itself.
pub(super) fn separate(build_id: &[u8], module: Option<&Found>) -> Option<Found> {
    let by_id = by_build_id(build_id);
    let right = |f: &Found| f.debug || f.symtab;
    let found = by_id
        .iter()
        .filter_map(|p| look(p))
        .find(|f| right(f) && (f.build_id.is_empty() || f.build_id == build_id));
    found.or_else(|| by_link(module?).filter(right))
}

fn by_build_id(build_id: &[u8]) -> Vec<PathBuf> {
    let Some((first, rest)) = build_id.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Vec::new();
    };
    let name = format!("{:02x}/{}.debug", first, hex(rest));
    let mut paths = vec![Path::new(DEBUG_ROOT).join(".build-id").join(name)];
    let cache = std::env::var_os("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
    let home = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.or_else(|| Some(home?.join("debuginfod_client")));
    paths.extend(cache.map(|c| c.join(hex(build_id)).join("debuginfo")));
    paths
}

fn by_link(module: &Found) -> Option<Found> {
    let (name, crc) = module.link.as_ref()?;
    let name = PathBuf::from(String::from_utf8(name.clone()).ok()?);
    let dir = module.path.parent()?;
    let mirrored = Path::new(DEBUG_ROOT).join(dir.strip_prefix("/").unwrap_or(dir));
    let places = [
        dir.join(&name),
        dir.join(".debug").join(&name),
        mirrored.join(&name),
    ];
    places
        .into_iter()
        .filter(|p| *p != module.path)
        .find_map(|path| {
            let found = look(&path)?;
            let same = if module.build_id.is_empty() || found.build_id.is_empty() {
                crc_of(&path)? == *crc
            } else {
                module.build_id == found.build_id
            };
            same.then_some(found)
        })
}

/// The file that a debug file compressed by `dwz` shares with others.
pub(super) fn shared(debug: &Found) -> Option<PathBuf> {
    let (name, build_id) = debug.alt.as_ref()?;
    let name = PathBuf::from(String::from_utf8(name.clone()).ok()?);
    let beside = debug.path.parent()?.join(name);
    let mut places = vec![beside];
    places.extend(by_build_id(build_id));
    places
        .into_iter()
        .find(|p| look(p).is_some_and(|f| f.build_id == *build_id))
}

fn crc_of(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finalize()),
            n => hasher.update(&buffer[..n]),
        }
    }
}
