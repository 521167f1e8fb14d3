//! Line plots as SVG. The page's style sheet sets their colors.

use std::fmt::Write;

use super::axis::Axis;
use crate::number::figure;
use crate::plot::{LineStyle, Plot, Series};

/// Size of a plot and its margins, in units of the view box.
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// Number of colors in the style sheet; further series reuse the colors in order.
const COLORS: usize = 8;
/// Number of colors in the style sheet for reference figures.
const REFERENCE_COLORS: usize = 3;

/// Renders a plot as a `figure` element with heading, plot and legend; nothing without points.
#[must_use]
pub(super) fn html(plot: &Plot) -> String {
    let points = || plot.series.iter().flat_map(|series| &series.points);
    if points().next().is_none() {
        return String::new();
    }
    let x = Axis::of(&plot.x, points().map(|point| point.0));
    let y = Axis::of(&plot.y, points().map(|point| point.1));
    Drawing { plot, x, y }.html()
}

/// A plot with the axes of its points.
struct Drawing<'p> {
    plot: &'p Plot,
    x: Axis,
    y: Axis,
}

impl Drawing<'_> {
    fn html(&self) -> String {
        let mut out = format!(
            "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">",
            escape(&self.plot.title),
            escape(&self.plot.title)
        );
        self.grid(&mut out);
        for (series, color) in self.plot.series.iter().zip(self.colors()) {
            self.line(&mut out, series, &color);
        }
        out.push_str("</svg>");
        self.legend(&mut out);
        out.push_str("</figure>\n");
        out
    }

    /// Returns the color class of each series; references use their own colors.
    fn colors(&self) -> Vec<String> {
        let (mut own, mut references) = (0, 0);
        self.plot
            .series
            .iter()
            .map(|series| {
                let (letter, next, colors) = if series.is_reference {
                    ('r', &mut references, REFERENCE_COLORS)
                } else {
                    ('c', &mut own, COLORS)
                };
                let color = format!("{letter}{}", *next % colors);
                *next += 1;
                color
            })
            .collect()
    }

    fn grid(&self, out: &mut String) {
        let (right, foot) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in self.y.ticks() {
            let y = place_y(tick.at);
            let text = escape(&tick.text);
            put!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>"
            );
            put!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        for tick in self.x.ticks() {
            let x = place_x(tick.at);
            let text = escape(&tick.text);
            put!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{foot}\"/>"
            );
            put!(
                out,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                foot + 16.0
            );
        }
        put!(out, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{foot}H{right}\"/>");
        put!(
            out,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 8.0,
            escape(&self.x.label)
        );
        let middle = f64::midpoint(TOP, foot);
        put!(
            out,
            "<text class=\"label\" transform=\"translate(13 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(&self.y.label)
        );
    }

    fn line(&self, out: &mut String, series: &Series, color: &str) {
        let place = |x: f64, y: f64| (place_x(self.x.at(x)), place_y(self.y.at(y)));
        for (x, low, high) in &series.spread {
            let ((x, low), (_, high)) = (place(*x, *low), place(*x, *high));
            put!(
                out,
                "<line class=\"spread {color}\" x1=\"{x:.1}\" y1=\"{low:.1}\" x2=\"{x:.1}\" y2=\"{high:.1}\"/>"
            );
        }
        let mut path = String::new();
        for (x, y) in &series.points {
            let (x, y) = place(*x, *y);
            let letter = if path.is_empty() { 'M' } else { 'L' };
            put!(&mut path, "{letter}{x:.1} {y:.1}");
        }
        if series.points.len() > 1 && self.plot.look != LineStyle::Marks {
            let kind = if series.is_reference { "reference" } else { "line" };
            put!(out, "<path class=\"{kind} {color}\" d=\"{path}\"/>");
        }
        if self.plot.look == LineStyle::Line && series.points.len() > 1 {
            return;
        }
        for (x, y) in &series.points {
            let title = format!("{}: {}, {}", series.name, figure(*x), figure(*y));
            let (x, y) = place(*x, *y);
            let title = escape(&title);
            if series.is_reference {
                put!(
                    out,
                    "<rect class=\"hollow {color}\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"><title>{title}</title></rect>",
                    x - 4.0,
                    y - 4.0
                );
            } else {
                put!(
                    out,
                    "<circle class=\"dot {color}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{title}</title></circle>"
                );
            }
        }
    }

    fn legend(&self, out: &mut String) {
        out.push_str("<ul class=\"legend\">");
        for (series, color) in self.plot.series.iter().zip(self.colors()) {
            let shape = if series.is_reference { "key hollow" } else { "key" };
            put!(out, "<li><i class=\"{shape} {color}\"></i>{}</li>", escape(&series.name));
        }
        out.push_str("</ul>");
    }
}

fn place_x(at: f64) -> f64 {
    LEFT + at * (WIDTH - LEFT - RIGHT)
}

fn place_y(at: f64) -> f64 {
    HEIGHT - BOTTOM - at * (HEIGHT - BOTTOM - TOP)
}

/// Appends formatted text. Writing to a string cannot fail.
pub fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// Escapes text for HTML content and attributes.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::linear;

    #[test]
    fn plot_has_its_points_in_order_and_its_names_in_the_legend() {
        let mut plot = Plot::new("T", linear("x"), linear("y"), LineStyle::Both);
        assert_eq!(super::html(&plot), "");
        plot.series.push(Series::new("ours", vec![(0.0, 0.0), (10.0, 5.0)]));
        plot.series.push(Series::reference("study <1>", vec![(5.0, 5.0)]));
        let html = super::html(&plot);
        assert!(html.contains("class=\"line c0\" d=\"M80.0 284.0L"), "{html}");
        assert_eq!((html.matches("<circle").count(), html.matches("<rect").count()), (2, 1));
        assert!(html.contains("study &lt;1&gt;") && !html.contains("<1>"));
    }
}
