//! The hard limit: decided before the allocator behind is called, never passed, and with room left to unwind.

use homefree_ledger::{Accounted, HardLimit};
use std::alloc::{GlobalAlloc, Layout, System, alloc, dealloc, realloc};
use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// `System`, and how much it was asked for at most.
struct Asked;

/// A request of this size stays in the allocator until it is let out.
const STAYS: usize = (5 << 20) + 1;
static INSIDE: Barrier = Barrier::new(2);

static LARGEST: AtomicU64 = AtomicU64::new(0);
/// What it has given out, and the most that was.
static HELD: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes on to `System`.
unsafe impl GlobalAlloc for Asked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size() as u64, Ordering::Relaxed);
        let size = layout.size() as u64;
        MOST.fetch_max(
            HELD.fetch_add(size, Ordering::Relaxed) + size,
            Ordering::Relaxed,
        );
        if layout.size() == STAYS {
            INSIDE.wait();
            INSIDE.wait();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static A: Accounted<Asked> = Accounted::new(Asked);

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Allocates blocks until it is refused; at most `most`.
fn until_refused(size: usize, most: usize) -> Vec<*mut u8> {
    let mut blocks = Vec::with_capacity(most);
    while blocks.len() < most {
        // SAFETY: not of size 0; freed by `free_all`.
        let p = unsafe { alloc(layout(size)) };
        if p.is_null() {
            break;
        }
        blocks.push(p);
    }
    blocks
}

fn free_all(blocks: Vec<*mut u8>, size: usize) {
    for p in blocks {
        // SAFETY: of `until_refused`.
        unsafe { dealloc(p, layout(size)) };
    }
}

/// Threads that ask for what can not be had, over and over, are in nobody's way.
fn requests_that_are_refused_take_no_room_of_others() {
    set(A.usage_exact().current + 64 * MIB as u64, 0);
    let stop = AtomicBool::new(false);
    let (asked, wanting) = (AtomicU64::new(0), 200 * KIB);
    let refused = thread::scope(|scope| {
        for size in [1 << 40, 65 * MIB, isize::MAX as usize - 7] {
            let (stop, asked) = (&stop, &asked);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // SAFETY: null.
                    assert!(std::hint::black_box(unsafe { alloc(layout(size)) }).is_null());
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut refused = 0;
        for n in 0.. {
            // SAFETY: freed as allocated, if it was.
            unsafe {
                let p = std::hint::black_box(alloc(layout(wanting)));
                if p.is_null() {
                    refused += 1;
                } else {
                    dealloc(p, layout(wanting));
                }
            }
            if n > 100_000 && asked.load(Ordering::Relaxed) > 100_000 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        refused
    });
    A.set_hard_limit(None);
    assert_eq!(refused, 0, "with 64 MiB free");
}

/// What other threads had asked for when the process forked is no room that its child lacks.
fn a_childs_room_is_its_own() {
    set(A.usage_exact().current + 8 * MIB as u64, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: freed as allocated.
            unsafe { dealloc(std::hint::black_box(alloc(layout(STAYS))), layout(STAYS)) };
        });
        INSIDE.wait();
        // SAFETY: the child allocates, and ends.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: a request of the one thread; then the end.
                unsafe {
                    let p = std::hint::black_box(alloc(layout(6 * MIB)));
                    libc::_exit(i32::from(p.is_null()))
                }
            }
            pid => {
                let mut status = -1;
                // SAFETY: plain call.
                unsafe { libc::waitpid(pid, &mut status, 0) };
                INSIDE.wait();
                assert_eq!(status, 0, "6 MiB of 8");
            }
        }
    });
    A.set_hard_limit(None);
}

/// The exact balance once this is the only thread: a scope's end does not wait for the last free of its threads.
fn alone() -> u64 {
    while std::fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        thread::yield_now();
    }
    A.usage_exact().current
}

