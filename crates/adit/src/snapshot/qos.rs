//! What `adit show qos` tells.

use core::net::IpAddr;

use adit_rules::{Excess, QerMeter, RateLimit};
use adit_session::{QerPacketRate, Session, SessionStore};
use adit_tables::MeterTraffic;
use adit_types::limits::SESSIONS_PER_PAGE_MAX;
use adit_types::{BitRate, Direction, Nanos, QerId, Seid, SessionIndex, SliceId};
use serde_json::{Map, Value, json};

use super::ues;
use crate::admin::{AdminAnswer, AnswerPage, PageCursor, PagePosition};
use crate::control::ControlThread;

const DIRECTIONS: [Direction; 2] = [Direction::Uplink, Direction::Downlink];

/// The lists of the document, in their order.
const LISTS: [&str; 2] = ["rates", "packet_rates"];

/// The rates of all sessions, or of one by its UP SEID or an address of its UE.
pub fn qos(control: &ControlThread, wanted: Option<&str>, cursor: PageCursor) -> AdminAnswer {
    let store = control.parts.node.store();
    let (first, count) = match (wanted, cursor.from) {
        (_, PagePosition::Only(index)) => (index, 1),
        (Some(wanted), from) => {
            return match search(store, wanted, from) {
                Ok(from) => AdminAnswer::Page(gathering(PageCursor { list: 0, from })),
                Err(what) => AdminAnswer::Refused(what),
            };
        }
        (None, from) => (super::index(from), SESSIONS_PER_PAGE_MAX),
    };
    let (sessions, next) = store.sessions_from(SessionIndex(first), count);
    let next = next.filter(|_| count > 1).map(|SessionIndex(next)| PagePosition::Index(next));
    let is_first = cursor.list == 0;
    let rows: Box<dyn FnOnce() -> Vec<Value> + Send> = if is_first {
        let rows: Vec<_> = sessions.map(|session| SessionRates::of(control, session)).collect();
        Box::new(move || rows.into_iter().flat_map(session_rates).collect())
    } else {
        let now = control.parts.clock.now();
        let rates = |session: &Session| store.packet_rates(session.up_seid());
        let rows = sessions.map(|session| (session.clone(), rates(session)));
        let rows: Vec<_> = rows.filter(|(_, rates)| !rates.is_empty()).collect();
        let rates = move |(session, rates): (Session, Vec<_>)| packet_rates(&session, &rates, now);
        Box::new(move || rows.iter().cloned().flat_map(rates).collect())
    };
    let next_list =
        PageCursor { list: 1, from: if count > 1 { PagePosition::Start } else { cursor.from } };
    let next = match next {
        Some(from) => Some(PageCursor { list: cursor.list, from }),
        None => is_first.then_some(next_list),
    };
    let members = if next.is_none() { totals(control) } else { Map::new() };
    let list = LISTS.get(usize::from(cursor.list)).copied();
    AdminAnswer::Page(AnswerPage { list, rows, members, next })
}

/// A page without anything, that leads to `next`.
fn gathering(next: PageCursor) -> AnswerPage {
    AnswerPage { list: None, rows: Box::new(Vec::new), members: Map::new(), next: Some(next) }
}

