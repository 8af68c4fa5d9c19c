//! One source's line, and on which side of it the figure was last.

use super::{Amount, Edge, Pressure, Source};

/// A line with hysteresis.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) source: Source,
    /// Bytes, shares of a limit, or per cent, as the source has it.
    pub(super) high: f64,
    pub(super) low: f64,
    pub(super) above: bool,
    /// Times in a row that a figure above was found; a source may ask for more than one.
    times: u32,
}

impl Line {
    pub(super) fn new(source: Source, high: f64, low: f64) -> Self {
        Self {
            source,
            high,
            low,
            above: false,
            times: 0,
        }
    }

    /// Whether it is one (and no NaN).
    pub(super) fn is_sound(&self) -> bool {
        self.low <= self.high
    }

    /// Looks at a figure. `whole` is what the line's ends are shares of; 1 where they are figures themselves.
    pub(super) fn cross(
        &mut self,
        value: f64,
        whole: f64,
        shown: impl Fn(f64) -> Amount,
    ) -> Option<Pressure> {
        let (high, low) = (self.high * whole, self.low * whole);
        let (edge, limit) = if !self.above && value > high {
            (Edge::Above, high)
        } else if self.above && value < low {
            (Edge::Below, low)
        } else {
            return None;
        };
        self.above = edge == Edge::Above;
        Some(Pressure {
            source: self.source,
            edge,
            value: shown(value),
            limit: shown(limit),
        })
    }

    /// Looks whether something is found that must be found twice in a row to count.
    pub(super) fn found(&mut self, found: Option<(u64, u64)>) -> Option<Pressure> {
        self.times = if found.is_some() { self.times + 1 } else { 0 };
        let edge = match (self.above, self.times) {
            (false, 2..) => Edge::Above,
            (true, 0) => Edge::Below,
            _ => return None,
        };
        self.above = edge == Edge::Above;
        let (value, limit) = found.unwrap_or_default();
        Some(Pressure {
            source: self.source,
            edge,
            value: Amount::Bytes(value),
            limit: Amount::Bytes(limit),
        })
    }
}

/// Bytes of a figure.
pub(super) fn bytes(value: f64) -> Amount {
    Amount::Bytes(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(line: &mut Line, values: &[f64]) -> std::vec::Vec<(usize, Edge)> {
        let mut edges = std::vec::Vec::new();
        for (at, value) in values.iter().enumerate() {
            if let Some(event) = line.cross(*value, 1.0, bytes) {
                edges.push((at, event.edge));
            }
        }
        edges
    }

    #[test]
    fn between_low_and_high_nothing_is_told() {
        let mut line = Line::new(Source::Balance, 100.0, 80.0);
        let values = [
            0., 90., 100., 101., 99., 81., 101., 80., 79., 99., 100., 150., 0.,
        ];
        assert_eq!(
            edges(&mut line, &values),
            [
                (3, Edge::Above),
                (8, Edge::Below),
                (11, Edge::Above),
                (12, Edge::Below)
            ]
        );
    }

    #[test]
    fn a_line_without_width_tells_each_crossing() {
        let mut line = Line::new(Source::Balance, 100.0, 100.0);
        assert_eq!(
            edges(&mut line, &[100., 101., 100., 99., 101.]),
            [(1, Edge::Above), (3, Edge::Below), (4, Edge::Above)]
        );
    }

    #[test]
    fn what_may_pass_is_told_only_when_it_stays() {
        let mut line = Line::new(Source::Discrepancy, 0.0, 0.0);
        let told: std::vec::Vec<_> = [1, 0, 1, 1, 1, 0, 0]
            .into_iter()
            .map(|is| {
                line.found((is == 1).then_some((9, 5)))
                    .map(|event| event.edge)
            })
            .collect();
        let (above, below) = (Some(Edge::Above), Some(Edge::Below));
        assert_eq!(told, [None, None, None, above, None, below, None]);
    }

    #[test]
    fn unsound_lines_are_known() {
        assert!(Line::new(Source::Balance, 5.0, 5.0).is_sound());
        assert!(!Line::new(Source::Balance, 5.0, 6.0).is_sound());
        assert!(!Line::new(Source::PsiSome, f64::NAN, 0.0).is_sound());
    }
}
