//! Metric families: a name, and one value per set of labels.

use core::fmt;
use std::borrow::Cow;

use adit_n4::DurationHistogram;
use adit_types::Nanos;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Labels of a sample: names and values.
pub type MetricLabels = Vec<(&'static str, String)>;

/// A value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample<T> {
    /// The labels, the same names for all samples of a family.
    pub labels: MetricLabels,
    /// The value.
    pub value: T,
}

/// The values of a family.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValues {
    /// Numbers that only grow while the process lives. Names in the text end in `_total`.
    Counter(Vec<MetricSample<u64>>),
    /// Like `Counter`, with floating point values.
    FloatCounter(Vec<MetricSample<f64>>),
    /// Numbers that rise and fall.
    Gauge(Vec<MetricSample<f64>>),
    /// Durations. Unit: seconds.
    Durations(Vec<MetricSample<DurationHistogram>>),
    /// Texts, as labels. The name in the text ends in `_info`.
    Info(Vec<MetricLabels>),
}

impl MetricValues {
    /// Makes a gauge without labels.
    #[must_use]
    pub fn gauge(value: f64) -> Self {
        Self::Gauge(vec![MetricSample { labels: Vec::new(), value }])
    }

    /// Makes a counter without labels.
    #[must_use]
    pub fn counter(value: u64) -> Self {
        Self::Counter(vec![MetricSample { labels: Vec::new(), value }])
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Counter(samples) => samples.is_empty(),
            Self::FloatCounter(samples) | Self::Gauge(samples) => samples.is_empty(),
            Self::Durations(samples) => samples.is_empty(),
            Self::Info(samples) => samples.is_empty(),
        }
    }

    const fn metric_type(&self) -> MetricType {
        match self {
            Self::Counter(_) | Self::FloatCounter(_) => MetricType::Counter,
            Self::Gauge(_) => MetricType::Gauge,
            Self::Durations(_) => MetricType::Histogram,
            Self::Info(_) => MetricType::Info,
        }
    }
}

/// The unit of the values; the name in the text ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    /// Octets.
    Bytes,
    /// Periods per second.
    Hertz,
    /// Energy.
    Joules,
    /// A share between zero and one.
    Ratio,
    /// Seconds.
    Seconds,
}

impl MetricUnit {
    fn encoded(self) -> Unit {
        match self {
            Self::Bytes => Unit::Bytes,
            Self::Hertz => Unit::Other("hertz".to_owned()),
            Self::Joules => Unit::Joules,
            Self::Ratio => Unit::Other("ratio".to_owned()),
            Self::Seconds => Unit::Seconds,
        }
    }
}

/// A metric family.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    /// The name without the unit and without a suffix that follows from the kind of values.
    pub name: Cow<'static, str>,
    /// One sentence about the meaning.
    pub help: Cow<'static, str>,
    /// The unit.
    pub unit: Option<MetricUnit>,
    /// The values; a family without any is not written.
    pub values: MetricValues,
}

impl MetricFamily {
    /// Makes a family without a unit.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
        values: MetricValues,
    ) -> Self {
        Self { name: name.into(), help: help.into(), unit: None, values }
    }

    /// Sets the unit.
    #[must_use]
    pub fn in_unit(self, unit: MetricUnit) -> Self {
        Self { unit: Some(unit), ..self }
    }

    /// Returns the name of samples in the text; of a histogram, without the suffixes of its parts.
    #[must_use]
    pub fn full_name(&self) -> String {
        let unit = self.unit.map(|unit| format!("_{}", unit.encoded().as_str()));
        let suffix = match self.values {
            MetricValues::Counter(_) | MetricValues::FloatCounter(_) => "_total",
            MetricValues::Info(_) => "_info",
            MetricValues::Gauge(_) | MetricValues::Durations(_) => "",
        };
        format!("{}{}{suffix}", self.name, unit.unwrap_or_default())
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.values.is_empty() {
            return Ok(());
        }
        let unit = self.unit.map(MetricUnit::encoded);
        let kind = self.values.metric_type();
        let mut metric = encoder.encode_descriptor(&self.name, &self.help, unit.as_ref(), kind)?;
        match &self.values {
            MetricValues::Counter(samples) => each(&mut metric, samples, |mut encoder, value| {
                encoder.encode_counter::<NoLabelSet, _, f64>(value, None)
            }),
            MetricValues::FloatCounter(samples) => {
                each(&mut metric, samples, |mut encoder, value| {
                    encoder.encode_counter::<NoLabelSet, _, f64>(value, None)
                })
            }
            MetricValues::Gauge(samples) => {
                each(&mut metric, samples, |mut encoder, value| encoder.encode_gauge(value))
            }
            MetricValues::Durations(samples) => each(&mut metric, samples, encode_durations),
            MetricValues::Info(samples) => {
                samples.iter().try_for_each(|labels| metric.encode_info(labels))
            }
        }
    }
}

