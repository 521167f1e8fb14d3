//! What `adit show qos` tells.

use core::net::IpAddr;

use adit_rules::{Excess, RateLimit};
use adit_session::{Session, SessionStore};
use adit_types::{BitRate, Direction, Nanos, Seid, SliceId};
use serde_json::{Value, json};

use super::ues;
use crate::control::Control;

/// The rates of all sessions, or of one by its UP SEID or an address of its UE.
pub fn qos(control: &Control, wanted: Option<&str>) -> Value {
    let store = control.parts.node.store();
    let sessions: Vec<&Session> = match wanted {
        None => store.sessions().collect(),
        Some(wanted) => session(store, wanted).into_iter().collect(),
    };
    match wanted {
        Some(wanted) if sessions.is_empty() => {
            json!({ "error": format!("no session has the UP SEID or UE address \"{wanted}\"") })
        }
        _ => {
            let (sum, capacity) = store.guaranteed();
            let now = control.parts.clock.now();
            let rates = sessions.iter().flat_map(|session| session_rates(control, session));
            let packet_rates =
                sessions.iter().flat_map(|session| packet_rates(store, session, now));
            let limit = |rate: BitRate| Some(rate.as_bps()).filter(|bps| *bps != u64::MAX);
            json!({
                "rates": rates.collect::<Vec<_>>(),
                "packet_rates": packet_rates.collect::<Vec<_>>(),
                "shared": shared_rates(control),
                "guaranteed_bps": { "uplink": sum.uplink.as_bps(), "downlink": sum.downlink.as_bps() },
                "guaranteed_max_bps": {
                    "uplink": limit(capacity.uplink),
                    "downlink": limit(capacity.downlink),
                },
            })
        }
    }
}

/// One row for each rate that sessions share, and direction.
fn shared_rates(control: &Control) -> Vec<Value> {
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
        Excess::Drops => "drop",
        Excess::Waits => "wait",
    }
}

/// One row for each QER with a rate, and direction.
fn session_rates(control: &Control, session: &Session) -> Vec<Value> {
    let records = session.records();
    let ues = ues(&records);
    let publisher = &control.parts.publisher;
    let compiled = publisher.rules(session.index()).map_or(&[][..], |rules| rules.qers());
    let mut rows = Vec::new();
    for qer in &records.qers {
        let found = compiled.iter().find(|entry| entry.id == qer.id);
        let Some((mbr, meter)) = qer.mbr.zip(found.and_then(|entry| entry.meter)) else { continue };
        for direction in [Direction::Uplink, Direction::Downlink] {
            let of = |rates| of_direction(rates, direction);
            let traffic = publisher.meter_traffic(session.index(), direction, &meter);
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
fn packet_rates(store: &SessionStore, session: &Session, now: Nanos) -> Vec<Value> {
    let mut rows = Vec::new();
    let rates = store.packet_rates(session.up_seid());
    if rates.is_empty() {
        return rows;
    }
    let ues = ues(&session.records());
    for rate in rates {
        let [uplink, downlink] = rate.left(now);
        for (direction, left) in [(Direction::Uplink, uplink), (Direction::Downlink, downlink)] {
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

/// The session with an UP SEID, with an address of its UE, or with a network behind it.
fn session<'s>(store: &'s SessionStore, wanted: &str) -> Option<&'s Session> {
    let lower = wanted.to_ascii_lowercase();
    let seid = lower.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    if let Some(seid) = seid {
        return store.session(Seid(seid));
    }
    let addr = wanted.split('/').next()?.parse::<IpAddr>().ok()?;
    let has_it = |session: &&Session| {
        let is_it = |ue: &String| ue.split('/').next().and_then(|ue| ue.parse().ok()) == Some(addr);
        ues(&session.records()).iter().any(is_it)
    };
    store.session_of_ue(addr).or_else(|| store.sessions().find(has_it))
}
