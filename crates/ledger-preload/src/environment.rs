//! What the environment asks for. Every variable is optional; a bad value counts as none.

use core::ffi::{CStr, c_char};
use homefree_thread::sys;

/// Settings of this process, as its environment has them at the start.
pub(crate) struct Settings {
    /// Folder for pages; none: nothing is published.
    pub(crate) folder: Option<&'static [u8]>,
    pub(crate) run_id: u64,
    /// Count events.
    pub(crate) counts: bool,
    /// Hard limit, bytes.
    pub(crate) limit: Option<u64>,
    /// Children publish too.
    pub(crate) follow: bool,
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// A variable's value, straight from the environment block.
fn var(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: libc's own pointer; null until it is set up.
    let mut entry = unsafe { environ };
    if entry.is_null() {
        return None;
    }
    loop {
        // SAFETY: the block is an array of pointers that ends with null.
        let text = unsafe { *entry };
        if text.is_null() {
            return None;
        }
        // SAFETY: its entries are NUL-terminated strings.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let value = text
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(b"="));
        if value.is_some() {
            return value;
        }
        // SAFETY: not past the null, checked above.
        entry = unsafe { entry.add(1) };
    }
}

fn number(name: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(var(name)?).ok()?, radix).ok()
}

/// Reads them.
pub(crate) fn settings() -> Settings {
    let follow = var(b"HOMEFREE_LEDGER_CHILDREN") != Some(b"ignore");
    let launcher = number(b"HOMEFREE_LEDGER_LAUNCHER", 10);
    let ours = follow || launcher.is_none() || launcher == Some(u64::from(sys::parent_id()));
    Settings {
        folder: var(b"HOMEFREE_LEDGER_DIR").filter(|v| v.starts_with(b"/") && ours),
        run_id: number(b"HOMEFREE_LEDGER_RUN", 16).unwrap_or(0),
        counts: var(b"HOMEFREE_LEDGER_COUNTS") == Some(b"1"),
        limit: number(b"HOMEFREE_LEDGER_LIMIT", 10).filter(|&bytes| bytes > 0),
        follow,
    }
}
