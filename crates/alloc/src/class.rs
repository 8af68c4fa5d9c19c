//! Size classes.
//!
//! Multiples of 16 bytes up to 128, then eight to a doubling, so that a block is at most 12.5 % larger
//! than asked for (above 64 bytes). A block lies at a multiple of its size from the start of its page,
//! and pages start at multiples of 64 KiB: a class is aligned to the largest power of two that divides
//! its size.

/// Number of classes.
pub const CLASSES: usize = 72;
/// Largest size of a class, bytes. What is larger has units, or a mapping, of its own.
pub const SMALL_MAX: usize = 32 << 10;
/// Sizes up to this one find their page by [`direct_index`], bytes.
pub const DIRECT_MAX: usize = 1024;
/// Classes of at most [`DIRECT_MAX`] bytes.
pub const DIRECT_CLASSES: usize = 32;

/// The class that serves `size` bytes.
///
/// `size` is at most [`SMALL_MAX`].
#[inline]
pub const fn class_of(size: usize) -> usize {
    if size <= 128 {
        return size.saturating_sub(1) >> 4;
    }
    let last = size - 1;
    let doubling = last.ilog2() as usize;
    8 + (doubling - 7) * 8 + ((last >> (doubling - 3)) & 7)
}

/// Bytes of a block of the class.
pub const fn block_size(class: usize) -> usize {
    if class < 8 {
        return (class + 1) << 4;
    }
    let doubling = 7 + (class - 8) / 8;
    (8 + (class & 7) + 1) << (doubling - 3)
}

/// Units of 64 KiB that a page of the class has: at least eight blocks fit.
pub const fn page_units(class: usize) -> usize {
    if block_size(class) <= 8 << 10 { 1 } else { 4 }
}

/// The place of a size in the table of pages in the thread's slot: eight bytes of size, one of eight bytes.
pub const DIRECT_ENTRIES: usize = DIRECT_MAX / 8 + 1;

/// The entries `from..=to` of that table that belong to a class of at most [`DIRECT_MAX`] bytes.
pub const fn direct_entries(class: usize) -> (usize, usize) {
    let from = if class == 0 {
        0
    } else {
        block_size(class - 1) / 8 + 1
    };
    (from, block_size(class) / 8)
}

/// `size` rounded up to a multiple of `align`, a power of two: the class of that many bytes is aligned to it,
/// up to [`SMALL_MAX`]. (Where the classes' step is smaller than `align`, the rounded size is a class itself;
/// where it is larger, all classes are aligned.)
#[inline]
pub const fn round_to(size: usize, align: usize) -> usize {
    // By masks: a division by a variable would take longer than all the rest.
    let mask = align - 1;
    (size.wrapping_add(mask)) & !mask
}

/// The class that serves `size` bytes at a multiple of `align`, a power of two. `None` where units or a
/// mapping of its own must.
#[inline]
pub const fn class_of_aligned(size: usize, align: usize) -> Option<usize> {
    if size > SMALL_MAX || align > SMALL_MAX {
        return None;
    }
    let rounded = round_to(if size == 0 { 1 } else { size }, align);
    if rounded > SMALL_MAX {
        return None;
    }
    Some(class_of(rounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it() {
        for size in 0..=SMALL_MAX {
            let class = class_of(size);
            assert!(block_size(class) >= size, "{size}");
            assert!(class == 0 || block_size(class - 1) < size, "{size}");
        }
        assert_eq!(class_of(SMALL_MAX), CLASSES - 1);
        assert_eq!(class_of(DIRECT_MAX), DIRECT_CLASSES - 1);
    }

    #[test]
    fn waste_is_at_most_an_eighth_above_64_bytes() {
        for size in 65..=SMALL_MAX {
            let waste = block_size(class_of(size)) - size;
            assert!(waste * 8 <= size + 8 * 15 || waste < 16, "{size}: {waste}");
            assert!(
                waste < 16 || waste * 8 <= block_size(class_of(size)),
                "{size}: {waste}"
            );
        }
    }

    #[test]
    fn direct_entries_cover_every_size_once() {
        let mut next = 0;
        for class in 0..DIRECT_CLASSES {
            let (from, to) = direct_entries(class);
            assert_eq!(from, next);
            next = to + 1;
        }
        assert_eq!(next, DIRECT_ENTRIES);
        for size in 0..=DIRECT_MAX {
            let (from, to) = direct_entries(class_of(size));
            assert!((from..=to).contains(&size.div_ceil(8)), "{size}");
        }
    }

    #[test]
    fn aligned_classes_are_aligned_and_large_enough() {
        for shift in 0..=15 {
            let align = 1 << shift;
            for size in 0..=SMALL_MAX {
                if let Some(class) = class_of_aligned(size, align) {
                    assert!(block_size(class) >= size);
                    assert!(align <= 16 || block_size(class).is_multiple_of(align));
                }
            }
        }
        assert!(class_of_aligned(100, 64 << 10).is_none());
    }
}
