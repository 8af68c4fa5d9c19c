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

/// Frees per lifetime bucket, one set of buckets a clock. Lifetimes may be measured of a part of the
/// frees only; they stand for all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lifetimes {
    parts: Vec<(usize, Box<[f64; LIFE_BUCKETS]>)>,
}

impl Lifetimes {
    /// Adds the measured lifetimes of a flow with `count` frees.
    pub fn add(&mut self, clock: usize, measured: &[u32; LIFE_BUCKETS], count: u64) {
        let sum: f64 = measured.iter().map(|&n| f64::from(n)).sum();
        if sum == 0.0 {
            return;
        }
        let weight = count as f64 / sum;
        for (sum, &n) in self.part(clock).iter_mut().zip(measured) {
            *sum += f64::from(n) * weight;
        }
    }

    pub fn merge(&mut self, other: &Lifetimes) {
        for (clock, buckets) in &other.parts {
            for (sum, n) in self.part(*clock).iter_mut().zip(buckets.iter()) {
                *sum += n;
            }
        }
    }

    fn part(&mut self, clock: usize) -> &mut [f64; LIFE_BUCKETS] {
        let at = self.parts.iter().position(|(c, _)| *c == clock);
        let at = at.unwrap_or_else(|| {
            self.parts.push((clock, Box::new([0.0; LIFE_BUCKETS])));
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
            for (b, &n) in buckets.iter().enumerate().filter(|(_, n)| **n > 0.0) {
                let floor = life_bucket_floor(b) as f64;
                let ceiling = match b + 1 {
                    LIFE_BUCKETS => floor * 1.5,
                    next => life_bucket_floor(next) as f64,
                };
                steps.push((floor * tick, ceiling * tick, n));
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
            // Measured one in four.
            life.add(clock, &buckets, 4_000);
        }
        for (q, expected) in [(0.5, 500_000.0), (0.99, 990_000.0)] {
            let got = life.quantile(&clocks, q).unwrap();
            assert!((got / expected - 1.0).abs() < 0.25, "{q}: {got}");
        }
    }

    #[test]
    fn a_flow_measured_in_part_weighs_as_much_as_its_frees() {
        let mut clocks = Clocks::default();
        let clock = clocks.intern(1.0);
        let mut life = Lifetimes::default();
        let at = |ns: u64, n: u32| {
            let mut buckets = [0; LIFE_BUCKETS];
            buckets[life_bucket(ns)] = n;
            buckets
        };
        life.add(clock, &at(1_000_000, 100), 1_600);
        life.add(clock, &at(1_000, 400), 400);
        let median = life.quantile(&clocks, 0.5).unwrap();
        assert!(median > 500_000.0, "{median}");
    }
}
