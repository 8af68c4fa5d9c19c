//! The library's own beginning and end, and its process's.

use crate::hot::HOT;
use crate::{careful, confined, cxx, environment, next, own, page, process, roles};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use homefree_ledger::{HardLimit, ledger};

/// Children publish too.
static FOLLOW: AtomicBool = AtomicBool::new(true);

/// Runs when the loader initialises the library: usually before any other code of the program.
extern "C" fn begin() {
    crate::keep_errno(|| {
        next::prepare();
        find_exits();
        confined::prepare();
        cxx::decide();
        homefree_next::clear_message();
        let settings = environment::settings();
        FOLLOW.store(settings.follow, Ordering::Relaxed);
        let limit = settings.limit.map(HardLimit::new);
        if settings.counts || limit.is_some() {
            careful::COUNTS.store(settings.counts, Ordering::Relaxed);
            careful::MORE.store(true, Ordering::Relaxed);
            HOT.count_carefully();
        }
        if let Some(limit) = limit {
            ledger().set_hard_limit(Some(limit));
        }
        // Before the C library notes what is to be done at the end: the ledger's hook is then the last of all.
        ledger().settle();
        roles::watch();
        homefree_thread::on_fork_child(in_child);
        own::claim();
        page::begin(&settings, limit);
    });
}

/// After a fork, in the child. After the ledger's own handler, which was registered before.
unsafe extern "C" fn in_child() {
    crate::keep_errno(|| {
        own::claim();
        page::leave_to_parent(FOLLOW.load(Ordering::Relaxed));
        process::begin_anew();
        roles::begin_anew();
    });
}

/// Runs at the process's orderly end.
extern "C" fn end() {
    crate::keep_errno(page::end);
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
            page::end();
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
        next.store(homefree_next::find(name), Ordering::Relaxed);
    }
}
