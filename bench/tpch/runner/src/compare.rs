//! From samples to ratios over the plain arm.

use crate::arm::Arm;
use crate::samples::Sample;
use crate::stats::{Median, median};
use std::collections::{BTreeMap, BTreeSet};

/// Which figure of a sample is meant.
#[derive(Clone, Copy)]
pub enum Figure {
    /// Seconds.
    Wall,
    /// CPU seconds.
    Cpu,
}

impl Figure {
    fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Wall => sample.wall,
            Self::Cpu => sample.cpu,
        }
    }
}

/// Samples by turn: what is compared with each other.
pub struct Turns {
    /// Round, query and turn; then one sample an arm.
    turns: BTreeMap<(u32, u32, u32), Vec<Sample>>,
    /// Turns that were left out since others used the machine.
    pub disturbed: usize,
}

impl Turns {
    /// Groups samples, without the turns in which others took more than `most` CPU seconds a second.
    pub fn group(samples: &[Sample], most: f64) -> Self {
        let mut turns: BTreeMap<_, Vec<Sample>> = BTreeMap::new();
        for sample in samples {
            turns
                .entry((sample.round, sample.query, sample.turn))
                .or_default()
                .push(sample.clone());
        }
        let all = turns.len();
        turns.retain(|_, turn| turn.iter().all(|s| s.others.is_none_or(|o| o <= most)));
        Self {
            disturbed: all - turns.len(),
            turns,
        }
    }

    /// Turns that are left.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Rounds that have a turn left.
    pub fn rounds(&self) -> usize {
        self.turns
            .keys()
            .map(|k| k.0)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Seconds that a query takes on an arm: the median of the rounds' medians.
    pub fn seconds(&self, arm: Arm, query: u32, figure: Figure) -> Option<Median> {
        median(self.by_round(query, |turn| find(turn, arm).map(|s| figure.of(s))))
    }

    /// How many times as long as plain a query takes on an arm: of each round the median of its turns' ratios,
    /// of these the median.
    pub fn ratio(&self, arm: Arm, query: u32, figure: Figure) -> Option<Median> {
        median(self.by_round(query, |turn| {
            Some(figure.of(find(turn, arm)?) / figure.of(find(turn, Arm::Plain)?))
        }))
    }

    /// The same of the sum over queries: of each round the sum of the queries' medians.
    pub fn total(
        &self,
        arm: Arm,
        queries: &[u32],
        figure: Figure,
    ) -> (Option<Median>, Option<Median>) {
        let sums = |arm| {
            let mut sums: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
            for &query in queries {
                let rounds = self.rounds_of(query, |turn| find(turn, arm).map(|s| figure.of(s)));
                for (round, value) in rounds {
                    let sum = sums.entry(round).or_default();
                    *sum = (sum.0 + 1, sum.1 + value);
                }
            }
            // A round in which a query is missing has no total.
            sums.retain(|_, sum| sum.0 == queries.len());
            sums
        };
        let (own, plain) = (sums(arm), sums(Arm::Plain));
        let ratios = own
            .iter()
            .filter_map(|(round, sum)| Some(sum.1 / plain.get(round)?.1));
        (median(own.values().map(|sum| sum.1)), median(ratios))
    }

    fn by_round(&self, query: u32, value: impl Fn(&[Sample]) -> Option<f64>) -> Vec<f64> {
        self.rounds_of(query, value).into_values().collect()
    }

    fn rounds_of(
        &self,
        query: u32,
        value: impl Fn(&[Sample]) -> Option<f64>,
    ) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for ((round, of, _), turn) in &self.turns {
            if *of == query
                && let Some(value) = value(turn)
            {
                rounds.entry(*round).or_default().push(value);
            }
        }
        rounds
            .into_iter()
            .filter_map(|(round, values)| Some((round, median(values)?.value)))
            .collect()
    }
}

fn find(turn: &[Sample], arm: Arm) -> Option<&Sample> {
    turn.iter().find(|s| s.arm == arm)
}
