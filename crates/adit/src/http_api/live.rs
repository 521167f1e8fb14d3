//! The live stream: rates of the last second as server-sent events, computed once for all clients.

use std::convert::Infallible;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use futures_util::stream;
use serde::Serialize;
use serde_json::Value;
use tokio::time::MissedTickBehavior;
use utoipa::ToSchema;

use super::answer::{ApiProblem, ProblemAnswers};
use super::reads::NoParameters;
use super::state::ApiState;
use crate::cli::Topic;
use crate::client::document_values::{DocumentPair, whole};

/// Time between two events.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// Rates of the last second. Rates are per second: `_bps` bits, `_pps` packets.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct LiveEvent {
    /// Time of the event. Unit: milliseconds since 1970-01-01.
    time_ms: u64,
    /// "running", "restoring" or "draining".
    state: String,
    /// "active" or "standby".
    role: String,
    uplink_bps: u64,
    uplink_pps: u64,
    downlink_bps: u64,
    downlink_pps: u64,
    dropped_pps: u64,
    /// Reasons with drops since the process began.
    drops: Vec<LiveDrops>,
    ports: Vec<LivePort>,
    workers: Vec<LiveWorker>,
    sessions: u64,
    sessions_max: u64,
    associations: u64,
    n4: LiveN4,
}

/// Packets dropped for one reason.
#[derive(Debug, Serialize, ToSchema)]
struct LiveDrops {
    reason: String,
    pps: u64,
    pkts: u64,
}

/// The rates of a port.
#[derive(Debug, Serialize, ToSchema)]
struct LivePort {
    name: String,
    /// "up" or "down"; null if the kernel has the link.
    link: Option<String>,
    rx_bps: u64,
    rx_pps: u64,
    tx_bps: u64,
    tx_pps: u64,
    /// Packets that the device lost.
    missed_pps: u64,
}

/// A thread of the packet path.
#[derive(Debug, Serialize, ToSchema)]
struct LiveWorker {
    thread: u64,
    role: String,
    core: u64,
    /// "runs" or "stands still".
    state: String,
    busy_percent: f64,
    fullest_ring_percent: f64,
    pps: u64,
}

/// PFCP procedures per second.
#[derive(Debug, Default, Serialize, ToSchema)]
struct LiveN4 {
    established_per_s: u64,
    modified_per_s: u64,
    deleted_per_s: u64,
    refused_per_s: u64,
    reports_per_s: u64,
}

/// Documents of `adit show` at one moment; two samples give the rates between them.
struct LiveSample {
    at: Instant,
    counters: Value,
    ports: Value,
    workers: Value,
    node: Value,
}

/// Starts the task that publishes an event each second while the stream has clients.
pub(super) fn start(api: &ApiState) {
    tokio::spawn(measure(api.clone()));
}

async fn measure(api: ApiState) {
    let mut ticks = tokio::time::interval(EVENT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<LiveSample> = None;
    loop {
        ticks.tick().await;
        if api.live().receiver_count() == 0 {
            before = None;
            continue;
        }
        // The control thread is overloaded or stopping: try again in the next second.
        let Ok(now) = LiveSample::take(&api).await else { continue };
        if let Some(before) = before {
            let event = LiveEvent::between(&before, &now);
            let text = serde_json::to_string(&event).unwrap_or_default();
            api.live().send_replace(Bytes::from(format!("data: {text}\n\n")));
        }
        before = Some(now);
    }
}

/// Rates of the last second, one event each second, as server-sent events.
#[utoipa::path(get, path = "/v1/live", tag = "packets",
    responses((status = 200, body = LiveEvent, content_type = "text/event-stream"), ProblemAnswers))]
pub(super) async fn live(
    _: Query<NoParameters>,
    State(api): State<ApiState>,
) -> Result<Response<Body>, ApiProblem> {
    let place = api.live_places().try_acquire_owned().map_err(|_| {
        let what = "too many clients of the live stream; close some";
        ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, what)
    })?;
    let mut events = api.live().subscribe();
    // The channel still holds the last event of earlier clients, which may be old.
    events.mark_unchanged();
    let hello = Bytes::from_static(b"retry: 2000\n\n");
    let next = |(mut events, place, hello): (
        tokio::sync::watch::Receiver<Bytes>,
        _,
        Option<Bytes>,
    )| async move {
        if let Some(hello) = hello {
            return Some((Ok::<_, Infallible>(hello), (events, place, None)));
        }
        events.changed().await.ok()?;
        let event = events.borrow_and_update().clone();
        Some((Ok(event), (events, place, None)))
    };
    let body = Body::from_stream(stream::unfold((events, place, Some(hello)), next));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

impl LiveSample {
    async fn take(api: &ApiState) -> Result<Self, ApiProblem> {
        Ok(Self {
            at: Instant::now(),
            counters: Value::Object(api.members(Topic::Counters).await?),
            ports: Value::Object(api.members(Topic::Ports).await?),
            workers: Value::Object(api.members(Topic::Workers).await?),
            node: Value::Object(api.members(Topic::Node).await?),
        })
    }
}

