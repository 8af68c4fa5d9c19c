//! A library that is loaded late and brings this allocator for its own code.

#[global_allocator]
static A: homefree_alloc::Alloc = homefree_alloc::Alloc::new();

/// Allocates and frees, on this thread and on others. Returns how many blocks its own allocator has seen.
#[unsafe(no_mangle)]
pub extern "C" fn work(n: u64) -> u64 {
    let words: Vec<String> = (0..n).map(|i| i.to_string()).collect();
    let lengths: Vec<_> = (0..3)
        .map(|k| {
            let words = words.clone();
            std::thread::spawn(move || words.iter().skip(k).map(String::len).sum::<usize>())
        })
        .collect();
    let sum: usize = lengths.into_iter().map(|t| t.join().unwrap_or(0)).sum();
    assert!(sum > 0);
    let classes = homefree_alloc::statistics().classes;
    drop(words);
    classes.iter().map(|c| c.live as u64).sum()
}
