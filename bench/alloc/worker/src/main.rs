//! Runs one pattern once and prints what it took, in one line:
//! `ALLOCATOR operations nanoseconds cpu_nanoseconds peak_kib`.
//!
//! `bench-alloc-worker PATTERN THREADS SCALE`

mod chosen;
mod patterns;
mod remote;
mod work;

use std::process::ExitCode;
use std::time::Instant;

fn cpu_nanoseconds() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid out-pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// High water of resident memory. (Not rusage's, which an `exec` inherits.)
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .expect("a high water");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(1);
    let Some(pattern) = args.get(1).and_then(|name| patterns::by_name(name)) else {
        patterns::NAMES.iter().for_each(|name| println!("{name}"));
        return ExitCode::from(2);
    };
    let start = (Instant::now(), cpu_nanoseconds());
    let operations = pattern(number(2), number(3) as u64);
    let (wall, cpu) = (start.0.elapsed().as_nanos(), cpu_nanoseconds() - start.1);
    println!(
        "{} {operations} {wall} {cpu} {}",
        chosen::name(),
        peak_kib()
    );
    ExitCode::SUCCESS
}
