//! Two words of thread-local memory at a constant distance from the thread pointer (initial-exec, in the libraries
//! as well: they are small and alone), so that no way of counting is slow for how it reaches its thread's words.

use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.ledger_arms_place,\"awT\",@nobits",
    ".hidden ledger_arms_place",
    ".globl ledger_arms_place",
    ".type ledger_arms_place,@object",
    ".size ledger_arms_place,16",
    ".p2align 4",
    "ledger_arms_place:",
    ".zero 16",
    ".popsection",
);

/// Distance of the two words from the thread pointer.
#[inline(always)]
pub fn distance() -> usize {
    let distance: usize;
    // SAFETY: reads a GOT entry that the linker or the loader filled.
    unsafe {
        asm!(
            "mov {distance}, qword ptr [rip + ledger_arms_place@GOTTPOFF]",
            distance = out(reg) distance,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    distance
}

/// The word at `WORD` bytes.
#[inline(always)]
pub fn get<const WORD: usize>(distance: usize) -> i64 {
    const { assert!(WORD == 0 || WORD == 8) };
    let value: i64;
    // SAFETY: the calling thread's own word.
    unsafe {
        asm!(
            "mov {value}, qword ptr fs:[{distance} + {word}]",
            value = out(reg) value,
            distance = in(reg) distance,
            word = const WORD,
            options(readonly, nostack, preserves_flags),
        );
    }
    value
}

/// Sets the word at `WORD` bytes.
#[inline(always)]
pub fn set<const WORD: usize>(distance: usize, value: i64) {
    const { assert!(WORD == 0 || WORD == 8) };
    // SAFETY: the calling thread's own word.
    unsafe {
        asm!(
            "mov qword ptr fs:[{distance} + {word}], {value}",
            value = in(reg) value,
            distance = in(reg) distance,
            word = const WORD,
            options(nostack, preserves_flags),
        );
    }
}

/// Adds to the word at `WORD` bytes. Whether the sum is below 0.
#[inline(always)]
pub fn add<const WORD: usize>(distance: usize, value: i64) -> bool {
    const { assert!(WORD == 0 || WORD == 8) };
    // SAFETY: the calling thread's own word.
    unsafe {
        asm!(
            "add qword ptr fs:[{distance} + {word}], {value}",
            "jns {not}",
            value = in(reg) value,
            distance = in(reg) distance,
            word = const WORD,
            not = label { return false },
            options(nostack),
        );
    }
    true
}
