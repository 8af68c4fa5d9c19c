//! Promise: as pass_million.c, with `Box`, a std channel and named threads.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::Builder;

const OBJECTS: u64 = 1_000_000;
const BATCH: u64 = 250;

#[allow(dead_code)]
struct Object {
    id: u64,
    payload: [u8; 24],
}

#[inline(never)]
fn make_object(id: u64) -> Box<Object> {
    Box::new(Object {
        id,
        payload: [id as u8; 24],
    })
}

#[inline(never)]
fn drop_object(object: Box<Object>) -> u64 {
    let id = object.id;
    drop(object);
    std::hint::black_box(id)
}

fn main() {
    let (tx, rx) = mpsc::sync_channel::<[Option<Box<Object>>; BATCH as usize]>(64);
    let rx = Arc::new(Mutex::new(rx));
    let mut threads = Vec::new();
    for n in 0..2 {
        let tx = tx.clone();
        let produce = move || {
            for _ in 0..OBJECTS / 2 / BATCH {
                tx.send(std::array::from_fn(|i| Some(make_object(i as u64))))
                    .expect("consumers outlive producers");
            }
            0
        };
        let name = format!("producer-{n}");
        threads.push(Builder::new().name(name).spawn(produce).expect("thread"));
    }
    drop(tx);
    for n in 0..2 {
        let rx = Arc::clone(&rx);
        let consume = move || {
            let mut seen = 0;
            loop {
                let Ok(batch) = rx.lock().expect("no panics").recv() else {
                    return seen;
                };
                for object in batch.into_iter().flatten() {
                    drop_object(object);
                    seen += 1;
                }
            }
        };
        let name = format!("consumer-{n}");
        threads.push(Builder::new().name(name).spawn(consume).expect("thread"));
    }
    let passed: u64 = threads
        .into_iter()
        .map(|t| t.join().expect("no panics"))
        .sum();
    println!("passed {passed}");
}
