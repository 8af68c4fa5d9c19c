//! Threads that come and go and leave their blocks to others: `THREADS ALIVE`. In the end the balance is to the byte
//! what it was, and the ledger's own memory has not grown.

mod late;
mod worker;

use homefree_ledger::Accounted;
use std::alloc::System;
use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;
use worker::Shelf;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

/// Threads before the count begins, so that what the runtime makes once is made.
const BEFORE: u64 = 2_000;

/// Runs the soak; prints what was found as one line of JSON. Returns the exit status.
pub fn main(args: &[String]) -> i32 {
    let number = |index: usize| args.get(index).and_then(|arg| arg.parse::<u64>().ok());
    let (Some(threads), Some(alive)) = (number(0), number(1)) else {
        eprintln!("usage: THREADS ALIVE");
        return 2;
    };
    if !late::prepare() {
        eprintln!("soak: no key left");
        return 2;
    }
    let start = Instant::now();
    wave(BEFORE, alive, &mut |_| {});
    let before = A.usage_exact();
    let mut resident = Vec::with_capacity(16);
    let room = resident.capacity() * size_of::<u64>();
    let tenth = threads.div_ceil(10).max(1);
    wave(threads, alive, &mut |done| {
        if done % tenth == 0 && resident.len() < resident.capacity() {
            resident.push(self::resident());
        }
    });
    let after = A.usage_exact();
    A.settle();
    let cheap = A.usage();
    let mut living = 0;
    A.for_each_thread(|thread| living += i32::from(thread.tid != 0));
    let difference = after.current as i64 - before.current as i64 - room as i64;
    let first = resident.first().copied().unwrap_or(0);
    let last = resident.last().copied().unwrap_or(0);
    println!(
        r#"{{"threads":{threads},"alive":{alive},"seconds":{:.1},"before":{},"after":{},"difference":{difference},"cheap":{},"error":{},"living":{living},"peak":{},"late":{},"resident_first":{first},"resident_last":{last}}}"#,
        start.elapsed().as_secs_f64(),
        before.current,
        after.current - room as u64,
        cheap.current as i64 - after.current as i64,
        cheap.error,
        cheap.peak,
        late::freed(),
    );
    // One account may stay in a chunk of 64 KiB; a ledger that leaked one a thread would be 100 MiB larger.
    let grown = last.saturating_sub(first) > 4 << 20;
    let far = cheap.current.abs_diff(after.current) > cheap.error;
    i32::from(difference != 0 || after.error != 0 || living != 1 || far || grown)
}

/// Starts and joins `threads` threads, of which `alive` are there at a time.
fn wave(threads: u64, alive: u64, each: &mut dyn FnMut(u64)) {
    let shelf = Shelf::new();
    let (send, receive) = mpsc::channel();
    let mut running: VecDeque<Running> = VecDeque::with_capacity(alive as usize + 1);
    for n in 1..=threads {
        let (shelf, send) = (shelf.clone(), send.clone());
        let (gate, closed) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || worker::run(n, &shelf, &send, &closed));
        match thread {
            Ok(thread) => running.push_back((gate, thread)),
            // No room for another now: fewer at a time.
            Err(_) => join(running.pop_front()),
        }
        if running.len() as u64 >= alive {
            join(running.pop_front());
        }
        // The parent frees what it is sent.
        receive.try_iter().for_each(drop);
        each(n);
    }
    while !running.is_empty() {
        join(running.pop_front());
    }
    drop(send);
    receive.iter().for_each(drop);
    shelf.clear();
}

/// A thread, and what it waits for.
type Running = (mpsc::Sender<()>, JoinHandle<()>);

/// Lets a thread go on to its end.
fn join(running: Option<Running>) {
    let Some((gate, thread)) = running else {
        return;
    };
    drop(gate);
    if thread.join().is_err() {
        std::process::abort();
    }
}

/// Resident size of the process, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
