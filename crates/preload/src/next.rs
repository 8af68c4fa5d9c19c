//! The functions behind us, see [`homefree_next`].

use homefree_next::{Artifact, Functions};
use homefree_record as record;

pub(crate) use homefree_next::{Ptr, find, find_for_module, is_standard_runtime};

/// The next library's functions.
pub(crate) static NEXT: Functions = Functions::new::<Recorder>();

/// This library.
pub(crate) struct Recorder;

impl Artifact for Recorder {
    fn functions() -> &'static Functions {
        &NEXT
    }

    fn around(resolve: &mut dyn FnMut()) {
        record::quietly(crate::slot(), || {
            record::use_slot::<homefree_thread::slot::InitialExec>(blocks_are_far_apart());
            resolve();
        });
    }
}

/// Looks the functions up now.
pub(crate) fn prepare() {
    NEXT.prepare::<Recorder>();
}

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
    room >= 24
        && (!homefree_next::standard_runtime_is_loaded() || is_standard_runtime(find(c"_Znwm")))
}
