//! Axes of plots: map values to positions and choose ticks.

/// How an axis maps values to positions.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    /// Linear.
    Linear { min: f64, max: f64 },
    /// Logarithmic. `min` and `max` are exponents of ten.
    Log { min: f64, max: f64 },
    /// Percentiles by their nines: 90, 99, 99.9 … are equally far apart. `max` counts nines.
    Nines { max: f64 },
    /// Loss on a logarithmic scale, with zero at the bottom. `max` is an exponent of ten.
    Loss { max: f64 },
}

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
    scale: Scale,
}

impl Axis {
    /// A linear axis from zero to 5 % above the largest value.
    #[must_use]
    pub(super) fn linear(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let max = values.fold(0.0, f64::max);
        let max = if max > 0.0 { max * 1.05 } else { 1.0 };
        Self { label: label.to_owned(), scale: Scale::Linear { min: 0.0, max } }
    }

    /// A logarithmic axis from the smallest to the largest positive value.
    #[must_use]
    pub(super) fn log(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let (mut min, mut max) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|value| *value > 0.0) {
            (min, max) = (min.min(value), max.max(value));
        }
        if !min.is_finite() {
            (min, max) = (1.0, 10.0);
        }
        let (min, max) = if max / min < 2.0 { (min / 1.5, max * 1.5) } else { (min, max * 1.1) };
        Self { label: label.to_owned(), scale: Scale::Log { min: min.log10(), max: max.log10() } }
    }

    /// An axis of percentiles from 0 to the highest value below 100.
    #[must_use]
    pub(super) fn percentile(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let max = values.filter(|value| *value < 100.0).map(nines).fold(1.0, f64::max);
        Self { label: label.to_owned(), scale: Scale::Nines { max } }
    }

    /// An axis of loss in percent.
    #[must_use]
    pub(super) fn loss(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let max = values.fold(LOSS_FLOOR * 10.0, f64::max).log10().ceil();
        Self { label: label.to_owned(), scale: Scale::Loss { max } }
    }

    /// The position of a value, from 0 to 1. Values outside the axis lie on its edge.
    #[must_use]
    pub(super) fn at(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear { min, max } => (value - min) / (max - min),
            Scale::Log { min, max } => (value.max(f64::MIN_POSITIVE).log10() - min) / (max - min),
            Scale::Nines { max } => nines(value) / max,
            Scale::Loss { max } => {
                let floor = LOSS_FLOOR.log10() - 1.0;
                if value <= 0.0 { 0.0 } else { (value.log10() - floor) / (max - floor) }
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// The ticks in ascending order.
    #[must_use]
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let values: Vec<f64> = match self.scale {
            Scale::Linear { min, max } => linear_ticks(min, max),
            Scale::Log { min, max } => log_ticks(min, max),
            Scale::Nines { .. } => {
                vec![0.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.999_99]
            }
            Scale::Loss { max } => {
                let decades = (1..).map(|decade| f64::from(decade) + LOSS_FLOOR.log10() - 1.0);
                let shown = decades.take_while(|decade| *decade <= max);
                std::iter::once(0.0).chain(shown.map(|decade| 10f64.powf(decade))).collect()
            }
        };
        let inside = |value: &f64| match self.scale {
            Scale::Nines { max } => nines(*value) <= max,
            _ => true,
        };
        let values = values.into_iter().filter(inside);
        let text = |value: f64| match self.scale {
            Scale::Loss { .. } => power(value),
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
        group(&text)
    }
}

/// Formats a measured value with the digits in which measurements can differ.
#[must_use]
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => group(&format!("{value:.0}")),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Separates digits into groups of three.
fn group(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn figures_keep_the_digits_that_measurements_differ_in() {
        let texts = [0.0, 0.0123, 5.171, 17.0, 123.456, 12_345.6].map(figure);
        assert_eq!(texts, ["0", "0.0123", "5.17", "17.00", "123.5", "12\u{202f}346"]);
    }

    #[test]
    fn linear_axis_begins_at_zero_and_has_round_ticks() {
        let axis = Axis::linear("x", [3.0, 17.6].into_iter());
        assert_eq!(texts(&axis), ["0", "5", "10", "15"]);
        assert_eq!((axis.at(0.0), axis.at(99.0)), (0.0, 1.0));
        assert_eq!(Axis::linear("x", std::iter::empty()).at(0.0), 0.0);
    }

    #[test]
    fn logarithmic_axis_has_decades_or_their_parts() {
        let axis = Axis::log("x", [1.0, 16_384.0].into_iter());
        assert_eq!(texts(&axis), ["1", "10", "100", "1000", "10\u{202f}000"]);
        let axis = Axis::log("x", [0.0, 3.0, 40.0].into_iter());
        assert_eq!(texts(&axis), ["5", "10", "20"]);
    }

    #[test]
    fn nines_are_equally_far_apart() {
        let axis = Axis::percentile("x", [50.0, 99.999, 100.0].into_iter());
        assert_eq!(texts(&axis), ["0", "90", "99", "99.9", "99.99", "99.999"]);
        let (a, b, c) = (axis.at(90.0), axis.at(99.0), axis.at(99.9));
        assert!((b - a - (c - b)).abs() < 1e-6);
    }

    #[test]
    fn no_loss_lies_at_the_foot_below_the_smallest_loss() {
        let axis = Axis::loss("x", [0.0, 0.5, 33.0].into_iter());
        assert_eq!(axis.at(0.0), 0.0);
        assert!(axis.at(1e-6) > 0.05 && axis.at(100.0) == 1.0);
        let wanted = ["0", "10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "0.01", "0.1", "1", "10", "100"];
        assert_eq!(texts(&axis), wanted);
    }
}
