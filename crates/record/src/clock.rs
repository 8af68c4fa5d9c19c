//! The event clock.

use core::sync::atomic::{AtomicBool, Ordering};
use homefree_thread::sys;
use homefree_wire::clock;

/// Ticks after which both clocks are noted again: about a tenth of a second.
pub(crate) const OFTEN: u64 = 1 << 24;

static MONOTONIC: AtomicBool = AtomicBool::new(false);

/// Decides for the time-stamp counter where it is invariant; returns the choice ([`clock`]).
pub(crate) fn choose() -> u32 {
    let invariant = invariant_tsc();
    MONOTONIC.store(!invariant, Ordering::Relaxed);
    if invariant {
        clock::TSC
    } else {
        clock::MONOTONIC
    }
}

/// Now, in ticks.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if !MONOTONIC.load(Ordering::Relaxed) {
        // SAFETY: every x86-64 processor has the instruction, and it was found to be invariant.
        return unsafe { core::arch::x86_64::_rdtsc() } >> clock::TSC_SHIFT;
    }
    monotonic()
}

#[cold]
#[inline(never)]
fn monotonic() -> u64 {
    sys::clock(libc::CLOCK_MONOTONIC) >> clock::NS_SHIFT
}

#[cfg(target_arch = "x86_64")]
fn invariant_tsc() -> bool {
    use core::arch::x86_64::__cpuid;
    // AMD and Intel: leaf 0x8000_0007, EDX bit 8.
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant_tsc() -> bool {
    false
}
