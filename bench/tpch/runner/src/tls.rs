//! Where the loader has put a library's thread-locals.
//!
//! A library that is loaded with `dlopen` may get a place in the static block that every thread has, at the
//! same distance from the thread pointer: glibc keeps a little room for that (`glibc.rtld.optional_static_tls`,
//! 512 bytes if not set) and gives it to libraries that use TLS descriptors. Otherwise the block is allocated
//! for each thread at its first access.

use crate::elf;
use anyhow::{Context, Result, bail};
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

/// A loaded library as the loader sees it from one thread.
struct Seen {
    path: PathBuf,
    base: usize,
    /// Address of this thread's block; 0 where it has none yet.
    block: usize,
    found: bool,
}

extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, seen: *mut c_void) -> c_int {
    // SAFETY: the loader passes a live record, and the pointer given to it below.
    let (info, seen) = unsafe { (&*info, &mut *seen.cast::<Seen>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: a C string of the loader's.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    if Path::new(OsStr::from_bytes(name.to_bytes())) != seen.path {
        return 0;
    }
    seen.base = info.dlpi_addr as usize;
    seen.block = info.dlpi_tls_data as usize;
    seen.found = true;
    1
}

fn look(library: &Path) -> Result<Seen> {
    let mut seen = Seen {
        path: library.to_owned(),
        base: 0,
        block: 0,
        found: false,
    };
    // SAFETY: `visit` is given the type that it expects.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut seen).cast()) };
    if !seen.found {
        bail!("{}: not loaded under this name", library.display());
    }
    Ok(seen)
}

/// Whether threads that were started after the library was loaded have its thread-locals at one distance from
/// their thread pointer, before the first access.
///
/// # Errors
/// The library is not loaded.
pub fn is_static(library: &Path) -> Result<bool> {
    // Both alive at once: two blocks on the heap could follow their threads at one distance by chance, but
    // have none before the first access anyway.
    let barrier = Barrier::new(2);
    let distance = || {
        let seen = look(library);
        // SAFETY: no memory is involved. On x86-64 glibc's handle of a thread is its thread pointer.
        let pointer = unsafe { libc::pthread_self() } as usize;
        barrier.wait();
        seen.map(|seen| (seen.block != 0).then(|| pointer.wrapping_sub(seen.block)))
    };
    let (one, other) = std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(distance), scope.spawn(distance));
        (one.join(), other.join())
    });
    let (Ok(one), Ok(other)) = (one, other) else {
        bail!("a thread that looks at thread-locals ended badly");
    };
    let (one, other) = (one?, other?);
    Ok(one.is_some() && one == other)
}

/// For each TLS descriptor of the library: whether its resolver is glibc's `_dl_tlsdesc_return`, which loads
/// the offset and returns.
///
/// # Errors
/// The library is not loaded, or its file cannot be read.
pub fn descriptors(library: &Path) -> Result<Vec<bool>> {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    /// mov rax, [rax+8]; ret
    const RETURN: [u8; 5] = [0x48, 0x8b, 0x40, 0x08, 0xc3];
    let pairs = elf::read(library)?.descriptors;
    let base = look(library).context("TLS descriptors")?.base;
    let mut plain = Vec::new();
    for pair in pairs {
        let pair = base.wrapping_add(pair as usize) as *const *const [u8; 9];
        // SAFETY: the address is from the library's own relocations, moved to where it is loaded; all of
        // them are done, since it was bound at once. The first word is the address of the resolver, whose
        // code is readable, and longer than this with what follows it in the loader.
        let code = unsafe { pair.read().read_unaligned() };
        let code = code.strip_prefix(&ENDBR64).unwrap_or(&code);
        plain.push(code.starts_with(&RETURN));
    }
    Ok(plain)
}
