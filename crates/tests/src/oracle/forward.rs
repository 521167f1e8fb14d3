//! Carries out forwarding parameters: the packet that leaves, and where.

use core::net::IpAddr;

use adit_rules::{DestinationInterface, DropReason, Redirect, SourceInterface};
use adit_session::{Forwarding, PdrSpec, Qer};

use super::arrival::OraclePacket;
use super::classify::{qers_of, readings};
use super::frame::{
    OracleOuterHeader, OracleRedirectTarget, fragment_ipv4, link, next_hop_packet, redirect,
    set_tos, tunnel,
};
use super::packet::{OracleContainer, u16_at};
use super::predefined::OraclePredefinedRule;
use super::records::OracleSession;
use super::verdict::{OracleExit, OracleLane, OracleOutcome};
use super::{Oracle, OracleInterface, policy_of, side};

/// A packet that is forwarded by the parameters of a FAR or of a copy.
pub(super) struct OracleForwarding<'a> {
    pub oracle: &'a Oracle,
    pub arrival: &'a OraclePacket<'a>,
    pub session: &'a OracleSession,
    pub pdr: &'a PdrSpec,
    pub from_ue: bool,
    pub qers: &'a [&'a Qer],
    pub forwarding: &'a Forwarding,
    pub is_copy: bool,
}

impl OracleForwarding<'_> {
    pub(super) fn exit(&self) -> OracleExit {
        let Self { oracle, session, from_ue, forwarding, .. } = *self;
        let ip = &self.arrival.ip;
        // In this order: a packet that no router forwards gets no Time Exceeded. Spec: RFC 1812
        // §5.3.7; RFC 4443 §2.4 (e).
        if side::is_on_link(ip) && !self.is_of_cp() {
            return Err(DropReason::IpAddressInvalid);
        }
        if ip.ttl <= 1 && !self.is_of_cp() {
            return Err(DropReason::TtlExceeded);
        }
        let target = self.redirect_target()?;
        let outer = self.outer_header();
        let inner = self.changed(target, outer.is_some());
        let network_instance = oracle.name_of(forwarding);
        let networks = oracle.networks(session, network_instance);
        let to_data_network = matches!(
            forwarding.destination,
            DestinationInterface::Core | DestinationInterface::SgiLanN6Lan
        );
        let route = match outer {
            Some(outer) => {
                let within = match outer.header.tunnel() {
                    Some(_) => oracle.transport(forwarding.destination, network_instance),
                    None => networks,
                };
                oracle.route(&within, outer.header.addr())
            }
            None if to_data_network => {
                let dst = target.filter(|_| from_ue).map_or(ip.dst, |target| target.addr);
                if oracle.is_own(&networks, dst) {
                    return Err(match from_ue {
                        true => DropReason::UeToOwnAddress,
                        false => DropReason::RouteUnknown,
                    });
                }
                if let Some(back) = self.switched_locally(&networks, dst, &inner) {
                    return Ok(back);
                }
                let next_hop = policy_of(forwarding).and_then(|policy| policy.next_hop);
                let next_hop = next_hop.filter(|_| ip.dst.is_ipv4()).map(IpAddr::V4);
                oracle.route(&networks, next_hop.unwrap_or(dst))
            }
            None => None,
        };
        let (at, station) = route.ok_or(DropReason::RouteUnknown)?;
        let inner = self.with_mss(inner, at, outer.as_ref());
        let packets = self.packets(&oracle.interfaces[at], outer.as_ref(), inner)?;
        Ok(oracle.send_to_station(at, station, &packets, self.arrival.lane()))
    }

    fn is_of_cp(&self) -> bool {
        side::is_of_cp(self.pdr, Some(self.forwarding.destination))
    }

    /// The redirection target, which replaces the far side.
    fn redirect_target(&self) -> Result<Option<OracleRedirectTarget>, DropReason> {
        let Some(Redirect::Address { v4, v6, port }) = &self.forwarding.redirect else {
            return Ok(None);
        };
        let ip = &self.arrival.ip;
        let addr = match (if self.from_ue { ip.dst } else { ip.src }, v4, v6) {
            (addr, None, None) => Some(addr),
            (IpAddr::V4(_), v4, _) => v4.map(IpAddr::V4),
            (IpAddr::V6(_), _, v6) => v6.map(IpAddr::V6),
        };
        let addr = addr.ok_or(DropReason::RedirectUnmatched)?;
        Ok(Some(OracleRedirectTarget { addr, port: *port }))
    }

    /// The code point of the policy.
    fn dscp(&self) -> Option<u8> {
        policy_of(self.forwarding).and_then(|policy| policy.dscp)
    }

    /// The code point of the first QER with a DL Flow Level Marking. Spec: TS 29.244 §8.2.66.
    fn flow_dscp(&self) -> Option<u8> {
        let (value, mask) = self.qers.iter().find_map(|qer| qer.flow_tos)?;
        let tos = value & mask | self.arrival.ip.tos & !mask;
        (!self.from_ue).then_some(tos / 4)
    }

    fn outer_header(&self) -> Option<OracleOuterHeader> {
        let header = self.forwarding.outer_header_creation?;
        let ip = &self.arrival.ip;
        let inner = self.flow_dscp().map_or(ip.tos, |dscp| dscp * 4 + ip.tos % 4);
        let tos = self.oracle.outer_tos(self.forwarding, inner);
        let container = self.container().filter(|_| header.tunnel().is_some());
        let to_ue = !self.from_ue && self.forwarding.destination == DestinationInterface::Access;
        let service_class = self.qers.iter().find_map(|qer| qer.service_class);
        let service_class = service_class.filter(|_| to_ue && header.tunnel().is_some());
        Some(OracleOuterHeader { header, tos, container, service_class })
    }

    /// The PDU Session Container if the packet leaves in a GTP-U tunnel.
    fn container(&self) -> Option<OracleContainer> {
        let Self { pdr, forwarding, .. } = *self;
        let arrived = self.arrival.tunnel.and_then(|tunnel| tunnel.container);
        let arrived = arrived.filter(|_| !pdr.container_deletion);
        let marked = self.qers.iter().find_map(|qer| mark_of(qer));
        let of_far = || self.oracle.mark_of_far(self.arrival, pdr);
        let uplink = |container: OracleContainer| OracleContainer {
            is_downlink: false,
            rqi: false,
            ppi: None,
            ..container
        };
        let to_ran = forwarding.destination == DestinationInterface::Access;
        match (self.from_ue, arrived) {
            _ if forwarding.destination == DestinationInterface::CpFunction => None,
            (false, Some(arrived))
                if arrived.is_downlink && pdr.pdi.source == SourceInterface::Access =>
            {
                Some(arrived)
            }
            (false, Some(arrived)) => {
                Some(marked.unwrap_or(OracleContainer { is_downlink: true, ..arrived }))
            }
            (false, None) if pdr.pdi.source == SourceInterface::CpFunction => {
                marked.or_else(of_far)
            }
            (false, None) => marked,
            (true, Some(arrived)) if arrived.is_downlink && to_ran => Some(arrived),
            (true, Some(arrived)) => Some(uplink(arrived)),
            (true, None) if to_ran => marked,
            (true, None) => marked.map(uplink),
        }
    }

    /// The packet without its outer header, as it leaves.
    fn changed(&self, target: Option<OracleRedirectTarget>, has_outer: bool) -> Vec<u8> {
        let OraclePacket { packet, ip, .. } = self.arrival;
        let mut inner = match self.is_of_cp() {
            true => packet[..ip.len].to_vec(),
            false => next_hop_packet(&packet[..ip.len]),
        };
        if let Some(target) = target {
            redirect(&mut inner, ip, self.from_ue, target);
        }
        if let Some(dscp) = self.flow_dscp().or(self.dscp().filter(|_| !has_outer)) {
            set_tos(&mut inner, dscp * 4 + ip.tos % 4);
        }
        inner
    }

    /// The outcome of a packet from one UE to another, which comes back.
    fn switched_locally(
        &self,
        networks: &[usize],
        dst: IpAddr,
        inner: &[u8],
    ) -> Option<OracleOutcome> {
        if !self.from_ue || self.arrival.tunnel.is_none() || self.is_copy {
            return None;
        }
        let at = self.oracle.switches_locally_at(self.pdr, self.forwarding, networks, dst)?;
        let interface = &self.oracle.interfaces[at];
        let inner = self.with_mss(inner.to_vec(), at, None);
        let (port, frame) = (interface.port, link(interface, interface.mac, &inner));
        Some(OracleOutcome::SwitchLocally { port, frame })
    }

    /// The packets that leave through `interface`: one, or its fragments.
    fn packets(
        &self,
        interface: &OracleInterface,
        outer: Option<&OracleOuterHeader>,
        inner: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, DropReason> {
        let OraclePacket { packet, ip, .. } = self.arrival;
        let fits = interface.mtu_bytes - outer.map_or(0, OracleOuterHeader::len);
        let is_beyond = ip.len > fits;
        // A fragment that ends beyond the longest datagram is divided no further.
        let ends_at = || usize::from(u16_at(packet, 6) & 0x1fff) * 8 + ip.len - ip.upper;
        if is_beyond && (ip.dont_fragment || ends_at() > 65_535) {
            return Err(DropReason::PacketTooBig);
        }
        let parts = if is_beyond { fragment_ipv4(&inner, fits) } else { vec![inner] };
        let wrap = |part: Vec<u8>| match outer {
            Some(outer) => tunnel(interface, outer, &part),
            None => part,
        };
        Ok(parts.into_iter().map(wrap).collect())
    }
}