fn main() {
    one_thread_gets_the_limit_to_the_byte();
    a_refused_request_never_reaches_the_allocator();
    small_requests_have_a_reserve();
    requests_that_are_refused_take_no_room_of_others();
    a_childs_room_is_its_own();
    many_threads_never_pass_it();
    frees_on_other_threads_make_room();
    a_limit_hit_inside_a_destructor();
    realloc_decides_first();
    without_a_limit_all_is_as_before();
}

fn set(bytes: u64, reserve: u64) {
    A.set_hard_limit(Some(HardLimit {
        bytes,
        reserve,
        small: 0,
    }));
    // Room for the program's own small things stands in the limit itself.
}

fn one_thread_gets_the_limit_to_the_byte() {
    for size in [16, 100, 4 * KIB, 64 * KIB, MIB] {
        let most = 8 * MIB / size + 10;
        let list = most * size_of::<*mut u8>();
        let limit = A.usage_exact().current + (8 * MIB + list) as u64;
        set(limit, 0);
        let blocks = until_refused(size, most);
        let held = A.usage_exact().current;
        A.set_hard_limit(None);
        assert!(held <= limit, "{held} of {limit} in blocks of {size}");
        assert!(
            limit - held < size as u64,
            "{held} of {limit} in blocks of {size}"
        );
        free_all(blocks, size);
    }
    assert!(A.refused() >= 5);
}

fn a_refused_request_never_reaches_the_allocator() {
    set(A.usage_exact().current + MIB as u64, 0);
    LARGEST.store(0, Ordering::Relaxed);
    let before = A.usage_exact();
    // SAFETY: null, or freed.
    let p = unsafe { alloc(layout(2 * MIB)) };
    assert!(p.is_null());
    assert!(LARGEST.load(Ordering::Relaxed) < 2 * MIB as u64);
    assert_eq!(A.usage_exact(), before);
    A.set_hard_limit(None);
}

fn small_requests_have_a_reserve() {
    let limit = HardLimit {
        bytes: A.usage_exact().current + MIB as u64,
        reserve: 64 * KIB as u64,
        small: 4 * KIB as u64,
    };
    A.set_hard_limit(Some(limit));
    let large = until_refused(16 * KIB, 60);
    // SAFETY: null, or freed.
    assert!(unsafe { alloc(layout(64 * KIB)) }.is_null());
    let small = until_refused(KIB, 2000);
    let held = A.usage_exact().current;
    A.set_hard_limit(None);
    assert!(held > limit.bytes, "the reserve was used");
    assert!(held <= limit.bytes + limit.reserve);
    free_all(large, 16 * KIB);
    free_all(small, KIB);
}

fn many_threads_never_pass_it() {
    const THREADS: usize = 8;
    // What the threads themselves need is there before the limit.
    let ready = Barrier::new(THREADS + 1);
    let refused = A.refused();
    let limit = thread::scope(|scope| {
        for n in 0..THREADS {
            let ready = &ready;
            scope.spawn(move || {
                let blocks = VecDeque::with_capacity(1 << 12);
                ready.wait();
                // The limit is set, and half of the threads have credit from before.
                ready.wait();
                if n % 2 == 0 {
                    A.settle();
                }
                allocate_and_free(n, blocks);
                ready.wait();
            });
        }
        ready.wait();
        assert_eq!(HELD.load(Ordering::Relaxed), A.usage_exact().current);
        let limit = A.usage_exact().current + 16 * MIB as u64;
        set(limit, 0);
        MOST.store(0, Ordering::Relaxed);
        ready.wait();
        ready.wait();
        A.set_hard_limit(None);
        limit
    });
    assert!(A.refused() > refused, "it was reached");
    // A block is free in the ledger just before it is free in the allocator: one a thread may be on its way.
    let on_the_way = (THREADS * 20_000) as u64;
    let most = MOST.load(Ordering::Relaxed);
    assert!(most <= limit + on_the_way, "{most} of {limit}");
    assert!(most > limit - limit / 8, "{most} of {limit}");
}