impl LiveEvent {
    fn between(before: &LiveSample, after: &LiveSample) -> Self {
        let interval_s = after.at.duration_since(before.at).as_secs_f64();
        let pair = |part: fn(&LiveSample) -> &Value| {
            DocumentPair::new(part(before), part(after), interval_s)
        };
        let (counters, node) = (pair(|sample| &sample.counters), pair(|sample| &sample.node));
        let (ports, workers) = (pair(|sample| &sample.ports), pair(|sample| &sample.workers));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            state: node.text("state"),
            role: node.text("role"),
            uplink_bps: counters.whole_bits("transmitted_uplink_bytes"),
            uplink_pps: counters.whole_rate("transmitted_uplink_pkts"),
            downlink_bps: counters.whole_bits("transmitted_downlink_bytes"),
            downlink_pps: counters.whole_rate("transmitted_downlink_pkts"),
            dropped_pps: counters.whole_rate("dropped_pkts"),
            drops: LiveDrops::all(&counters.part("drops")),
            ports: ports.rows("ports", "name").iter().map(LivePort::of).collect(),
            workers: workers.rows("workers", "thread").iter().map(LiveWorker::of).collect(),
            sessions: node.number("sessions"),
            sessions_max: node.number("sessions_max"),
            associations: node.number("associations"),
            n4: LiveN4::of(&counters.part("n4")),
        }
    }
}

impl LiveDrops {
    fn all(group: &DocumentPair<'_>) -> Vec<Self> {
        let row = |name: &str| Self {
            reason: name.to_owned(),
            pps: group.whole_rate(name),
            pkts: group.number(name),
        };
        group.names().map(row).filter(|drops| drops.pkts > 0).collect()
    }
}

impl LivePort {
    fn of(port: &DocumentPair<'_>) -> Self {
        Self {
            name: port.text("name"),
            link: port.get("link").as_str().map(str::to_owned),
            rx_bps: port.whole_bits("rx_bytes"),
            rx_pps: port.whole_rate("rx_pkts"),
            tx_bps: port.whole_bits("tx_bytes"),
            tx_pps: port.whole_rate("tx_pkts"),
            missed_pps: port.whole_rate("rx_missed") + port.whole_rate("rx_no_mbuf"),
        }
    }
}

impl LiveWorker {
    fn of(worker: &DocumentPair<'_>) -> Self {
        Self {
            thread: worker.number("thread"),
            role: worker.text("role"),
            core: worker.number("core"),
            state: worker.text("state"),
            busy_percent: worker.float("busy_percent"),
            fullest_ring_percent: worker.float("fullest_ring_percent"),
            pps: worker.whole_rate("received_pkts") + worker.whole_rate("taken_over_pkts"),
        }
    }
}

impl LiveN4 {
    fn of(group: &DocumentPair<'_>) -> Self {
        Self {
            established_per_s: group.whole_rate("sessions_established"),
            modified_per_s: group.whole_rate("sessions_modified"),
            deleted_per_s: group.whole_rate("sessions_deleted"),
            refused_per_s: whole(group.refusals()),
            reports_per_s: group.whole_rate("sent_session_report_request"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample(at: Instant, n: u64) -> LiveSample {
        LiveSample {
            at,
            counters: json!({
                "transmitted_uplink_bytes": 1000 * n, "transmitted_uplink_pkts": 10 * n,
                "transmitted_downlink_bytes": 0, "transmitted_downlink_pkts": 0, "dropped_pkts": n,
                "drops": { "teid_unknown": n, "far_drop": 0 },
                "n4": { "sessions_established": 4 * n, "refused_cause_65": n, "refused_cause_72": n },
            }),
            ports: json!({ "ports": [{ "name": "access", "link": null, "rx_bytes": 100 * n,
                "rx_pkts": n, "tx_bytes": 0, "tx_pkts": 0, "rx_missed": n, "rx_no_mbuf": n }] }),
            workers: json!({ "workers": [{ "thread": 0, "role": "worker", "core": 2,
                "state": "runs", "busy_percent": 12.5, "fullest_ring_percent": 0.0,
                "received_pkts": 10 * n, "taken_over_pkts": 2 * n }] }),
            node: json!({ "state": "running", "role": "active", "sessions": 7,
                "sessions_max": 10, "associations": 1 }),
        }
    }

    #[test]
    fn event_has_the_rates_between_two_samples() {
        let began = Instant::now();
        let event = LiveEvent::between(&sample(began, 1), &sample(began + 2 * EVENT_INTERVAL, 3));
        assert_eq!((event.uplink_bps, event.uplink_pps, event.dropped_pps), (8000, 10, 1));
        let [drops] = &event.drops[..] else { panic!("{:?}", event.drops) };
        assert_eq!((drops.reason.as_str(), drops.pps, drops.pkts), ("teid_unknown", 1, 3));
        assert_eq!((event.ports[0].rx_bps, event.ports[0].missed_pps), (800, 2));
        assert_eq!((event.workers[0].pps, event.workers[0].busy_percent), (12, 12.5));
        assert_eq!((event.n4.established_per_s, event.n4.refused_per_s), (4, 2));
        assert_eq!((event.sessions, event.state.as_str()), (7, "running"));
    }
}
