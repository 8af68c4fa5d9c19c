//! Small text files of the kernel, read without allocating: the watcher reads them while memory is short, and
//! under a hard limit that may be used up.

use super::Absent;
use homefree_thread::sys::{Errno, File};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Room for one file. `memory.stat` has some 2 KiB, `/proc/self/status` 1.5.
pub(crate) struct Buffer([u8; Self::SIZE]);

impl Buffer {
    const SIZE: usize = 16 << 10;

    pub(crate) const fn new() -> Self {
        Self([0; Self::SIZE])
    }

    /// The whole lines of a file, as far as they fit. A last line without its end was cut, and its number with it.
    pub(crate) fn read(&mut self, path: &CStr, file: &'static str) -> Result<&str, Absent> {
        let unreadable = |Errno(errno)| Absent::Unreadable { file, errno };
        let source = File::read_only(path).map_err(unreadable)?;
        let mut len = 0;
        while len < self.0.len() {
            match source.read(&mut self.0[len..]).map_err(unreadable)? {
                0 => break,
                n => len += n,
            }
        }
        let whole = self.0[..len]
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        core::str::from_utf8(&self.0[..whole]).map_err(|_| Absent::Malformed { file })
    }
}

/// The rest of the line that begins with `key` and white space or a colon.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let value = rest.trim_start_matches([':', ' ', '\t']);
        (value.len() < rest.len()).then(|| value.trim_end())
    })
}

/// A path for the system. A path with a NUL in it leads nowhere.
pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_is_no_line() {
        let dir = std::env::temp_dir().join(std::format!("homefree-text-{}", std::process::id()));
        std::fs::write(&dir, "anon 12\nfile 345").unwrap();
        let mut buffer = Buffer::new();
        let text = buffer.read(&c_path(&dir), "x").unwrap();
        assert_eq!(field(text, "anon"), Some("12"));
        assert_eq!(field(text, "file"), None);
        std::fs::write(&dir, "anon 1\n".repeat(5000)).unwrap();
        assert!(buffer.read(&c_path(&dir), "x").unwrap().len() <= 16 << 10);
        std::fs::remove_file(&dir).unwrap();
        assert_eq!(
            buffer.read(&c_path(&dir), "x"),
            Err(Absent::Unreadable {
                file: "x",
                errno: libc::ENOENT
            })
        );
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "anon_thp 5\nanon 7\nVmData:\t  360 kB\n";
        assert_eq!(field(text, "anon"), Some("7"));
        assert_eq!(field(text, "VmData"), Some("360 kB"));
        assert_eq!(field(text, "Vm"), None);
    }
}