fn allocate_and_free(n: usize, mut blocks: VecDeque<(*mut u8, usize)>) {
    let most = blocks.capacity();
    let free = |(p, size)| {
        // SAFETY: allocated below.
        unsafe { dealloc(p, layout(size)) };
    };
    for k in 0..30_000usize {
        let size = 1 + (k * 7919 + n * 31) % 20_000;
        // SAFETY: not of size 0; freed by `free`.
        let p = unsafe { alloc(layout(size)) };
        if !p.is_null() {
            blocks.push_back((p, size));
        }
        if p.is_null() || blocks.len() == most {
            blocks.drain(..blocks.len() / 2).for_each(free);
        }
    }
    blocks.drain(..).for_each(free);
}

/// What another thread has freed and not settled is room too.
fn frees_on_other_threads_make_room() {
    let limit = alone() + 4 * MIB as u64;
    let most = 4 * MIB / (16 * KIB) + 10;
    A.set_hard_limit(Some(HardLimit {
        bytes: limit + (64 * KIB) as u64,
        reserve: 0,
        small: 0,
    }));
    let blocks = until_refused(16 * KIB, most);
    let (say, hear) = std::sync::mpsc::channel();
    let (end, wait) = std::sync::mpsc::channel::<()>();
    struct Blocks(Vec<*mut u8>);
    // SAFETY: blocks may be freed anywhere.
    unsafe impl Send for Blocks {}
    let n = blocks.len();
    let blocks = Blocks(blocks);
    let other = thread::spawn(move || {
        let blocks = blocks;
        free_all(blocks.0, 16 * KIB);
        say.send(()).unwrap();
        wait.recv().unwrap();
    });
    hear.recv().unwrap();
    let again = until_refused(16 * KIB, most);
    A.set_hard_limit(None);
    end.send(()).unwrap();
    other.join().unwrap();
    assert!(again.len() + 16 >= n, "{} of {n}", again.len());
    free_all(again, 16 * KIB);
}

fn a_limit_hit_inside_a_destructor() {
    struct Late;
    static NULLS: AtomicU64 = AtomicU64::new(0);
    impl Drop for Late {
        fn drop(&mut self) {
            // SAFETY: null, or freed.
            unsafe {
                let p = alloc(layout(64 * MIB));
                if p.is_null() {
                    NULLS.fetch_add(1, Ordering::Relaxed);
                } else {
                    dealloc(p, layout(64 * MIB));
                }
            }
            // A small one is still served.
            drop(std::hint::black_box(Box::new(7u64)));
        }
    }
    thread_local! {
        static LATE: Late = const { Late };
    }
    let before = alone();
    A.set_hard_limit(Some(HardLimit::new(before + 8 * MIB as u64)));
    for _ in 0..10 {
        thread::spawn(|| {
            let _unwinds = Late;
            LATE.with(|_| ());
        })
        .join()
        .unwrap();
    }
    A.set_hard_limit(None);
    assert_eq!(NULLS.load(Ordering::Relaxed), 20);
    assert_eq!(alone(), before);
}

fn realloc_decides_first() {
    // SAFETY: layouts as they are at each step.
    unsafe {
        let p = alloc(layout(1000));
        set(alone() + MIB as u64, 0);
        let before = alone();
        assert!(realloc(p, layout(1000), 4 * MIB).is_null());
        assert_eq!(alone(), before);
        let p = realloc(p, layout(1000), 500);
        assert_eq!(alone(), before - 500);
        A.set_hard_limit(None);
        dealloc(p, layout(500));
    }
}

fn without_a_limit_all_is_as_before() {
    let before = alone();
    let refused = A.refused();
    drop(std::hint::black_box(vec![0u8; 64 * MIB]));
    assert_eq!((alone(), A.refused()), (before, refused));
}
