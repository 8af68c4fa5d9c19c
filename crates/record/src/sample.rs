//! Sampling: each requested byte is a sample point with the same small probability; a block is recorded
//! if a point falls into it. A recorded block of `s` bytes stands for `1 / (1 - exp(-s / mean))`
//! blocks (Horvitz and Thompson), which makes counts and bytes unbiased.

use crate::threads::Thread;

/// What one sampled block stands for.
#[derive(Clone, Copy)]
pub(crate) struct Weight {
    /// Blocks, rounded to a whole number; which way depends on the block, so that the mean is right and
    /// its free counts what its allocation counted.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Variance that it adds to a sum of counts.
    pub variance: f64,
}

/// Whether an allocation is recorded.
#[inline]
pub(crate) fn chosen(thread: &mut Thread, size: u64) -> bool {
    thread.countdown -= size.max(1) as i64;
    if thread.countdown > 0 {
        return false;
    }
    next(thread);
    true
}

/// Draws the distance to the next sample point.
#[cold]
pub(crate) fn next(thread: &mut Thread) {
    // xorshift64*
    let mut x = thread.random | 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    thread.random = x;
    let uniform = (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64;
    let distance = -libm::log(1.0 - uniform) * thread.sample as f64;
    thread.countdown = distance.min(1e18) as i64 + 1;
}

/// The weight of a block of `size` bytes under a mean distance; `salt` is the same at its allocation
/// and its free.
pub(crate) fn weight(size: u64, mean: u64, salt: u64) -> Weight {
    let size = size.max(1) as f64;
    let chance = -libm::expm1(-size / mean as f64);
    let count = 1.0 / chance;
    let fraction = (salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64;
    Weight {
        count: (count + fraction) as u64,
        bytes: (count * size + fraction) as u64,
        variance: count * (count - 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_unbiased() {
        // Blocks of mixed sizes, sampled by hand with the same arithmetic.
        let mean = 4096;
        let sizes = [16u64, 100, 1000, 5000, 100_000];
        let (mut true_count, mut true_bytes) = (0u64, 0u64);
        let (mut count, mut bytes, mut variance) = (0u64, 0u64, 0.0);
        let mut random = 88_172_645_463_325_252u64;
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for n in 0..2_000_000u64 {
            let size = sizes[(n % 5) as usize];
            true_count += 1;
            true_bytes += size;
            let chance = -libm::expm1(-(size as f64) / mean as f64);
            if ((draw() >> 11) as f64 / (1u64 << 53) as f64) < chance {
                let w = weight(size, mean, draw());
                count += w.count;
                bytes += w.bytes;
                variance += w.variance;
            }
        }
        let error = (count as f64 - true_count as f64).abs();
        assert!(
            error < 4.0 * libm::sqrt(variance),
            "{count} for {true_count}"
        );
        let relative = (bytes as f64 - true_bytes as f64).abs() / true_bytes as f64;
        assert!(relative < 0.01, "{bytes} for {true_bytes}");
    }
}
