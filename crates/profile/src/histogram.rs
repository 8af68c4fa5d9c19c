//! Lifetimes: histograms of several clocks, and their quantiles.

use homefree_wire::{LIFE_BUCKETS, life_bucket_floor};

/// Tick lengths that were met, so that histograms of one machine share their buckets.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    tick_ns: Vec<f64>,
}

impl Clocks {
    /// Number of the clock with this tick; ticks that differ by less than 1 % are the same clock.
    pub fn intern(&mut self, tick_ns: f64) -> usize {
        let same = |&known: &f64| (known / tick_ns - 1.0).abs() < 0.01;
        self.tick_ns.iter().position(same).unwrap_or_else(|| {
            self.tick_ns.push(tick_ns);
            self.tick_ns.len() - 1
        })
    }
}

/// Counts per lifetime bucket, one set of buckets a clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lifetimes {
    parts: Vec<(usize, Box<[u64; LIFE_BUCKETS]>)>,
}

impl Lifetimes {
    pub fn add(&mut self, clock: usize, buckets: &[u32; LIFE_BUCKETS]) {
        let part = self.part(clock);
        for (sum, &n) in part.iter_mut().zip(buckets) {
            *sum += u64::from(n);
        }
    }

    pub fn merge(&mut self, other: &Lifetimes) {
        for (clock, buckets) in &other.parts {
            let part = self.part(*clock);
            for (sum, &n) in part.iter_mut().zip(buckets.iter()) {
                *sum = sum.saturating_add(n);
            }
        }
    }

    fn part(&mut self, clock: usize) -> &mut [u64; LIFE_BUCKETS] {
        let at = self.parts.iter().position(|(c, _)| *c == clock);
        let at = at.unwrap_or_else(|| {
            self.parts.push((clock, Box::new([0; LIFE_BUCKETS])));
            self.parts.len() - 1
        });
        &mut self.parts[at].1
    }

    /// The lifetime (nanoseconds) below which the share `q` of the frees lies; interpolated inside a
    /// bucket, so it is off by at most half a bucket (a quarter octave) either way. `None` when empty.
    pub fn quantile(&self, clocks: &Clocks, q: f64) -> Option<f64> {
        let mut steps: Vec<(f64, f64, f64)> = Vec::new();
        for (clock, buckets) in &self.parts {
            let tick = clocks.tick_ns.get(*clock)?;
            for (b, &n) in buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
                let floor = life_bucket_floor(b) as f64;
                let ceiling = match b + 1 {
                    LIFE_BUCKETS => floor * 1.5,
                    next => life_bucket_floor(next) as f64,
                };
                steps.push((floor * tick, ceiling * tick, n as f64));
            }
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = steps.iter().map(|s| s.2).sum();
        let mut rest = total * q;
        for &(floor, ceiling, n) in &steps {
            if rest <= n {
                return Some(floor + (ceiling - floor) * (rest / n));
            }
            rest -= n;
        }
        steps.last().map(|s| s.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homefree_wire::life_bucket;

    #[test]
    fn quantiles_are_right_within_a_bucket_and_across_clocks() {
        let mut clocks = Clocks::default();
        let (a, b) = (clocks.intern(4.0), clocks.intern(8.0));
        assert_eq!(clocks.intern(4.01), a);
        assert_ne!(a, b);
        let mut life = Lifetimes::default();
        assert_eq!(life.quantile(&clocks, 0.5), None);
        for (clock, tick) in [(a, 4u64), (b, 8)] {
            let mut buckets = [0; LIFE_BUCKETS];
            for i in 1..=1000u64 {
                buckets[life_bucket(i * 1000 / tick)] += 1;
            }
            life.add(clock, &buckets);
        }
        for (q, expected) in [(0.5, 500_000.0), (0.99, 990_000.0)] {
            let got = life.quantile(&clocks, q).unwrap();
            assert!((got / expected - 1.0).abs() < 0.25, "{q}: {got}");
        }
    }
}
