//! The soak as a library.

use core::ffi::{CStr, c_char, c_int};

#[path = "../src/soak/mod.rs"]
mod soak;

/// Runs the soak.
///
/// # Safety
/// `argv` are `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ledger_bench_main(argc: c_int, argv: *const *const c_char) -> c_int {
    let arg = |index| {
        // SAFETY: the caller's promise.
        let arg = unsafe { *argv.add(index) };
        // SAFETY: as above.
        let arg = unsafe { CStr::from_ptr(arg) };
        arg.to_string_lossy().into_owned()
    };
    let args: Vec<String> = (1..argc as usize).map(arg).collect();
    soak::main(&args)
}
