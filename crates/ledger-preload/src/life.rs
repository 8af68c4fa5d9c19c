//! The library's own beginning and end, and its process's.

use crate::hot::HOT;
use crate::{careful, confined, cxx, environment, next, own, page, process, roles};
use core::sync::atomic::{AtomicBool, Ordering};
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

homefree_next::exits!(page::end());