/// What belongs to no single session.
fn totals(control: &ControlThread) -> Map<String, Value> {
    let (sum, capacity) = control.parts.node.store().guaranteed();
    let limit = |rate: BitRate| Some(rate.as_bps()).filter(|bps| *bps != u64::MAX);
    let guaranteed = json!({ "uplink": sum.uplink.as_bps(), "downlink": sum.downlink.as_bps() });
    let max = json!({ "uplink": limit(capacity.uplink), "downlink": limit(capacity.downlink) });
    let members = [
        ("shared", shared_rates(control).into()),
        ("guaranteed_bps", guaranteed),
        ("guaranteed_max_bps", max),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Where the wanted session is, or where to search on.
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

/// One row for each rate that sessions share, and direction.
fn shared_rates(control: &ControlThread) -> Vec<Value> {
    let aggregates = control.parts.publisher.aggregates();
    let mut rows = Vec::new();
    let policy = &control.parts.node.store().provisioning().qos;
    let all = (SliceId(0), policy.total, None);
    let slices = (1..).zip(&policy.slices);
    let slices = slices.map(|(id, slice)| (SliceId(id), slice.rates, Some(slice)));
    for (id, rates, slice) in core::iter::once(all).chain(slices) {
        for direction in [Direction::Uplink, Direction::Downlink] {
            let Some(aggregate) = aggregates.get(id, direction) else { continue };
            rows.push(json!({
                "s_nssai": slice.and_then(|slice| slice.s_nssai).map(|s_nssai| s_nssai.to_string()),
                "network_instance": slice.and_then(|slice| slice.network_instance.as_deref()),
                "direction": format!("{direction:?}").to_lowercase(),
                "mbr_bps": of_direction(rates, direction),
                "excess": excess_word(aggregate.limit()),
                "passed_bytes": aggregate.taken_bytes(),
            }));
        }
    }
    rows
}

fn of_direction(rates: adit_session::Rates, direction: Direction) -> u64 {
    match direction {
        Direction::Uplink => rates.uplink.as_bps(),
        Direction::Downlink => rates.downlink.as_bps(),
    }
}

/// What becomes of packets beyond a limit, as the configuration says it.
const fn excess_word(limit: RateLimit) -> &'static str {
    match limit.excess() {
        Excess::Policed => "drop",
        Excess::Shaped => "wait",
    }
}

/// What the control thread gathers of the rates of one session.
struct SessionRates {
    session: Session,
    meters: Vec<(QerId, QerMeter, [MeterTraffic; 2])>,
}

impl SessionRates {
    fn of(control: &ControlThread, session: &Session) -> Self {
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

/// One row for each QER with a rate, and direction.
fn session_rates(rates: SessionRates) -> Vec<Value> {
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
            rows.push(json!({
                "up_seid": session.up_seid().to_string(),
                "ue": ues,
                "qer": qer.id.0,
                "qfi": qer.qfi.map(adit_types::Qfi::value),
                "correlation": qer.correlation,
                "direction": format!("{direction:?}").to_lowercase(),
                "mbr_bps": of(mbr),
                "gbr_bps": qer.gbr.map(of),
                "excess": excess_word(meter.limit(direction)),
                "offered_bytes": traffic.passed_bytes + traffic.dropped_bytes,
                "passed_bytes": traffic.passed_bytes,
                "dropped_pkts": traffic.dropped_pkts,
                "dropped_bytes": traffic.dropped_bytes,
                "queued_pkts": traffic.queued_pkts,
                "delay_us": traffic.delay.0 / 1000,
            }));
        }
    }
    rows
}

/// One row for each QER with a packet rate, and direction.
fn packet_rates(session: &Session, rates: &[QerPacketRate], now: Nanos) -> Vec<Value> {
    let mut rows = Vec::new();
    let ues = ues(&session.records());
    for rate in rates {
        let [uplink, downlink] = rate.left(now);
        for (direction, left) in DIRECTIONS.into_iter().zip([uplink, downlink]) {
            let (Some(left), Some(limit)) = (left, rate.limit(direction)) else { continue };
            let additional = limit.additional;
            rows.push(json!({
                "up_seid": session.up_seid().to_string(),
                "ue": ues,
                "qer": rate.qer.0,
                "direction": format!("{direction:?}").to_lowercase(),
                "pkts_max": limit.plain.pkts_max,
                "unit_s": limit.plain.unit.0 / 1_000_000_000,
                "left_pkts": left.packets,
                "additional_pkts_max": additional.map(|quota| quota.pkts_max),
                "additional_unit_s": additional.map(|quota| quota.unit.0 / 1_000_000_000),
                "additional_left_pkts": left.additional,
                "window_ends_in_s": left.until.since(now).0.div_ceil(1_000_000_000),
                "dropped_pkts": rate.dropped(direction),
            }));
        }
    }
    rows
}
