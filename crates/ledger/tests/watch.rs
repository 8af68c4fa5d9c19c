//! The watcher tells of each crossing once, and of what is short, not of what is full.

mod fixtures;
mod watching;

use fixtures::{Root, psi, stat};
use homefree_ledger::pressure::Absent;
use homefree_ledger::{Accounted, Edge, Share, SoftLimit, Source, Watch};
use std::alloc::System;
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use watching::{LIMIT, MIB, NEVER, SOON, block, edge, watch};

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

fn main() {
    // SAFETY: plain call. A watcher that hangs fails the test.
    unsafe { libc::alarm(120) };
    a_settlement_wakes_the_watcher();
    each_crossing_is_told_once();
    between_low_and_high_nothing_is_told();
    watchers_have_limits_of_their_own();
    a_crossing_before_the_start_is_told();
    page_cache_gives_no_alarm();
    what_is_absent_is_said();
    unsound_limits_are_refused();
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
        let error = watch.start(|_| {}).expect_err("refused");
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
