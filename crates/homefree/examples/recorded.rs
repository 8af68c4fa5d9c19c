//! A program that records itself: a producer boxes numbers, a consumer drops them.

use std::alloc::System;
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static ALLOCATOR: homefree::Recorded<System> = homefree::Recorded::new(System);

/// Objects that are allocated by one thread and freed by the other.
const OBJECTS: u64 = 10_000;

struct Object([u64; 8]);

#[inline(never)]
fn produce(send: &mpsc::SyncSender<Box<Object>>) {
    for n in 0..OBJECTS {
        if send.send(Box::new(Object([n; 8]))).is_err() {
            return;
        }
    }
}

#[inline(never)]
fn consume(receive: &mpsc::Receiver<Box<Object>>) -> u64 {
    receive.iter().map(|object| object.0[7]).sum()
}

fn main() {
    let (send, receive) = mpsc::sync_channel(64);
    let named = |name: &str| thread::Builder::new().name(name.into());
    let producer = named("producer-1").spawn(move || produce(&send));
    let consumer = named("consumer-1").spawn(move || consume(&receive));
    let sum = match (producer, consumer) {
        (Ok(producer), Ok(consumer)) => producer.join().and_then(|()| consumer.join()),
        _ => return eprintln!("no threads to be had"),
    };
    // At home: grown, shrunk, zeroed, aligned.
    let mut grown = Vec::new();
    (0..1000u32).for_each(|n| grown.push(n));
    grown.truncate(10);
    grown.shrink_to_fit();
    println!(
        "{} {}",
        sum.unwrap_or(0),
        vec![0u8; 100_000].len() + grown.len()
    );
}
