//! Asking the loader. At start-up only: it may take locks that the program holds, and format messages.

use core::ffi::{CStr, c_int, c_void};

/// Looks a name up behind us. (A look-up that fails leaves a message for the next `dlerror`: see
/// [`clear_message`].)
pub fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a NUL-terminated name.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Takes away what failed look-ups left for the program's next `dlerror`.
pub fn clear_message() {
    // SAFETY: plain call.
    unsafe { libc::dlerror() };
}

/// A function as the module at an address would find it in what it was linked with. Null where it would
/// not.
pub fn find_for_module(address: usize, name: &CStr) -> *mut c_void {
    // SAFETY: an all-zero result is a valid value, and any address may be asked for. RTLD_NOLOAD only
    // finds what is loaded, which the module stays while it is being executed; the names are strings.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return core::ptr::null_mut();
        }
        let module = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if module.is_null() {
            return core::ptr::null_mut();
        }
        let f = libc::dlsym(module, name.as_ptr());
        libc::dlclose(module);
        f
    }
}

fn module(f: *mut c_void) -> Option<libc::Dl_info> {
    // SAFETY: an all-zero result is a valid value, and any address may be asked for.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        (libc::dladdr(f, &mut info) != 0 && !info.dli_fname.is_null()).then_some(info)
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// File name of the module that a function is in, without its folder, as far as it fits in `out`.
pub fn module_name(f: *mut c_void, out: &mut [u8]) -> usize {
    let Some(info) = module(f) else { return 0 };
    // SAFETY: the loader's own string, of a library that stays loaded.
    let name = base_name(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes());
    let len = name.len().min(out.len());
    out[..len].copy_from_slice(&name[..len]);
    len
}

/// Whether two functions are in one module.
pub fn same_module(f: *mut c_void, g: *mut c_void) -> bool {
    match (module(f), module(g)) {
        (Some(f), Some(g)) => f.dli_fbase == g.dli_fbase,
        _ => false,
    }
}

/// Whether a function is the GNU C library's.
pub fn c_library_has(f: *mut c_void) -> bool {
    let mut name = [0; 16];
    let len = module_name(f, &mut name);
    &name[..len] == b"libc.so.6"
}

/// Whether a function is in one of the C++ runtimes whose operators are the standard ones.
pub fn is_standard_runtime(f: *mut c_void) -> bool {
    // SAFETY: the loader's own string, of a library that stays loaded.
    module(f)
        .is_some_and(|info| is_runtime_path(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes()))
}

/// Whether a path names one of those runtimes.
fn is_runtime_path(path: &[u8]) -> bool {
    let base = base_name(path);
    let runtimes: [&[u8]; 3] = [b"libstdc++.so", b"libc++.so", b"libc++abi.so"];
    runtimes.iter().any(|name| base.starts_with(name))
}

/// Whether one of those runtimes is loaded.
pub fn standard_runtime_is_loaded() -> bool {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        // SAFETY: the loader's own record.
        let name = unsafe { (*info).dlpi_name };
        // SAFETY: null or the loader's own string.
        c_int::from(!name.is_null() && is_runtime_path(unsafe { CStr::from_ptr(name) }.to_bytes()))
    }
    // SAFETY: `visit` needs no data.
    unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::null_mut()) != 0 }
}
