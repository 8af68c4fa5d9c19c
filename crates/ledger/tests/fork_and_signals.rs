//! The balance in fork's child, and under signal handlers that allocate.

use homefree_ledger::{Accounted, Counts};
use std::alloc::{Layout, System, alloc, dealloc};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

#[global_allocator]
static A: Accounted<System, Counts> = Accounted::new(System);

/// A thread that a handler before a fork is to wait for.
static TO_JOIN: Mutex<Option<thread::JoinHandle<()>>> = Mutex::new(None);
static MAY_END: AtomicBool = AtomicBool::new(false);

/// Runs before each fork, after the ledger's own handler, which was registered later: as libraries do that end their
/// pool of threads there. And it asks the ledger everything.
extern "C" fn before_fork() {
    let thread = TO_JOIN.lock().unwrap().take();
    let Some(thread) = thread else { return };
    MAY_END.store(true, Ordering::Release);
    thread.join().unwrap();
    let scope = A.scope("in a handler");
    drop(std::hint::black_box(vec![0u8; 100]));
    let mut told = 0;
    A.for_each_scope(|_, _| told += 1);
    A.for_each_thread(|_| told += 1);
    assert!(told >= 2 && A.peak_since(A.mark()) > 0);
    assert!(!A.prometheus().is_empty());
    drop(scope);
}

extern "C" fn register() {
    // SAFETY: plain call.
    unsafe { libc::pthread_atfork(Some(before_fork), None, None) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;

fn main() {
    // A fork that waits for ever would be waited for, for ever.
    // SAFETY: plain call.
    unsafe { libc::alarm(240) };
    a_handler_before_a_fork_waits_for_a_thread();
    forks_of_a_quiet_process();
    forks_under_load();
    handlers_that_allocate();
}

/// The exact balance once this is the only thread: a scope's end does not wait for the last free of its threads.
fn alone() -> u64 {
    while std::fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        thread::yield_now();
    }
    A.usage_exact().current
}

fn block(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Runs `child` in a fork's child and returns whether it was content. The child does nothing that could wait for
/// a thread that it does not have.
fn in_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only counts, and ends.
    match unsafe { libc::fork() } {
        0 => {
            // One that waits for what it does not have is ended, and was not content.
            // SAFETY: plain call.
            unsafe { libc::alarm(60) };
            let content = child();
            // SAFETY: plain call.
            unsafe { libc::_exit(i32::from(!content)) }
        }
        pid => {
            assert!(pid > 0);
            let mut status = -1;
            // SAFETY: plain call.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            status == 0
        }
    }
}

/// A thread ends while another forks and waits for it. Its part is in no sum less, in the parent nor in the child.
fn a_handler_before_a_fork_waits_for_a_thread() {
    for _ in 0..20 {
        MAY_END.store(false, Ordering::Release);
        let ready = Arc::new(Barrier::new(2));
        let there = ready.clone();
        let thread = thread::spawn(move || {
            for _ in 0..20 {
                // SAFETY: freed as allocated.
                unsafe { dealloc(alloc(block(1)), block(1)) };
            }
            // SAFETY: kept; the sums are to know it.
            std::hint::black_box(unsafe { alloc(block(10_000)) });
            there.wait();
            while !MAY_END.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        ready.wait();
        let before = A.usage_exact().current;
        *TO_JOIN.lock().unwrap() = Some(thread);
        // The thread's handle, packet and stack record go with it.
        let same = move || before.abs_diff(A.usage_exact().current) < 2000;
        assert!(in_child(move || same() && consistent()));
        assert!(same() && consistent());
    }
}

/// What other threads had not settled is in the child's balance too; and it counts on from there.
fn forks_of_a_quiet_process() {
    let stop = AtomicBool::new(false);
    let ready = AtomicU64::new(0);
    let failed = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // Some events are counted at once; then it drifts.
                for _ in 0..20 {
                    // SAFETY: freed as allocated.
                    unsafe { dealloc(alloc(block(1)), block(1)) };
                }
                // SAFETY: freed below.
                let p = unsafe { alloc(block(100_000)) };
                ready.fetch_add(1, Ordering::Release);
                while !stop.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                // SAFETY: as above.
                unsafe { dealloc(p, block(100_000)) };
            });
        }
        while ready.load(Ordering::Acquire) < 4 {
            thread::yield_now();
        }
        let before = A.usage_exact().current;
        let totals = A.totals();
        let failed = (0..50)
            .filter(|_| {
                !in_child(|| {
                    let same = A.usage_exact().current == before && A.totals() == totals;
                    A.settle();
                    let one_margin = A.usage().error <= 1 << 20;
                    let cheap = A.usage().current == before;
                    // SAFETY: freed as allocated.
                    let p = unsafe { alloc(block(5000)) };
                    let more = A.usage_exact().current == before + 5000;
                    // SAFETY: as above.
                    unsafe { dealloc(p, block(5000)) };
                    let grandchild = A.usage_exact().current == before
                        && in_child(|| A.usage_exact().current == before);
                    same && one_margin && cheap && more && grandchild
                })
            })
            .count();
        stop.store(true, Ordering::Release);
        failed
    });
    assert_eq!(failed, 0, "children that found another balance");
}

