//! A program that knows what it holds, and what its parts hold.

use homefree::Accounted;
use homefree::ledger::{Bytes, InitialExec};
use std::alloc::System;

// In a library that may be opened with `dlopen`, just `Accounted<System>`.
#[global_allocator]
static A: Accounted<System, Bytes, InitialExec> = Accounted::new(System);

fn main() {
    let scope = A.open_scope("words");
    let words: Vec<String> = {
        let _inside = scope.enter();
        (0..1000).map(|n| format!("word number {n}")).collect()
    };
    println!("{} words in {} bytes", words.len(), scope.usage().current);
    println!("all in all {} bytes", A.usage_exact().current);
    drop(words);
    println!("without them {} bytes", A.usage_exact().current);
}
