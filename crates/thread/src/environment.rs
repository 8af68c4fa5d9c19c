//! Environment variables, straight from the block that the C library keeps: without a call, a lock or a copy, and
//! before any of them could be set up.

use core::ffi::{CStr, c_char};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether the C library has set the environment up.
pub fn is_ready() -> bool {
    // SAFETY: libc's own pointer.
    !unsafe { environ }.is_null()
}

/// A variable's value. Nothing where it is not set, or the environment is not set up yet.
///
/// The value is the program's: it may change it later. Read it at the start, and keep what is needed.
pub fn variable(name: &[u8]) -> Option<&'static [u8]> {
    if !is_ready() {
        return None;
    }
    // SAFETY: as above.
    let mut entry = unsafe { environ };
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

/// A variable's value as a number in a base. Nothing where it is no such number.
pub fn number(name: &[u8], base: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(variable(name)?).ok()?, base).ok()
}

/// Whether a variable is set to something but nothing and `0`.
pub fn is_on(name: &[u8]) -> bool {
    !matches!(variable(name), None | Some(b"" | b"0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_by_their_whole_names() {
        // Cargo sets it for tests.
        let set = variable(b"CARGO_PKG_NAME");
        assert_eq!(set, Some(&b"homefree-thread"[..]));
        assert_eq!(variable(b"CARGO_PKG_NAM"), None);
        assert_eq!(variable(b"CARGO_PKG_NAME="), None);
        assert!(is_ready() && is_on(b"CARGO_PKG_NAME") && !is_on(b"NO SUCH VARIABLE"));
        assert_eq!(number(b"CARGO_PKG_VERSION_MAJOR", 10), Some(0));
        assert_eq!(number(b"CARGO_PKG_NAME", 10), None);
        assert!(!is_on(b"CARGO_PKG_VERSION_MAJOR"));
    }
}
