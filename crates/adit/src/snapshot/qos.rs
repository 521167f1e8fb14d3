//! `adit show qos`.

use core::net::IpAddr;

use adit_rules::{Excess, QerMeter, RateLimit};
use adit_session::{QerPacketRate, Session, SessionStore};
use adit_tables::{ALL_SESSIONS, AggregateKey, MeterTraffic};
use adit_types::limits::SESSIONS_PER_PAGE_MAX;
use adit_types::{BitRate, Direction, Nanos, QerId, Seid, SessionIndex, SliceId};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::sessions::ues;
use super::{ControlView, members, value};
use crate::admin::{AdminAnswer, AdminQuestion, AnswerPage, Deferred, PageCursor, PagePosition};
use crate::text_table::tables;

const DIRECTIONS: [Direction; 2] = [Direction::Uplink, Direction::Downlink];

/// The lists of the document in order.
const LISTS: [&str; 2] = ["rates", "packet_rates"];

/// Returns a page of the rates of all sessions, or of the session with a UP SEID or UE address.
pub(super) fn qos(
    control: &ControlView<'_>,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> AdminAnswer {
    let (store, wanted) = (control.parts.node.store(), question.session.as_deref());
    let (first, count, is_only) = match (wanted, cursor.from) {
        (_, PagePosition::Only(index)) => (index, 1, true),
        (Some(wanted), from) => {
            return match search(store, wanted, from) {
                Ok(from) => AdminAnswer::Page(empty_page(PageCursor { list: 0, from })),
                Err(what) => AdminAnswer::Unknown(what),
            };
        }
        (None, from) => (super::index(from), question.page_rows_max(SESSIONS_PER_PAGE_MAX), false),
    };
    let (sessions, next) = store.sessions_from(SessionIndex(first), count);
    let next = next.filter(|_| !is_only).map(|SessionIndex(next)| PagePosition::Index(next));
    let is_first = cursor.list == 0;
    let rows: Deferred<Vec<Value>> = if is_first {
        let gathered: Vec<_> = sessions.map(|session| SessionRates::of(control, session)).collect();
        Box::new(move || values(gathered.into_iter().flat_map(RateRow::of_session)))
    } else {
        let now = control.parts.clock.now();
        let rates = |session: &Session| store.packet_rates(session.up_seid());
        let gathered = sessions.map(|session| (session.clone(), rates(session)));
        let gathered: Vec<_> = gathered.filter(|(_, rates)| !rates.is_empty()).collect();
        let rows = move |(session, rates): (Session, Vec<_>)| {
            PacketRateRow::of_session(&session, &rates, now)
        };
        Box::new(move || values(gathered.into_iter().flat_map(rows)))
    };
    let from = if is_only { cursor.from } else { PagePosition::Start };
    let next = match next {
        Some(from) => Some(PageCursor { list: cursor.list, from }),
        None => is_first.then_some(PageCursor { list: 1, from }),
    };
    let totals = next.is_none().then(|| QosTotals::of(control));
    let members = Box::new(move || totals.map(|totals| members(&totals)).unwrap_or_default());
    let list = LISTS.get(usize::from(cursor.list)).copied();
    AdminAnswer::Page(AnswerPage { list, rows, members, next })
}

fn values(rows: impl Iterator<Item = impl Serialize>) -> Vec<Value> {
    rows.map(|row| value(&row)).collect()
}

/// Returns an empty page; the search continues at `next`.
fn empty_page(next: PageCursor) -> AnswerPage {
    let (rows, members) = (Box::new(Vec::new), Box::new(Map::new));
    AnswerPage { list: None, rows, members, next: Some(next) }
}

/// Unit: bits per second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DirectionalRates<T> {
    uplink: T,
    downlink: T,
}

/// Figures of all sessions together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QosTotals {
    shared: Vec<AggregateRow>,
    guaranteed_bps: DirectionalRates<u64>,
    /// `None` without a limit.
    guaranteed_max_bps: DirectionalRates<Option<u64>>,
}

impl QosTotals {
    fn of(control: &ControlView<'_>) -> Self {
        let (sum, capacity) = control.parts.node.store().guaranteed();
        let limit = |rate: BitRate| Some(rate.as_bps()).filter(|bps| *bps != u64::MAX);
        let (uplink, downlink) = (sum.uplink.as_bps(), sum.downlink.as_bps());
        Self {
            shared: AggregateRow::all(control),
            guaranteed_bps: DirectionalRates { uplink, downlink },
            guaranteed_max_bps: DirectionalRates {
                uplink: limit(capacity.uplink),
                downlink: limit(capacity.downlink),
            },
        }
    }
}

