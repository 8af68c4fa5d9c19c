//! Threads come, hand blocks to each other, park and end; the sums stay exact and nothing is lost with a thread.

use homefree_ledger::{Accounted, Usage, ledger};
use std::alloc::{Layout, System, alloc, dealloc};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

const KIB: usize = 1 << 10;

/// A block that the ledger counts and nothing else knows of.
struct Block(*mut u8, usize);

// SAFETY: a block of the allocator, which may be freed anywhere.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize) -> Self {
        // SAFETY: not of size 0.
        Self(
            unsafe { alloc(Layout::from_size_align(size, 8).unwrap()) },
            size,
        )
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: as it was allocated.
        unsafe { dealloc(self.0, Layout::from_size_align(self.1, 8).unwrap()) };
    }
}

/// A thread without any of the standard library's own allocations; joins it.
fn raw_thread(f: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void, value: *mut libc::c_void) {
    let mut id = 0;
    // SAFETY: plain calls; `value` outlives the thread.
    unsafe {
        assert_eq!(libc::pthread_create(&mut id, std::ptr::null(), f, value), 0);
        assert_eq!(libc::pthread_join(id, std::ptr::null_mut()), 0);
    }
}

/// The cheap reading, with this thread's part settled: exact as long as no other thread lives.
fn cheap() -> u64 {
    A.settle();
    let usage = A.usage();
    assert!(
        usage.error <= 1 << 20,
        "only this thread has a margin: {}",
        usage.error
    );
    usage.current
}

// Without the test harness, whose own thread would have a part of every sum.
fn main() {
    drift_settles_when_a_thread_ends();
    threads_that_only_free();
    late_destructors();
    every_round_of_key_destructors();
    a_thread_whose_end_nobody_tells();
    dead_threads_left_their_blocks();
    parked_threads();
    a_storm_of_exchanges();
    net_transfer_is_told_by_thread();
    what_is_called_back_may_wait_for_others();
    requests_that_fail_are_not_seen();
}

/// A callback waits for a thread that in turn needs an account to go on.
fn what_is_called_back_may_wait_for_others() {
    static HELD: Mutex<()> = Mutex::new(());
    let (say, hear) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let held = HELD.lock().unwrap();
        say.send(()).unwrap();
        wait.recv().unwrap();
        begin_to_drift();
        drop(held);
    });
    hear.recv().unwrap();
    let mut flows = 0;
    A.for_each_thread(|_| {
        let _ = go.send(());
        drop(HELD.lock().unwrap());
        flows += 1;
    });
    assert!(flows >= 2);
    other.join().unwrap();
    // More threads than are read at a time, each told once.
    let end = Arc::new(Barrier::new(101));
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let end = end.clone();
            thread::spawn(move || {
                begin_to_drift();
                end.wait();
                end.wait();
            })
        })
        .collect();
    end.wait();
    let mut seen = Vec::new();
    A.for_each_thread(|flow| seen.push(flow.tid));
    end.wait();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    seen.sort_unstable();
    let told = seen.len();
    seen.dedup();
    assert_eq!((told, seen.len()), (102, 102));
}

/// A request that no allocator can serve is in no reading, though it is counted for an instant.
fn requests_that_fail_are_not_seen() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let impossible = Layout::from_size_align(1 << 46, 8).unwrap();
    let other = thread::spawn(move || {
        begin_to_drift();
        while !STOP.load(Ordering::Relaxed) {
            // SAFETY: null, as no machine has so much.
            assert!(std::hint::black_box(unsafe { alloc(impossible) }).is_null());
        }
    });
    for _ in 0..200_000 {
        assert!(A.usage_exact().current < 1 << 40);
    }
    STOP.store(true, Ordering::Relaxed);
    other.join().unwrap();
    assert!(A.usage().peak < 1 << 40);
}

/// A thread's first few events are counted at once; from now on it has an account and a margin.
fn begin_to_drift() {
    let error = A.usage().error;
    for _ in 0..20 {
        drop(Block::new(1));
    }
    assert!(A.usage().error > error);
}