fn each<T>(
    metric: &mut MetricEncoder<'_>,
    samples: &[MetricSample<T>],
    encode: impl Fn(MetricEncoder<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    samples
        .iter()
        .try_for_each(|MetricSample { labels, value }| encode(metric.encode_family(labels)?, value))
}

fn encode_durations(mut encoder: MetricEncoder<'_>, durations: &DurationHistogram) -> fmt::Result {
    let bound = |bound: Option<Nanos>| bound.map_or(f64::INFINITY, seconds);
    let buckets = durations.buckets().map(|(upper, count)| (bound(upper), count));
    let buckets: Vec<(f64, u64)> = buckets.collect();
    encoder.encode_histogram::<NoLabelSet>(
        seconds(durations.sum()),
        durations.count(),
        &buckets,
        None,
    )
}

fn seconds(duration: Nanos) -> f64 {
    duration.to_duration().as_secs_f64()
}

/// Families that are to be written, as a collector of `prometheus_client`.
#[derive(Debug)]
pub(crate) struct FamilyCollector(pub Vec<MetricFamily>);

impl Collector for FamilyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MetricsTextFormat, write_families};

    fn families() -> Vec<MetricFamily> {
        let mut durations = DurationHistogram::default();
        durations.add(Nanos::from_micros(60), 2);
        let labels = |value: &str| vec![("kind", value.to_owned())];
        let sample = |labels, value| MetricSample { labels, value };
        vec![
            MetricFamily::new(
                "adit_x",
                "Octets.",
                MetricValues::Counter(vec![sample(labels("a\"b"), 7)]),
            )
            .in_unit(MetricUnit::Bytes),
            MetricFamily::new("adit_busy", "Busy.", MetricValues::gauge(0.5))
                .in_unit(MetricUnit::Ratio),
            MetricFamily::new("adit_none", "None.", MetricValues::Counter(Vec::new())),
            MetricFamily::new(
                "adit_answer",
                "Time.",
                MetricValues::Durations(vec![MetricSample {
                    labels: labels("a"),
                    value: durations,
                }]),
            )
            .in_unit(MetricUnit::Seconds),
            MetricFamily::new("adit_build", "Build.", MetricValues::Info(vec![labels("1.0")])),
        ]
    }

    #[test]
    fn families_are_written_by_the_rules_of_open_metrics() {
        let text = write_families(MetricsTextFormat::OpenMetrics, families());
        for line in [
            "# HELP adit_x_bytes Octets.",
            "# TYPE adit_x_bytes counter",
            "# UNIT adit_x_bytes bytes",
            "adit_x_bytes_total{kind=\"a\\\"b\"} 7",
            "adit_busy_ratio 0.5",
            "# TYPE adit_answer_seconds histogram",
            "adit_answer_seconds_bucket{le=\"0.0001\",kind=\"a\"} 2",
            "adit_answer_seconds_bucket{le=\"+Inf\",kind=\"a\"} 2",
            "adit_answer_seconds_count{kind=\"a\"} 2",
            "adit_answer_seconds_sum{kind=\"a\"} 0.00012",
            "adit_build_info{kind=\"1.0\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("adit_none") && !text.contains("# EOF"), "{text}");
    }

    #[test]
    fn full_name_is_that_of_the_text() {
        let names: Vec<String> = families().iter().map(MetricFamily::full_name).collect();
        let expected = [
            "adit_x_bytes_total",
            "adit_busy_ratio",
            "adit_none_total",
            "adit_answer_seconds",
            "adit_build_info",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn families_are_written_by_the_rules_of_prometheus() {
        let text = write_families(MetricsTextFormat::Prometheus, families());
        for line in [
            "# TYPE adit_x_bytes_total counter",
            "adit_x_bytes_total{kind=\"a\\\"b\"} 7",
            "# TYPE adit_build_info gauge",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("# UNIT"), "{text}");
    }
}