/// A page of QERs with rates, first those with bit rates, then those with packet rates. The totals
/// are on the last page.
#[expect(dead_code, reason = "a description: a page is made of JSON")]
#[derive(ToSchema)]
pub(crate) struct QosPage {
    rates: Vec<RateRow>,
    packet_rates: Vec<PacketRateRow>,
    /// Rates of slices, and of all sessions together.
    shared: Option<Vec<AggregateRow>>,
    guaranteed_bps: Option<DirectionalRates<u64>>,
    guaranteed_max_bps: Option<DirectionalRates<Option<u64>>>,
    /// Pass it as `cursor` to get the next page; null after the last one.
    next: Option<String>,
}

tables!(QosPage {
    rates: RateRow [
        up_seid, ue, qer, qfi, direction, mbr_bps, gbr_bps, excess, offered_bytes, passed_bytes, dropped_pkts,
        dropped_bytes, queued_pkts, delay_us,
    ],
    packet_rates: PacketRateRow [
        up_seid, ue, qer, direction, pkts_max, unit_s, left_pkts, additional_pkts_max, additional_unit_s,
        additional_left_pkts, window_ends_in_s, dropped_pkts,
    ],
    shared: AggregateRow [s_nssai, network_instance, direction, mbr_bps, excess, passed_bytes],
});

/// Returns the position of the wanted session, or the position at which the search continues.
fn search(store: &SessionStore, wanted: &str, from: PagePosition) -> Result<PagePosition, String> {
    let unknown = || format!("no session has the UP SEID or UE address \"{wanted}\"");
    let only = |session: &Session| PagePosition::Only(session.index().0);
    let lower = wanted.to_ascii_lowercase();
    let seid = lower.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    if let Some(seid) = seid {
        return store.session(Seid(seid)).map(only).ok_or_else(unknown);
    }
    let addr = wanted.split('/').next().and_then(|addr| addr.parse::<IpAddr>().ok());
    let addr = addr.ok_or_else(unknown)?;
    if let Some(session) = store.session_of_ue(addr) {
        return Ok(only(session));
    }
    let has_it = |session: &&Session| {
        let is_it = |ue: &String| ue.split('/').next().and_then(|ue| ue.parse().ok()) == Some(addr);
        ues(&session.records()).iter().any(is_it)
    };
    let first = SessionIndex(super::index(from));
    let (mut sessions, next) = store.sessions_from(first, SESSIONS_PER_PAGE_MAX);
    let found = sessions.find(has_it).map(only);
    let next = next.map(|SessionIndex(next)| PagePosition::Index(next));
    found.or(next).ok_or_else(unknown)
}

/// The rate of a slice, or of all sessions, in one direction.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AggregateRow {
    s_nssai: Option<String>,
    network_instance: Option<String>,
    direction: String,
    mbr_bps: u64,
    excess: &'static str,
    passed_bytes: u64,
}

impl AggregateRow {
    fn all(control: &ControlView<'_>) -> Vec<Self> {
        let aggregates = control.parts.publisher.aggregates();
        let mut rows = Vec::new();
        let policy = &control.parts.node.store().provisioning().qos;
        let all = (ALL_SESSIONS, policy.total, None);
        let slices = (1..).zip(&policy.slices);
        let slices = slices.map(|(id, slice)| (SliceId(id), slice.rates, Some(slice)));
        for (id, rates, slice) in core::iter::once(all).chain(slices) {
            for direction in DIRECTIONS {
                let Some(aggregate) = aggregates.get(AggregateKey { slice: id, direction }) else {
                    continue;
                };
                let s_nssai = slice.and_then(|slice| slice.s_nssai);
                let network_instance = slice.and_then(|slice| slice.network_instance.as_deref());
                rows.push(Self {
                    s_nssai: s_nssai.map(|s_nssai| s_nssai.to_string()),
                    network_instance: network_instance.map(str::to_owned),
                    direction: name_of(direction),
                    mbr_bps: of_direction(rates, direction),
                    excess: excess_word(aggregate.limit()),
                    passed_bytes: aggregate.taken_bytes(),
                });
            }
        }
        rows
    }
}

fn name_of(direction: Direction) -> String {
    format!("{direction:?}").to_lowercase()
}

fn of_direction(rates: adit_session::Rates, direction: Direction) -> u64 {
    match direction {
        Direction::Uplink => rates.uplink.as_bps(),
        Direction::Downlink => rates.downlink.as_bps(),
    }
}

