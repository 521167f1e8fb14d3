//! Random modifications.

use adit_rules::{ApplyAction, DestinationInterface};
use adit_session::{
    BarUpdate, Change, FarUpdate, ForwardingUpdate, PdrSpec, PdrUpdate, QerUpdate, SessionChange,
};
use adit_types::{BarId, FarId, PdrId, Precedence, QerId, Qfi};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::{
    ScenarioUe, averaging_window_ms, buffering, correlation, endpoint_change, flow_tos, gates,
    link, marking, one_chance_in, packet_limits, pdi, pdr, policy, predefined_name, qers_of_pdr,
    rates, redirect, side, tunnel, urr_change, urrs_of_pdr,
};
use crate::oracle::OracleSession;

/// A modification of a session whose rules are `session`.
pub fn modification(rng: &mut StdRng, session: &OracleSession) -> SessionChange {
    let mut change = SessionChange::default();
    let known = session.pdrs.iter().find_map(|pdr| pdr.pdi.ue).filter(|_| !one_chance_in(rng, 8));
    let ue =
        known.map_or_else(|| ScenarioUe::pick(rng), |known| ScenarioUe::Given(known.addresses));
    change.drop_buffered = one_chance_in(rng, 12);
    match rng.random_range(0..16) {
        13..16 => idle_change(rng, session, &mut change),
        11 | 12 => endpoint_change(rng, session, ue, &mut change),
        8 => change.update_bars.push(BarUpdate {
            id: BarId(1),
            suggested_pkts: Change::Set(rng.random_range(0..6)),
            ..BarUpdate::default()
        }),
        9 | 10 => urr_change(rng, &mut change),
        0 | 1 => change.update_qers.push(QerUpdate {
            id: QerId(rng.random_range(1..=3)),
            gates: Change::Set(gates(rng)),
            qfi: one_chance_in(rng, 2).then(|| Qfi::new(rng.random_range(0..=63)).unwrap()).into(),
            rqi: one_chance_in(rng, 2).then(|| rng.random()).into(),
            mbr: one_chance_in(rng, 2).then(|| rates(rng)).into(),
            averaging_window_ms: averaging_window_ms(rng).into(),
            correlation: correlation(rng).filter(|_| rng.random()).into(),
            packet_rate: one_chance_in(rng, 5).then(|| packet_limits(rng)).into(),
            flow_tos: sometimes(rng, |rng| one_chance_in(rng, 2).then(|| flow_tos(rng))),
            service_class: sometimes(rng, |rng| one_chance_in(rng, 2).then(|| (rng.random(), 0))),
            ..QerUpdate::default()
        }),
        2 | 3 => change.update_fars.push(far_update(rng)),
        4 => change.update_pdrs.push(pdr_update(rng, session, ue)),
        5 => {
            let taken = |id: &u16| session.pdrs.iter().any(|pdr| pdr.id.0 == *id);
            let free: Vec<u16> = (1..=4).chain(11..=14).filter(|id| !taken(id)).collect();
            if let Some(id) = free.choose(rng) {
                let mut created = pdr(rng, *id, *id <= 4, ue);
                if !session.endpoints.is_empty() && one_chance_in(rng, 2) {
                    link(rng, &mut created.pdi);
                }
                change.create_pdrs.push(created);
            }
        }
        6 => change.remove_pdrs.extend(session.pdrs.choose(rng).map(|pdr| pdr.id)),
        _ => {
            // Removed and created again in one request.
            if let Some(known) = session.pdrs.choose(rng) {
                change.remove_pdrs.push(known.id);
                change.create_pdrs.push(pdr(rng, known.id.0, known.id.0 <= 4, ue));
            }
        }
    }
    change
}

