//! The library's own beginning and end.

use crate::next::{self, NEXT};
use crate::slot;
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

homefree_next::exits!(record::end(slot()));