/// Threads allocate, free, settle, begin and end while others fork. No child hangs, and each finds sums that fit
/// its balance.
fn forks_under_load() {
    let stop = AtomicBool::new(false);
    let before = alone();
    let failed = thread::scope(|scope| {
        for n in 0..3usize {
            let stop = &stop;
            scope.spawn(move || {
                let mut k = n;
                while !stop.load(Ordering::Acquire) {
                    k += 1;
                    let size = 1 + k * 7919 % 300_000;
                    // SAFETY: freed as allocated.
                    unsafe { dealloc(alloc(block(size)), block(size)) };
                    if k % 64 == 0 {
                        thread::spawn(move || drop(vec![0u8; size])).join().unwrap();
                    }
                    if k % 16 == 0 {
                        A.settle();
                    }
                    A.mark();
                }
            });
        }
        let failed = (0..400)
            .filter(|n| {
                if n % 8 == 0 {
                    // From another thread than the first.
                    return !thread::scope(|scope| scope.spawn(|| in_child(consistent)).join())
                        .unwrap();
                }
                !in_child(consistent)
            })
            .count();
        stop.store(true, Ordering::Release);
        failed
    });
    assert_eq!(failed, 0, "children with sums that do not fit");
    assert_eq!(alone(), before);
}

fn consistent() -> bool {
    let mark = A.mark();
    A.settle();
    let (exact, cheap, totals) = (A.usage_exact().current, A.usage().current, A.totals());
    exact == cheap
        && totals.allocated.wrapping_sub(totals.freed) == exact
        && A.peak_since(mark) >= exact
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static KEPT: AtomicI64 = AtomicI64::new(0);

/// What no handler should do, and some do: it allocates and frees, small and large. (The allocator behind is one
/// that can take it: a bump arena.)
mod arena {
    use std::alloc::{GlobalAlloc, Layout};
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub struct Arena;
    const SIZE: usize = 64 << 20;
    #[repr(align(4096))]
    struct Memory(std::cell::UnsafeCell<[u8; SIZE]>);
    // SAFETY: parts are given out once each.
    unsafe impl Sync for Memory {}
    static MEMORY: Memory = Memory(std::cell::UnsafeCell::new([0; SIZE]));
    static AT: AtomicUsize = AtomicUsize::new(0);

    // SAFETY: blocks are apart and aligned; nothing is given back.
    unsafe impl GlobalAlloc for Arena {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // 64 bytes stand for any size: nobody writes to them.
            let at = AT.fetch_add(64, Ordering::Relaxed) % (SIZE - 4096);
            let at = at / layout.align() * layout.align();
            // SAFETY: within the memory.
            unsafe { MEMORY.0.get().cast::<u8>().add(at) }
        }
        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }
}

/// The same ledger over an allocator that handlers may call.
static HANDLERS: Accounted<arena::Arena, Counts> = Accounted::new(arena::Arena);

fn one(size: usize) {
    use std::alloc::GlobalAlloc;
    // SAFETY: freed as allocated.
    unsafe { HANDLERS.dealloc(HANDLERS.alloc(block(size)), block(size)) };
}

extern "C" fn handler(_: libc::c_int) {
    use std::alloc::GlobalAlloc;
    let n = HANDLED.fetch_add(1, Ordering::Relaxed) as usize;
    one(1 + n % 5000);
    one(2 << 20);
    // Some are freed by other handlers.
    // SAFETY: of this layout, and nobody uses it.
    unsafe {
        if n.is_multiple_of(2) {
            HANDLERS.alloc(block(777));
            KEPT.fetch_add(1, Ordering::Relaxed);
        } else {
            HANDLERS.dealloc(std::ptr::NonNull::dangling().as_ptr(), block(777));
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }
    std::hint::black_box(A.usage());
}

fn handlers_that_allocate() {
    // SAFETY: a handler that does what this allocator bears.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
            0
        );
    }
    let before = alone();
    let totals = A.totals();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn(|| {
                // Every size around the margin: settlements come all the time.
                for k in 0usize.. {
                    one(1 + k * 7919 % 1_500_000);
                    if k % 1024 == 0 && HANDLED.load(Ordering::Relaxed) > 4000 {
                        break;
                    }
                }
            })
        })
        .collect();
    use std::os::unix::thread::JoinHandleExt;
    while threads.iter().any(|thread| !thread.is_finished()) {
        for thread in &threads {
            // SAFETY: not joined yet.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
        }
        homefree_thread::sys::sleep(20_000);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(HANDLED.load(Ordering::Relaxed) > 1000, "{HANDLED:?}");
    let kept = KEPT.load(Ordering::Relaxed) * 777;
    assert_eq!(alone() as i64, before as i64 + kept);
    A.settle();
    assert_eq!(A.usage().current, A.usage_exact().current);
    let after = A.totals();
    let events = (after.allocations - totals.allocations) as i64;
    let frees = (after.frees - totals.frees) as i64;
    assert_eq!(
        events - frees,
        KEPT.load(Ordering::Relaxed),
        "{events} {frees}"
    );
}
