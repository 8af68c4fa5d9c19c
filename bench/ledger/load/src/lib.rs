//! What every arm does: loops around whatever global allocator its artifact has, with the proof of which one
//! that is. An artifact calls [`main`] with its [`Arm`] and prints what comes of it as one line of JSON.

mod clock;
mod pairs;
mod proof;
mod read;
mod threads;

use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write;

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

/// What to do, from the command line: `CASE SIZE THREADS COUNT`.
struct Order {
    case: String,
    size: usize,
    threads: usize,
    count: u64,
}

fn order(args: &[String]) -> Option<Order> {
    let [case, size, threads, count] = args else {
        return None;
    };
    Some(Order {
        case: case.clone(),
        size: size.parse().ok()?,
        threads: threads.parse().ok()?,
        count: count.parse().ok()?,
    })
}

/// Runs an artifact: proves the allocator, does as told, prints. Returns the exit status.
pub fn main<A: Arm>(args: &[String]) -> i32 {
    let Some(order) = order(args) else {
        eprintln!("usage: CASE SIZE THREADS COUNT");
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
    let done = match order.case.as_str() {
        "pairs" => threads::run(order.threads, || {
            pairs::ledger_bench_pairs(order.size, order.count);
        }),
        "always" => {
            let knob = A::settle_always();
            let _ = write!(line, r#","knob":{knob}"#);
            threads::run(order.threads, || {
                pairs::ledger_bench_pairs(order.size, order.count);
            })
        }
        "climb" => threads::run(order.threads, || {
            pairs::ledger_bench_climb(order.size, order.count);
        }),
        "read" => {
            line += &read::measure::<A>(order.threads, order.count);
            println!("{line}}}");
            return 0;
        }
        other => {
            eprintln!("no case {other}");
            return 2;
        }
    };
    let _ = write!(
        line,
        r#","wall":{},"cpu":{}"#,
        done.wall.as_nanos(),
        done.cpu.as_nanos()
    );
    println!("{line}}}");
    0
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
            unsafe { CStr::from_ptr(arg) }.to_string_lossy().into_owned()
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
