//! The proof of which allocator runs.

use crate::Arm;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::CStr;
use std::fmt::Write;
use std::hint::black_box;

/// A size that nothing else allocates.
const ODD: usize = 1_234_567;

/// Proves that the arm's counters move by what is allocated and freed, and says whose `malloc` is behind. Returns
/// fields of JSON.
///
/// # Errors
/// What is not as it should be.
pub fn prove<A: Arm>() -> Result<String, String> {
    let layout = Layout::from_size_align(ODD, 8).map_err(|e| e.to_string())?;
    let before = A::held();
    // SAFETY: not of size 0.
    let p = black_box(unsafe { alloc(layout) });
    if p.is_null() {
        return Err("no memory".into());
    }
    let between = A::held();
    // SAFETY: allocated above with this layout.
    unsafe { dealloc(p, layout) };
    let after = A::held();
    let mut fields = format!(r#""malloc":"{}""#, malloc());
    if let (Some(before), Some(between), Some(after)) = (before, between, after) {
        if between - before != ODD as i64 || after != before {
            return Err(format!(
                "its counters say {before}, {between}, {after} where {ODD} bytes came and went"
            ));
        }
        let _ = write!(fields, r#","counted":{ODD}"#);
    }
    if let Some(constant) = A::constant_distance() {
        let _ = write!(fields, r#","constant":{constant}"#);
    }
    Ok(fields)
}

/// Name of the library whose `malloc` this artifact calls.
fn malloc() -> String {
    // SAFETY: all-zero is a valid `Dl_info`: null pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let place = libc::malloc as *const () as *const libc::c_void;
    // SAFETY: a valid place.
    if unsafe { libc::dladdr(place, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return "unknown".into();
    }
    // SAFETY: the loader's own string, there as long as the library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}
