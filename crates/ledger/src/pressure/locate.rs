//! Where the process's cgroup is: `/proc/self/cgroup` says its path in the hierarchy, `/proc/self/mountinfo`
//! which part of the hierarchy is mounted where.

use super::{Absent, Buffer, c_path};
use std::path::{Path, PathBuf};
use std::string::String;
use std::vec::Vec;

/// The directories of the process's cgroup and of those it is in, as far up as can be seen, innermost first.
pub(super) fn directories(root: &Path) -> Result<Vec<PathBuf>, Absent> {
    let own = own_path(root)?;
    let mountinfo = std::fs::read(root.join("proc/self/mountinfo")).map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        Absent::Unreadable {
            file: "/proc/self/mountinfo",
            errno,
        }
    })?;
    let mountinfo = String::from_utf8_lossy(&mountinfo);
    let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
    if mounts.is_empty() {
        return Err(Absent::NotMounted);
    }
    // Several mounts may show it; the one whose root is highest shows most of what it is in.
    let (mount, below) = mounts
        .iter()
        .filter_map(|mount| Some((mount, mount.below(&own)?)))
        .min_by_key(|(mount, _)| mount.root.len())
        .ok_or(Absent::OutOfSight)?;
    let top = root.join(mount.at.trim_start_matches('/'));
    let own = top.join(below);
    Ok(own
        .ancestors()
        .take_while(|dir| dir.starts_with(&top))
        .map(Path::to_path_buf)
        .collect())
}

/// The process's path in the v2 hierarchy, provided that memory is accounted there.
fn own_path(root: &Path) -> Result<String, Absent> {
    let file = "/proc/self/cgroup";
    let mut buffer = Buffer::new();
    let text = buffer.read(&c_path(&root.join("proc/self/cgroup")), file)?;
    let mut unified = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Absent::Malformed { file });
        };
        if id == "0" && controllers.is_empty() {
            // A cgroup that was removed under the process.
            unified = Some(path.strip_suffix(" (deleted)").unwrap_or(path).into());
        } else if controllers.split(',').any(|name| name == "memory") {
            return Err(Absent::V1);
        }
    }
    unified.ok_or(Absent::NotMounted)
}

struct Mount {
    /// What of the hierarchy is mounted.
    root: String,
    /// Where.
    at: String,
}

impl Mount {
    /// A line of mountinfo, if it is of a cgroup v2 mount: `36 35 98:0 /root /mount/point options [tags] - type …`.
    fn parse(line: &str) -> Option<Self> {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        Some(Self {
            root: unescaped(fields.next()?),
            at: unescaped(fields.next()?),
        })
    }

    /// The path of a cgroup below this mount's root. `None` if it is not below it, or if the namespace hides the
    /// way from the one to the other (`/..`).
    fn below<'a>(&self, own: &'a str) -> Option<&'a str> {
        let hidden = |path: &str| path.split('/').any(|part| part == "..");
        if hidden(&self.root) || hidden(own) {
            return None;
        }
        let rest = own.strip_prefix(self.root.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
    }
}

/// `\040` and the like stand for white space and backslashes.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let code = (byte == b'\\' && after.len() >= 3)
            .then(|| core::str::from_utf8(&after[..3]).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(code);
                rest = &after[3..];
            }
            None => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