impl Oracle {
    /// The mark of the first PDR of the same FAR and direction that has one.
    fn mark_of_far(&self, arrival: &OraclePacket<'_>, pdr: &PdrSpec) -> Option<OracleContainer> {
        let owner = self.owner_of_teid(arrival.tunnel?.teid)?;
        let session = &self.sessions[owner].1;
        let from_ue = side::is_from_ue(session, pdr);
        let mut sharing = readings(session).into_iter().filter(|(other, rule)| {
            other.far == pdr.far
                && rule.is_none_or(|rule| rule.far().is_none())
                && side::is_from_ue(session, other) == from_ue
        });
        sharing.find_map(|(other, rule)| {
            let predefined = rule.and_then(OraclePredefinedRule::qer);
            qers_of(session, &other, predefined.as_ref()).into_iter().find_map(mark_of)
        })
    }

    pub(super) fn send_to_station(
        &self,
        at: usize,
        station: IpAddr,
        packets: &[Vec<u8>],
        lane: OracleLane,
    ) -> OracleOutcome {
        let interface: &OracleInterface = &self.interfaces[at];
        let mac = self.neighbors.get(&(at, station));
        let framed = |packet: &Vec<u8>| link(interface, mac.copied().unwrap_or_default(), packet);
        let frames = packets.iter().map(framed).collect();
        match mac {
            Some(_) => OracleOutcome::Forward { port: interface.port, frames, lane },
            None => OracleOutcome::AwaitNeighbor { interface: at, station, frames, lane },
        }
    }
}

/// The PDU Session Container that a QER orders.
fn mark_of(qer: &Qer) -> Option<OracleContainer> {
    let (qfi, rqi, ppi) = (qer.qfi?.value(), qer.rqi, qer.ppi);
    Some(OracleContainer { is_downlink: true, qfi, rqi, ppi })
}
