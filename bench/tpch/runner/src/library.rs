//! A library with the engine in it, loaded with `dlopen`.

use anyhow::{Context, Result, bail};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tpch_abi::{Account, Answer, Entry, Library};

/// A library that stays loaded to the end of the process.
pub struct Loaded {
    functions: Library,
}

/// An engine of a library.
pub struct Engine<'a> {
    library: &'a Loaded,
    engine: *mut c_void,
}

impl Loaded {
    /// Loads the library as a plug-in host does: its symbols local, all of them bound at once.
    ///
    /// # Errors
    /// The loader refuses it, or it is no library of ours.
    pub fn load(path: &Path) -> Result<Self> {
        // SAFETY: our own libraries have no initialisers beside those of the Rust and C run-time.
        let handle = unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
        // SAFETY: every library that has the symbol gets it from `tpch_engine::library!`, with this type.
        let entry = unsafe { handle.get::<Entry>(tpch_abi::SYMBOL)? };
        let functions = entry();
        // Threads of the engine may outlive it by a moment, and thread-locals have destructors.
        std::mem::forget(handle);
        Ok(Self { functions })
    }

    /// The allocator that the library says it has.
    pub fn arm(&self) -> String {
        // SAFETY: the ABI has it be a C string with static lifetime; the library is never unloaded.
        let arm = unsafe { CStr::from_ptr(self.functions.arm) };
        arm.to_string_lossy().into_owned()
    }

    /// What the library's allocator knows; `None` where it keeps no account.
    pub fn account(&self) -> Option<Account> {
        let mut account = Account::default();
        // SAFETY: the pointer is to a live local.
        let kept = unsafe { (self.functions.account)(&raw mut account) };
        kept.then_some(account)
    }

    /// By how many bytes the account moves while the library holds a block of `bytes` bytes.
    pub fn moved(&self, bytes: usize) -> Option<i64> {
        struct Look<'a> {
            library: &'a Loaded,
            during: Option<Account>,
        }
        extern "C" fn look(context: *mut c_void) {
            // SAFETY: `hold` passes on the pointer below, to a live local that nothing else uses.
            let look = unsafe { &mut *context.cast::<Look<'_>>() };
            look.during = look.library.account();
        }
        let before = self.account()?;
        let mut seen = Look {
            library: self,
            during: None,
        };
        // SAFETY: `look` is given the type that it expects.
        unsafe { (self.functions.hold)(bytes, look, (&raw mut seen).cast()) };
        Some(seen.during?.balance - before.balance)
    }

    /// Opens a directory of Parquet files.
    ///
    /// # Errors
    /// The library's own, on standard error.
    pub fn open(&self, directory: &Path, threads: usize) -> Result<Engine<'_>> {
        let directory = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: a C string.
        let engine = unsafe { (self.functions.open)(directory.as_ptr(), threads) };
        if engine.is_null() {
            bail!("the tables cannot be opened");
        }
        Ok(Engine {
            library: self,
            engine,
        })
    }
}

impl Engine<'_> {
    /// The scale factor of the data.
    pub fn scale(&self) -> f64 {
        // SAFETY: the engine is open as long as this value lives.
        unsafe { (self.library.functions.scale)(self.engine) }
    }

    /// Runs a query, 1 to 22.
    ///
    /// # Errors
    /// The library's own, on standard error.
    pub fn run(&self, query: u32) -> Result<Answer> {
        let mut answer = Answer::default();
        // SAFETY: as in `scale`; the answer is a live local.
        let ran = unsafe { (self.library.functions.run)(self.engine, query, &raw mut answer) };
        if !ran {
            bail!("query {query} failed");
        }
        Ok(answer)
    }

    /// Runs a query and writes its rows to a file.
    ///
    /// # Errors
    /// The library's own, on standard error.
    pub fn write(&self, query: u32, path: &str) -> Result<()> {
        let path = CString::new(path).context("a zero in a path")?;
        // SAFETY: as in `scale`; a C string.
        let written = unsafe { (self.library.functions.write)(self.engine, query, path.as_ptr()) };
        if !written {
            bail!("query {query} failed");
        }
        Ok(())
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `scale`; it is not used again.
        unsafe { (self.library.functions.close)(self.engine) };
    }
}