/// Changes by control planes for an idle UE: FARs buffer or forward, and rules change while packets
/// wait.
fn idle_change(rng: &mut StdRng, session: &OracleSession, change: &mut SessionChange) {
    let towards_ue = |pdr: &&PdrSpec| pdr.id.0 > 4 || session.fars.len() == 2 && pdr.id.0 == 2;
    let Some(known) = session.pdrs.iter().find(towards_ue) else { return };
    let other = session.fars.iter().map(|far| far.id).find(|id| Some(*id) != known.far);
    let action = if one_chance_in(rng, 2) { buffering(rng) } else { ApplyAction::FORW };
    let act = |id| FarUpdate { id, action: Change::Set(action), ..FarUpdate::default() };
    match rng.random_range(0..6) {
        0..3 => change.update_fars.extend(session.fars.iter().skip(1).map(|far| act(far.id))),
        3 => change.update_fars.extend(known.far.map(act)),
        4 => {
            // A rule in front detects the same traffic, or is removed.
            let taken = |id: &u16| session.pdrs.iter().any(|pdr| pdr.id.0 == *id);
            let free = (11..=14).find(|id| !taken(id));
            let far = other.or(known.far);
            let (precedence, pdi) = (Precedence(0), known.pdi.clone());
            change.create_pdrs.extend(
                free.filter(|_| known.pdi.traffic_endpoints.is_empty()).map(|id| PdrSpec {
                    id: PdrId(id),
                    precedence,
                    pdi,
                    far,
                    ..known.clone()
                }),
            );
            change.update_fars.extend(known.far.map(act));
        }
        _ => change.update_pdrs.push(PdrUpdate {
            id: known.id,
            far: other.into(),
            ..PdrUpdate::default()
        }),
    }
}

fn far_update(rng: &mut StdRng) -> FarUpdate {
    let id = rng.random_range(1..=6);
    if one_chance_in(rng, 10) {
        return side::turned_far(rng, FarId(id));
    }
    let is_uplink = id <= 3;
    let access = DestinationInterface::Access;
    FarUpdate {
        id: FarId(id),
        action: one_chance_in(rng, 2)
            .then(|| match rng.random_range(0..6) {
                0 => ApplyAction::DROP,
                1 => ApplyAction::DROP | ApplyAction::DDPN,
                2 => buffering(rng),
                _ => ApplyAction::FORW,
            })
            .into(),
        bar: one_chance_in(rng, 4).then_some(BarId(1)).into(),
        forwarding: rng.random_ratio(3, 4).then(|| ForwardingUpdate {
            destination: Change::Set(if is_uplink { DestinationInterface::Core } else { access }),
            outer_header_creation: {
                let has_tunnel = !is_uplink && !one_chance_in(rng, 5) || one_chance_in(rng, 6);
                let tunnel = has_tunnel.then(|| tunnel(rng));
                let withdraws = one_chance_in(rng, 3) && tunnel.is_none();
                if withdraws { Change::Withdraw } else { tunnel.into() }
            },
            transport_level_marking: marking(rng).into(),
            redirect: sometimes(rng, |rng| redirect(rng, is_uplink)),
            policy: sometimes(rng, policy),
            ..ForwardingUpdate::default()
        }),
        duplicating: match one_chance_in(rng, 5) {
            true => vec![ForwardingUpdate {
                destination: Change::Set(access),
                outer_header_creation: Change::Set(tunnel(rng)),
                ..ForwardingUpdate::default()
            }],
            false => Vec::new(),
        },
        send_end_marker: one_chance_in(rng, 2),
    }
}

/// A part that is replaced or, if `draw` returns none, withdrawn.
fn sometimes<T>(rng: &mut StdRng, draw: impl FnOnce(&mut StdRng) -> Option<T>) -> Change<T> {
    match one_chance_in(rng, 4) {
        true => draw(rng).map_or(Change::Withdraw, Change::Set),
        false => Change::Keep,
    }
}

fn pdr_update(rng: &mut StdRng, session: &OracleSession, ue: ScenarioUe) -> PdrUpdate {
    let Some(known) = session.pdrs.choose(rng) else { return PdrUpdate::default() };
    let is_uplink = known.id.0 <= 4;
    let far = if is_uplink { rng.random_range(1..=3) } else { rng.random_range(4..=6) };
    let deactivate = known.predefined.iter().filter(|_| one_chance_in(rng, 3)).cloned().collect();
    let detects = !known.pdi.sdf.is_empty() || known.pdi.application.is_some();
    let activate =
        (!detects && one_chance_in(rng, 12)).then(|| predefined_name(rng)).into_iter().collect();
    PdrUpdate {
        deactivate,
        activate,
        id: known.id,
        precedence: one_chance_in(rng, 2).then(|| Precedence(rng.random_range(0..6))).into(),
        pdi: one_chance_in(rng, 3).then(|| pdi(rng, is_uplink, ue)),
        far: one_chance_in(rng, 2).then_some(FarId(far)).into(),
        qers: one_chance_in(rng, 2).then(|| qers_of_pdr(rng)).into(),
        urrs: one_chance_in(rng, 3).then(|| urrs_of_pdr(rng)).into(),
        ..PdrUpdate::default()
    }
}
