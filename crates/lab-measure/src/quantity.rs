//! Quantities that measurements report, and the figures of each.

use serde::{Deserialize, Serialize};

use crate::number::{figure, grouped};

/// The direction in which a figure is better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither is better: a condition, or a matter of the purpose.
    #[default]
    Neither,
}

/// A measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantity<'n> {
    /// Name.
    pub name: &'n str,
    /// Unit of its figures.
    pub unit: &'n str,
    /// The direction in which the quantity is better.
    pub better: Better,
    /// True if the page plots the quantity along the axes of the cases.
    pub plotted: bool,
}

/// Makes a quantity of which more is better.
pub(crate) const fn higher<'n>(name: &'n str, unit: &'n str) -> Quantity<'n> {
    Quantity { name, unit, better: Better::Higher, plotted: false }
}

/// Makes a quantity of which less is better.
pub(crate) const fn lower<'n>(name: &'n str, unit: &'n str) -> Quantity<'n> {
    Quantity { name, unit, better: Better::Lower, plotted: false }
}

/// Makes a quantity of which neither more nor less is better.
pub(crate) const fn plain<'n>(name: &'n str, unit: &'n str) -> Quantity<'n> {
    Quantity { name, unit, better: Better::Neither, plotted: false }
}

impl Quantity<'_> {
    /// Lets the page plot the quantity.
    pub(crate) const fn plotted(self) -> Self {
        Self { plotted: true, ..self }
    }
}

/// Units of figures, units for readers, and how many units of figures make one unit for readers.
const READERS_UNITS: [(&str, &str, f64); 9] = [
    ("pps", "Mpps", 1e6),
    ("bps", "Mb/s", 1e6),
    ("Mb/s", "Gb/s", 1e3),
    ("ns", "µs", 1e3),
    ("millicycles", "cycles", 1e3),
    ("permille", "%", 10.0),
    ("ppb", "ppm", 1e3),
    ("KiB", "MiB", 1024.0),
    ("mW", "W", 1e3),
];

/// Returns the unit in which readers see figures of `unit`, and the divisor.
pub(crate) fn readers_unit(unit: &str) -> (&str, f64) {
    let found = READERS_UNITS.iter().find(|(ours, ..)| *ours == unit);
    found.map_or((unit, 1.0), |(_, theirs, divisor)| (*theirs, *divisor))
}

/// A quantity in one case, from one run or several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Quantity and case; the same in all reports of the same measurement.
    pub name: String,
    /// The quantity.
    #[serde(default)]
    pub quantity: String,
    /// The case; empty for a figure of the whole measurement.
    #[serde(default)]
    pub case: String,
    pub unit: String,
    /// The direction in which the figure is better.
    #[serde(default)]
    pub better: Better,
    /// True if the page plots the figure.
    #[serde(default)]
    pub plotted: bool,
    /// Median of the runs.
    pub median: u64,
    /// Lowest of the runs.
    pub min: u64,
    /// Highest of the runs.
    pub max: u64,
    /// Number of runs.
    pub runs: usize,
    /// The value of each run, in order.
    #[serde(default)]
    pub values: Vec<u64>,
}

impl Figure {
    /// Makes a figure of a quantity in a case, without a run.
    #[must_use]
    pub(crate) fn new(quantity: Quantity<'_>, case: &str) -> Self {
        let Quantity { name, unit, better, plotted } = quantity;
        Self {
            name: if case.is_empty() { name.to_owned() } else { format!("{name}, {case}") },
            quantity: name.to_owned(),
            case: case.to_owned(),
            unit: unit.to_owned(),
            better,
            plotted,
            ..Self::default()
        }
    }

    /// Makes a figure of these runs.
    #[must_use]
    pub(crate) fn of(name: &str, unit: &str, values: &[u64]) -> Self {
        let mut figure = Self::new(plain(name, unit), "");
        figure.add(values);
        figure
    }

    /// Adds the values of runs.
    pub(crate) fn add(&mut self, values: &[u64]) {
        self.values.extend_from_slice(values);
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0);
        self.runs = sorted.len();
        (self.median, self.min, self.max) =
            (at(self.runs / 2), at(0), at(self.runs.saturating_sub(1)));
    }

    /// Returns median, lowest and highest value in the unit for readers.
    #[must_use]
    pub(crate) fn for_readers(&self) -> [f64; 3] {
        let (_, divisor) = readers_unit(&self.unit);
        // Exact below 2^53.
        [self.median, self.min, self.max].map(|value| value as f64 / divisor)
    }

    /// Formats the median, and with `spread` also lowest and highest value of several runs.
    #[must_use]
    pub(crate) fn text(&self, spread: bool) -> String {
        let [median, min, max] = match readers_unit(&self.unit) {
            (_, 1.0) => [self.median, self.min, self.max].map(|value| grouped(&value.to_string())),
            _ => self.for_readers().map(figure),
        };
        match spread && self.runs > 1 {
            true => format!("{median} ({min} … {max})"),
            false => median,
        }
    }
}

/// Returns the median of some values.
#[must_use]
pub(crate) fn median(values: &[u64]) -> u64 {
    Figure::of("", "", values).median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_has_median_and_spread_of_its_runs() {
        let figure = Figure::of("x", "pps", &[5, 1, 9]);
        assert_eq!((figure.median, figure.min, figure.max, figure.runs), (5, 1, 9, 3));
        assert_eq!(Figure::of("x", "pps", &[]).median, 0);
    }

    #[test]
    fn readers_see_a_figure_in_their_unit() {
        let mut figure = Figure::new(lower("p50", "ns"), "uplink");
        figure.add(&[1_234_567]);
        assert_eq!((&*figure.name, &*figure.text(true)), ("p50, uplink", "1235"));
        figure.add(&[2500, 1500]);
        assert_eq!(figure.text(true), "2.50 (1.50 … 1235)");
        assert_eq!((figure.text(false), readers_unit(&figure.unit).0), ("2.50".to_owned(), "µs"));
        assert_eq!(Figure::of("x", "sessions", &[12_345]).text(true), "12\u{202f}345");
    }
}