/// A thread allocates less than its margin and ends. If its end were not told, the balance would not know.
fn drift_settles_when_a_thread_ends() {
    extern "C" fn allocates(value: *mut libc::c_void) -> *mut libc::c_void {
        begin_to_drift();
        // SAFETY: as `drift_settles_when_a_thread_ends` passes it.
        unsafe { *value.cast::<Option<Block>>() = Some(Block::new(100 * KIB)) };
        std::ptr::null_mut()
    }
    A.settle();
    let (before, threads) = (A.usage(), accounts());
    let mut block: Option<Block> = None;
    raw_thread(allocates, (&raw mut block).cast());
    A.settle();
    let after = A.usage();
    assert_eq!(after.current - before.current, 100 * KIB as u64);
    assert_eq!(after.error, before.error, "its margin went with it");
    assert_eq!(accounts(), threads);
    drop(block);
    A.settle();
    assert_eq!(A.usage().current, before.current);
}

fn accounts() -> usize {
    let mut n = 0;
    A.for_each_thread(|flow| n += usize::from(flow.tid != 0));
    n
}

/// The first and only thing that a thread does is to free.
fn threads_that_only_free() {
    extern "C" fn frees(value: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: as below.
        drop(unsafe { (*value.cast::<Option<Block>>()).take() });
        std::ptr::null_mut()
    }
    A.settle();
    let before = A.usage();
    let mut mapped = 0;
    for round in 0..2000 {
        let mut block = Some(Block::new(8 * KIB));
        raw_thread(frees, (&raw mut block).cast());
        if round == 1000 {
            mapped = virtual_bytes();
        }
    }
    A.settle();
    assert_eq!(
        A.usage(),
        Usage {
            peak: A.usage().peak,
            ..before
        }
    );
    assert_eq!(virtual_bytes(), mapped, "accounts are used again");
}

/// Size of the address space in pages.
fn virtual_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// A thread-local's destructor that allocates and frees, registered before and after the thread's first event.
fn late_destructors() {
    struct Late(RefCell<Vec<Block>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let more = Block::new(33);
            self.0.borrow_mut().clear();
            std::hint::black_box(&more);
        }
    }
    thread_local! {
        static FIRST: Late = const { Late(RefCell::new(Vec::new())) };
        static SECOND: Late = const { Late(RefCell::new(Vec::new())) };
    }
    let before = A.usage_exact().current;
    let work = || {
        FIRST.with(|late| {
            drop(Block::new(50));
            late.0.borrow_mut().push(Block::new(4 * KIB));
        });
        SECOND.with(|late| late.0.borrow_mut().push(Block::new(4 * KIB)));
    };
    for _ in 0..100 {
        thread::spawn(work).join().unwrap();
    }
    assert_eq!(A.usage_exact().current, before);
    assert_eq!(cheap(), before);
}

/// Key destructors that re-arm themselves in every round, made before and after ours; the last allocate when the
/// account is closed already.
fn every_round_of_key_destructors() {
    use std::sync::atomic::AtomicU32;
    static KEYS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    static RAN: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn destructor(value: *mut libc::c_void) {
        RAN.fetch_add(1, Ordering::Relaxed);
        drop(Block::new(77));
        let old = value.cast::<Block>();
        // SAFETY: a box that the thread or an earlier round made.
        drop(unsafe { Box::from_raw(old) });
        let next = Box::into_raw(Box::new(Block::new(3 * KIB)));
        let mut rearmed = false;
        for key in &KEYS {
            let key = key.load(Ordering::Relaxed);
            // SAFETY: a key of ours.
            let mine = unsafe { libc::pthread_getspecific(key) }.is_null();
            if mine && !rearmed && !RAN.load(Ordering::Relaxed).is_multiple_of(8) {
                // SAFETY: as above.
                unsafe { libc::pthread_setspecific(key, next.cast()) };
                rearmed = true;
            }
        }
        if !rearmed {
            // SAFETY: made above.
            drop(unsafe { Box::from_raw(next) });
        }
    }
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        for key in &KEYS {
            let value = Box::into_raw(Box::new(Block::new(5 * KIB)));
            // SAFETY: a key of ours.
            unsafe { libc::pthread_setspecific(key.load(Ordering::Relaxed), value.cast()) };
        }
        std::ptr::null_mut()
    }
    for key in &KEYS {
        let mut made = 0;
        // SAFETY: plain call.
        let failed = unsafe { libc::pthread_key_create(&mut made, Some(destructor)) };
        assert_eq!(failed, 0);
        key.store(made, Ordering::Relaxed);
    }
    let before = A.usage_exact();
    let totals = A.totals();
    for _ in 0..50 {
        raw_thread(body, std::ptr::null_mut());
    }
    let after = A.totals();
    let ran = u64::from(RAN.load(Ordering::Relaxed));
    assert!(ran >= 100 * 4, "every round ran: {ran}");
    // What the last round's blocks leave behind is known: those that were armed and never destroyed.
    let leaked = A.usage_exact().current - before.current;
    assert_eq!(
        after.allocated - totals.allocated - (after.freed - totals.freed),
        leaked
    );
    let block = (3 * KIB + size_of::<Block>()) as u64;
    assert_eq!(leaked % block, 0, "{leaked}");
    assert_eq!(cheap(), A.usage_exact().current);
}

