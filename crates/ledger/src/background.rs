//! Threads of our own: the watcher's, the log line's, the recorder's.

use homefree_thread::sys;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that runs until this is dropped.
///
/// Dropping ends and joins it; on the thread itself it only ends it, once what it does is done. In fork's child,
/// which does not have the thread, there is nothing to do.
#[derive(Debug)]
pub(crate) struct Background {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    process: u32,
}

/// What the thread is told, and what it tells.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// 1: end. The thread may wait on it.
    stop: AtomicU32,
    /// Panics that were caught.
    panics: AtomicU64,
    /// The kernel's id of the thread, once it runs. (The standard library's may not be asked for in the destructors
    /// of thread-locals, where this may be dropped.)
    id: AtomicU32,
}

impl Orders {
    /// Whether the thread is to end.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire) != 0
    }

    /// Waits for the end of a period, or for the order to end: whether to go on.
    #[cfg(any(feature = "metrics", feature = "log"))]
    pub(crate) fn pause(&self, period: Duration) -> bool {
        let end = sys::clock(libc::CLOCK_MONOTONIC).saturating_add(nanoseconds(period) as u64);
        loop {
            let now = sys::clock(libc::CLOCK_MONOTONIC);
            if self.stopped() || now >= end {
                return !self.stopped();
            }
            sys::wait(&self.stop, 0, (end - now) as i64);
        }
    }

    /// Calls what others wrote. A panic in it is counted, and ends no thread: the panic hook has told of it.
    pub(crate) fn call(&self, others: impl FnOnce()) {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(others));
        if let Err(payload) = caught {
            self.panics.fetch_add(1, Ordering::Relaxed);
            // What was thrown may panic once more when it is dropped.
            let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
            mem::forget(dropped);
        }
    }
}

/// For the system's timers.
pub(crate) fn nanoseconds(period: Duration) -> i64 {
    i64::try_from(period.as_nanos())
        .unwrap_or(i64::MAX)
        .min(i64::MAX / 4)
}

impl Background {
    /// Starts a thread. It takes no signals but those of its own faults.
    pub(crate) fn start(
        name: &str,
        body: impl FnOnce(&Orders) + Send + 'static,
    ) -> io::Result<Self> {
        let orders = Arc::new(Orders::default());
        let of_thread = orders.clone();
        let mask = Mask::block();
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            of_thread.id.store(sys::thread_id(), Ordering::Relaxed);
            body(&of_thread);
        });
        drop(mask);
        Ok(Self {
            orders,
            thread: Some(thread?),
            process: sys::process_id(),
        })
    }

    /// Whether the thread runs: not in fork's child, and not once it has ended.
    pub(crate) fn runs(&self) -> bool {
        self.is_of_this_process()
            && self
                .thread
                .as_ref()
                .is_some_and(|thread| !thread.is_finished())
    }

    /// Panics of what it calls.
    pub(crate) fn panics(&self) -> u64 {
        self.orders.panics.load(Ordering::Relaxed)
    }

    fn is_of_this_process(&self) -> bool {
        self.process == sys::process_id()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        if !self.is_of_this_process() {
            // The C library's record of a thread that is not here is not to be touched.
            mem::forget(thread);
            return;
        }
        self.orders.stop.store(1, Ordering::Release);
        sys::wake(&self.orders.stop);
        crate::alarm::ring_now();
        if sys::thread_id() != self.orders.id.load(Ordering::Relaxed) {
            // What it calls may panic, and that is caught.
            let _ = thread.join();
        }
    }
}

/// All signals but those of faults blocked, until dropped: a thread that is started meanwhile inherits that, so that
/// no handler of the program runs on it.
struct Mask(libc::sigset_t);

impl Mask {
    fn block() -> Self {
        // SAFETY: an all-zero set is a valid value, and the calls fill the sets they are given.
        unsafe {
            let mut all: libc::sigset_t = mem::zeroed();
            let mut old: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&mut all);
            for fault in [
                libc::SIGSEGV,
                libc::SIGBUS,
                libc::SIGILL,
                libc::SIGFPE,
                libc::SIGTRAP,
                libc::SIGABRT,
                libc::SIGSYS,
            ] {
                libc::sigdelset(&mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut old);
            Self(old)
        }
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: the set that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, core::ptr::null_mut()) };
    }
}
