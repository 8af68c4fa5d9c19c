//! The instructions of the hot paths, counted in the library as it is shipped. A change to a number here is
//! a change to the budget.

mod support;

use std::path::Path;
use support::{installed, library, limited, run};

/// What a function executes from its entry to its first `ret`, no branch taken.
struct Hot {
    instructions: usize,
    calls: usize,
    atomics: usize,
    branches: usize,
}

fn straight_line(function: &str) -> Hot {
    // By address, since one function may have several names.
    let nm = run(limited(60, Path::new("nm"), &["-D", "--defined-only"]).arg(library())).out;
    let symbol = nm
        .lines()
        .find(|line| line.split_whitespace().last() == Some(function));
    let address = symbol
        .and_then(|line| line.split_whitespace().next())
        .expect("a symbol");
    let mut objdump = limited(
        60,
        Path::new("objdump"),
        &["-d", "--no-show-raw-insn", "-Mintel"],
    );
    let text = run(objdump
        .arg(format!("--start-address=0x{address}"))
        .arg(library()))
    .out;
    let mut path = Hot {
        instructions: 0,
        calls: 0,
        atomics: 0,
        branches: 0,
    };
    for line in text.lines() {
        let Some((_, instruction)) = line.split_once(":\t") else {
            continue;
        };
        let name = instruction.split_whitespace().next().unwrap_or_default();
        path.instructions += 1;
        path.calls += usize::from(name == "call");
        path.atomics += usize::from(matches!(name, "lock" | "xchg" | "cmpxchg" | "xadd"));
        path.branches += usize::from(name.starts_with('j'));
        if name == "ret" {
            return path;
        }
        assert!(name != "jmp", "{function} jumps: {line}");
    }
    panic!("{function} does not return in a straight line:\n{text}");
}

#[test]
fn malloc_and_free_take_27_instructions_together_and_no_atomic_one() {
    if installed("objdump").is_none() {
        return;
    }
    for (function, instructions, branches) in [("malloc", 12, 2), ("free", 15, 2)] {
        let path = straight_line(function);
        assert_eq!((path.calls, path.atomics), (0, 0), "{function}");
        assert_eq!(
            (path.instructions, path.branches),
            (instructions, branches),
            "{function}"
        );
    }
}