/// A thread does nothing before the last round of its key destructors, and then a lot: no hook of ours is called any
/// more, and its stack, too large to be kept, is gone when the next reading comes.
fn a_thread_whose_end_nobody_tells() {
    use std::sync::atomic::AtomicU32;
    static KEY: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn destructor(round: *mut libc::c_void) {
        let round = round as usize;
        if round < 4 {
            let key = KEY.load(Ordering::Relaxed);
            // SAFETY: a key of ours.
            unsafe { libc::pthread_setspecific(key, (round + 1) as *mut libc::c_void) };
        } else {
            for _ in 0..40 {
                drop(Block::new(100));
            }
        }
    }
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        let key = KEY.load(Ordering::Relaxed);
        // SAFETY: a key of ours.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
        std::ptr::null_mut()
    }
    let mut key = 0;
    // SAFETY: plain call.
    let failed = unsafe { libc::pthread_key_create(&mut key, Some(destructor)) };
    assert_eq!(failed, 0);
    KEY.store(key, Ordering::Relaxed);
    let (before, living) = (A.usage_exact(), accounts());
    for _ in 0..20 {
        let mut id = 0;
        // SAFETY: plain calls, and an attribute that is set up.
        unsafe {
            let mut large: libc::pthread_attr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_attr_init(&mut large), 0);
            assert_eq!(libc::pthread_attr_setstacksize(&mut large, 64 << 20), 0);
            let made = libc::pthread_create(&mut id, &large, body, std::ptr::null_mut());
            assert_eq!(made, 0);
            assert_eq!(libc::pthread_join(id, std::ptr::null_mut()), 0);
        }
        let now = A.usage_exact();
        assert!(
            now.current.abs_diff(before.current) <= 20 * 40 * 100,
            "{now:?}"
        );
    }
    assert_eq!(accounts(), living, "they were found gone");
}

/// Short-lived threads allocate below their margin, main frees, again and again (polars#29430).
fn dead_threads_left_their_blocks() {
    let before = cheap();
    for _ in 0..20 {
        let kept: Vec<Block> = (0..16)
            .map(|_| {
                let body = || {
                    begin_to_drift();
                    Block::new(200 * KIB)
                };
                thread::spawn(body).join().unwrap()
            })
            .collect();
        let held = cheap() - before;
        assert!(held >= 16 * 200 * KIB as u64, "{held}");
        let list = 16 * size_of::<Block>() as u64;
        assert_eq!(
            A.usage_exact().current - before,
            16 * 200 * KIB as u64 + list
        );
        drop(kept);
    }
    assert_eq!(cheap(), before);
}

