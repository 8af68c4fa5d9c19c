//! Loads a library of an arm with `dlopen` and runs it: `host LIBRARY CASE SIZE THREADS COUNT MILLISECONDS`.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

type Main = unsafe extern "C" fn(c_int, *const *const c_char) -> c_int;

fn main() -> ExitCode {
    let args: Vec<CString> = std::env::args_os()
        .skip(1)
        .filter_map(|arg| CString::new(arg.into_vec()).ok())
        .collect();
    let Some(path) = args.first() else {
        eprintln!("usage: host LIBRARY CASE SIZE THREADS COUNT MILLISECONDS");
        return ExitCode::from(2);
    };
    // SAFETY: a string; the library's initialisers are Rust's.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        eprintln!("{path:?}: cannot be loaded");
        return ExitCode::from(2);
    }
    // SAFETY: a library that was opened, a string.
    let entry = unsafe { libc::dlsym(library, c"ledger_bench_main".as_ptr()) };
    if entry.is_null() {
        eprintln!("{path:?}: is not an arm");
        return ExitCode::from(2);
    }
    // SAFETY: every arm exports this under the name.
    let entry: Main = unsafe { std::mem::transmute(entry) };
    let argv: Vec<*const c_char> = args.iter().map(|arg| arg.as_ptr()).collect();
    // SAFETY: `argv` are so many strings.
    let status = unsafe { entry(argv.len() as c_int, argv.as_ptr()) };
    ExitCode::from(status as u8)
}
