//! What every arm does: loops around whatever global allocator its artifact has, with the proof of which one
//! that is. An artifact calls [`main`] with its [`Arm`] and prints what comes of it as one line of JSON.

mod clock;
mod pairs;
mod proof;
mod read;
mod threads;

use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write;
use std::time::Duration;

/// What an arm tells about its allocator.
pub trait Arm {
    /// Its name in tables.
    const NAME: &'static str;

    /// Makes it count, where that is not so from the start.
    fn start() {}

    /// Bytes held, by the allocator's own counters, as exactly as these can tell on the only thread that
    /// allocates. `None` where nothing counts.
    fn held() -> Option<i64>;

    /// Makes every event from now on settle with what threads share. False if the allocator knows no such thing.
    fn settle_always() -> bool {
        false
    }

    /// Whether its thread-local lies at a constant distance from the thread pointer, where it cares.
    fn constant_distance() -> Option<bool> {
        None
    }

    /// Its ways to read, bytes.
    fn readings() -> &'static [Reading] {
        &[]
    }
}

/// A way to read, by name.
pub type Reading = (&'static str, fn() -> i64);

/// What to do, from the command line.
struct Order {
    case: String,
    size: usize,
    threads: usize,
    /// How often, or how often at a stretch.
    count: u64,
    /// Stretches follow each other until this is over; 0 for a single one.
    least: Duration,
}

const USAGE: &str = "usage: CASE SIZE THREADS COUNT MILLISECONDS";

fn order(args: &[String]) -> Option<Order> {
    let [case, size, threads, count, least] = args else {
        return None;
    };
    Some(Order {
        case: case.clone(),
        size: size.parse().ok()?,
        threads: threads.parse().ok()?,
        count: count.parse().ok()?,
        least: Duration::from_millis(least.parse().ok()?),
    })
}

/// Runs an artifact: proves the allocator, does as told, prints. Returns the exit status.
pub fn main<A: Arm>(args: &[String]) -> i32 {
    let Some(order) = order(args) else {
        eprintln!("{USAGE}");
        return 2;
    };
    A::start();
    let proof = match proof::prove::<A>() {
        Ok(proof) => proof,
        Err(what) => {
            eprintln!("{}: {what}", A::NAME);
            return 3;
        }
    };
    let mut line = format!(r#"{{"arm":"{}",{proof}"#, A::NAME);
    let each = match order.case.as_str() {
        "pairs" => pairs::ledger_bench_pairs,
        "always" => {
            let knob = A::settle_always();
            let _ = write!(line, r#","knob":{knob}"#);
            pairs::ledger_bench_pairs
        }
        "climb" => {
            keep_the_heap();
            pairs::ledger_bench_climb
        }
        "large" => {
            keep_the_heap();
            pairs::ledger_bench_pairs
        }
        "read" => {
            line += &read::measure::<A>(order.threads, order.count);
            println!("{line}}}");
            return 0;
        }
        other => {
            eprintln!("no case {other}; {USAGE}");
            return 2;
        }
    };
    let (took, stretches) = threads::run(order.threads, order.size, order.least, || {
        each(order.size, order.count);
    });
    let blocks = match order.case.as_str() {
        "climb" => (order.size / pairs::BLOCK) as u64,
        _ => 1,
    };
    let _ = write!(
        line,
        r#","wall":{},"cpu":{},"pairs":{}"#,
        took.wall.as_nanos(),
        took.cpu.as_nanos(),
        stretches * order.count * blocks
    );
    println!("{line}}}");
    0
}

/// Makes glibc keep what is freed: system calls and page faults would hide everything else.
fn keep_the_heap() {
    const LARGE: i32 = 1 << 30;
    for what in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: no memory is involved.
        unsafe { libc::mallopt(what, LARGE) };
    }
}

/// As [`main`], for a library: arguments as a C program has them, the first being the library's name.
///
/// # Safety
/// `argv` are `argc` strings.
pub unsafe fn main_of_library<A: Arm>(argc: c_int, argv: *const *const c_char) -> c_int {
    let args: Vec<String> = (1..argc as usize)
        .map(|index| {
            // SAFETY: the caller's promise.
            let arg = unsafe { *argv.add(index) };
            // SAFETY: as above.
            unsafe { CStr::from_ptr(arg) }
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    main::<A>(&args)
}

/// The program of an executable's arm.
#[macro_export]
macro_rules! executable {
    ($arm:ty) => {
        fn main() -> std::process::ExitCode {
            let args: Vec<String> = std::env::args().skip(1).collect();
            std::process::ExitCode::from($crate::main::<$arm>(&args) as u8)
        }
    };
}

/// What a library's arm exports.
#[macro_export]
macro_rules! library {
    ($arm:ty) => {
        /// Runs the arm.
        ///
        /// # Safety
        /// `argv` are `argc` strings.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn ledger_bench_main(
            argc: core::ffi::c_int,
            argv: *const *const core::ffi::c_char,
        ) -> core::ffi::c_int {
            // SAFETY: the caller's promise.
            unsafe { $crate::main_of_library::<$arm>(argc, argv) }
        }
    };
}
