//! The engine behind the C ABI of `tpch-abi`.

use crate::Engine;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tpch_abi::Answer;

pub use tpch_abi as abi;

/// Makes the crate a library with the engine in it.
///
/// The first argument names its allocator, as a literal; the second is an expression that says what the
/// allocator knows, an `Option<Account>`.
#[macro_export]
macro_rules! library {
    ($arm:literal, $account:expr) => {
        extern "C" fn account(out: *mut $crate::export::abi::Account) -> bool {
            let account: ::core::option::Option<$crate::export::abi::Account> = $account;
            match account {
                Some(account) => {
                    // SAFETY: the ABI has the caller pass a place for one account.
                    unsafe { out.write(account) };
                    true
                }
                None => false,
            }
        }

        /// The library's functions.
        // SAFETY: no other crate in this library defines the name.
        #[unsafe(no_mangle)]
        pub extern "C" fn tpch_library() -> $crate::export::abi::Library {
            const ARM: &::core::ffi::CStr =
                match ::core::ffi::CStr::from_bytes_with_nul(concat!($arm, "\0").as_bytes()) {
                    Ok(arm) => arm,
                    Err(_) => panic!("a zero in the name of an arm"),
                };
            $crate::export::abi::Library {
                arm: ARM.as_ptr(),
                open: $crate::export::open,
                scale: $crate::export::scale,
                run: $crate::export::run,
                write: $crate::export::write,
                close: $crate::export::close,
                hold: $crate::export::hold,
                account,
            }
        }
    };
}

/// [`tpch_abi::Library::open`].
///
/// # Safety
/// `directory` is a C string.
pub unsafe extern "C" fn open(directory: *const c_char, threads: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let directory = unsafe { path(directory) };
    match Engine::open(directory, threads) {
        Ok(engine) => Box::into_raw(Box::new(engine)).cast(),
        Err(error) => {
            eprintln!("{}: {error}", directory.display());
            std::ptr::null_mut()
        }
    }
}

/// [`tpch_abi::Library::scale`].
///
/// # Safety
/// `engine` is what [`open`] returned, not closed yet.
pub unsafe extern "C" fn scale(engine: *const c_void) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { &*engine.cast::<Engine>() }.scale()
}

/// [`tpch_abi::Library::run`].
///
/// # Safety
/// `engine` as in [`scale`]; `answer` is a place for one answer.
pub unsafe extern "C" fn run(engine: *const c_void, query: u32, answer: *mut Answer) -> bool {
    // SAFETY: the caller's promise.
    let engine = unsafe { &*engine.cast::<Engine>() };
    match engine.run(query) {
        Ok(got) => {
            // SAFETY: the caller's promise.
            unsafe { answer.write(got) };
            true
        }
        Err(error) => {
            eprintln!("query {query}: {error}");
            false
        }
    }
}

/// [`tpch_abi::Library::write`].
///
/// # Safety
/// `engine` as in [`scale`]; `file` is a C string.
pub unsafe extern "C" fn write(engine: *const c_void, query: u32, file: *const c_char) -> bool {
    // SAFETY: the caller's promises.
    let (engine, file) = unsafe { (&*engine.cast::<Engine>(), path(file)) };
    let written = engine.rows(query).and_then(|rows| {
        let mut text = rows.join("\n");
        text.push('\n');
        Ok(std::fs::write(file, text)?)
    });
    if let Err(error) = &written {
        eprintln!("query {query}: {error}");
    }
    written.is_ok()
}

/// [`tpch_abi::Library::close`].
///
/// # Safety
/// `engine` as in [`scale`]; it is not used again.
pub unsafe extern "C" fn close(engine: *mut c_void) {
    // SAFETY: the caller's promise; `open` made it from a box.
    drop(unsafe { Box::from_raw(engine.cast::<Engine>()) });
}

/// [`tpch_abi::Library::hold`].
pub extern "C" fn hold(bytes: usize, look: extern "C" fn(*mut c_void), context: *mut c_void) {
    let block = vec![1_u8; bytes];
    look(context);
    drop(std::hint::black_box(block));
}

/// # Safety
/// `text` is a C string that outlives the result.
unsafe fn path<'a>(text: *const c_char) -> &'a Path {
    // SAFETY: the caller's promise.
    Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(text) }.to_bytes(),
    ))
}
