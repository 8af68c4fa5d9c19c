//! Every size up to 4 KiB at every alignment up to 64 KiB, and random larger ones: blocks are aligned,
//! apart, as large as said, keep their contents, and can be freed by any thread.
#![cfg(not(loom))]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "blocks and cells are the test's own; it fails where they are not"
)]

use homefree_alloc::Alloc;
use homefree_alloc::malloc::{self, usable_size};
use homefree_alloc::slot::Descriptor;
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout};

#[global_allocator]
static A: Alloc = Alloc::new();

#[derive(Clone, Copy)]
struct Block {
    at: usize,
    layout: Layout,
    mark: u8,
}

fn take(size: usize, align: usize, mark: u8) -> Block {
    let layout = Layout::from_size_align(size, align).unwrap();
    let p = unsafe { A.alloc(layout) };
    assert!(
        !p.is_null() && p.addr().is_multiple_of(align),
        "{size} at {align}: {p:?}"
    );
    let usable = unsafe { usable_size(p) };
    assert!(usable >= size);
    unsafe { p.write_bytes(mark, usable) };
    Block {
        at: p.addr(),
        layout,
        mark,
    }
}

fn check_and_free(block: Block) {
    let p = block.at as *mut u8;
    let usable = unsafe { usable_size(p) };
    for i in (0..usable)
        .step_by(if usable < 64 { 1 } else { 61 })
        .chain([usable - 1])
    {
        assert_eq!(
            unsafe { *p.add(i) },
            block.mark,
            "{:?} at {p:?} + {i}",
            block.layout
        );
    }
    unsafe { A.dealloc(p, block.layout) };
}

#[test]
fn every_small_size_at_every_alignment() {
    for shift in 0..=16 {
        let mut blocks = Vec::new();
        for size in 1..=4096 {
            blocks.push(take(size, 1 << shift, (size % 251) as u8));
            // Half of them wait, so that neighbours are of several sizes.
            if size % 2 == 0 {
                let other = blocks.swap_remove(size * 7919 % blocks.len());
                check_and_free(other);
            }
            if blocks.len() > 600 {
                let old: Vec<Block> = blocks.drain(..300).collect();
                // Freed by another thread.
                std::thread::spawn(move || old.into_iter().for_each(check_and_free))
                    .join()
                    .unwrap();
            }
        }
        blocks.into_iter().for_each(check_and_free);
    }
}

#[test]
fn small_blocks_with_large_alignments_can_be_freed_with_their_layout() {
    // mimalloc#1400: 200 of 8 bytes at 16 KiB.
    for shift in 3..=21 {
        let blocks: Vec<Block> = (0..200).map(|i| take(8, 1 << shift, i as u8)).collect();
        blocks.into_iter().for_each(check_and_free);
    }
}

#[test]
fn zeroed_blocks_are_zero_whatever_was_there() {
    for size in (1..3000).chain([5000, 40_000, 70_000, 300_000, 2 << 20]) {
        for _ in 0..3 {
            let p = malloc::calloc::<Descriptor>(size);
            let dirty = (0..size).find(|&i| unsafe { *p.add(i) } != 0);
            assert_eq!(dirty, None, "{size}");
            unsafe {
                p.write_bytes(0xee, size);
                malloc::free::<Descriptor>(p);
            }
        }
    }
}

#[test]
fn usable_bytes_can_be_kept_in_place() {
    for size in (1..5000).chain([33_000, 100_000, 1 << 20]) {
        let p = malloc::malloc::<Descriptor>(size);
        unsafe {
            let usable = usable_size(p);
            assert_eq!(malloc::realloc::<Descriptor>(p, usable, 16), p, "{size}");
            assert_eq!(usable_size(p), usable);
            malloc::free::<Descriptor>(p);
        }
    }
}

#[test]
fn what_can_not_be_had_is_null() {
    for size in [
        isize::MAX as usize,
        isize::MAX as usize - 4095,
        usize::MAX,
        usize::MAX - 4095,
        1 << 62,
    ] {
        assert!(malloc::malloc::<Descriptor>(size).is_null());
        assert!(malloc::calloc::<Descriptor>(size).is_null());
        assert!(malloc::aligned::<Descriptor>(size, 64, false).is_null());
        assert!(malloc::aligned::<Descriptor>(size, 1 << 20, false).is_null());
    }
    let p = malloc::malloc::<Descriptor>(100);
    unsafe {
        p.write_bytes(7, 100);
        assert!(malloc::realloc::<Descriptor>(p, 1 << 62, 16).is_null());
        assert_eq!(*p.add(99), 7);
        malloc::free::<Descriptor>(p);
    }
}

#[test]
fn foreign_addresses_are_counted_and_left_alone() {
    let here = [0u64; 64];
    let before = homefree_alloc::statistics().foreign;
    for p in [
        here.as_ptr() as usize,
        16,
        1 << 46,
        usize::MAX - 15,
        1 << 63,
    ] {
        unsafe { malloc::free::<Descriptor>(p as *mut u8) };
        assert_eq!(unsafe { usable_size(p as *const u8) }, 0);
    }
    assert_eq!(homefree_alloc::statistics().foreign, before + 5);
}

#[derive(Clone, Debug)]
enum Step {
    Take { size: usize, align: u32 },
    Resize { which: usize, size: usize },
    Free { which: usize },
    FreeElsewhere,
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        1..512usize,
        1..8192usize,
        1..70_000usize,
        200_000..3_000_000usize
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (sizes(), 0..18u32).prop_map(|(size, align)| Step::Take { size, align }),
        3 => (any::<usize>(), sizes()).prop_map(|(which, size)| Step::Resize { which, size }),
        3 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => Just(Step::FreeElsewhere),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_keep_contents(steps in proptest::collection::vec(steps(), 1..200)) {
        let mut blocks: Vec<Block> = Vec::new();
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Take { size, align } => blocks.push(take(size, 1 << align, i as u8)),
                Step::Resize { which, size } if !blocks.is_empty() => {
                    let n = which % blocks.len();
                    let block = &mut blocks[n];
                    let kept = block.layout.size().min(size);
                    let p = unsafe { A.realloc(block.at as *mut u8, block.layout, size) };
                    prop_assert!(p.addr().is_multiple_of(block.layout.align()));
                    for at in (0..kept).step_by(97).chain([kept - 1]) {
                        prop_assert_eq!(unsafe { *p.add(at) }, block.mark);
                    }
                    block.at = p.addr();
                    block.layout = Layout::from_size_align(size, block.layout.align()).unwrap();
                    unsafe { p.write_bytes(block.mark, usable_size(p)) };
                }
                Step::Free { which } if !blocks.is_empty() => {
                    check_and_free(blocks.swap_remove(which % blocks.len()));
                }
                Step::FreeElsewhere => {
                    let all = std::mem::take(&mut blocks);
                    std::thread::spawn(move || all.into_iter().for_each(check_and_free)).join().unwrap();
                }
                _ => {}
            }
        }
        blocks.into_iter().for_each(check_and_free);
    }
}
