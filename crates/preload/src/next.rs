//! The functions behind us: found once, by link order.
//!
//! Each starts as a function that resolves them all and then does its work, so the hooks need no test
//! for "not yet". Requests made by the loader while it resolves are served from [`crate::bootstrap`].

use crate::bootstrap;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use homefree_record as record;

pub(crate) type Ptr = *mut c_void;

/// A function of the next library, by name.
pub(crate) struct Next<F> {
    f: AtomicPtr<c_void>,
    name: &'static CStr,
    kind: core::marker::PhantomData<F>,
}

// SAFETY: an atomic pointer and a name.
unsafe impl<F> Sync for Next<F> {}

impl<F: Copy> Next<F> {
    const fn new(name: &'static CStr, first: *mut c_void) -> Self {
        Self {
            f: AtomicPtr::new(first),
            name,
            kind: core::marker::PhantomData,
        }
    }

    /// The function, or what stands in for it.
    #[inline(always)]
    pub fn get(&self) -> F {
        let f = self.f.load(Ordering::Relaxed);
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: `F` is a function pointer type, the stored pointer a function of that type, by
        // construction in `functions!`.
        unsafe { core::mem::transmute_copy(&f) }
    }

    fn resolve(&self) {
        let f = find(self.name);
        if !f.is_null() {
            self.f.store(f, Ordering::Relaxed);
        }
    }
}

/// Looks a name up behind us. (A look-up that fails leaves a message for the next `dlerror`: at start-up
/// only, and it is taken away there.)
pub(crate) fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a NUL-terminated name.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

macro_rules! functions {
    ($($name:ident $text:literal ( $($arg:ident : $type:ty),* ) -> $ret:ty = $absent:expr;)*) => {
        /// The next library's functions.
        pub(crate) struct Functions { $(pub $name: Next<unsafe extern "C" fn($($type),*) -> $ret>,)* }

        pub(crate) static NEXT: Functions = Functions {
            $($name: Next::new($text, first::$name as *mut c_void),)*
        };

        fn resolve_all() {
            $(NEXT.$name.resolve();)*
            $(
                // Not there: what to do instead.
                if NEXT.$name.f.load(Ordering::Relaxed) == first::$name as *mut c_void {
                    NEXT.$name.f.store(absent::$name as *mut c_void, Ordering::Relaxed);
                }
            )*
        }

        /// What stands in the table until it is resolved.
        mod first {
            use super::*;
            $(pub(super) unsafe extern "C" fn $name($($arg: $type),*) -> $ret {
                if resolve() {
                    // SAFETY: the caller's own promise, passed on.
                    unsafe { NEXT.$name.get()($($arg),*) }
                } else {
                    bootstrap::$name($($arg),*)
                }
            })*
        }

        /// What stands in for a function that no library behind us has.
        mod absent {
            use super::*;
            $(pub(super) unsafe extern "C" fn $name($($arg: $type),*) -> $ret { $absent })*
        }
    };
}

fn no_memory<T>(_: T) -> Ptr {
    set_errno(libc::ENOMEM);
    core::ptr::null_mut()
}

