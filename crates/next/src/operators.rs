//! The C++ operators that allocate and free: their names, and what the standard ones come down to.

use core::ffi::CStr;

/// How many there are.
pub const OPERATORS: usize = 20;
/// Operators from here on, up to [`FIRST_DELETE`], take an alignment.
pub const FIRST_ALIGNED: usize = 4;
/// Operators from here on free.
pub const FIRST_DELETE: usize = 8;

/// Mangled names; `new` first, then `delete`.
pub const NAMES: [&CStr; OPERATORS] = [
    c"_Znwm",
    c"_Znam",
    c"_ZnwmRKSt9nothrow_t",
    c"_ZnamRKSt9nothrow_t",
    c"_ZnwmSt11align_val_t",
    c"_ZnamSt11align_val_t",
    c"_ZnwmSt11align_val_tRKSt9nothrow_t",
    c"_ZnamSt11align_val_tRKSt9nothrow_t",
    c"_ZdlPv",
    c"_ZdaPv",
    c"_ZdlPvRKSt9nothrow_t",
    c"_ZdaPvRKSt9nothrow_t",
    c"_ZdlPvm",
    c"_ZdaPvm",
    c"_ZdlPvSt11align_val_t",
    c"_ZdaPvSt11align_val_t",
    c"_ZdlPvSt11align_val_tRKSt9nothrow_t",
    c"_ZdaPvSt11align_val_tRKSt9nothrow_t",
    c"_ZdlPvmSt11align_val_t",
    c"_ZdaPvmSt11align_val_t",
];

/// Where a form that is missing behind us goes: to the one that the standard's own form of it calls.
pub const INSTEAD: [usize; OPERATORS] = [
    0, 0, 0, 1, 4, 4, 4, 5, 8, 8, 8, 9, 8, 9, 14, 14, 14, 15, 14, 15,
];

/// Whether an operator throws where it has no memory.
pub fn throws(index: usize) -> bool {
    matches!(index, 0 | 1 | 4 | 5)
}

/// What the standard operators ask `malloc` for: 1 byte where 0 are wanted.
pub fn standard_size(size: usize) -> usize {
    size.max(1)
}

/// What the standard operators ask `aligned_alloc` for: an alignment and a size.
pub fn standard_aligned(size: usize, align: usize) -> (usize, usize) {
    let align = align.max(size_of::<usize>());
    let size = standard_size(size).checked_next_multiple_of(align);
    (align, size.unwrap_or(usize::MAX))
}
