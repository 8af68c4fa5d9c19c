//! What one thread of the soak does.

use super::late;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

/// A block of some size.
pub type Block = Box<[u8]>;

/// Blocks that lie around for any thread to free.
#[derive(Clone)]
pub struct Shelf(Arc<Mutex<Vec<Block>>>);

/// Places on the shelf.
const PLACES: usize = 512;

impl Shelf {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::with_capacity(PLACES))))
    }

    /// Puts a block there, or frees it where the shelf is full.
    fn put(&self, block: Block) {
        if let Ok(mut shelf) = self.0.lock()
            && shelf.len() < PLACES
        {
            shelf.push(block);
        }
    }

    fn take(&self) -> Option<Block> {
        self.0.lock().ok()?.pop()
    }

    pub fn clear(&self) {
        while self.take().is_some() {}
    }
}

thread_local! {
    /// Freed by a destructor of the thread.
    static OWN: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// A size that depends on `n`: mostly small, now and then beyond a thread's margin.
fn block(n: u64, salt: u64) -> Block {
    let mixed =
        (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9)) >> 20;
    let size = match mixed % 1000 {
        0 => 1_500_000,
        1..50 => 1 + mixed % 50_000,
        _ => 1 + mixed % 600,
    };
    black_box(vec![0u8; size as usize].into_boxed_slice())
}

/// Allocates, frees, gives away, waits for `gate` to close, and leaves the rest to its destructors.
pub fn run(n: u64, shelf: &Shelf, parent: &Sender<Block>, gate: &Receiver<()>) {
    // For some the first event is a free of another thread's block.
    if n.is_multiple_of(3) {
        drop(shelf.take());
        drop(shelf.take());
    }
    for salt in 0..3 {
        drop(block(n, salt));
    }
    if parent.send(block(n, 3)).is_err() {
        std::process::abort();
    }
    shelf.put(block(n, 4));
    OWN.with_borrow_mut(|own| own.push(block(n, 5)));
    // Never sent to: this ends when the parent drops its end.
    let _ = gate.recv();
    if n.is_multiple_of(2) {
        late::leave(block(n, 6));
    }
    drop(shelf.take());
}