fn set_errno(errno: c_int) {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

functions! {
    malloc c"malloc" (size: usize) -> Ptr = no_memory(size);
    free c"free" (p: Ptr) -> () = { let _ = p; };
    calloc c"calloc" (n: usize, size: usize) -> Ptr = no_memory((n, size));
    realloc c"realloc" (p: Ptr, size: usize) -> Ptr = no_memory((p, size));
    memalign c"memalign" (align: usize, size: usize) -> Ptr = no_memory((align, size));
    aligned_alloc c"aligned_alloc" (align: usize, size: usize) -> Ptr = no_memory((align, size));
    valloc c"valloc" (size: usize) -> Ptr = no_memory(size);
    pvalloc c"pvalloc" (size: usize) -> Ptr = no_memory(size);
    posix_memalign c"posix_memalign" (out: *mut Ptr, align: usize, size: usize) -> c_int
        = { let _ = (out, align, size); libc::ENOMEM };
    malloc_usable_size c"malloc_usable_size" (p: Ptr) -> usize = { let _ = p; 0 };
}

const NEW: usize = 0;
const DONE: usize = 1;
/// Anything else: address of the slot of the thread that resolves.
static STATE: AtomicUsize = AtomicUsize::new(NEW);

/// Whether the next allocator never starts two blocks within 32 bytes of each other: glibc has chunks of
/// at least 32 bytes on 16, of which 24 are the program's. And whether the C++ operators behind us, which
/// may carve smaller blocks from larger ones, are the standard ones. Before any block is noted.
fn blocks_are_far_apart() -> bool {
    type Malloc = unsafe extern "C" fn(usize) -> Ptr;
    type Free = unsafe extern "C" fn(Ptr);
    type Room = unsafe extern "C" fn(Ptr) -> usize;
    // SAFETY: null, or the C library's functions of these names and types.
    let (malloc, free, room) = unsafe {
        (
            core::mem::transmute::<Ptr, Option<Malloc>>(find(c"malloc")),
            core::mem::transmute::<Ptr, Option<Free>>(find(c"free")),
            core::mem::transmute::<Ptr, Option<Room>>(find(c"malloc_usable_size")),
        )
    };
    let (Some(malloc), Some(free), Some(room)) = (malloc, free, room) else {
        return false;
    };
    // SAFETY: a block of the smallest size, and how much room it has.
    let room = unsafe {
        let p = malloc(1);
        let bytes = if p.is_null() { 0 } else { room(p) };
        free(p);
        bytes
    };
    room >= 24 && (!standard_runtime_is_loaded() || is_standard_runtime(find(c"_Znwm")))
}

/// Resolves the table. False where this very thread is at it already: the request comes from inside the
/// loader.
#[cold]
fn resolve() -> bool {
    let me = core::ptr::from_ref(crate::slot()) as usize;
    loop {
        match STATE.compare_exchange(NEW, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                record::quietly(crate::slot(), || {
                    record::use_slot::<homefree_thread::slot::InitialExec>(blocks_are_far_apart());
                    resolve_all();
                });
                STATE.store(DONE, Ordering::Release);
                return true;
            }
            Err(DONE) => return true,
            Err(owner) if owner == me => return false,
            Err(_) => homefree_thread::sys::sleep(50_000),
        }
    }
}

/// Resolves the table now.
pub(crate) fn prepare() {
    if STATE.load(Ordering::Acquire) != DONE {
        resolve();
    }
}

/// A function as the module at an address would find it in what it was linked with. Null where it would
/// not.
pub(crate) fn find_for_module(address: usize, name: &CStr) -> *mut c_void {
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

/// Whether a function is in one of the C++ runtimes whose operators are the standard ones.
pub(crate) fn is_standard_runtime(f: *mut c_void) -> bool {
    // SAFETY: an all-zero result is a valid value, and any address may be asked for.
    let info = unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(f, &mut info) == 0 || info.dli_fname.is_null() {
            return false;
        }
        info
    };
    // SAFETY: the loader's own string, of a library that stays loaded.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes();
    is_runtime_path(path)
}

fn is_runtime_path(path: &[u8]) -> bool {
    let base = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    let runtimes: [&[u8]; 3] = [b"libstdc++.so", b"libc++.so", b"libc++abi.so"];
    runtimes.iter().any(|name| base.starts_with(name))
}

/// Whether one of those runtimes is loaded. Asks the loader: not for hooks.
pub(crate) fn standard_runtime_is_loaded() -> bool {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        // SAFETY: the loader's own record.
        let name = unsafe { (*info).dlpi_name };
        // SAFETY: null or the loader's own string.
        c_int::from(!name.is_null() && is_runtime_path(unsafe { CStr::from_ptr(name) }.to_bytes()))
    }
    // SAFETY: `visit` needs no data.
    unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::null_mut()) != 0 }
}
