//! The smallest program with a ledger; `tests/golden.rs` looks at its code.

use homefree_ledger::{Accounted, Bytes, InitialExec};
use std::alloc::System;

#[global_allocator]
static A: Accounted<System, Bytes, InitialExec> = Accounted::new(System);

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let usage = A.usage_exact();
    println!(
        "{} words are held in {} bytes; at most it was {}",
        words.len(),
        usage.current,
        usage.peak
    );
}