/// Ten thousand threads free a few KiB each and park (ClickHouse#84946).
fn parked_threads() {
    const THREADS: usize = 10_000;
    let before = A.usage_exact().current;
    let park = Arc::new(Barrier::new(THREADS + 1));
    let end = Arc::new(Barrier::new(THREADS + 1));
    let mut blocks: Vec<Option<Block>> = (0..THREADS).map(|_| Some(Block::new(4 * KIB))).collect();
    let threads: Vec<_> = blocks
        .iter_mut()
        .map(|block| {
            let (block, park, end) = (block.take(), park.clone(), end.clone());
            let body = move || {
                drop(block);
                park.wait();
                end.wait();
            };
            thread::Builder::new().stack_size(16 * KIB).spawn(body)
        })
        .collect();
    if threads.iter().any(Result::is_err) {
        // A machine that does not allow so many: those that are there wait for ever, so end here.
        eprintln!("skipped: this system does not start {THREADS} threads");
        std::process::exit(0);
    }
    park.wait();
    let exact = A.usage_exact();
    let cheap = A.usage();
    // All blocks are free. The threads' handles and packets are still there.
    let handles = exact.current - before;
    assert!(handles < (THREADS * 2 * KIB) as u64, "{handles}");
    assert!(cheap.current.abs_diff(exact.current) <= cheap.error);
    // However they came and parked: 64 MiB for all, and 8 KiB for each.
    let bound = 64 * KIB as u64 * KIB as u64 + (THREADS * 8 * KIB) as u64;
    assert!(cheap.error <= bound, "{}", cheap.error);
    end.wait();
    for handle in threads {
        handle.unwrap().join().unwrap();
    }
    drop((blocks, park, end));
    assert_eq!(A.usage_exact().current, before);
    assert_eq!(self::cheap(), before);
}

/// Threads that pass blocks on and end while others still free what they made.
fn a_storm_of_exchanges() {
    let before = A.usage_exact().current;
    let (mut senders, mut receivers): (Vec<Sender<Block>>, Vec<Receiver<Block>>) =
        (0..8).map(|_| mpsc::channel()).unzip();
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let to = senders[(n + 3) % 8].clone();
            let from = receivers.remove(0);
            thread::spawn(move || {
                for k in 0..20_000usize {
                    let _ = to.send(Block::new(1 + (k * 7919 + n) % 3000));
                    if k % 3 != 0 {
                        drop(from.try_recv());
                    }
                    if k % 5000 == 0 {
                        let (cheap, exact) = (A.usage(), A.usage_exact());
                        assert!(cheap.current < 1 << 34 && exact.current < 1 << 34);
                    }
                }
                drop(to);
                from.iter().for_each(drop);
            })
        })
        .collect();
    senders.clear();
    for thread in threads {
        thread.join().unwrap();
    }
    drop((senders, receivers));
    assert_eq!(A.usage_exact().current, before);
    assert_eq!(cheap(), before);
}

/// A allocates and B frees: told as a transfer, not as what they use (tikv#16573).
fn net_transfer_is_told_by_thread() {
    let (to, from) = mpsc::channel::<Block>();
    let (done, wait) = mpsc::channel::<()>();
    // SAFETY: plain call.
    let tid = || unsafe { libc::gettid() } as u32;
    let main = tid();
    let receiver = thread::spawn(move || {
        from.iter().for_each(drop);
        done.send(()).unwrap();
        thread::park();
        tid()
    });
    let flow = |tid| {
        let mut found = None;
        ledger().for_each_thread(|flow| {
            if flow.tid == tid {
                found = Some(flow);
            }
        });
        found.expect("a living thread")
    };
    let before = flow(main);
    for _ in 0..1000 {
        to.send(Block::new(KIB)).unwrap();
    }
    drop(to);
    wait.recv().unwrap();
    let here = flow(main);
    assert!(here.allocated - before.allocated >= 1000 * KIB as u64);
    let mut other = None;
    ledger().for_each_thread(|flow| {
        if flow.tid != main && flow.received() > 900 * KIB as u64 {
            other = Some(flow);
        }
    });
    let other = other.expect("the receiver");
    assert_eq!(other.sent_away(), 0);
    receiver.thread().unpark();
    assert_eq!(receiver.join().unwrap(), other.tid);
}
