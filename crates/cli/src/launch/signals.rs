//! Signals of the launcher: all blocked, taken one by one, and as they were for the program.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Faults of the launcher itself, which must not be blocked.
const FAULTS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// Disposition of SIGPIPE when the process started: Rust's runtime changes it before `main`.
static SIGPIPE_AT_START: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

extern "C" fn before_main() {
    if let Ok(action) = disposition(libc::SIGPIPE) {
        SIGPIPE_AT_START.store(action.sa_sigaction, Ordering::Relaxed);
    }
}

// SAFETY: the loader calls functions in .init_array with the C ABI before main; this one takes no
// arguments, needs nothing of the runtime and calls only sigaction.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

fn disposition(signal: libc::c_int) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: a null action only asks; the old one is written to `action`, which has its type.
    if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigaction succeeded, so it has written the old action.
    Ok(unsafe { action.assume_init() })
}

fn set_disposition(signal: libc::c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction: default handler, no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    // SAFETY: only SIG_DFL and SIG_IGN are passed here, so no code of ours runs in a handler.
    if unsafe { libc::sigaction(signal, &action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What the program is to find as we found it.
#[derive(Clone)]
pub struct Inherited {
    mask: libc::sigset_t,
    sigchld: libc::sighandler_t,
}

/// Blocks every signal and makes children waitable, whatever was inherited.
pub fn take_over() -> Inherited {
    let mut mask = MaybeUninit::uninit();
    let all = forwarded();
    // SAFETY: both sets are valid for the call; the old mask is written to `mask`.
    let got = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &all, mask.as_mut_ptr()) };
    let mask = if got == 0 {
        // SAFETY: pthread_sigmask succeeded, so it has written the old mask.
        unsafe { mask.assume_init() }
    } else {
        empty()
    };
    let sigchld = disposition(libc::SIGCHLD).map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    let _ = set_disposition(libc::SIGCHLD, libc::SIG_DFL);
    Inherited { mask, sigchld }
}

impl Inherited {
    /// In the child, before exec: mask and dispositions as the launcher got them.
    pub fn restore(&self) -> io::Result<()> {
        set_disposition(libc::SIGPIPE, SIGPIPE_AT_START.load(Ordering::Relaxed))?;
        set_disposition(libc::SIGCHLD, self.sigchld)?;
        self.set_mask()
    }

    /// In the launcher, when the program has ended: Ctrl-C ends us again.
    pub fn give_back(&self) {
        // What arrived between the program's end and now was meant for the program.
        while let Event::Signal { .. } | Event::Child = next(Duration::ZERO) {}
        let _ = self.set_mask();
    }

    fn set_mask(&self) -> io::Result<()> {
        // SAFETY: `mask` was filled by pthread_sigmask or sigemptyset.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given and cannot fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn forwarded() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set; sigdelset then takes valid signal numbers.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for fault in FAULTS {
            libc::sigdelset(set.as_mut_ptr(), fault);
        }
        set.assume_init()
    }
}

/// What happened.
pub enum Event {
    /// Nothing, for as long as asked.
    Tick,
    /// A child changed state.
    Child,
    /// A signal arrived.
    Signal {
        /// Its number.
        number: libc::c_int,
        /// Somebody sent it to the launcher (or to the whole group: that cannot be told apart). What the
        /// kernel sent (Ctrl-C, hang-up, window size), the program's group got too, and a SIGPIPE of
        /// our own is nobody's business.
        pass_on: bool,
    },
}

/// Waits for a signal, `patience` at most.
pub fn next(patience: Duration) -> Event {
    let set = forwarded();
    let timeout = libc::timespec {
        tv_sec: patience.as_secs() as libc::time_t,
        tv_nsec: patience.subsec_nanos() as libc::c_long,
    };
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: all three point to valid values for the call; `info` is written where it succeeds.
    let number = unsafe { libc::sigtimedwait(&set, info.as_mut_ptr(), &timeout) };
    if number < 0 {
        return Event::Tick;
    }
    if number == libc::SIGCHLD {
        return Event::Child;
    }
    // SAFETY: sigtimedwait returned a signal, so it has written the record.
    let info = unsafe { info.assume_init() };
    // SAFETY: the field is read whatever the kind of record: it is plain bytes, all of them written.
    let sender = unsafe { info.si_pid() };
    Event::Signal {
        number,
        pass_on: info.si_code <= 0 && sender != std::process::id() as libc::pid_t,
    }
}

/// Passes a signal on; a process that has just gone is no error.
pub fn send(process: u32, signal: libc::c_int) {
    // SAFETY: kill takes two integers; the process is a child not yet waited for, so its id is its own.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}
