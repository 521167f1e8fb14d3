//! Finds the rules of a packet: its session, the first PDR that matches, and the FAR.

use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::BTreeSet;

use adit_rules::{DropReason, HeaderRemoval};
use adit_session::{FTeidSpec, Far, PdrSpec, Qer, SdfSpec};

use super::arrival::OraclePacket;
use super::keys::{contains_address, local_teid, networks};
use super::packet::is_forwardable;
use super::predefined::{self, OraclePredefinedRule};
use super::records::OracleSession;
use super::verdict::VerdictNotes;
use super::{Oracle, first_fragment, in_prefix, instance, side};

/// The rules that a packet matched.
pub(super) struct OracleMatch {
    /// Position of the session.
    pub owner: usize,
    pub from_ue: bool,
    pub pdr: PdrSpec,
    pub reading: usize,
    pub rule: Option<&'static OraclePredefinedRule>,
    pub far: Far,
    /// The outer header that is removed, or was removed on arrival.
    pub removal: Option<HeaderRemoval>,
}

/// The PDRs of a session in the order of matching, with one reading for each of their predefined
/// rules.
pub(super) fn readings(
    session: &OracleSession,
) -> Vec<(PdrSpec, Option<&'static OraclePredefinedRule>)> {
    let mut all: Vec<_> = session.pdrs.iter().flat_map(predefined::readings).collect();
    all.sort_by_key(|(pdr, _)| (pdr.precedence, pdr.id));
    all
}

/// The FAR of a reading.
pub(super) fn far_of(
    session: &OracleSession,
    pdr: &PdrSpec,
    rule: Option<&OraclePredefinedRule>,
) -> Far {
    let own = || session.fars.iter().find(|far| Some(far.id) == pdr.far).unwrap().clone();
    rule.and_then(OraclePredefinedRule::far).unwrap_or_else(own)
}

/// The QERs of a reading: that of its predefined rule, that of its own ones whose QFI counts, and
/// the others by identifier.
pub(super) fn qers_of<'a>(
    session: &'a OracleSession,
    pdr: &PdrSpec,
    predefined: Option<&'a Qer>,
) -> Vec<&'a Qer> {
    let mut own: Vec<&Qer> = session.qers.iter().filter(|qer| pdr.qers.contains(&qer.id)).collect();
    // A PDR may have several readings.
    let users = |id| {
        let users = session.pdrs.iter().filter(|other| other.qers.contains(&id));
        users.map(|other| other.id).collect::<BTreeSet<_>>().len()
    };
    let marking = own.iter().filter(|qer| qer.qfi.is_some());
    let marking = marking.map(|qer| qer.id).min_by_key(|id| (users(*id), Reverse(*id)));
    own.sort_by_key(|qer| (Some(qer.id) != marking, qer.id));
    predefined.into_iter().chain(own).collect()
}

impl Oracle {
    /// The session that a local TEID belongs to.
    pub(super) fn owner_of_teid(&self, teid: u32) -> Option<usize> {
        self.sessions
            .iter()
            .position(|(_, session)| session.pdrs.iter().any(|pdr| local_teid(pdr) == Some(teid)))
    }

    /// The session that a UE address belongs to, for packets that arrive at the interface `from`.
    /// 64 bits identify an IPv6 UE. If a downlink PDR names no UE, the addresses of the session's
    /// uplink PDRs identify it. If no session has the address, the longest network behind a UE that
    /// contains it decides. PDRs of other data networks are ignored.
    fn owner_of_ue(&self, from: usize, addr: IpAddr) -> Option<usize> {
        self.ue_with(from, addr).map(|(_, at)| at)
    }

    /// As [`Self::owner_of_ue`], with the length of the address or network that matched.
    pub(super) fn ue_with(&self, from: usize, addr: IpAddr) -> Option<(u8, usize)> {
        let whole = if addr.is_ipv4() { 32 } else { 64 };
        let mut best: Option<(u8, usize)> = None;
        for (at, (_, session)) in self.sessions.iter().enumerate() {
            let has_addr = |(first, len): &(IpAddr, u8)| in_prefix(addr, *first, (*len).min(whole));
            // Most sessions have no more checks.
            if !session.pdrs.iter().flat_map(networks).any(|network| has_addr(&network)) {
                continue;
            }
            let is_key_here = |pdr: &PdrSpec| {
                let name = pdr.pdi.network_instance.as_deref();
                instance::is_from_a_network(pdr) && self.is_about(session, name, from)
            };
            let names_no_ue = |pdr: &PdrSpec| is_key_here(pdr) && networks(pdr).is_empty();
            let any = session.pdrs.iter().any(names_no_ue);
            let is_key = |pdr: &&PdrSpec| any || is_key_here(pdr);
            for (_, len) in session.pdrs.iter().filter(is_key).flat_map(networks).filter(has_addr) {
                let len = len.min(whole);
                if best.is_none_or(|(longest, _)| len > longest) {
                    best = Some((len, at));
                }
            }
        }
        best
    }

