//! Plots of a report: the data, which the page draws.

use serde::{Deserialize, Serialize};

/// How an axis maps values to positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AxisScale {
    /// From zero to the largest value.
    Linear,
    /// Logarithmic, from the smallest to the largest positive value.
    Log,
    /// Percentiles by their nines, up to the highest value below 100.
    Percentile,
    /// Loss in percent: logarithmic, with zero at the bottom.
    Loss,
}

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlotAxis {
    /// The quantity and its unit.
    pub label: String,
    /// How the axis maps values to positions.
    pub scale: AxisScale,
}

/// Makes a linear axis.
pub(crate) fn linear(label: &str) -> PlotAxis {
    PlotAxis { label: label.to_owned(), scale: AxisScale::Linear }
}

/// Makes a logarithmic axis.
pub(crate) fn logarithmic(label: &str) -> PlotAxis {
    PlotAxis { label: label.to_owned(), scale: AxisScale::Log }
}

/// A line of a plot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points (x, y), ascending in x.
    pub points: Vec<(f64, f64)>,
    /// x with the lowest and highest value of several runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<(f64, f64, f64)>,
    /// True for a limit, or figures from another source.
    #[serde(default)]
    pub is_reference: bool,
}

impl Series {
    /// Makes a series of measured figures.
    #[must_use]
    pub(crate) fn new(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), points, ..Self::default() }
    }

    /// Makes a series that is drawn as a reference.
    #[must_use]
    pub(crate) fn reference(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { is_reference: true, ..Self::new(name, points) }
    }
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LineStyle {
    /// With markers, joined by a line.
    Both,
    /// Joined by a line without markers, for many points.
    Line,
    /// Markers only: one x can have several points.
    Marks,
}

/// A plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plot {
    /// Heading. Plots of several measurements with the same heading are drawn as one.
    pub title: String,
    /// Name by which experiment files add references to the plot; empty for none.
    pub name: String,
    /// Horizontal axis.
    pub x: PlotAxis,
    /// Vertical axis.
    pub y: PlotAxis,
    /// The lines.
    pub series: Vec<Series>,
    /// How the points are drawn.
    pub look: LineStyle,
}

impl Plot {
    /// Makes a plot without lines.
    #[must_use]
    pub(crate) fn new(title: &str, x: PlotAxis, y: PlotAxis, look: LineStyle) -> Self {
        let (title, name) = (title.to_owned(), String::new());
        Self { title, name, x, y, series: Vec::new(), look }
    }
}

/// Adds the lines of `plot` to the plot with the same title or, if there is none, adds `plot`.
pub(crate) fn merge(plots: &mut Vec<Plot>, plot: Plot) {
    match plots.iter_mut().find(|other| other.title == plot.title) {
        Some(other) => other.series.extend(plot.series),
        None => plots.push(plot),
    }
}
