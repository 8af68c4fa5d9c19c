//! The watcher: once for each crossing, from outside of the allocator, whatever its callback does.

mod fixtures;

use fixtures::{Root, psi, stat};
use homefree_ledger::pressure::Absent;
use homefree_ledger::{
    Accounted, Amount, Edge, HardLimit, Pressure, Share, SoftLimit, Source, Watch, Watcher,
};
use std::alloc::System;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

const MIB: usize = 1 << 20;
/// Longer than any wait here: who is told at once is told by the alarm.
const NEVER: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(60);

fn main() {
    // SAFETY: plain call. A watcher that hangs fails the test.
    unsafe { libc::alarm(120) };
    a_settlement_wakes_the_watcher();
    each_crossing_is_told_once();
    between_low_and_high_nothing_is_told();
    watchers_have_limits_of_their_own();
    a_crossing_before_the_start_is_told();
    a_callback_that_panics_is_called_again();
    dropping_waits_for_the_callback();
    the_callback_may_drop_its_watcher();
    a_callback_that_allocates_makes_no_drift();
    watchers_leave_nothing_behind();
    page_cache_gives_no_alarm();
    what_is_absent_is_said();
    unsound_limits_are_refused();
    nothing_is_allocated_while_all_is_well();
    in_forks_child_there_is_no_watcher();
    signals_do_not_land_on_it();
}

/// Watches the balance from where it is now, and hands on what it is told.
fn watch(period: Duration, high: usize, low: usize) -> (Watcher, Receiver<Pressure>) {
    let (send, receive) = channel();
    let now = A.usage_exact().current;
    let limit = SoftLimit {
        high: now + high as u64,
        low: now + low as u64,
    };
    let watcher = Watch::new()
        .balance(limit)
        .period(period)
        .start(move |event| send.send(event).unwrap())
        .unwrap();
    (watcher, receive)
}

fn edge(events: &Receiver<Pressure>) -> Edge {
    let event = events.recv_timeout(LIMIT).expect("the crossing is told");
    assert_eq!(event.source, Source::Balance);
    let (Amount::Bytes(value), Amount::Bytes(limit)) = (event.value, event.limit) else {
        panic!("not in bytes");
    };
    match event.edge {
        Edge::Above => assert!(value > limit),
        Edge::Below => assert!(value < limit),
    }
    event.edge
}

fn block(size: usize) -> Vec<u8> {
    Vec::with_capacity(size)
}

fn a_settlement_wakes_the_watcher() {
    let (watcher, events) = watch(NEVER, 64 * MIB, 32 * MIB);
    for _ in 0..20 {
        let held = block(80 * MIB);
        assert_eq!(edge(&events), Edge::Above);
        drop(held);
        assert_eq!(edge(&events), Edge::Below);
    }
    // By other threads, which end at once.
    let held = thread::spawn(|| block(80 * MIB)).join().unwrap();
    assert_eq!(edge(&events), Edge::Above);
    thread::spawn(|| drop(held)).join().unwrap();
    assert_eq!(edge(&events), Edge::Below);
    drop(watcher);
    assert_eq!(events.try_recv(), Err(TryRecvError::Disconnected));
}

fn each_crossing_is_told_once() {
    let (watcher, events) = watch(SOON, 64 * MIB, 32 * MIB);
    let mut told = Vec::new();
    for _ in 0..50 {
        let held = block(80 * MIB);
        told.push(edge(&events));
        let more: Vec<_> = (0..20).map(|_| block(MIB)).collect();
        drop((held, more));
        told.push(edge(&events));
    }
    drop(watcher);
    assert_eq!(told, [Edge::Above, Edge::Below].repeat(50));
    assert!(events.try_recv().is_err());
}

fn between_low_and_high_nothing_is_told() {
    let (watcher, events) = watch(SOON, 64 * MIB, 32 * MIB);
    let low = block(40 * MIB);
    up_and_down(23 * MIB);
    assert!(events.try_recv().is_err(), "60 MiB are not above 64");
    let high = block(30 * MIB);
    assert_eq!(edge(&events), Edge::Above);
    drop(high);
    up_and_down(30 * MIB);
    assert!(events.try_recv().is_err(), "40 MiB are not below 32");
    drop(low);
    assert_eq!(edge(&events), Edge::Below);
    drop(watcher);
}

/// For some tens of the watcher's periods.
fn up_and_down(size: usize) {
    for _ in 0..20 {
        let held = block(size);
        thread::sleep(2 * SOON);
        drop(held);
        thread::sleep(2 * SOON);
    }
}

fn watchers_have_limits_of_their_own() {
    // One more than the alarm has places for.
    let watchers: Vec<_> = (0..65)
        .map(|n| {
            let period = if n < 64 { NEVER } else { SOON };
            watch(period, (100 + n) * MIB, (50 + n) * MIB)
        })
        .collect();
    let held = block(200 * MIB);
    for (_, events) in &watchers {
        assert_eq!(edge(events), Edge::Above);
    }
    drop(held);
    for (_, events) in &watchers {
        assert_eq!(edge(events), Edge::Below);
        assert!(events.try_recv().is_err());
    }
}

