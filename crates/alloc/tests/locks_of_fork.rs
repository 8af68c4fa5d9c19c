//! The inventory of locks: every one in the source is taken before a fork, and opened after it.
#![cfg(not(loom))]

use std::path::Path;

#[test]
fn every_lock_is_taken_before_a_fork_and_opened_after_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut locks = Vec::new();
    for entry in std::fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            if let Some((before, _)) = line.split_once(": Lock<") {
                locks.push(before.split_whitespace().last().unwrap().to_owned());
            }
        }
    }
    locks.sort();
    assert_eq!(locks, ["FREE", "HUGE", "POOL", "QUEUE", "TAKING", "inner"]);
    let life = std::fs::read_to_string(source.join("life.rs")).unwrap();
    let part = |name: &str| {
        let from = life.find(name).unwrap();
        &life[from..from + life[from..].find("\n}\n").unwrap()]
    };
    for lock in &locks {
        assert!(
            part("fn prepare()").contains(&format!("{lock}.lock()")),
            "{lock} is not taken"
        );
        assert!(
            part("fn open_all()").contains(&format!("{lock}.force_open()")),
            "{lock} is not opened"
        );
    }
    // The orphans' heap is in no list of heaps.
    assert!(part("fn prepare()").contains("ORPHANS.inner.lock()"));
    assert!(part("fn open_all()").contains("ORPHANS.inner.force_open()"));
}
