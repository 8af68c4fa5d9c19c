//! The profiles of one run: found by the run's id in their headers, and cut to size where their
//! process was killed.

use homefree_profile::live::Counters;
use homefree_wire::{Error, Header, HeaderValue, PAGE, state};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Looks for the profiles of a run.
#[derive(Debug)]
pub struct Profiles {
    folder: PathBuf,
    file: Option<PathBuf>,
    run: u64,
    /// Names that were looked at and are of another run, or no profiles.
    others: HashSet<OsString>,
    found: Vec<PathBuf>,
}

impl Profiles {
    /// For the run with this id; profiles that are there already belong to others.
    pub fn new(folder: &Path, file: Option<&Path>, run: u64) -> Self {
        let mut profiles = Self {
            folder: folder.into(),
            file: file.map(Path::to_path_buf),
            run,
            others: HashSet::new(),
            found: Vec::new(),
        };
        profiles.others = profiles.names().collect();
        profiles
    }

    /// Those found so far, the first process's first.
    pub fn found(&self) -> &[PathBuf] {
        &self.found
    }

    /// Looks again.
    pub fn scan(&mut self) {
        let mut found = Vec::new();
        let names: Vec<_> = self.names().collect();
        for name in names {
            let path = self.folder.join(&name);
            if self.others.contains(&name) || self.found.contains(&path) {
                continue;
            }
            match header(&path) {
                Ok(Some(header)) if header.run_id == self.run => {
                    found.push((header.start_monotonic_ns, path));
                }
                // Just made, and nothing in it yet: look again next time.
                Ok(None) => {}
                _ => {
                    self.others.insert(name);
                }
            }
        }
        found.sort();
        self.found.extend(found.into_iter().map(|(_, path)| path));
    }

    fn names(&self) -> impl Iterator<Item = OsString> {
        let asked = self.file.as_ref().and_then(|f| f.file_name());
        fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.file_name()))
            .filter(move |name| {
                Some(name.as_os_str()) == asked
                    || Path::new(name).extension().is_some_and(|e| e == "hfp")
            })
    }

    /// Sums over all profiles found.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for counters in self.found.iter().filter_map(|path| Counters::read(path)) {
            sum.events += counters.events;
            sum.allocations += counters.allocations;
            sum.allocated_bytes += counters.allocated_bytes;
            sum.frees_home += counters.frees_home;
            sum.frees_remote += counters.frees_remote;
            sum.frees_unknown += counters.frees_unknown;
            sum.live_bytes += counters.live_bytes;
            sum.threads += counters.threads;
            sum.full += counters.full;
        }
        sum
    }

    /// Headers of those of process `pid`, oldest first.
    pub fn of_process(&self, pid: u32) -> Vec<HeaderValue> {
        let headers = self.found.iter().filter_map(|path| header(path).ok()?);
        headers.filter(|header| header.pid == pid).collect()
    }

    /// Gives back the room that profiles do not need: what processes which did not end in order had
    /// reserved, and the counters of ended threads, which are all zero.
    pub fn trim(&self) {
        for path in &self.found {
            // A profile that cannot be cut reads just as well.
            let _ = trim(path).and_then(|()| compact(path));
        }
    }
}

/// The header of a profile; none where nothing has been written yet.
fn header(path: &Path) -> Result<Option<HeaderValue>, Error> {
    let mut page = Vec::with_capacity(PAGE);
    let read = File::open(path).and_then(|f| f.take(PAGE as u64).read_to_end(&mut page));
    if read.is_err() {
        return Err(Error::NotAProfile);
    }
    match Header::check(&page) {
        Ok(header) => Ok(Some(header)),
        Err(Error::Empty) => Ok(None),
        Err(error) => Err(error),
    }
}

fn trim(path: &Path) -> io::Result<()> {
    let Ok(Some(header)) = header(path) else {
        return Ok(());
    };
    let used = header.pages.saturating_mul(PAGE as u64);
    let len = fs::metadata(path)?.len();
    if header.state != state::RUNNING || header.pages == 0 || used >= len || in_use(path, &header)?
    {
        return Ok(());
    }
    File::options().write(true).open(path)?.set_len(used)
}

