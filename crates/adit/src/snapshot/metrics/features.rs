//! Metrics of what only some configurations have: shared rates, pools of UE addresses, a store, an offload.

use adit_metrics::{MetricFamily, MetricLabels, MetricSample, MetricUnit, MetricValues, as_gauge};
use adit_tables::ALL_SESSIONS;
use adit_types::{BitRate, Direction, SliceId};

use super::{count, counter, gauge};
use crate::snapshot::ControlView;

const DIRECTIONS: [(Direction, &str); 2] =
    [(Direction::Uplink, "uplink"), (Direction::Downlink, "downlink")];

/// Rates that sessions share, and guaranteed rates.
pub(super) fn of_rates(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let aggregates = control.parts.publisher.aggregates();
    let policy = &control.parts.node.store().provisioning().qos;
    let slices = (1..).map(SliceId).zip(&policy.slices);
    let slices = slices.map(|(id, slice)| {
        let name = slice.s_nssai.map(|s_nssai| s_nssai.to_string());
        let network = slice.network_instance.as_deref().map(str::to_owned);
        (id, slice.rates, name.unwrap_or_default(), network.unwrap_or_default())
    });
    let all = (ALL_SESSIONS, policy.total, "all".to_owned(), String::new());
    let (mut limits, mut passed) = (Vec::new(), Vec::new());
    for (id, rates, s_nssai, network) in core::iter::once(all).chain(slices) {
        for (direction, name) in DIRECTIONS {
            let Some(aggregate) = aggregates.get(id, direction) else { continue };
            let labels: MetricLabels = vec![
                ("s_nssai", s_nssai.clone()),
                ("network_instance", network.clone()),
                ("direction", name.to_owned()),
            ];
            let rate = match direction {
                Direction::Uplink => rates.uplink,
                Direction::Downlink => rates.downlink,
            };
            limits.push(MetricSample {
                labels: labels.clone(),
                value: as_gauge(rate.as_bps()) / 8.0,
            });
            passed.push(MetricSample { labels, value: aggregate.taken_bytes() });
        }
    }
    let (sum, capacity) = control.parts.node.store().guaranteed();
    let of_directions = |uplink: BitRate, downlink: BitRate| {
        let rates = [("uplink", uplink), ("downlink", downlink)].into_iter();
        // Without a limit there is no sample.
        let rates = rates.filter(|(_, rate)| rate.as_bps() != u64::MAX);
        let samples = rates.map(|(name, rate)| MetricSample {
            labels: vec![("direction", name.to_owned())],
            value: as_gauge(rate.as_bps()) / 8.0,
        });
        MetricValues::Gauge(samples.collect())
    };
    vec![
        MetricFamily::new(
            "adit_qos_shared_rate_bytes_per_second",
            "Rates that the sessions of a slice, or all sessions, share.",
            MetricValues::Gauge(limits),
        ),
        MetricFamily::new(
            "adit_qos_shared_passed",
            "Octets that passed within a shared rate.",
            MetricValues::Counter(passed),
        )
        .in_unit(MetricUnit::Bytes),
        MetricFamily::new(
            "adit_qos_guaranteed_bytes_per_second",
            "Guaranteed bit rates of all sessions together.",
            of_directions(sum.uplink, sum.downlink),
        ),
        MetricFamily::new(
            "adit_qos_guaranteed_max_bytes_per_second",
            "Guaranteed bit rates that are admitted at most; absent without a limit.",
            of_directions(capacity.uplink, capacity.downlink),
        ),
    ]
}

/// Pools of UE addresses.
pub(super) fn of_pools(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let usage: Vec<(u64, u64)> = control.parts.node.store().ue_pool_usage().collect();
    let of = |value: fn(&(u64, u64)) -> u64| {
        let samples = usage.iter().enumerate().map(|(pool, usage)| MetricSample {
            labels: vec![("pool", pool.to_string())],
            value: as_gauge(value(usage)),
        });
        MetricValues::Gauge(samples.collect())
    };
    vec![
        MetricFamily::new(
            "adit_ue_pool_used_addresses",
            "UE addresses in use, or waiting for their reclaim, of a pool in the order of the configuration.",
            of(|(used, _)| *used),
        ),
        MetricFamily::new(
            "adit_ue_pool_addresses",
            "UE addresses of a pool in the order of the configuration.",
            of(|(_, all)| *all),
        ),
    ]
}

/// The store that keeps sessions.
pub(super) fn of_store(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let parts = control.parts;
    let mut families = vec![gauge(
        "adit_active",
        "1 if this adit forwards, 0 on a standby.",
        u64::from(parts.standby.is_none()),
    )];
    let Some(report) = parts.store.as_ref().map(|store| store.report()) else { return families };
    let (groups, messages) = parts.node.waiting_for_store();
    let seconds = |name, help, value: std::time::Duration| {
        MetricFamily::new(name, help, MetricValues::gauge(value.as_secs_f64()))
            .in_unit(MetricUnit::Seconds)
    };
    families.extend([
        gauge(
            "adit_store_failing",
            "1 while the store cannot write: changes of sessions are refused.",
            u64::from(report.failure.is_some()),
        ),
        counter("adit_store_failures", "How often the store could not write.", report.failures),
        gauge("adit_store_groups_under_way", "Groups of changes that are not durable.", groups),
        gauge(
            "adit_store_messages_waiting",
            "PFCP messages that wait until the store has what they tell.",
            count(messages),
        ),
        counter(
            "adit_store_records_too_large",
            "Records that were too large to keep.",
            report.too_large,
        ),
        seconds(
            "adit_store_last_commit",
            "How long the last group took to be durable.",
            report.commit,
        ),
        seconds(
            "adit_store_longest_commit",
            "The longest time that a group took to be durable.",
            report.commit_max,
        ),
    ]);
    families
}

/// What forwards packets in front of the workers.
pub(super) fn of_offload(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let Some(report) = control.parts.publisher.offload() else { return Vec::new() };
    let refusals = report.refusals.into_iter().map(|(reason, value)| MetricSample {
        labels: vec![("reason", reason.into_owned())],
        value,
    });
    vec![
        gauge("adit_offload_sessions", "Sessions with a rule of the offload.", report.sessions),
        gauge("adit_offload_rules", "Rules: one per session and direction.", report.entries),
        counter(
            "adit_offload_passed_packets",
            "Packets that the offload saw and left to workers.",
            report.totals.passed_pkts,
        ),
        MetricFamily::new(
            "adit_offload_refusals",
            "Rules that the offload could not take, in its words or its driver's.",
            MetricValues::Counter(refusals.collect()),
        ),
    ]
}
