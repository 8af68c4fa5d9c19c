//! Scopes count what threads do while they are in them.

use homefree_ledger::{Accounted, Scope, ScopeUsage};
use std::alloc::System;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn block(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(size))
}

fn current(scope: &Scope) -> usize {
    scope.usage().current as usize
}

fn main() {
    what_is_done_inside_counts_and_nothing_else();
    inner_scopes_count_in_outer_ones();
    a_scope_is_entered_on_many_threads();
    blocks_that_change_scopes();
    guards_in_any_order_and_any_number();
    the_peak_is_kept();
    futures_are_in_their_scope_when_polled();
    scopes_go_with_their_last_user();
    a_guard_that_outlives_its_threads_account();
}

fn what_is_done_inside_counts_and_nothing_else() {
    let before = block(100);
    let scope = A.open_scope("inside");
    let inside = {
        let entered = scope.enter();
        let inside = block(1000);
        assert_eq!(entered.usage().allocated, 1000);
        drop(block(33));
        inside
    };
    let after = block(5000);
    let expected = ScopeUsage {
        current: 1000,
        peak: scope.usage().peak,
        allocated: 1033,
        freed: 33,
    };
    assert_eq!(scope.usage(), expected);
    drop((before, inside, after));
    // Freed outside: it stays.
    assert_eq!(scope.usage(), expected);
}

fn inner_scopes_count_in_outer_ones() {
    let _query = A.scope("query");
    let first = block(1000);
    let build = A.scope("build");
    let second = block(200);
    // Entered twice, counted once.
    let again = A.scope("query");
    let third = block(30);
    let usage = |name| {
        let mut found = None;
        A.for_each_scope(|other, usage| {
            if other == name {
                found = Some(usage.current);
            }
        });
        found
    };
    assert_eq!((usage("query"), usage("build")), (Some(1230), Some(230)));
    drop(again);
    drop(build);
    let fourth = block(4);
    assert_eq!((usage("query"), usage("build")), (Some(1234), None));
    drop((first, second, third, fourth));
    assert_eq!(usage("query"), Some(0));
}

fn a_scope_is_entered_on_many_threads() {
    let scope = A.open_scope("everywhere");
    let blocks: Vec<_> = thread::scope(|threads| {
        let running: Vec<_> = (0..8)
            .map(|_| {
                threads.spawn(|| {
                    let _in = scope.enter();
                    for n in 1..2000 {
                        drop(block(n));
                    }
                    block(64 * KIB)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(current(&scope), 8 * 64 * KIB);
    {
        let _in = scope.enter();
        drop(blocks);
    }
    // The list itself was made outside and freed inside, so it is taken off; never shown below 0.
    assert_eq!(current(&scope), 0);
}

fn blocks_that_change_scopes() {
    let (one, two) = (A.open_scope("one"), A.open_scope("two"));
    let moved = {
        let _in = one.enter();
        block(MIB)
    };
    {
        let _in = two.enter();
        drop(moved);
    }
    assert_eq!((current(&one), current(&two)), (MIB, 0));
    assert_eq!((one.usage().freed, two.usage().freed), (0, MIB as u64));
}

fn guards_in_any_order_and_any_number() {
    let names: Vec<String> = (0..40).map(|n| format!("guard {n}")).collect();
    let scopes: Vec<Scope> = names.iter().map(|name| A.open_scope(name)).collect();
    let mut guards: Vec<_> = scopes.iter().map(Scope::enter).collect();
    let one = block(100);
    // 16 deep; what is deeper is not attributed, and does no harm.
    let counted = |scopes: &[Scope]| scopes.iter().filter(|scope| current(scope) >= 100).count();
    assert_eq!(counted(&scopes), 16);
    // Dropped from the outside in.
    for guard in guards.drain(..) {
        drop(guard);
    }
    let sums: Vec<usize> = scopes.iter().map(current).collect();
    let two = block(100);
    assert_eq!(scopes.iter().map(current).collect::<Vec<_>>(), sums);
    drop((one, two));
}

fn the_peak_is_kept() {
    let scope = A.open_scope("peak");
    let _in = scope.enter();
    drop(block(10 * MIB));
    let many: Vec<_> = (0..1000).map(|_| block(KIB)).collect();
    drop(many);
    assert!(current(&scope) < KIB);
    let peak = scope.usage().peak as usize;
    assert!((10 * MIB..10 * MIB + 64 * KIB).contains(&peak), "{peak}");
}

/// Waits once.
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

fn futures_are_in_their_scope_when_polled() {
    let scope = A.open_scope("future");
    let mut future = pin!(scope.wrap(async {
        let first = block(1000);
        Once(false).await;
        (first, block(200))
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    let outside = block(30);
    assert_eq!(current(&scope), 1000);
    let Poll::Ready(blocks) = future.as_mut().poll(&mut context) else {
        panic!("it waits once");
    };
    assert_eq!(current(&scope), 1200);
    drop((blocks, outside));
}

fn scopes_go_with_their_last_user() {
    let count = || {
        let mut n = 0;
        A.for_each_scope(|_, _| n += 1);
        n
    };
    assert_eq!(count(), 0);
    for n in 0..10_000 {
        let scope = A.open_scope(&format!("request {n}"));
        let _in = scope.enter();
        assert_eq!((count(), scope.usage().allocated), (1, 0));
    }
    assert_eq!(count(), 0);
    // A name is cut at a character's end.
    let long = "ä".repeat(100);
    let _scope = A.open_scope(&long);
    A.for_each_scope(|name, _| assert_eq!(name, "ä".repeat(32)));
}

/// A guard in a thread-local that is dropped in the thread's last moments.
fn a_guard_that_outlives_its_threads_account() {
    use std::cell::RefCell;
    thread_local! {
        static KEPT: RefCell<Option<homefree_ledger::Entered>> = const { RefCell::new(None) };
    }
    let scope = A.open_scope("late");
    let handle = scope.clone();
    let size = thread::spawn(move || {
        KEPT.with(|kept| *kept.borrow_mut() = Some(handle.enter()));
        let kept = block(500);
        let size = kept.capacity();
        std::mem::forget(kept);
        size
    })
    .join()
    .unwrap();
    assert!(scope.usage().allocated >= size as u64);
}
