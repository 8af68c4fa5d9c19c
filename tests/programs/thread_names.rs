//! Promise: the names that std gives threads are their roles; unnamed ones are told by what they run.

use std::thread::Builder;

#[inline(never)]
fn free_here(block: Vec<u8>) {
    drop(std::hint::black_box(block));
}

fn main() {
    for n in 0..3 {
        let block = vec![n; 100];
        Builder::new()
            .name(format!("rpc-worker-{n}"))
            .spawn(move || free_here(block))
            .expect("thread")
            .join()
            .expect("no panic");
    }
    let block = vec![1; 100];
    std::thread::spawn(move || free_here(block))
        .join()
        .expect("no panic");
    println!("4 threads");
}