/// Leaves out the pages that count nothing, by a copy that takes the profile's place at once.
fn compact(path: &Path) -> io::Result<()> {
    let Ok(Some(header)) = header(path) else {
        return Ok(());
    };
    let file = fs::read(path)?;
    let pages = file
        .chunks(PAGE)
        .take(header.pages.try_into().unwrap_or(usize::MAX));
    let kept: Vec<&[u8]> = pages
        .filter(|page| !homefree_wire::counts_nothing(page))
        .collect();
    let len = kept.len() as u64;
    if len == 0 || len * PAGE as u64 >= file.len() as u64 || in_use(path, &header)? {
        return Ok(());
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut copy = tempfile::NamedTempFile::new_in(dir.unwrap_or(Path::new(".")))?;
    let mut first = kept[0].to_vec();
    let at = std::mem::offset_of!(homefree_wire::Header, pages);
    if let Some(place) = first.get_mut(at..at + 8) {
        place.copy_from_slice(&len.to_le_bytes());
    }
    copy.write_all(&first)?;
    for page in &kept[1..] {
        copy.write_all(page)?;
    }
    copy.as_file()
        .set_permissions(fs::metadata(path)?.permissions())?;
    copy.persist(path)?;
    Ok(())
}

/// Whether a process may still write to the profile: cutting it then would kill that process.
///
/// A read lease is granted only while nobody has the file open or mapped for writing, in whatever
/// pid namespace. Where the file system has no leases, the process id decides.
fn in_use(path: &Path, header: &HeaderValue) -> io::Result<bool> {
    let file = File::open(path)?;
    let lease = |kind: libc::c_int| {
        // SAFETY: F_SETLEASE takes a valid descriptor and an integer, and touches no memory of ours.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) }
    };
    if lease(libc::F_RDLCK) == 0 {
        lease(libc::F_UNLCK);
        return Ok(false);
    }
    if io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) {
        return Ok(true);
    }
    let pid = rustix::process::Pid::from_raw(header.pid as i32);
    Ok(pid
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use homefree_wire::MAGIC;
    use std::mem::offset_of;

    /// A header page, and `tail` pages that were reserved but not used.
    fn profile(path: &Path, run: u64, state: u32, tail: usize) {
        let mut page = vec![0; PAGE * (1 + tail)];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(offset_of!(Header, version), &1_u32.to_le_bytes());
        put(offset_of!(Header, run_id), &run.to_le_bytes());
        put(offset_of!(Header, state), &state.to_le_bytes());
        put(offset_of!(Header, pages), &1_u64.to_le_bytes());
        put(offset_of!(Header, pid), &77_u32.to_le_bytes());
        fs::write(path, page).unwrap();
    }

    #[test]
    fn a_run_finds_its_own_profiles_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        profile(&path("before.hfp"), 5, 0, 0);
        let asked = path("asked.prof");
        let mut profiles = Profiles::new(dir.path(), Some(&asked), 5);
        profile(&path("ours.hfp"), 5, 0, 0);
        profile(&path("other.hfp"), 6, 0, 0);
        profile(&path("no-suffix"), 5, 0, 0);
        fs::write(path("junk.hfp"), b"junk").unwrap();
        fs::write(path("late.hfp"), b"").unwrap();
        profiles.scan();
        assert_eq!(profiles.found(), [path("ours.hfp")]);
        profile(&path("late.hfp"), 5, 0, 0);
        profile(&asked, 5, 0, 0);
        profiles.scan();
        assert_eq!(profiles.found().len(), 3);
        assert_eq!(profiles.of_process(77).len(), 3);
        assert_eq!(profiles.of_process(78).len(), 0);
    }

    #[test]
    fn pages_that_count_nothing_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.hfp");
        profile(&path, 5, state::ENDED, 4);
        let mut file = fs::read(&path).unwrap();
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(Header, pages), &5_u64.to_le_bytes());
        for (page, kind) in [
            (1, homefree_wire::kind::FLOWS),
            (2, homefree_wire::kind::SITES),
            (3, homefree_wire::kind::FLOWS),
        ] {
            put(page * PAGE, &homefree_wire::PAGE_MAGIC.to_le_bytes());
            put(page * PAGE + 4, &kind.to_le_bytes());
        }
        // The third page's second flow has a count.
        let flow = 3 * PAGE + homefree_wire::FLOWS_AT + size_of::<homefree_wire::Flow>();
        put(flow + offset_of!(homefree_wire::FlowHead, count), &[1]);
        put(4 * PAGE, &[7]);
        fs::write(&path, &file).unwrap();
        compact(&path).unwrap();
        let left = fs::read(&path).unwrap();
        assert_eq!(left.len(), 3 * PAGE);
        assert_eq!(header(&path).unwrap().unwrap().pages, 3);
        assert_eq!(left[PAGE..], file[3 * PAGE..]);
        compact(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), left);
    }

    #[test]
    fn only_what_nobody_writes_to_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.hfp");
        let len = || fs::metadata(&path).unwrap().len();
        profile(&path, 5, state::ENDED, 3);
        trim(&path).unwrap();
        assert_eq!(len(), 4 * PAGE as u64);

        profile(&path, 5, state::RUNNING, 3);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        // SAFETY: the file is not cut while the mapping lives: that is what is tested.
        let map = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
        drop(file);
        trim(&path).unwrap();
        assert_eq!(len(), 4 * PAGE as u64, "cut under a live mapping");
        drop(map);
        trim(&path).unwrap();
        assert_eq!(len(), PAGE as u64);
    }
}
