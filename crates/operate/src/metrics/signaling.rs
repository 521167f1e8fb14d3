//! Figures of N4: messages, answers, associations and sessions.

use adit_n4::{DurationHistogram, N4Counters, ServiceCounts, ServiceName};

use crate::metrics::as_gauge;
use crate::metrics::family::{MetricFamily, MetricSample, MetricUnit, MetricValues};

/// Most services (a data network and a slice) with a sample of their own: those with most sessions.
pub const SERVICES_MAX: usize = 50;

/// The Slice Differentiator that means that there is none. Spec: TS 23.003 §28.4.2.
const NO_SD: u32 = 0xff_ffff;

/// The figures of the PFCP node.
#[derive(Debug, Clone)]
pub struct SignalingFigures {
    /// Its counters.
    pub counters: N4Counters,
    /// Its associations.
    pub associations: Vec<AssociationFigures>,
    /// Sessions.
    pub sessions: usize,
    /// Room for sessions.
    pub sessions_max: usize,
    /// Sessions by data network and slice.
    pub services: ServiceCounts,
    /// Responses that wait for workers or for jobs.
    pub waiting_answers: usize,
}

/// An association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssociationFigures {
    /// The Node ID of the CP function.
    pub node_id: String,
    /// Its sessions.
    pub sessions: usize,
    /// True if the CP function answers heartbeats.
    pub is_up: bool,
}

/// Makes the metric families of N4.
#[must_use]
pub fn signaling_families(figures: &SignalingFigures) -> Vec<MetricFamily> {
    let mut families: Vec<_> = messages(&figures.counters).into();
    families.extend(answers(&figures.counters));
    families.extend(sessions(figures));
    let scalars = figures.counters.scalars.described().into_iter();
    families.extend(scalars.map(|(name, value, help)| {
        MetricFamily::new(format!("adit_n4_{name}"), help, MetricValues::counter(value))
    }));
    families
}

/// Makes a histogram without labels.
#[must_use]
pub fn duration_family(
    name: &'static str,
    help: &'static str,
    durations: DurationHistogram,
) -> MetricFamily {
    let sample = MetricSample { labels: Vec::new(), value: durations };
    MetricFamily::new(name, help, MetricValues::Durations(vec![sample]))
        .in_unit(MetricUnit::Seconds)
}

fn messages(counters: &N4Counters) -> [MetricFamily; 2] {
    let sample =
        |name: &str, value| MetricSample { labels: vec![("type", name.to_owned())], value };
    let received = counters.messages().map(|(name, received, _)| sample(name, received));
    let sent = counters.messages().map(|(name, _, sent)| sample(name, sent));
    [
        MetricFamily::new(
            "adit_n4_messages_received",
            "PFCP messages received with an intact header, by type; retransmissions count.",
            MetricValues::Counter(received.collect()),
        ),
        MetricFamily::new(
            "adit_n4_messages_sent",
            "PFCP messages sent, by type; retransmissions count.",
            MetricValues::Counter(sent.collect()),
        ),
    ]
}

fn answers(counters: &N4Counters) -> [MetricFamily; 2] {
    let answers = counters.answers().map(|(request, cause, value)| MetricSample {
        labels: vec![
            ("request", request.to_owned()),
            ("cause", cause.map_or_else(|| "none".to_owned(), |cause| cause.code().to_string())),
        ],
        value,
    });
    let durations = counters.durations().map(|(request, durations)| MetricSample {
        labels: vec![("request", request.to_owned())],
        value: durations.clone(),
    });
    [
        MetricFamily::new(
            "adit_n4_answers",
            "Requests answered, by type and Cause, without retransmissions; adit explain CAUSE says what it means.",
            MetricValues::Counter(answers.collect()),
        ),
        MetricFamily::new(
            "adit_n4_answer_duration",
            "Time from the turn that received a request to the one that sent its answer, by type of request.",
            MetricValues::Durations(durations.collect()),
        )
        .in_unit(MetricUnit::Seconds),
    ]
}

