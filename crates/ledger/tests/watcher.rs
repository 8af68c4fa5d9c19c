//! The watcher's thread, whatever its callback does, and across the end of it.

mod fixtures;
mod watching;

use fixtures::Root;
use homefree_ledger::{Accounted, Edge, HardLimit, Share, SoftLimit, Watch, Watcher};
use std::alloc::System;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use watching::{LIMIT, MIB, NEVER, SOON, alone, block, edge, watch};

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

fn main() {
    // SAFETY: plain call. A watcher that hangs fails the test.
    unsafe { libc::alarm(120) };
    a_callback_that_panics_is_called_again();
    dropping_waits_for_the_callback();
    the_callback_may_drop_its_watcher();
    a_callback_that_allocates_makes_no_drift();
    watchers_leave_nothing_behind();
    nothing_is_allocated_while_all_is_well();
    in_forks_child_there_is_no_watcher();
    signals_do_not_land_on_it();
}

fn a_callback_that_panics_is_called_again() {
    std::panic::set_hook(Box::new(|_| {}));
    let (send, events) = channel();
    let now = A.usage_exact().current;
    let limit = SoftLimit {
        high: now + 64 * MIB as u64,
        low: now + 32 * MIB as u64,
    };
    let watcher = A
        .watch(limit, move |event| {
            send.send(event).unwrap();
            panic!("a fault of the callback's");
        })
        .unwrap();
    for _ in 0..3 {
        let held = block(80 * MIB);
        assert_eq!(edge(&events), Edge::Above);
        drop(held);
        assert_eq!(edge(&events), Edge::Below);
    }
    assert!(watcher.runs());
    // The last panic may be on its way.
    while watcher.panics() < 6 {
        thread::yield_now();
    }
    drop(watcher);
    let _ = std::panic::take_hook();
}

fn dropping_waits_for_the_callback() {
    let done = Arc::new(AtomicBool::new(false));
    let of_callback = done.clone();
    let (send, begun) = channel();
    let limit = SoftLimit { high: 1, low: 0 };
    let watcher = A
        .watch(limit, move |_| {
            send.send(()).unwrap();
            thread::sleep(Duration::from_millis(100));
            of_callback.store(true, Ordering::Release);
        })
        .unwrap();
    begun.recv_timeout(LIMIT).unwrap();
    drop(watcher);
    assert!(done.load(Ordering::Acquire), "it was still under way");
}

fn the_callback_may_drop_its_watcher() {
    let place = Arc::new(Mutex::new(None::<Watcher>));
    let (send, done) = channel();
    let of_callback = place.clone();
    let limit = SoftLimit { high: 1, low: 0 };
    let mut held = place.lock().unwrap();
    *held = Some(
        A.watch(limit, move |_| {
            let watcher = of_callback.lock().unwrap().take();
            drop(watcher.expect("put there before the lock was opened"));
            send.send(()).unwrap();
        })
        .unwrap(),
    );
    drop(held);
    done.recv_timeout(LIMIT).unwrap();
    // The thread ends, and with it the callback and its end of the channel.
    assert!(done.recv_timeout(LIMIT).is_err());
}

/// ClickHouse#83607: a log line inside of the tracker allocated and was counted twice.
fn a_callback_that_allocates_makes_no_drift() {
    let before = alone();
    let now = A.usage_exact().current;
    let lines = Arc::new(AtomicU64::new(0));
    let of_callback = lines.clone();
    let limit = SoftLimit {
        high: now + 64 * MIB as u64,
        low: now + 32 * MIB as u64,
    };
    let watcher = Watch::new()
        .balance(limit)
        .period(SOON)
        .start(move |event| {
            let line = format!("{event}: {}", A.prometheus());
            assert!(line.contains("memory held"));
            of_callback.fetch_add(line.len() as u64, Ordering::Relaxed);
            // What it allocates may itself cross the line, which is told afterwards.
            drop(block(40 * MIB));
        })
        .unwrap();
    let mut seen = 0;
    let mut next = || {
        while lines.load(Ordering::Relaxed) == seen {
            thread::yield_now();
        }
        seen = lines.load(Ordering::Relaxed);
    };
    for _ in 0..200 {
        let held = block(80 * MIB);
        next();
        drop(held);
        next();
    }
    drop((watcher, lines));
    assert_eq!(alone(), before, "to the byte");
}

