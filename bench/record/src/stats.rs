//! Medians and spreads.

use serde::Serialize;

/// A median with the smallest and the largest value.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// Median, smallest and largest of `values`; `None` where there are none.
pub fn spread(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let half = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[half]
    } else {
        f64::midpoint(values[half - 1], values[half])
    };
    Some(Spread { median, min, max })
}

/// `pair` (such as a ratio or a difference) of what an arm and the plain arm took: of the two medians,
/// with the smallest and largest over the rounds, each round's arm against the same round's plain.
pub fn paired(arm: &[(f64, f64)], pair: impl Fn(f64, f64) -> f64) -> Option<Spread> {
    let over_rounds = spread(arm.iter().map(|&(a, p)| pair(a, p)))?;
    let arm_median = spread(arm.iter().map(|&(a, _)| a))?.median;
    let plain_median = spread(arm.iter().map(|&(_, p)| p))?.median;
    Some(Spread {
        median: pair(arm_median, plain_median),
        ..over_rounds
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ends() {
        let s = spread([3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((s.median, s.min, s.max), (2.5, 1.0, 10.0));
        assert_eq!(spread([7.0]).unwrap().median, 7.0);
        assert!(spread([]).is_none());
    }

    #[test]
    fn a_ratio_is_of_the_medians_and_its_spread_of_the_rounds() {
        let s = paired(&[(2.0, 1.0), (4.0, 4.0), (9.0, 3.0)], |a, p| a / p).unwrap();
        assert_eq!((s.median, s.min, s.max), (4.0 / 3.0, 1.0, 3.0));
    }
}
