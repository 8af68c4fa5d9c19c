//! Promise: thread-locals with destructors that allocate and free, in many threads and on the main thread, work.
//! Each of 50 threads boxes 3 values in the destructor of its thread-local and says nothing.

use std::cell::RefCell;

struct Noisy(RefCell<Vec<Box<u64>>>);

impl Drop for Noisy {
    fn drop(&mut self) {
        for i in 0..3 {
            self.0.get_mut().push(box_in_destructor(i));
        }
    }
}

#[inline(never)]
fn box_in_destructor(i: u64) -> Box<u64> {
    std::hint::black_box(Box::new(i))
}

thread_local! {
    static NOISY: Noisy = Noisy(RefCell::new(vec![Box::new(7)]));
}

fn main() {
    for _ in 0..50 {
        std::thread::spawn(|| NOISY.with(|n| n.0.borrow_mut().push(Box::new(8))))
            .join()
            .expect("the thread ends well");
    }
    NOISY.with(|n| n.0.borrow_mut().push(Box::new(9)));
    println!("50 threads ended");
}
