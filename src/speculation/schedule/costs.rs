//! What passes were measured to cost, by the number of their rows.

use std::collections::{BTreeMap, VecDeque};

/// Measurements kept of one quantity. Their median ignores the odd round that something else disturbed.
const KEPT: usize = 9;
/// What a further row is assumed to cost, in passes of one row, before two sizes were measured.
const ASSUMED_SLOPE: f64 = 0.25;

/// The newest measurements of one quantity.
#[derive(Debug, Default)]
pub(super) struct Recent {
    values: VecDeque<f64>,
}

impl Recent {
    pub(super) fn push(&mut self, value: f64) {
        if self.values.len() == KEPT {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    pub(super) fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.values.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        // The lower of two middles: disturbances only ever add time.
        sorted.get(sorted.len().checked_sub(1)? / 2).copied()
    }
}

/// Seconds of a pass by its rows.
#[derive(Debug, Default)]
pub(super) struct PassCosts {
    by_rows: BTreeMap<usize, Recent>,
}

impl PassCosts {
    pub(super) fn push(&mut self, rows: usize, seconds: f64) {
        self.by_rows.entry(rows).or_default().push(seconds);
    }

    /// Seconds of a pass over one row, once one was measured.
    pub(super) fn one_row_s(&self) -> Option<f64> {
        self.by_rows.get(&1).and_then(Recent::median)
    }

    /// What was measured so far, by increasing rows.
    pub(super) fn curve(&self) -> CostCurve {
        let points = self.by_rows.iter().filter_map(|(rows, recent)| Some((*rows, recent.median()?)));
        CostCurve { points: points.collect() }
    }
}

/// Seconds of a pass as a function of its rows: measured points, straight lines between and beyond them.
#[derive(Debug)]
pub(super) struct CostCurve {
    points: Vec<(usize, f64)>,
}

impl CostCurve {
    /// Seconds of a pass over `rows`: measured, or on the straight line through the measured sizes next
    /// to it.
    pub(super) fn pass_s(&self, rows: usize) -> Option<f64> {
        let above = self.points.partition_point(|(measured, _)| *measured < rows);
        if let Some((measured, seconds)) = self.points.get(above)
            && *measured == rows
        {
            return Some(*seconds);
        }
        let (low, high) = match self.points.as_slice() {
            [] => return None,
            [(only, seconds)] => {
                let per_row = seconds / (1.0 + ASSUMED_SLOPE * (*only as f64 - 1.0)) * ASSUMED_SLOPE;
                return Some(seconds + per_row * (rows as f64 - *only as f64));
            }
            several => {
                let high = above.clamp(1, several.len() - 1);
                (several[high - 1], several[high])
            }
        };
        let slope = ((high.1 - low.1) / (high.0 - low.0) as f64).max(0.0);
        Some((low.1 + slope * (rows as f64 - low.0 as f64)).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_and_beyond_measured_sizes_costs_are_straight() {
        let mut costs = PassCosts::default();
        assert_eq!(costs.curve().pass_s(3), None);
        costs.push(1, 2.0);
        let curve = costs.curve();
        assert_eq!((curve.pass_s(1), curve.pass_s(3)), (Some(2.0), Some(3.0)));
        costs.push(5, 4.0);
        let curve = costs.curve();
        assert_eq!((curve.pass_s(3), curve.pass_s(9)), (Some(3.0), Some(6.0)));
    }

    #[test]
    fn one_disturbed_pass_changes_nothing() {
        let mut costs = PassCosts::default();
        for seconds in [1.0, 1.0, 50.0, 1.0] {
            costs.push(1, seconds);
        }
        assert_eq!(costs.one_row_s(), Some(1.0));
    }
}
