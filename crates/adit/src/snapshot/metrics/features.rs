//! Metrics that only some configurations have: shared rates, pools of UE addresses, a store, an
//! offload.

use std::time::Duration;

use adit_nrf::{NrfPhase, NrfState};
use adit_operate::metrics::{
    MetricFamily, MetricLabels, MetricSample, MetricUnit, MetricValues, as_gauge,
};
use adit_store::StoreState;
use adit_tables::{ALL_SESSIONS, AggregateKey, OffloadReport};
use adit_types::{BitRate, Direction, SliceId};

use super::{counter, gauge, to_metric_value};
use crate::nrf::NrfAnnouncer;
use crate::ports::kernel_twins::{TwinClassFigures, TwinFigures};
use crate::snapshot::ControlView;

const DIRECTIONS: [(Direction, &str); 2] =
    [(Direction::Uplink, "uplink"), (Direction::Downlink, "downlink")];

/// Returns all metric families of this file with placeholder values, to list their names and
/// meanings.
pub(super) fn without_figures() -> Vec<MetricFamily> {
    let parts = [
        RateFigures::default().families(),
        pool_families(&[]),
        lease_families(true, false, 0).into(),
        StoreFigures::default().families(),
        offload_families(OffloadReport::default()),
        twin_families(&[], |_| String::new()),
        nrf_families(&NrfState::default()),
        RouteFigures::default().families(),
    ];
    parts.into_iter().flatten().collect()
}

/// Rates that sessions share, and guaranteed rates. Unit: octets per second.
#[derive(Debug, Default)]
pub(super) struct RateFigures {
    limits: Vec<MetricSample<f64>>,
    passed: Vec<MetricSample<u64>>,
    guaranteed: Vec<MetricSample<f64>>,
    guaranteed_max: Vec<MetricSample<f64>>,
}

impl RateFigures {
    pub(super) fn of(control: &ControlView<'_>) -> Self {
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
                let Some(aggregate) = aggregates.get(AggregateKey { slice: id, direction }) else {
                    continue;
                };
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
            samples.collect()
        };
        Self {
            limits,
            passed,
            guaranteed: of_directions(sum.uplink, sum.downlink),
            guaranteed_max: of_directions(capacity.uplink, capacity.downlink),
        }
    }

    pub(super) fn families(self) -> Vec<MetricFamily> {
        vec![
            MetricFamily::new(
                "adit_qos_shared_rate_bytes_per_second",
                "Rates that the sessions of a slice, or all sessions, share.",
                MetricValues::Gauge(self.limits),
            ),
            MetricFamily::new(
                "adit_qos_shared_passed",
                "Octets that passed within a shared rate.",
                MetricValues::Counter(self.passed),
            )
            .in_unit(MetricUnit::Bytes),
            MetricFamily::new(
                "adit_qos_guaranteed_bytes_per_second",
                "Guaranteed bit rates of all sessions together.",
                MetricValues::Gauge(self.guaranteed),
            ),
            MetricFamily::new(
                "adit_qos_guaranteed_max_bytes_per_second",
                "Guaranteed bit rates that are admitted at most; absent without a limit.",
                MetricValues::Gauge(self.guaranteed_max),
            ),
        ]
    }
}

/// Routes of the kernel and announcements, of all namespaces together.
#[derive(Debug, Default)]
pub(super) struct RouteFigures {
    routes: u64,
    unused: u64,
    changes: u64,
    overruns: u64,
    dumps: u64,
    slowest: f64,
    announced: u64,
    announcement_changes: u64,
    refused: u64,
}

/// Returns the figures of routes; none without routes of the kernel and announcements.
pub(super) fn of_routes(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let parts = control.parts;
    if parts.kernel_routes.is_none() && parts.announcements.is_none() {
        return Vec::new();
    }
    let mut figures = RouteFigures::default();
    if let Some(kernel) = &parts.kernel_routes {
        for base in kernel.bases() {
            figures.routes += to_metric_value(base.len());
            figures.unused += base.unused().iter().map(|of| of.count).sum::<u64>();
        }
        for namespace in kernel.namespaces() {
            figures.overruns += namespace.monitor.overruns;
            figures.dumps += namespace.monitor.dumps;
        }
        figures.changes = kernel.changes();
        figures.slowest = kernel.latency()[1].to_duration().as_secs_f64();
    }
    if let Some(announcements) = &parts.announcements {
        let of_kernel = announcements.figures();
        figures.announced = of_kernel.announced;
        figures.announcement_changes = of_kernel.changes;
        figures.refused = of_kernel.refused;
    }
    figures.families()
}

