//! The functions behind us, and which way of counting fits them.

use crate::hot::HOT;
use crate::size;
use homefree_next::{Artifact, Functions, c_library_has};

pub(crate) use homefree_next::Ptr;

/// The next library's functions.
pub(crate) static NEXT: Functions = Functions::new::<Accountant>();

/// This library.
struct Accountant;

impl Artifact for Accountant {
    fn functions() -> &'static Functions {
        &NEXT
    }

    fn around(resolve: &mut dyn FnMut()) {
        crate::keep_errno(|| {
            resolve();
            homefree_ledger::raw::never_unloaded();
            // Before anything is counted: what a thread may count before it settles must not exceed what the
            // short way takes for granted.
            homefree_ledger::ledger().set_drift_budget(size::DRIFT_BUDGET);
            if next_is_the_c_librarys() && size::headers_are_as_known() {
                HOT.count_inline();
            } else {
                HOT.count_carefully();
            }
        });
    }
}

/// Finds the functions now. False where that is what this very thread is doing: the loader asks for memory.
pub(crate) fn prepare() -> bool {
    NEXT.prepare::<Accountant>();
    NEXT.is_resolved()
}

fn next_is_the_c_librarys() -> bool {
    [
        NEXT.malloc.address(),
        NEXT.free.address(),
        NEXT.calloc.address(),
        NEXT.realloc.address(),
        NEXT.memalign.address(),
        NEXT.malloc_usable_size.address(),
    ]
    .into_iter()
    .all(c_library_has)
}
