//! Thread names: hooks on the two calls that give them.

use crate::slot;
use core::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use homefree_record as record;

type SetName = unsafe extern "C" fn(libc::pthread_t, *const c_char) -> c_int;
type Prctl = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;

static SET_NAME: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static PRCTL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

fn next(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = place.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: a NUL-terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    place.store(found, Ordering::Relaxed);
    found
}

/// Looks the functions up while it is safe to.
pub(crate) fn find() {
    next(&SET_NAME, c"pthread_setname_np");
    next(&PRCTL, c"prctl");
}

/// See the C library's function of this name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int {
    // SAFETY: null, or the function of that name and type.
    let f: Option<SetName> =
        unsafe { core::mem::transmute(next(&SET_NAME, c"pthread_setname_np")) };
    let Some(f) = f else { return libc::ENOSYS };
    // SAFETY: the caller's own promise, passed on.
    let result = unsafe { f(thread, name) };
    // SAFETY: plain call.
    if result == 0 && thread == unsafe { libc::pthread_self() } {
        record::renamed(slot());
    } else if result == 0 {
        // SAFETY: the call took it as a string.
        record::renamed_other(slot(), thread, unsafe { CStr::from_ptr(name) }.to_bytes());
    }
    result
}

/// See the C library's function of this name. (It is variadic there; on the platforms this library is
/// built for, its arguments travel like those of a function with five of them.)
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    // SAFETY: null, or the function of that name and type.
    let f: Option<Prctl> = unsafe { core::mem::transmute(next(&PRCTL, c"prctl")) };
    let Some(f) = f else {
        // SAFETY: the calling thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
        return -1;
    };
    // SAFETY: the caller's own promise, passed on.
    let result = unsafe { f(option, a, b, c, d) };
    if option == libc::PR_SET_NAME && result == 0 {
        record::renamed(slot());
    }
    result
}