fn sessions(figures: &SignalingFigures) -> Vec<MetricFamily> {
    let gauge = |count: usize| as_gauge(u64::try_from(count).unwrap_or(u64::MAX));
    let of_peers = figures.associations.iter().map(|association| MetricSample {
        labels: vec![("node_id", association.node_id.clone())],
        value: gauge(association.sessions),
    });
    vec![
        MetricFamily::new(
            "adit_n4_sessions",
            "PFCP sessions.",
            MetricValues::gauge(gauge(figures.sessions)),
        ),
        MetricFamily::new(
            "adit_n4_sessions_max",
            "Room for PFCP sessions: sessions.sessions_max.",
            MetricValues::gauge(gauge(figures.sessions_max)),
        ),
        MetricFamily::new(
            "adit_n4_associations",
            "PFCP associations that are up.",
            MetricValues::gauge(gauge(
                figures.associations.iter().filter(|association| association.is_up).count(),
            )),
        ),
        MetricFamily::new(
            "adit_n4_association_sessions",
            "PFCP sessions of an association.",
            MetricValues::Gauge(of_peers.collect()),
        ),
        MetricFamily::new(
            "adit_n4_service_sessions",
            "PFCP sessions by data network and slice, as the CP function names them: those with the most sessions, and \
             the others together.",
            MetricValues::Gauge(services(figures)),
        ),
        MetricFamily::new(
            "adit_n4_waiting_answers",
            "Responses that wait until all workers run a change, or for a job.",
            MetricValues::gauge(gauge(figures.waiting_answers)),
        ),
    ]
}

/// Counts the sessions of the largest services. The last sample, "other", counts all other
/// sessions, those of services without a name included.
fn services(figures: &SignalingFigures) -> Vec<MetricSample<f64>> {
    let largest = figures.services.largest(SERVICES_MAX);
    let named: u64 = largest.iter().map(|(_, count)| count).sum();
    let all = u64::try_from(figures.sessions).unwrap_or(u64::MAX);
    let sample = |dnn: &str, slice: &str, count: u64| MetricSample {
        labels: vec![("dnn", dnn.to_owned()), ("s_nssai", slice.to_owned())],
        value: as_gauge(count),
    };
    let mut samples: Vec<_> = largest
        .iter()
        .map(|(name, count)| sample(name.dnn.as_deref().unwrap_or_default(), &slice(name), *count))
        .collect();
    samples.push(sample("other", "other", all.saturating_sub(named)));
    samples
}

/// Formats a slice: SST, and SD as six hexadecimal digits, such as `1-00a1b2`; empty without a
/// slice.
fn slice(name: &ServiceName) -> String {
    match (name.sst, name.sd) {
        (None, _) => String::new(),
        (Some(sst), Some(sd)) if sd != NO_SD => format!("{sst}-{sd:06x}"),
        (Some(sst), _) => sst.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MetricsTextFormat, write_families};

    #[test]
    fn sessions_without_a_name_are_those_of_others() {
        let figures = SignalingFigures {
            counters: N4Counters::default(),
            associations: vec![AssociationFigures {
                node_id: "smf".to_owned(),
                sessions: 7,
                is_up: true,
            }],
            sessions: 7,
            sessions_max: 100,
            services: ServiceCounts::default(),
            waiting_answers: 1,
        };
        let text = write_families(MetricsTextFormat::OpenMetrics, signaling_families(&figures));
        for line in [
            "adit_n4_service_sessions{dnn=\"other\",s_nssai=\"other\"} 7.0",
            "adit_n4_association_sessions{node_id=\"smf\"} 7.0",
            "adit_n4_sessions_max 100.0",
            "adit_n4_messages_received_total{type=\"heartbeat_request\"} 0",
            "adit_n4_datagrams_received_total 0",
            "# HELP adit_n4_datagrams_received Datagrams received.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn slice_is_shown_as_in_other_documents() {
        let name = |sst, sd| ServiceName { dnn: None, sst, sd };
        assert_eq!(slice(&name(Some(1), Some(0xa1b2))), "1-00a1b2");
        assert_eq!(slice(&name(Some(1), Some(NO_SD))), "1");
        assert_eq!(slice(&name(None, None)), "");
    }
}
