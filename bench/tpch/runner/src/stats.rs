//! Medians, and how sure they are.

/// A median with what is known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// An interval that holds the median of what the values are drawn from, in at least 95 of 100 cases; the
    /// smallest and the largest value where there are too few for that.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Whether there were enough values for such an interval: six.
    pub sure: bool,
}

/// The median of values; `None` where there are none.
///
/// The interval is that of the sign test: from the k-th smallest value to the k-th largest, k as large as the
/// binomial distribution allows. It asks for nothing but independence.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<Median> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let (&first, &last) = (values.first()?, values.last()?);
    let half = count / 2;
    let value = if count % 2 == 1 {
        values[half]
    } else {
        f64::midpoint(values[half - 1], values[half])
    };
    // Chance that fewer than k of `count` values lie below the median, for k = 1, 2, …
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut below, mut k) = (term, 0);
    while 2.0 * below <= 0.05 && k < half {
        k += 1;
        term *= (count + 1 - k) as f64 / k as f64;
        below += term;
    }
    Some(if k == 0 {
        Median {
            value,
            low: first,
            high: last,
            sure: false,
        }
    } else {
        Median {
            value,
            low: values[k - 1],
            high: values[count - k],
            sure: true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_values_give_their_ends() {
        let m = median([3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((m.value, m.low, m.high, m.sure), (2.5, 1.0, 10.0, false));
        assert!(median([]).is_none());
    }

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // Tables of the sign test: n = 6 takes the 1st and 6th, n = 9 the 2nd and 8th, n = 20 the 6th and 15th.
        for (n, k) in [(6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (30, 10)] {
            let m = median((1..=n).map(f64::from)).unwrap();
            assert_eq!(
                (m.low, m.high, m.sure),
                (f64::from(k), f64::from(n + 1 - k), true)
            );
        }
    }
}