impl RouteFigures {
    fn families(self) -> Vec<MetricFamily> {
        vec![
            gauge(
                "adit_kernel_routes",
                "Routes of the kernel through the interfaces with routes = \"kernel\".",
                self.routes,
            ),
            gauge(
                "adit_kernel_routes_unused",
                "Messages since the last dump about routes of the kernel that are not used; adit show routes says why.",
                self.unused,
            ),
            counter(
                "adit_kernel_route_changes",
                "Changes of routes of the kernel that took effect.",
                self.changes,
            ),
            counter(
                "adit_kernel_route_overruns",
                "Times that the kernel dropped messages about routes, after which all are read again.",
                self.overruns,
            ),
            counter("adit_kernel_route_dumps", "Times that all routes were read.", self.dumps),
            MetricFamily::new(
                "adit_kernel_route_slowest",
                "Longest time from a message of the kernel to its effect.",
                MetricValues::gauge(self.slowest),
            )
            .in_unit(MetricUnit::Seconds),
            gauge(
                "adit_announced_prefixes",
                "Prefixes that the kernel has as routes of adit.",
                self.announced,
            ),
            counter(
                "adit_announcement_changes",
                "Announcements and withdrawals that the kernel carried out.",
                self.announcement_changes,
            ),
            counter(
                "adit_announcements_refused",
                "Announcements and withdrawals that the kernel refused; adit show routes names the last.",
                self.refused,
            ),
        ]
    }
}

/// Returns the metrics of the registration at an NRF; none on a standby, which does not register.
pub(super) fn of_nrf(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let state = control.parts.nrf.as_ref().map(NrfAnnouncer::state);
    let state = state.filter(|state| state.phase != NrfPhase::Waiting);
    state.map_or(Vec::new(), |state| nrf_families(&state))
}

fn nrf_families(state: &NrfState) -> Vec<MetricFamily> {
    let counters = state.counters;
    let is_registered = state.phase == NrfPhase::Registered;
    vec![
        gauge("adit_nrf_registered", "1 while an NRF has this UPF.", is_registered.into()),
        counter(
            "adit_nrf_registrations",
            "Registrations that an NRF accepted.",
            counters.registrations,
        ),
        counter("adit_nrf_heartbeats", "Heartbeats that the NRF accepted.", counters.updates),
        counter(
            "adit_nrf_forgotten",
            "Registrations that the NRF had lost when a heartbeat came.",
            counters.forgotten,
        ),
        counter(
            "adit_nrf_failures",
            "Requests to NRFs that failed or were refused; adit show nrf says why.",
            counters.failures,
        ),
    ]
}

/// Returns the metrics of pools of UE addresses.
pub(super) fn of_pools(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let pools = &control.parts.config.ue_pools;
    let usage = control.parts.node.store().ue_pool_usage();
    let figures = pools.iter().zip(usage).map(|(pool, (used, size))| PoolFigures {
        labels: vec![
            ("network_instance", pool.network_instance.clone().unwrap_or_default()),
            ("prefix", pool.prefix.to_string()),
        ],
        used,
        size,
    });
    pool_families(&figures.collect::<Vec<_>>())
}

/// Figures of one pool of UE addresses.
#[derive(Debug)]
struct PoolFigures {
    labels: MetricLabels,
    used: u64,
    size: u64,
}

fn pool_families(pools: &[PoolFigures]) -> Vec<MetricFamily> {
    let of = |value: fn(&PoolFigures) -> u64| {
        let samples = pools
            .iter()
            .map(|pool| MetricSample { labels: pool.labels.clone(), value: as_gauge(value(pool)) });
        MetricValues::Gauge(samples.collect())
    };
    vec![
        MetricFamily::new(
            "adit_ue_pool_used_addresses",
            "UE addresses of a pool that are in use, or wait for their reclaim.",
            of(|pool| pool.used),
        ),
        MetricFamily::new(
            "adit_ue_pool_addresses",
            "UE addresses of a pool.",
            of(|pool| pool.size),
        ),
    ]
}

/// Returns the metrics of the store that keeps sessions.
pub(super) fn of_store(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let parts = control.parts;
    let (is_active, is_paused) = (parts.role.is_active(), control.paused.is_some());
    let mut families =
        Vec::from(lease_families(is_active, is_paused, parts.lease.discarded_pkts()));
    if let Some(report) = parts.store.as_ref().map(|store| store.report()) {
        let (groups, messages) = parts.node.store_backlog();
        let figures = StoreFigures {
            is_failing: report.failure.is_some(),
            is_full: report.state == StoreState::Full,
            failures: report.failures,
            too_large: report.too_large,
            commit: report.commit,
            commit_max: report.commit_max,
            groups,
            messages: to_metric_value(messages),
        };
        families.extend(figures.families());
    }
    families
}

