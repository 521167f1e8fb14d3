//! Figures of a running adit as text for Prometheus and other programs that read its formats.
//!
//! The owner of the figures gathers them into [`PacketFigures`], [`SignalingFigures`] and
//! [`MetricFamily`]s; this room names them, by the conventions of the Prometheus ecosystem, and
//! writes the text. It reads no clock and no file, and has no thread. Labels have few values: those
//! that peers choose, such as data network names, are bounded by [`SERVICES_MAX`]. Formats:
//! OpenMetrics 1.0.0; Prometheus text exposition format 0.0.4.

mod family;
mod packets;
mod signaling;

pub use family::{MetricFamily, MetricLabels, MetricSample, MetricUnit, MetricValues};
pub use packets::{PacketFigures, WorkerFigures, packet_families};
pub use signaling::{
    AssociationFigures, SERVICES_MAX, SignalingFigures, duration_family, signaling_families,
};

use core::fmt;

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;

use family::FamilyCollector;

/// A format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetricsTextFormat {
    /// OpenMetrics 1.0.0.
    #[default]
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

impl MetricsTextFormat {
    /// The media type of a whole text.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }

    /// The text that follows the last part.
    #[must_use]
    pub const fn end(self) -> &'static str {
        match self {
            Self::OpenMetrics => "# EOF\n",
            Self::Prometheus => "",
        }
    }
}

/// Writes a part of a text. Each family is in one part; [`MetricsTextFormat::end`] follows the last
/// one.
#[must_use]
pub fn write_families(format: MetricsTextFormat, families: Vec<MetricFamily>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(FamilyCollector(families)));
    let mut written = String::new();
    let outcome: fmt::Result = match format {
        MetricsTextFormat::OpenMetrics => text::encode_registry(&mut written, &registry),
        MetricsTextFormat::Prometheus => prometheus_text::encode(&mut written, &registry),
    };
    debug_assert!(outcome.is_ok(), "writing to memory does not fail");
    written
}

/// Converts a count to the value of a gauge, exact up to 2^53.
#[must_use]
pub fn as_gauge(count: u64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        reason = "gauges are floating point numbers in both formats"
    )]
    let gauge = count as f64;
    gauge
}
