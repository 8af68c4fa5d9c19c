//! The system refuses memory, at each request in turn: the answer is null, and nothing is lost or leaked.
//!
//! Each case is a process of its own, since the first requests happen once.
#![cfg(not(loom))]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "blocks and cells are the test's own; it fails where they are not"
)]

use homefree_alloc::malloc::{self, usable_size};
use homefree_alloc::slot::Descriptor;
use homefree_alloc::{Source, System, set_source, statistics};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering::*};

/// The system, until its patience ends.
struct Refusing {
    /// Requests until the first refusal; negative while refusing.
    left: AtomicI64,
    /// How many are refused then.
    length: AtomicI64,
}

impl Refusing {
    fn grants(&self) -> bool {
        if self.left.fetch_sub(1, Relaxed) > 0 {
            return true;
        }
        self.length.fetch_sub(1, Relaxed) <= 0
    }
}

impl Source for Refusing {
    fn map(&self, len: usize) -> Option<usize> {
        self.grants().then(|| System.map(len)).flatten()
    }
    fn map_at(&self, at: usize, len: usize) -> bool {
        self.grants() && System.map_at(at, len)
    }
    fn reserve(&self, len: usize) -> Option<usize> {
        self.grants().then(|| System.reserve(len)).flatten()
    }
    unsafe fn commit(&self, at: usize, len: usize) -> bool {
        self.grants() && unsafe { System.commit(at, len) }
    }
    unsafe fn unmap(&self, at: usize, len: usize) {
        unsafe { System.unmap(at, len) };
    }
    unsafe fn remap(&self, at: usize, old: usize, new: usize, may_move: bool) -> Option<usize> {
        self.grants()
            .then(|| unsafe { System.remap(at, old, new, may_move) })
            .flatten()
    }
    unsafe fn purge(&self, at: usize, len: usize) -> bool {
        self.grants() && unsafe { System.purge(at, len) }
    }
}

static SOURCE: Refusing = Refusing {
    left: AtomicI64::new(i64::MAX),
    length: AtomicI64::new(0),
};
static SOURCE_REF: &dyn Source = &SOURCE;

const SIZES: [usize; 12] = [
    1,
    24,
    64,
    200,
    1000,
    1500,
    5000,
    20_000,
    40_000,
    200_000,
    300_000,
    5 << 20,
];

/// Takes, grows and frees blocks of all kinds, on two threads. Returns how many requests got null.
fn work() -> usize {
    let mut refused = 0;
    let mut blocks: Vec<(usize, usize)> = Vec::new();
    for round in 0..150 {
        for size in SIZES
            .into_iter()
            .filter(|size| round < 12 || *size < 10_000)
        {
            let p = match round % 3 {
                0 => malloc::malloc::<Descriptor>(size),
                1 => malloc::calloc::<Descriptor>(size),
                _ => malloc::aligned::<Descriptor>(size, 64, false),
            };
            if p.is_null() {
                refused += 1;
                continue;
            }
            unsafe {
                if round % 3 == 1 {
                    assert!((0..size).step_by(509).all(|i| *p.add(i) == 0));
                }
                p.write_bytes(size as u8, size);
            }
            blocks.push((p.addr(), size));
        }
        if round % 10 == 9 {
            for (at, size) in blocks.iter_mut().step_by(3) {
                let new = unsafe { malloc::realloc::<Descriptor>(*at as *mut u8, *size * 2, 16) };
                if new.is_null() {
                    refused += 1;
                    continue;
                }
                unsafe {
                    assert_eq!((*new, *new.add(*size - 1)), (*size as u8, *size as u8));
                    *at = new.addr();
                    new.write_bytes(*size as u8, *size);
                }
            }
        }
    }
    let theirs = blocks.split_off(blocks.len() / 2);
    let free = |blocks: Vec<(usize, usize)>| {
        for (at, size) in blocks {
            let p = at as *mut u8;
            unsafe {
                assert!(usable_size(p) >= size);
                assert_eq!((*p, *p.add(size - 1)), (size as u8, size as u8), "{size}");
                malloc::free::<Descriptor>(p);
            }
        }
    };
    std::thread::scope(|s| s.spawn(|| free(theirs)).join().unwrap());
    free(blocks);
    refused
}

/// Not a test of its own: what the test below runs.
#[test]
fn in_a_process_of_its_own() {
    let Ok(case) = std::env::var("HOMEFREE_REFUSE") else {
        return;
    };
    let (at, length) = case.split_once(' ').unwrap();
    set_source(&SOURCE_REF);
    SOURCE.length.store(length.parse().unwrap(), Relaxed);
    SOURCE.left.store(at.parse().unwrap(), Relaxed);
    let refused = work();
    let requests = at.parse::<i64>().unwrap() - SOURCE.left.load(Relaxed);
    // What this thread collected for others counts as live until then.
    homefree_alloc::trim();
    let live = statistics().live;
    assert_eq!(live, 0, "{live} bytes are live after all was freed");
    // And now that it grants again, all is as it was.
    SOURCE.length.store(0, Relaxed);
    assert_eq!(work(), 0);
    homefree_alloc::trim();
    assert_eq!((statistics().live, statistics().retained), (0, 0));
    println!("made {requests} requests, refused {refused}");
}

fn run(at: i64, length: i64) -> (i64, i64) {
    let out = Command::new("timeout")
        .arg("60")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_process_of_its_own", "--nocapture"])
        .env("HOMEFREE_REFUSE", format!("{at} {length}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success(),
        "refused at {at} for {length}: {text}{error}"
    );
    let line = text
        .lines()
        .find(|l| l.contains("requests, refused"))
        .expect("a report");
    let line = &line[line.find("made ").unwrap()..];
    let numbers: Vec<i64> = line
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect();
    (numbers[0], numbers[1])
}

#[test]
fn a_refusal_at_any_request_is_null_and_loses_nothing() {
    let (requests, refused) = run(i64::MAX / 2, 0);
    assert_eq!(refused, 0);
    assert!(requests > 10, "{requests}");
    let mut seen = 0;
    for at in (0..requests.min(20)).chain((20..requests).step_by(3)) {
        seen += run(at, if at % 2 == 0 { 1 } else { 40 }).1;
    }
    assert!(seen > 0, "no refusal was ever seen");
}

#[test]
fn without_any_memory_every_answer_is_null() {
    let (_, refused) = run(0, i64::MAX);
    assert!(refused > 100, "{refused}");
}
