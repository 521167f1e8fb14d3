//! Axes of plots: map values to positions and choose ticks.

use crate::number::grouped;
use crate::plot::{AxisScale, PlotAxis};

/// The smallest loss that the axis distinguishes from zero. Unit: percent.
const LOSS_FLOOR: f64 = 1e-6;
/// Approximate number of ticks on a linear axis.
const TICKS: f64 = 5.0;

/// A tick.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Position along the axis, from 0 to 1.
    pub at: f64,
    /// Label.
    pub text: String,
}

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// Label: the quantity and its unit.
    pub label: String,
    scale: AxisScale,
    /// Ends of the axis in the measure of its scale: values, exponents of ten, or numbers of nines.
    min: f64,
    max: f64,
}

impl Axis {
    /// Makes an axis that fits these values.
    #[must_use]
    pub(super) fn of(axis: &PlotAxis, values: impl Iterator<Item = f64>) -> Self {
        let label = axis.label.clone();
        let (min, max) = match axis.scale {
            AxisScale::Linear => {
                let max = values.fold(0.0, f64::max);
                (0.0, if max > 0.0 { max * 1.05 } else { 1.0 })
            }
            AxisScale::Log => logarithmic(values),
            AxisScale::Percentile => {
                let below = values.filter(|value| *value < 100.0);
                (0.0, below.map(nines).fold(1.0, f64::max))
            }
            AxisScale::Loss => {
                let max = values.fold(LOSS_FLOOR * 10.0, f64::max).log10().ceil();
                (LOSS_FLOOR.log10() - 1.0, max)
            }
        };
        Self { label, scale: axis.scale, min, max }
    }

    /// Returns the position of a value, from 0 to 1. Values outside the axis lie on its edge.
    #[must_use]
    pub(super) fn at(&self, value: f64) -> f64 {
        let place = match self.scale {
            AxisScale::Linear => value,
            AxisScale::Percentile => nines(value),
            AxisScale::Loss if value <= 0.0 => self.min,
            AxisScale::Log | AxisScale::Loss => value.max(f64::MIN_POSITIVE).log10(),
        };
        ((place - self.min) / (self.max - self.min)).clamp(0.0, 1.0)
    }

    /// Returns the ticks in ascending order.
    #[must_use]
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let values: Vec<f64> = match self.scale {
            AxisScale::Linear => linear_ticks(self.min, self.max),
            AxisScale::Log => log_ticks(self.min, self.max),
            AxisScale::Percentile => {
                vec![0.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.999_99]
            }
            AxisScale::Loss => {
                let decades = (1..).map(|decade| f64::from(decade) + LOSS_FLOOR.log10() - 1.0);
                let shown = decades.take_while(|decade| *decade <= self.max);
                std::iter::once(0.0).chain(shown.map(|decade| 10f64.powf(decade))).collect()
            }
        };
        let inside = |value: &f64| match self.scale {
            AxisScale::Percentile => nines(*value) <= self.max,
            _ => true,
        };
        let values = values.into_iter().filter(inside);
        let text = |value: f64| match self.scale {
            AxisScale::Loss => power(value),
            _ => number(value),
        };
        values.map(|value| Tick { at: self.at(value), text: text(value) }).collect()
    }
}

/// Formats a value. 10⁻³ to 10⁻⁸ are written with an exponent.
fn power(value: f64) -> String {
    const EXPONENTS: [&str; 6] = ["⁻³", "⁻⁴", "⁻⁵", "⁻⁶", "⁻⁷", "⁻⁸"];
    let mut exponents = (3..).map(|exponent: i32| 10f64.powi(-exponent)).zip(EXPONENTS);
    let found = exponents.find(|(power, _)| (value / power - 1.0).abs() < 1e-6);
    found.map_or_else(|| number(value), |(_, exponent)| format!("10{exponent}"))
}

/// Returns the exponents of the smallest and the largest positive value.
fn logarithmic(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut min, mut max) = (f64::INFINITY, 0.0f64);
    for value in values.filter(|value| *value > 0.0) {
        (min, max) = (min.min(value), max.max(value));
    }
    if !min.is_finite() {
        (min, max) = (1.0, 10.0);
    }
    let (min, max) = if max / min < 2.0 { (min / 1.5, max * 1.5) } else { (min, max * 1.1) };
    (min.log10(), max.log10())
}

fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).max(1e-9).log10()
}

fn linear_ticks(min: f64, max: f64) -> Vec<f64> {
    let rough = (max - min) / TICKS;
    let decade = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let turns = std::iter::successors(Some((min / step).ceil()), |turn| Some(turn + 1.0));
    turns.map(|turn| turn * step).take_while(|value| *value <= max).collect()
}

fn log_ticks(min: f64, max: f64) -> Vec<f64> {
    let factors: &[f64] = if max - min > 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let decades = std::iter::successors(Some(min.floor()), |decade| Some(decade + 1.0));
    let values = decades
        .take_while(|decade| *decade <= max)
        .flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powf(decade)));
    let inside = |value: &f64| (min - 1e-9..=max + 1e-9).contains(&value.log10());
    values.filter(inside).collect()
}

/// Formats a number for a tick: few digits, no trailing zeros.
#[must_use]
pub(super) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits: usize = match value.abs().log10() {
        log if log >= 2.0 => 0,
        log if log >= 1.0 => 1,
        log if log >= 0.0 => 2,
        log if log >= -2.0 => 4,
        _ => 7,
    };
    let digits = if (90.0..100.0).contains(&value) { 5 } else { digits };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        grouped(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scale: AxisScale, values: impl IntoIterator<Item = f64>) -> Axis {
        Axis::of(&PlotAxis { label: "x".to_owned(), scale }, values.into_iter())
    }

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn linear_axis_begins_at_zero_and_has_round_ticks() {
        let axis = of(AxisScale::Linear, [3.0, 17.6]);
        assert_eq!(texts(&axis), ["0", "5", "10", "15"]);
        assert_eq!((axis.at(0.0), axis.at(99.0)), (0.0, 1.0));
        assert_eq!(of(AxisScale::Linear, []).at(0.0), 0.0);
    }

    #[test]
    fn logarithmic_axis_has_decades_or_their_parts() {
        let axis = of(AxisScale::Log, [1.0, 16_384.0]);
        assert_eq!(texts(&axis), ["1", "10", "100", "1000", "10\u{202f}000"]);
        let axis = of(AxisScale::Log, [0.0, 3.0, 40.0]);
        assert_eq!(texts(&axis), ["5", "10", "20"]);
    }

    #[test]
    fn nines_are_equally_far_apart() {
        let axis = of(AxisScale::Percentile, [50.0, 99.999, 100.0]);
        assert_eq!(texts(&axis), ["0", "90", "99", "99.9", "99.99", "99.999"]);
        let (a, b, c) = (axis.at(90.0), axis.at(99.0), axis.at(99.9));
        assert!((b - a - (c - b)).abs() < 1e-6);
    }

    #[test]
    fn no_loss_lies_at_the_foot_below_the_smallest_loss() {
        let axis = of(AxisScale::Loss, [0.0, 0.5, 33.0]);
        assert_eq!(axis.at(0.0), 0.0);
        assert!(axis.at(1e-6) > 0.05 && axis.at(100.0) == 1.0);
        let wanted = ["0", "10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "0.01", "0.1", "1", "10", "100"];
        assert_eq!(texts(&axis), wanted);
    }
}