    /// The session's first PDR that matches, and its FAR.
    pub(super) fn match_packet(
        &self,
        arrival: &mut OraclePacket<'_>,
        notes: &mut VerdictNotes,
    ) -> Result<OracleMatch, DropReason> {
        let owner = match arrival.tunnel {
            Some(tunnel) => self.owner_of_teid(tunnel.teid).ok_or(DropReason::TeidUnknown)?,
            None => self.owner_of_ue(arrival.at, arrival.ip.dst).ok_or(DropReason::UeUnknown)?,
        };
        notes.session = Some(owner);
        self.classify_fragment(owner, arrival, notes);
        let (ip, arrival) = (&arrival.ip, &*arrival);
        let session = &self.sessions[owner].1;
        let side = side::of(session, arrival.tunnel.map(|tunnel| tunnel.teid));
        let (from_ue, is_on_link) = (side.from_ue, side::is_on_link(ip));
        if !is_on_link {
            side::check_ue(session, side, ip)?;
        }
        let all = readings(session);
        let first = all.iter().position(|(pdr, _)| self.matches(session, pdr, arrival));
        let unmatched =
            if is_on_link { DropReason::IpAddressInvalid } else { DropReason::PdrUnmatched };
        let first = first.ok_or(unmatched)?;
        let (pdr, rule) = all[first].clone();
        let far = far_of(session, &pdr, rule);
        if is_on_link {
            if !side::is_of_cp(&pdr, side::destination(&far)) {
                return Err(DropReason::IpAddressInvalid);
            }
            if is_forwardable(if from_ue { ip.src } else { ip.dst }) {
                side::check_ue(session, side, ip)?;
            }
        }
        let reading = all[..first].iter().filter(|(other, _)| other.id == pdr.id).count();
        let removal = pdr.outer_header_removal;
        Ok(OracleMatch { owner, from_ue, pdr, reading, rule, far, removal })
    }

    /// A first fragment leaves, and a later one finds, the header that filters compare.
    fn classify_fragment(
        &self,
        owner: usize,
        arrival: &mut OraclePacket<'_>,
        notes: &mut VerdictNotes,
    ) {
        let ip = &arrival.ip;
        if !ip.is_fragment {
            return;
        }
        let (seid, session) = &self.sessions[owner];
        let id = first_fragment::id(*seid, ip);
        let teid = arrival.tunnel.map(|tunnel| tunnel.teid);
        let arrived = (teid, session.changes);
        if ip.is_later_fragment {
            arrival.first = first_fragment::known(&self.first_fragments, self.now, &id);
            notes.is_known_fragment = arrival.first.is_some();
            let first = arrival.first.and_then(|first| first.arrived);
            notes.follows_other_rules = first.is_some_and(|first| first != arrived);
        } else {
            // Where the first rule has a filter, no fragment is forwarded by a fast rule.
            let readings = readings(session);
            let first = readings.iter().find(|(pdr, _)| local_teid(pdr) == teid);
            let is_filtered = first.is_some_and(|(pdr, rule)| {
                rule.is_some() || !pdr.pdi.sdf.is_empty() || pdr.pdi.application.is_some()
            });
            let arrived = (!is_filtered).then_some(arrived);
            notes.first_fragment = Some((id, first_fragment::of(ip, arrival.packet, arrived)));
        }
    }

    /// True if all conditions of the PDI hold. Spec: TS 29.244 §5.2.1A, §8.2.89.
    fn matches(&self, session: &OracleSession, pdr: &PdrSpec, arrival: &OraclePacket<'_>) -> bool {
        let ip = &arrival.ip;
        let side = side::of(session, arrival.tunnel.map(|tunnel| tunnel.teid));
        let from_ue = side.from_ue;
        let teid = arrival.tunnel.map(|tunnel| tunnel.teid);
        let container = arrival.tunnel.and_then(|tunnel| tunnel.container);
        let qfi = container.map(|container| container.qfi);
        let ue_addr = if from_ue { ip.src } else { ip.dst };
        let filters = &pdr.pdi.sdf;
        let is_of_side = match side.tunnel {
            Some(source) => pdr.pdi.source == source && side::is_from_ue(session, pdr) == from_ue,
            None => pdr.pdi.source.is_network(),
        };
        is_of_side
            && self.arrives_at(session, pdr, arrival.at)
            && local_teid(pdr).is_none_or(|local| teid == Some(local))
            && (pdr.pdi.qfis.is_empty()
                || pdr.pdi.qfis.iter().any(|wanted| qfi == Some(wanted.value())))
            && (networks(pdr).is_empty() || contains_address(&networks(pdr), ue_addr))
            && (filters.is_empty()
                || filters.iter().any(|spec| arrival.is_of_flow(session.resolve(spec), from_ue)))
            && pdr
                .pdi
                .application
                .as_deref()
                .is_none_or(|id| self.is_of_application(id, from_ue, arrival))
    }

    /// True if packets of the PDR arrive at the interface: the one with the address of its tunnel,
    /// or one of its network instance.
    fn arrives_at(&self, session: &OracleSession, pdr: &PdrSpec, at: usize) -> bool {
        let interface = &self.interfaces[at];
        match pdr.pdi.f_teid {
            Some(FTeidSpec::Given { v4, v6, .. }) => {
                v4.is_some_and(|addr| interface.owns(addr.into()))
                    || v6.is_some_and(|addr| interface.owns(addr.into()))
            }
            _ => self.is_about(session, pdr.pdi.network_instance.as_deref(), at),
        }
    }

    /// True if the packet belongs to the application. Spec: TS 29.244 §5.2.1A.2.
    pub(super) fn is_of_application(
        &self,
        application: &str,
        from_ue: bool,
        arrival: &OraclePacket<'_>,
    ) -> bool {
        let (_, texts) = self.applications.iter().find(|(id, _)| *id == application).unwrap();
        texts.iter().any(|text| {
            let flow_description = Some((*text).into());
            let spec = SdfSpec { flow_description, ..SdfSpec::default() };
            arrival.is_of_flow(&spec, from_ue)
        })
    }
}