fn watchers_leave_nothing_behind() {
    let before = alone();
    for _ in 0..200 {
        let (watcher, events) = watch(SOON, MIB, 0);
        drop(watcher);
        drop(events);
    }
    assert_eq!(alone(), before);
}

/// Where memory is short, or a hard limit is used up, an allocation of the watcher's could end the process.
fn nothing_is_allocated_while_all_is_well() {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let root = Root::container();
    let share = Share {
        high: 0.99,
        low: 0.9,
    };
    let now = A.usage_exact().current;
    let watcher = Watch::new()
        .balance(SoftLimit {
            high: now + 64 * MIB as u64,
            low: now + 32 * MIB as u64,
        })
        .cgroup_anon(share)
        .cgroup_working(share)
        .psi_some(share)
        .check()
        .period(SOON)
        .root(root.path())
        .start(|_| {
            TOLD.fetch_add(1, Ordering::Release);
        })
        .unwrap();
    let seen = Cell::new(0);
    let told = || {
        while TOLD.load(Ordering::Acquire) == seen.get() {
            thread::sleep(SOON);
        }
        seen.set(seen.get() + 1);
    };
    let up_and_down = || {
        let held = block(80 * MIB);
        told();
        drop(held);
        told();
    };
    up_and_down();
    let of_the_watcher = || {
        let this = homefree_thread::sys::thread_id();
        let mut allocated = Vec::with_capacity(8);
        A.for_each_thread(|flow| {
            if flow.tid != this && flow.tid != 0 {
                allocated.push(flow.allocated);
            }
        });
        // A thread that has counted nothing yet has no account.
        assert!(allocated.len() <= 1, "one other thread");
        allocated.first().copied().unwrap_or(0)
    };
    let before = of_the_watcher();
    for _ in 0..20 {
        up_and_down();
        thread::sleep(2 * SOON);
    }
    assert_eq!(of_the_watcher(), before);
    // Nor in a process that can have no more.
    A.set_hard_limit(Some(HardLimit {
        bytes: 1,
        reserve: 0,
        small: 0,
    }));
    let refused = A.refused();
    thread::sleep(30 * SOON);
    let refused = A.refused() - refused;
    A.set_hard_limit(None);
    assert_eq!(refused, 0);
    drop(watcher);
}

fn in_forks_child_there_is_no_watcher() {
    let (watcher, events) = watch(SOON, 64 * MIB, 32 * MIB);
    // SAFETY: the child uses no lock of another thread's but the allocator's, which the C library opens in it.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: plain call: a child that hangs is ended.
            unsafe { libc::alarm(60) };
            let right = std::panic::catch_unwind(AssertUnwindSafe(|| {
                assert!(!watcher.runs());
                assert!(watcher.absent().is_empty());
                drop(watcher);
                drop(events);
                let (watcher, events) = watch(NEVER, 64 * MIB, 32 * MIB);
                let held = block(80 * MIB);
                assert_eq!(edge(&events), Edge::Above);
                drop(held);
                assert_eq!(edge(&events), Edge::Below);
                drop(watcher);
            }))
            .is_ok();
            // SAFETY: plain call.
            unsafe { libc::_exit(i32::from(!right)) }
        }
        child => {
            assert!(child > 0);
            let mut status = -1;
            // SAFETY: plain call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    // The parent's watcher watches on.
    assert!(watcher.runs());
    let held = block(80 * MIB);
    assert_eq!(edge(&events), Edge::Above);
    drop(held);
}

/// A program that handles a signal on a thread of its choice, and blocks it on that thread meanwhile.
fn signals_do_not_land_on_it() {
    static ON: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(_: i32) {
        ON.store(
            u64::from(homefree_thread::sys::thread_id()),
            Ordering::Release,
        );
    }
    let (watcher, _events) = watch(SOON, 64 * MIB, 32 * MIB);
    // SAFETY: a handler that only stores; sets of this frame.
    unsafe {
        libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::kill(libc::getpid(), libc::SIGUSR1);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(
            ON.load(Ordering::Acquire),
            0,
            "it waits for a thread of the program's"
        );
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    assert_eq!(
        ON.load(Ordering::Acquire),
        u64::from(homefree_thread::sys::thread_id())
    );
    drop(watcher);
}