/// Makes the metrics that show whether this adit answers for its addresses.
fn lease_families(is_active: bool, is_paused: bool, discarded_pkts: u64) -> [MetricFamily; 3] {
    [
        gauge("adit_active", "1 if this adit forwards, 0 on a standby.", u64::from(is_active)),
        gauge(
            "adit_paused",
            "1 while this adit answers for no address and forwards nothing, because another one may be active.",
            u64::from(is_paused),
        ),
        counter(
            "adit_paused_packets_discarded",
            "Packets that were discarded while it was paused.",
            discarded_pkts,
        ),
    ]
}

#[derive(Debug, Default)]
struct StoreFigures {
    is_failing: bool,
    is_full: bool,
    failures: u64,
    too_large: u64,
    commit: Duration,
    commit_max: Duration,
    groups: u64,
    messages: u64,
}

impl StoreFigures {
    fn families(self) -> Vec<MetricFamily> {
        let seconds = |name, help, value: Duration| {
            MetricFamily::new(name, help, MetricValues::gauge(value.as_secs_f64()))
                .in_unit(MetricUnit::Seconds)
        };
        vec![
            gauge(
                "adit_store_failing",
                "1 while the store cannot write: changes of sessions are refused.",
                u64::from(self.is_failing),
            ),
            gauge(
                "adit_store_full",
                "1 while the store has only its reserve: sessions are not established or modified.",
                u64::from(self.is_full),
            ),
            counter("adit_store_failures", "How often the store could not write.", self.failures),
            gauge(
                "adit_store_groups_under_way",
                "Groups of changes that are not durable.",
                self.groups,
            ),
            gauge(
                "adit_store_messages_waiting",
                "PFCP messages that wait until the store has what they tell.",
                self.messages,
            ),
            counter(
                "adit_store_records_too_large",
                "Records that were too large to keep.",
                self.too_large,
            ),
            seconds(
                "adit_store_last_commit",
                "How long the last group took to be durable.",
                self.commit,
            ),
            seconds(
                "adit_store_longest_commit",
                "The longest time that a group took to be durable.",
                self.commit_max,
            ),
        ]
    }
}

/// Frames to and from kernel twins.
pub(super) fn of_twins(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let names = &control.parts.names;
    let name = |of: &TwinFigures| names.get(usize::from(of.interface.0)).cloned();
    twin_families(&control.parts.twins.figures(), |of| name(of).unwrap_or_default())
}

fn twin_families(
    twins: &[TwinFigures],
    name: impl Fn(&TwinFigures) -> String,
) -> Vec<MetricFamily> {
    let by_class = |value: fn(&TwinClassFigures) -> u64| {
        let samples = twins.iter().flat_map(|twin| {
            let interface = name(twin);
            twin.classes.iter().map(move |of| MetricSample {
                labels: vec![
                    ("interface", interface.clone()),
                    ("class", of.class.name().to_owned()),
                ],
                value: value(of),
            })
        });
        MetricValues::Counter(samples.collect())
    };
    let by_twin = |value: fn(&TwinFigures) -> u64| {
        let samples = twins.iter().map(|twin| MetricSample {
            labels: vec![("interface", name(twin))],
            value: value(twin),
        });
        MetricValues::Counter(samples.collect())
    };
    vec![
        MetricFamily::new(
            "adit_kernel_twin_packets",
            "Frames that went to the kernel twin of an interface, by class.",
            by_class(|of| of.pkts),
        ),
        MetricFamily::new(
            "adit_kernel_twin_dropped_packets",
            "Frames that the kernel twin did not get: the ring of their class was full, or their class beyond its rate.",
            by_class(|of| of.ring_full + of.rate_limited),
        ),
        MetricFamily::new(
            "adit_kernel_twin_sent_packets",
            "Frames of the kernel twin that a worker took to send.",
            by_twin(|of| of.from_pkts),
        ),
        MetricFamily::new(
            "adit_kernel_twin_refused_packets",
            "Frames of the kernel twin that are too long, tagged or without a header.",
            by_twin(|of| of.from_refused),
        ),
    ]
}

/// Returns the metrics of offloads, which forward packets in front of the workers.
pub(super) fn of_offload(control: &ControlView<'_>) -> Vec<MetricFamily> {
    control.parts.publisher.offload().map(offload_families).unwrap_or_default()
}

fn offload_families(report: OffloadReport) -> Vec<MetricFamily> {
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
