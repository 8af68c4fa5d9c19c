//! The library's own beginning and end.

use crate::next::{self, NEXT};
use crate::slot;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use homefree_record as record;

/// Runs when the loader initialises the library: usually before any other code of the program.
extern "C" fn begin() {
    next::prepare();
    find_exits();
    crate::names::find();
    crate::cxx::decide();
    // What a failed look-up left.
    // SAFETY: plain call.
    record::quietly(slot(), || unsafe { libc::dlerror() });
    record::start(slot());
    record::name_allocator(NEXT.malloc.get() as usize);
}

/// Runs at the process's orderly end.
extern "C" fn end() {
    record::end(slot());
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

macro_rules! exits {
    ($($name:ident $next:ident;)*) => { $(
        static $next: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

        /// See the C library's function of this name.
        ///
        /// # Safety
        /// As the C library demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(status: c_int) -> ! {
            // Ends the process without running destructors.
            record::end(slot());
            let f = $next.load(Ordering::Relaxed);
            if !f.is_null() {
                // SAFETY: the C library's function of that name.
                let f = unsafe { core::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> !>(f) };
                f(status)
            }
            loop {
                // SAFETY: what that function does.
                unsafe { libc::syscall(libc::SYS_exit_group, status) };
            }
        }
    )* };
}

exits! {
    _exit EXIT;
    _Exit EXIT_ISO;
}

/// Looks the functions up while it is safe to: `_exit` may be called in a child of `vfork`.
fn find_exits() {
    for (next, name) in [(&EXIT, c"_exit"), (&EXIT_ISO, c"_Exit")] {
        // SAFETY: a NUL-terminated name.
        next.store(
            unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) },
            Ordering::Relaxed,
        );
    }
}
