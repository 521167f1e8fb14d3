//! Horizontal bar charts, for figures without an x value.

use super::axis::Axis;
use super::svg::{escape, put};
use crate::number::figure;
use crate::plot::linear;

const WIDTH: f64 = 620.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 70.0;
const ROW: f64 = 30.0;
const TOP: f64 = 8.0;
const FOOT: f64 = 44.0;

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChartBar {
    /// Label.
    pub name: String,
    /// Value, which is the length of the bar.
    pub value: f64,
    /// Lowest and highest value of several runs.
    pub spread: Option<(f64, f64)>,
    /// True for a figure from another source.
    pub is_reference: bool,
}

/// Renders the bars as a `figure` element.
#[must_use]
pub(super) fn html(title: &str, label: &str, bars: &[ChartBar]) -> String {
    let reach = |bar: &ChartBar| bar.spread.map_or(bar.value, |(_, high)| high.max(bar.value));
    let axis = Axis::of(&linear(label), bars.iter().map(reach));
    let rows: f64 = bars.iter().map(|_| ROW).sum();
    let (height, foot) = (TOP + rows + FOOT, TOP + rows);
    let place = |value: f64| LEFT + axis.at(value) * (WIDTH - LEFT - RIGHT);
    let mut out = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\">",
        escape(title),
        escape(title)
    );
    for tick in axis.ticks() {
        let x = LEFT + tick.at * (WIDTH - LEFT - RIGHT);
        put(
            &mut out,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{foot}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                foot + 16.0,
                escape(&tick.text)
            ),
        );
    }
    let mut y = TOP;
    for bar in bars {
        let class = if bar.is_reference { "bar r0 hollow" } else { "bar c0" };
        let end = place(bar.value);
        put(
            &mut out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <rect class=\"{class}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"16\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 8.0,
                y + 20.0,
                escape(&bar.name),
                y + 7.0,
                (end - LEFT).max(0.5),
                place(reach(bar)) + 8.0,
                y + 20.0,
                figure(bar.value)
            ),
        );
        if let Some((low, high)) = bar.spread.filter(|(low, high)| low < high) {
            let (low, high, y) = (place(low), place(high), y + 15.0);
            put(&mut out, format_args!("<path class=\"axis\" d=\"M{low:.1} {y:.1}H{high:.1}\"/>"));
        }
        y += ROW;
    }
    put(
        &mut out,
        format_args!(
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            foot + 36.0,
            escape(label)
        ),
    );
    out.push_str("</svg></figure>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |value, is_reference| ChartBar {
            name: "n".to_owned(),
            value,
            spread: Some((1.0, 2.0)),
            is_reference,
        };
        let html = html("T", "Mpps", &[bar(4.0, false), bar(2.0, true)]);
        let widths: Vec<f64> = html
            .match_indices("width=\"")
            .filter_map(|(at, _)| html[at + 7..].split('"').next()?.parse().ok())
            .collect();
        assert!((widths[0] - 2.0 * widths[1]).abs() < 0.2, "{widths:?}");
    }
}