/// Returns the configuration's word for what happens to packets beyond a limit.
const fn excess_word(limit: RateLimit) -> &'static str {
    match limit.excess() {
        Excess::Policed => "drop",
        Excess::Shaped => "wait",
    }
}

/// The rates of one session, as the control thread gathers them.
struct SessionRates {
    session: Session,
    meters: Vec<(QerId, QerMeter, [MeterTraffic; 2])>,
}

impl SessionRates {
    fn of(control: &ControlView<'_>, session: &Session) -> Self {
        let publisher = &control.parts.publisher;
        let compiled = publisher.rules(session.index()).map_or(&[][..], |rules| rules.qers());
        let traffic = |meter: &QerMeter| {
            DIRECTIONS.map(|direction| publisher.meter_traffic(session.index(), direction, meter))
        };
        let meters = compiled.iter().filter_map(|entry| Some((entry.id, entry.meter?)));
        let meters = meters.map(|(id, meter)| (id, meter, traffic(&meter))).collect();
        Self { session: session.clone(), meters }
    }
}

/// A QER with a rate, in one direction.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RateRow {
    up_seid: String,
    ue: Vec<String>,
    qer: u32,
    qfi: Option<u8>,
    correlation: Option<u32>,
    direction: String,
    mbr_bps: u64,
    gbr_bps: Option<u64>,
    excess: &'static str,
    offered_bytes: u64,
    passed_bytes: u64,
    dropped_pkts: u64,
    dropped_bytes: u64,
    queued_pkts: u64,
    delay_us: u64,
}

impl RateRow {
    fn of_session(rates: SessionRates) -> Vec<Self> {
        let SessionRates { session, meters } = rates;
        let mut rows = Vec::new();
        if meters.is_empty() {
            return rows;
        }
        let records = session.records();
        let ues = ues(&records);
        for qer in &records.qers {
            let found = meters.iter().find(|(id, ..)| *id == qer.id);
            let Some((mbr, (_, meter, traffic))) = qer.mbr.zip(found) else { continue };
            for (direction, traffic) in DIRECTIONS.into_iter().zip(traffic) {
                let of = |rates| of_direction(rates, direction);
                rows.push(Self {
                    up_seid: session.up_seid().to_string(),
                    ue: ues.clone(),
                    qer: qer.id.0,
                    qfi: qer.qfi.map(adit_types::Qfi::value),
                    correlation: qer.correlation,
                    direction: name_of(direction),
                    mbr_bps: of(mbr),
                    gbr_bps: qer.gbr.map(of),
                    excess: excess_word(meter.limit(direction)),
                    offered_bytes: traffic.passed_bytes + traffic.dropped_bytes,
                    passed_bytes: traffic.passed_bytes,
                    dropped_pkts: traffic.dropped_pkts,
                    dropped_bytes: traffic.dropped_bytes,
                    queued_pkts: traffic.queued_pkts,
                    delay_us: traffic.delay.0 / 1000,
                });
            }
        }
        rows
    }
}

/// A QER with a packet rate, in one direction.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PacketRateRow {
    up_seid: String,
    ue: Vec<String>,
    qer: u32,
    direction: String,
    pkts_max: u16,
    unit_s: u64,
    left_pkts: u16,
    additional_pkts_max: Option<u16>,
    additional_unit_s: Option<u64>,
    additional_left_pkts: Option<u16>,
    window_ends_in_s: u64,
    dropped_pkts: u64,
}

impl PacketRateRow {
    fn of_session(session: &Session, rates: &[QerPacketRate], now: Nanos) -> Vec<Self> {
        let mut rows = Vec::new();
        let ues = ues(&session.records());
        for rate in rates {
            let [uplink, downlink] = rate.left(now);
            for (direction, left) in DIRECTIONS.into_iter().zip([uplink, downlink]) {
                let (Some(left), Some(limit)) = (left, rate.limit(direction)) else { continue };
                let additional = limit.additional;
                let seconds = |unit: Nanos| unit.0 / 1_000_000_000;
                rows.push(Self {
                    up_seid: session.up_seid().to_string(),
                    ue: ues.clone(),
                    qer: rate.qer.0,
                    direction: name_of(direction),
                    pkts_max: limit.plain.pkts_max,
                    unit_s: seconds(limit.plain.unit),
                    left_pkts: left.packets,
                    additional_pkts_max: additional.map(|quota| quota.pkts_max),
                    additional_unit_s: additional.map(|quota| seconds(quota.unit)),
                    additional_left_pkts: left.additional,
                    window_ends_in_s: left.until.since(now).0.div_ceil(1_000_000_000),
                    dropped_pkts: rate.dropped(direction),
                });
            }
        }
        rows
    }
}
