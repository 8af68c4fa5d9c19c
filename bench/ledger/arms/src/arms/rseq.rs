//! Rejected: a counter for each processor, added to inside a restartable sequence, which glibc from 2.35 on registers
//! for every thread. It needs no settling. As short as can be: the sequence's descriptor is not taken back afterwards
//! (a library that may be unloaded has to, one more store), and where no sequence is registered the counter of a
//! processor that does not exist is added to without protection, instead of a test and another way.

use core::arch::asm;
use ledger_arms::{Count, Counted};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

const SHARDS: usize = 64;

#[repr(align(64))]
struct Shard(AtomicI64);

static HELD: [Shard; SHARDS] = [const { Shard(AtomicI64::new(0)) }; SHARDS];

unsafe extern "C" {
    /// Distance of the thread's area from the thread pointer.
    static __rseq_offset: isize;
}

#[global_allocator]
static A: Counted<Rseq> = Counted::new();

struct Rseq;

/// Adds to the counter of the processor that the thread is on: 9 instructions.
#[inline(always)]
fn add(bytes: i64) {
    // SAFETY: a constant of the loader's.
    let area = unsafe { __rseq_offset };
    // SAFETY: the area is the calling thread's (offset 4: processor, 8: the sequence in force); the sequence ends
    // with its only store, and the processor is masked to the table.
    unsafe {
        asm!(
            ".pushsection .data.rel.ro.ledger_arms_rseq,\"aw\"",
            ".p2align 5",
            "22:",
            ".long 0, 0",
            ".quad 33f, 44f - 33f, 55f",
            ".popsection",
            ".pushsection .text.ledger_arms_rseq,\"ax\"",
            // The signature that glibc registers with, as the operand of an instruction that traps.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "55:",
            "jmp 66f",
            ".popsection",
            "66:",
            "lea {scratch}, [rip + 22b]",
            "mov qword ptr fs:[{area} + 8], {scratch}",
            "33:",
            "mov {scratch:e}, dword ptr fs:[{area} + 4]",
            "and {scratch:e}, 63",
            "shl {scratch:e}, 6",
            "add qword ptr [{table} + {scratch}], {bytes}",
            "44:",
            area = in(reg) area,
            table = in(reg) HELD.as_ptr(),
            bytes = in(reg) bytes,
            scratch = out(reg) _,
            options(nostack),
        );
    }
}

impl Count for Rseq {
    #[inline(always)]
    fn allocated(bytes: usize) {
        add(bytes as i64);
    }

    #[inline(always)]
    fn freed(bytes: usize) {
        add(-(bytes as i64));
    }
}

fn sum() -> i64 {
    HELD.iter().map(|shard| shard.0.load(Relaxed)).sum()
}

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "rseq";

    fn held() -> Option<i64> {
        Some(sum())
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[("sum", sum)]
    }
}