fn a_crossing_before_the_start_is_told() {
    let (send, receive) = channel();
    let limit = SoftLimit { high: 1, low: 0 };
    let watcher = A.watch(limit, move |event| send.send(event).unwrap());
    assert_eq!(edge(&receive), Edge::Above);
    drop(watcher.unwrap());
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

/// datafusion-comet#5993, OmniRoute#12521: the cgroup is full of page cache, and nothing is wrong.
fn page_cache_gives_no_alarm() {
    let root = Root::container();
    let share = Share {
        high: 0.9,
        low: 0.8,
    };
    let (send, events) = channel();
    let watcher = Watch::new()
        .cgroup_anon(share)
        .cgroup_working(share)
        .psi_some(Share {
            high: 0.1,
            low: 0.05,
        })
        .psi_full(Share {
            high: 0.1,
            low: 0.05,
        })
        .period(SOON)
        .root(root.path())
        .start(move |event| send.send(event).unwrap())
        .unwrap();
    let next = || {
        let event = events.recv_timeout(LIMIT).expect("a crossing");
        (event.source, event.edge)
    };
    // 99.9% of the limit, 55% anonymous. The pressure's crossing proves that the watcher has looked meanwhile.
    root.put("proc/pressure/memory", &psi(12.0, 0.0));
    assert_eq!(next(), (Source::PsiSome, Edge::Above));
    root.put("proc/pressure/memory", &psi(12.0, 11.0));
    assert_eq!(next(), (Source::PsiFull, Edge::Above));
    // Memory that can not be dropped takes the cache's place.
    let mib = MIB as u64;
    root.cgroup(
        "",
        1020 * mib,
        &stat(980 * mib, 4 * mib),
        "1073741824",
        "max",
    );
    let mut both = [next(), next()];
    both.sort_by_key(|(source, _)| *source as u32);
    assert_eq!(
        both,
        [
            (Source::CgroupAnon, Edge::Above),
            (Source::CgroupWorking, Edge::Above)
        ]
    );
    root.cgroup(
        "",
        1020 * mib,
        &stat(400 * mib, 600 * mib),
        "1073741824",
        "max",
    );
    let mut both = [next(), next()];
    both.sort_by_key(|(source, _)| *source as u32);
    assert_eq!(
        both,
        [
            (Source::CgroupAnon, Edge::Below),
            (Source::CgroupWorking, Edge::Below)
        ]
    );
    assert!(watcher.absent().is_empty());
    // The cgroup's own pressure is nearer than the system's.
    root.put("sys/fs/cgroup/memory.pressure", &psi(0.0, 0.0));
    assert_eq!(next(), (Source::PsiSome, Edge::Below));
    assert_eq!(next(), (Source::PsiFull, Edge::Below));
    drop(watcher);
    assert!(events.try_recv().is_err());
}

fn what_is_absent_is_said() {
    let root = Root::container();
    root.cgroup("", 4096, fixtures::STAT, "max", "max");
    root.remove("proc/pressure/memory");
    let share = Share {
        high: 0.9,
        low: 0.8,
    };
    let watcher = Watch::new()
        .cgroup_anon(share)
        .psi_some(share)
        .period(SOON)
        .root(root.path())
        .start(|event| panic!("{event}"))
        .unwrap();
    let absent = watcher.absent();
    assert_eq!(absent[0], (Source::CgroupAnon, Absent::NoLimit));
    assert_eq!(absent[1].0, Source::PsiSome);
    // A limit that is set later is found.
    root.cgroup("", 4096, fixtures::STAT, "8589934592", "max");
    while watcher.absent().len() > 1 {
        thread::yield_now();
    }
    assert_eq!(watcher.panics(), 0);
}

fn unsound_limits_are_refused() {
    let refused = |watch: Watch| {
        let error = watch.start(|_| {}).err().expect("refused");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    };
    refused(Watch::new());
    refused(Watch::new().balance(SoftLimit { high: 1, low: 2 }));
    refused(Watch::new().psi_some(Share {
        high: f64::NAN,
        low: 0.0,
    }));
    assert!(
        Watch::new()
            .check()
            .start(|event| panic!("{event}"))
            .is_ok()
    );
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
        assert_eq!(allocated.len(), 1, "one other thread");
        allocated[0]
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

/// The exact balance once this is the only thread: one that was joined may still have its last frees to make.
fn alone() -> u64 {
    loop {
        let mut threads = 0;
        A.for_each_thread(|flow| threads += usize::from(flow.tid != 0));
        if threads <= 1 {
            return A.usage_exact().current;
        }
        thread::yield_now();
    }
}
