//! What becomes of one frame.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;

use adit_rules::{
    ApplyAction, DestinationInterface, DropReason, Gate, HeaderRemoval, PuntReason, Redirect,
    SourceInterface, UeAddresses,
};
use adit_session::{FTeidSpec, Far, Forwarding, PdrSpec, Qer, SdfSpec, Urr};
use adit_types::{IpPrefix, Seid, UrrId};

use super::buffering::{self, OracleBufferedBy, OracleMatch};
use super::first_fragment::{self, FragmentedPacketId, OracleFirstFragment};
use super::frame::{
    OracleOuterHeader, checksum, end_marker, fragment_ipv4, link, next_hop_packet, redirect,
    set_traffic_class, tunnel, udp_sum,
};
use super::packet::{
    IPV6_EXTENSIONS, OracleContainer, OracleGtpu, OracleIp, OracleIpError, gtpu, ip,
    is_forwardable, u16_at,
};
use super::packet_rate;
use super::predefined::{self, OraclePredefinedRule};
use super::rate::OracleBucket;
use super::records::{OracleSession, waits_for_tunnel};
use super::{Oracle, OracleInterface, OracleRole, POLICIES, in_prefix, instance, rate, sdf, side};

/// Hardware addresses by interface position and station.
pub type OracleNeighbors = HashMap<(usize, IpAddr), [u8; 6]>;

/// What becomes of a frame, and where it leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OracleVerdict {
    /// What becomes of it.
    pub outcome: OracleOutcome,
    /// The session that its TEID or address belongs to, as position.
    pub session: Option<usize>,
    /// The session that it was counted for, as position, direction and octets.
    pub counted: Option<(usize, bool, u64)>,
    /// The URRs that measured it, of the session at a position, with direction and octets.
    pub measured: Vec<(usize, UrrId, bool, u64)>,
    /// How far the rates of QERs are behind it, of the session at a position, by bucket and direction.
    pub due: Vec<(usize, OracleBucket, bool, u128)>,
    /// The windows of packet rates behind it, of the session at a position.
    pub windows: Vec<(usize, packet_rate::OracleWindowKey, packet_rate::OracleRateWindow)>,
    /// The way it took, if it was looked up.
    pub lane: Option<OracleLane>,
    /// Its copies: those that leave, and others that are lost.
    pub copies: Vec<OracleExit>,
    /// What it tells of the other parts of its packet, as their first one.
    pub first_fragment: Option<(FragmentedPacketId, OracleFirstFragment)>,
    /// It is a later part, and the first one is known.
    pub is_known_fragment: bool,
}

/// What a verdict says besides the outcome.
#[derive(Debug, Default)]
pub(super) struct VerdictNotes {
    session: Option<usize>,
    counted: Option<(usize, bool, u64)>,
    measured: Vec<(usize, UrrId, bool, u64)>,
    due: Vec<(usize, OracleBucket, bool, u128)>,
    windows: Vec<(usize, packet_rate::OracleWindowKey, packet_rate::OracleRateWindow)>,
    lane: Option<OracleLane>,
    copies: Vec<OracleExit>,
    first_fragment: Option<(FragmentedPacketId, OracleFirstFragment)>,
    is_known_fragment: bool,
    /// Copies were made before.
    is_copied: bool,
}

impl VerdictNotes {
    /// Of a packet that waited, with or without copies made before.
    pub(super) fn of_buffered(is_copied: bool) -> Self {
        Self { is_copied, ..Self::default() }
    }

    pub(super) fn verdict(self, outcome: OracleOutcome) -> OracleVerdict {
        let Self { session, counted, measured, due, windows, lane, copies, .. } = self;
        let Self { first_fragment: first_part, is_known_fragment: is_known_part, .. } = self;
        OracleVerdict {
            outcome,
            session,
            counted,
            measured,
            due,
            windows,
            lane,
            copies,
            first_fragment: first_part,
            is_known_fragment: is_known_part,
        }
    }
}

/// Packets of one lane that leave through one port keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OracleLane {
    /// From tunnels.
    Tunneled,
    /// Plain IPv4.
    DownlinkV4,
    /// Plain IPv6.
    DownlinkV6,
    /// Behind all others of their step.
    EndMarker,
}

/// The one outcome of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OracleOutcome {
    /// It leaves.
    Forward {
        /// Through this port.
        port: u16,
        /// With these octets, in fragments if it is longer than the link allows.
        frames: Vec<Vec<u8>>,
        /// The way it took through us.
        lane: OracleLane,
    },
    /// It would leave, but the station's hardware address is not known.
    AwaitNeighbor {
        /// Position of the interface.
        interface: usize,
        /// The station.
        station: IpAddr,
        /// The frames, to no address yet.
        frames: Vec<Vec<u8>>,
        /// The way it took through us.
        lane: OracleLane,
    },
    /// It comes back from the data network, for another UE.
    SwitchLocally {
        /// On this port.
        port: u16,
        /// With these octets.
        frame: Vec<u8>,
    },
    /// Its FAR buffers.
    Buffer {
        /// The rules that hold it.
        by: OracleBufferedBy,
        /// Packets that the session may have waiting with it.
        room: usize,
        /// The way it took through us.
        lane: OracleLane,
    },
    /// Part of a tunnel packet: it waits for the rest, which never comes in these tests.
    Reassemble,
    /// Dropped.
    Drop(DropReason),
    /// Consumed by the slow path.
    Punt(PuntReason),
    /// To ourselves and unusual: dropped or punted, the oracle does not say for what reason.
    Consumed,
}

/// A user packet and how it came.
#[derive(Clone)]
struct OraclePacket<'a> {
    /// Position of the interface it came in on.
    at: usize,
    packet: &'a [u8],
    ip: OracleIp,
    tunnel: Option<OracleTunnel>,
    /// What the first part of its packet told, if it is a later one.
    first: Option<OracleFirstFragment>,
}

impl OraclePacket<'_> {
    fn is_of_flow(&self, spec: &SdfSpec, from_ue: bool) -> bool {
        sdf::matches(spec, from_ue, (&self.ip, self.packet), self.first.as_ref())
    }
}

/// The GTP-U tunnel that a packet came in.
#[derive(Clone, Copy)]
struct OracleTunnel {
    teid: u32,
    is_ipv4: bool,
    container: Option<OracleContainer>,
}

/// What becomes of a packet, or why it is dropped.
pub(super) type OracleExit = Result<OracleOutcome, DropReason>;

impl Oracle {
    /// Says what becomes of `frame`, received on `port`.
    #[must_use]
    pub fn judge(&self, port: u16, frame: &[u8]) -> OracleVerdict {
        let mut notes = VerdictNotes::default();
        let outcome = self.frame(port, frame, None, &mut notes).unwrap_or_else(OracleOutcome::Drop);
        notes.verdict(outcome)
    }

    /// What becomes of a frame, which rules held before if `held` says so.
    pub(super) fn frame(
        &self,
        port: u16,
        frame: &[u8],
        held: Option<&OracleBufferedBy>,
        notes: &mut VerdictNotes,
    ) -> OracleExit {
        if frame.len() < 14 {
            return Err(DropReason::FrameMalformed);
        }
        let (mut vlan, mut ether_type, mut l3) = (0, u16_at(frame, 12), 14);
        if ether_type == 0x8100 {
            if frame.len() < 18 {
                return Err(DropReason::FrameMalformed);
            }
            (vlan, ether_type, l3) = (u16_at(frame, 14) & 0xfff, u16_at(frame, 16), 18);
        }
        let here: Vec<usize> = (0..self.interfaces.len())
            .filter(|at| (self.interfaces[*at].port, self.interfaces[*at].vlan) == (port, vlan))
            .collect();
        let first = *here.first().ok_or(DropReason::VlanUnknown)?;
        if frame[..6] != self.interfaces[first].mac {
            return self.group_frame(&here, frame, ether_type, l3);
        }
        match ether_type {
            0x0800 | 0x86dd => {
                let (ip, packet) = (network_layer(ether_type, &frame[l3..])?, &frame[l3..]);
                let arrival = match here.iter().find(|at| self.interfaces[**at].owns(ip.dst)) {
                    Some(&at) => match self.to_ourselves(at, frame, packet, &ip, notes)? {
                        Ok(arrival) => arrival,
                        Err(outcome) => return Ok(outcome),
                    },
                    None => {
                        let n6 =
                            here.iter().find(|at| self.interfaces[**at].role == OracleRole::N6);
                        if !is_forwardable(ip.src) || !is_forwardable(ip.dst) {
                            return Err(DropReason::IpAddressInvalid);
                        }
                        let at = *n6.ok_or(DropReason::RouteUnknown)?;
                        OraclePacket { at, packet, ip, tunnel: None, first: None }
                    }
                };
                self.user_packet(&arrival, held, notes)
            }
            0x0806 => arp(&frame[l3..]),
            _ => Err(DropReason::EtherTypeUnknown),
        }
    }

    /// A frame that is not addressed to our hardware address.
    fn group_frame(&self, here: &[usize], frame: &[u8], ether_type: u16, l3: usize) -> OracleExit {
        if frame[0] & 1 == 0 {
            return Err(DropReason::FrameNotForUs);
        }
        if frame[..5] == [0x01, 0x80, 0xc2, 0x00, 0x00] {
            return Ok(OracleOutcome::Punt(PuntReason::LinkControl));
        }
        match ether_type {
            0x0806 => arp(&frame[l3..]),
            0x0800 | 0x86dd => {
                let ip = network_layer(ether_type, &frame[l3..])?;
                match ip.dst {
                    IpAddr::V6(dst) if dst.is_multicast() && ip.protocol == 58 => {
                        Ok(self.neighbor_discovery(here, frame, &frame[l3..], &ip))
                    }
                    IpAddr::V4(dst) if dst.is_multicast() && ip.protocol == 2 => {
                        Ok(OracleOutcome::Punt(PuntReason::LinkControl))
                    }
                    dst if is_forwardable(dst) => Err(DropReason::FrameNotForUs),
                    _ => Err(DropReason::IpAddressInvalid),
                }
            }
            _ => Err(DropReason::EtherTypeUnknown),
        }
    }

    /// A packet to one of our addresses: a G-PDU comes out as `Ok`, anything else is settled.
    fn to_ourselves<'a>(
        &self,
        at: usize,
        frame: &[u8],
        packet: &'a [u8],
        ip: &OracleIp,
        notes: &mut VerdictNotes,
    ) -> Result<Result<OraclePacket<'a>, OracleOutcome>, DropReason> {
        if ip.is_fragment {
            return match self.interfaces[at].role != OracleRole::N6 && may_carry(ip, &[17]) {
                true => Ok(Err(reassemble(ip)?)),
                false => Err(DropReason::OuterFragment),
            };
        }
        let datagram = &packet[ip.upper..ip.len];
        match (ip.protocol, ip.dst) {
            (17, _) => {}
            (1, IpAddr::V4(_)) => return Ok(Err(echo_v4(frame, ip, datagram))),
            (58, IpAddr::V6(_)) => {
                return Ok(Err(self.neighbor_discovery(&[at], frame, packet, ip)));
            }
            _ => return Err(DropReason::IpProtocolUnknown),
        }
        if datagram.len() < 8 {
            return Err(DropReason::UdpMalformed);
        }
        let end = usize::from(u16_at(datagram, 4));
        if end < 8 || end > datagram.len() {
            return Err(DropReason::UdpMalformed);
        }
        if u16_at(datagram, 2) != 2152 {
            return Err(DropReason::UdpPortUnknown);
        }
        if self.interfaces[at].role == OracleRole::N6 {
            return Err(DropReason::GtpuNotOnN3);
        }
        // Spec: RFC 8200 §8.1; RFC 6935 §5.
        let has_checksum = !ip.dst.is_ipv4() && u16_at(datagram, 6) != 0;
        if has_checksum && udp_sum((ip.src, ip.dst), &datagram[..end]) != 0 {
            return Err(DropReason::UdpChecksumWrong);
        }
        let message = &datagram[8..end];
        let header = gtpu(message)?;
        if header.message_type == 254 {
            return Ok(Err(self.end_marker(header.teid, notes)?));
        }
        if header.message_type != 255 {
            return Ok(Err(self.signaling(frame, &header, message)?));
        }
        let inner = &message[header.payload..header.end];
        let inner_ip = super::packet::ip(inner).map_err(|bad| match bad {
            OracleIpError::Malformed => DropReason::InnerMalformed,
            OracleIpError::Checksum => DropReason::IpChecksumWrong,
        })?;
        if side::is_on_link(&inner_ip) && !side::is_possible_on_link(&inner_ip) {
            return Err(DropReason::IpAddressInvalid);
        }
        let tunnel = OracleTunnel {
            teid: header.teid,
            is_ipv4: ip.dst.is_ipv4(),
            container: header.container,
        };
        let tunnel = Some(tunnel);
        Ok(Ok(OraclePacket { at, packet: inner, ip: inner_ip, tunnel, first: None }))
    }

    /// An End Marker goes where the packets of its tunnel go, if they go to a UE in a tunnel. One
    /// that takes several tunnels is sent by ourselves into the others. Spec: TS 23.501 §5.8.2.9.
    fn end_marker(&self, teid: u32, notes: &mut VerdictNotes) -> OracleExit {
        let owner = self.owner_of_teid(teid).ok_or(DropReason::TeidUnknown)?;
        let session = &self.sessions[owner].1;
        let side = side::of(session, Some(teid));
        notes.session = Some(owner);
        notes.lane = Some(OracleLane::EndMarker);
        let readings = session.pdrs.iter().flat_map(predefined::readings);
        let mut onward: Vec<(PdrSpec, Option<&OraclePredefinedRule>)> = readings
            .filter(|(pdr, rule)| {
                Some(pdr.pdi.source) == side.tunnel
                    && side::is_from_ue(session, pdr) == side.from_ue
                    && local_teid(pdr).is_none_or(|local| local == teid)
                    && rule.is_none_or(|rule| rule.far().is_none())
            })
            .collect();
        onward.sort_by_key(|(pdr, _)| (pdr.precedence, pdr.id));
        let next = onward.iter().find_map(|(pdr, _)| {
            let far = session.fars.iter().find(|far| Some(far.id) == pdr.far).unwrap();
            let forwarding = far.forwarding.as_ref();
            let forwarding = forwarding.filter(|_| far.action.contains(ApplyAction::FORW))?;
            Some((forwarding, forwarding.outer_header_creation?.tunnel()?))
        });
        let Some((forwarding, next)) = next.filter(|_| !side.from_ue) else {
            return Ok(OracleOutcome::Punt(PuntReason::GtpuEndMarker));
        };
        let policy = forwarding.policy.as_deref();
        let policy = policy.map(|id| POLICIES.iter().find(|policy| policy.id == id).unwrap());
        let named = policy.and_then(|policy| policy.network_instance);
        let network_instance = named.or(forwarding.network_instance.as_deref());
        let dscp = policy.and_then(|policy| policy.dscp).map(|dscp| dscp * 4);
        let tos = forwarding.transport_level_marking.or(dscp).unwrap_or(0);
        let within = self.transport(forwarding.destination, network_instance);
        let (at, station) = self.route(&within, next.addr).ok_or(DropReason::RouteUnknown)?;
        let packet = end_marker(&self.interfaces[at], next, tos);
        Ok(self.send_to_station(at, station, &[packet], OracleLane::EndMarker))
    }

    /// GTP-U messages other than G-PDUs and End Markers. Spec: TS 29.281 §7.
    fn signaling(&self, frame: &[u8], header: &OracleGtpu, message: &[u8]) -> OracleExit {
        let payload = &message[header.payload..header.end];
        match header.message_type {
            1 if frame[6] & 1 != 0 => Err(DropReason::FrameMalformed),
            1 => Ok(OracleOutcome::Punt(PuntReason::GtpuEchoRequest)),
            2 => Ok(OracleOutcome::Punt(PuntReason::GtpuEchoResponse)),
            // TEID Data I and a GTP-U peer address of IPv4; other spellings are not judged.
            26 if payload.len() == 12 && payload[0] == 16 && payload[5..8] == [133, 0, 4] => {
                Ok(OracleOutcome::Punt(PuntReason::GtpuErrorIndication))
            }
            26 => Ok(OracleOutcome::Consumed),
            31 => Ok(OracleOutcome::Punt(PuntReason::GtpuExtensionNotification)),
            _ => Err(DropReason::GtpuMessageUnknown),
        }
    }

    /// ICMPv6 to ourselves or to a group; only right echo requests and solicitations are judged.
    fn neighbor_discovery(
        &self,
        here: &[usize],
        frame: &[u8],
        packet: &[u8],
        ip: &OracleIp,
    ) -> OracleOutcome {
        let message = &packet[ip.upper.min(ip.len)..ip.len];
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else {
            return OracleOutcome::Consumed;
        };
        let is_right = icmpv6_checksum(src, dst, message) == 0 && frame[6] & 1 == 0;
        if !is_right || ip.is_fragment || src.is_unspecified() {
            return OracleOutcome::Consumed;
        }
        let is_ours = here.iter().any(|at| self.interfaces[*at].owns(ip.dst));
        match message {
            [128, 0, ..] if message.len() >= 8 && is_ours && is_forwardable(ip.src) => {
                OracleOutcome::Punt(PuntReason::IcmpLocal)
            }
            // A solicitation with one source link-layer address option.
            [135, 0, ..] if message.len() == 32 && message[24..26] == [1, 1] && ip.ttl == 255 => {
                let target = Ipv6Addr::from_octets(message[8..24].try_into().unwrap());
                if target.is_multicast() {
                    return OracleOutcome::Consumed;
                }
                OracleOutcome::Punt(PuntReason::NeighborDiscovery)
            }
            _ => OracleOutcome::Consumed,
        }
    }

    /// The session that a local TEID belongs to.
    fn owner_of_teid(&self, teid: u32) -> Option<usize> {
        self.sessions
            .iter()
            .position(|(_, session)| session.pdrs.iter().any(|pdr| local_teid(pdr) == Some(teid)))
    }

    /// The session that a UE address belongs to. IPv6 UEs are told apart by 64 bits. A session with
    /// a downlink PDR that names no UE is found by the addresses that its uplink PDRs name. Where
    /// nobody has the address, the longest network behind a UE counts.
    /// PDRs about other data networks say nothing about packets that come in at `from`.
    fn owner_of_ue(&self, from: usize, addr: IpAddr) -> Option<usize> {
        self.ue_with(from, addr).map(|(_, at)| at)
    }

    /// The same, with the bits of the address or network that it has.
    pub(super) fn ue_with(&self, from: usize, addr: IpAddr) -> Option<(u8, usize)> {
        let whole = if addr.is_ipv4() { 32 } else { 64 };
        let mut best: Option<(u8, usize)> = None;
        for (at, (_, session)) in self.sessions.iter().enumerate() {
            let is_key_here = |pdr: &PdrSpec| {
                let name = pdr.pdi.network_instance.as_deref();
                instance::is_from_a_network(pdr) && self.is_about(session, name, from)
            };
            let names_no_ue = |pdr: &PdrSpec| is_key_here(pdr) && networks(pdr).is_empty();
            let any = session.pdrs.iter().any(names_no_ue);
            let is_key = |pdr: &&PdrSpec| any || is_key_here(pdr);
            for (first, len) in session.pdrs.iter().filter(is_key).flat_map(networks) {
                let len = len.min(whole);
                if in_prefix(addr, first, len) && best.is_none_or(|(longest, _)| len > longest) {
                    best = Some((len, at));
                }
            }
        }
        best
    }

    /// A user packet, whatever side it came from. Spec: TS 29.244 §5.2.1.
    fn user_packet(
        &self,
        arrival: &OraclePacket<'_>,
        held: Option<&OracleBufferedBy>,
        notes: &mut VerdictNotes,
    ) -> OracleExit {
        notes.lane = Some(lane(arrival));
        let arrival = &mut arrival.clone();
        let found = match held {
            Some(by) => {
                arrival.first = by.first;
                self.match_buffered(by)?
            }
            None => self.match_packet(arrival, notes)?,
        };
        let drops_whole = arrival.tunnel.is_some() && is_end(&found.far);
        let inner = match unwrap(arrival, found.removal) {
            Err(_) if drops_whole => arrival.clone(),
            Err(DropReason::OuterFragment) if held.is_none() => {
                return reassemble(&arrival.ip);
            }
            unwrapped => unwrapped?,
        };
        self.apply_rules((&inner, lane(arrival)), &found, held.is_some(), notes)
    }

    /// A fragment tells, or is told, what its packet's filters compare.
    fn classify_fragment(
        &self,
        seid: Seid,
        arrival: &mut OraclePacket<'_>,
        notes: &mut VerdictNotes,
    ) {
        let ip = &arrival.ip;
        if !ip.is_fragment {
            return;
        }
        let id = first_fragment::id(seid, ip);
        if ip.is_later_fragment {
            arrival.first = first_fragment::known(&self.first_fragments, self.now, &id);
            notes.is_known_fragment = arrival.first.is_some();
        } else {
            notes.first_fragment = Some((id, first_fragment::of(ip, arrival.packet)));
        }
    }

    /// The session's first PDR that matches, and its FAR.
    fn match_packet(
        &self,
        arrival: &mut OraclePacket<'_>,
        notes: &mut VerdictNotes,
    ) -> Result<OracleMatch, DropReason> {
        let owner = match arrival.tunnel {
            Some(tunnel) => self.owner_of_teid(tunnel.teid).ok_or(DropReason::TeidUnknown)?,
            None => self.owner_of_ue(arrival.at, arrival.ip.dst).ok_or(DropReason::UeUnknown)?,
        };
        notes.session = Some(owner);
        self.classify_fragment(self.sessions[owner].0, arrival, notes);
        let (ip, arrival) = (&arrival.ip, &*arrival);
        let session = &self.sessions[owner].1;
        let side = side::of(session, arrival.tunnel.map(|tunnel| tunnel.teid));
        let (from_ue, is_on_link) = (side.from_ue, side::is_on_link(ip));
        if !is_on_link {
            side::check_ue(session, side, ip)?;
        }
        let all = buffering::readings(session);
        let first = all.iter().position(|(pdr, _)| self.matches(session, pdr, arrival));
        let unmatched =
            if is_on_link { DropReason::IpAddressInvalid } else { DropReason::PdrUnmatched };
        let first = first.ok_or(unmatched)?;
        let (pdr, rule) = all[first].clone();
        let far = buffering::far_of(session, &pdr, rule);
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

    /// Carries out the rules of a packet, which came in a lane; `is_again` if they held it before.
    fn apply_rules(
        &self,
        (arrival, came_in): (&OraclePacket<'_>, OracleLane),
        found: &OracleMatch,
        is_again: bool,
        notes: &mut VerdictNotes,
    ) -> OracleExit {
        let ip = &arrival.ip;
        let OracleMatch { owner, from_ue, ref pdr, ref far, .. } = *found;
        let session = &self.sessions[owner].1;
        let brought_qer = found.rule.and_then(OraclePredefinedRule::qer);
        let mut qers: Vec<&Qer> =
            session.qers.iter().filter(|qer| pdr.qers.contains(&qer.id)).collect();
        qers.sort_by_key(|qer| qer.id);
        qers.splice(0..0, &brought_qer);
        let gate = |qer: &&Qer| if from_ue { qer.gates.uplink } else { qer.gates.downlink };
        let octets = ip.len as u64;
        let urrs: Vec<&Urr> = session.urrs.iter().filter(|u| pdr.urrs.contains(&u.id)).collect();
        let exhausted = |urr: &&&Urr| session.usage[&urr.id].is_exhausted();
        // What QoS enforcement stops is measured by those URRs that measure before it.
        let before_qos = |notes: &mut VerdictNotes| {
            for urr in urrs.iter().filter(|urr| urr.information().before_qos && !exhausted(urr)) {
                notes.measured.push((owner, urr.id, from_ue, octets));
            }
        };
        if qers.iter().any(|qer| gate(qer) == Gate::Closed) {
            before_qos(notes);
            return Err(DropReason::GateClosed);
        }
        let buffer = |far: &Far| {
            let bar = session.bars.iter().find(|bar| Some(bar.id) == far.bar);
            let room = bar.and_then(|bar| bar.suggested_pkts).unwrap_or(64);
            let room = usize::from(room.min(1024));
            let OracleMatch { reading, removal, .. } = *found;
            let (seid, pdr, far) = (self.sessions[owner].0, pdr.id, far.id);
            let first = arrival.first;
            let by = OracleBufferedBy { seid, from_ue, pdr, reading, far, removal, first };
            OracleOutcome::Buffer { by, room, lane: came_in }
        };
        let copy = |notes: &mut VerdictNotes, far: &Far| {
            // What waited and is dropped now leaves no copy.
            let is_discarded = is_again && is_end(far);
            if far.action.contains(ApplyAction::DUPL) && !notes.is_copied && !is_discarded {
                let copies = far.duplicating.iter();
                notes.copies = copies
                    .map(|parts| {
                        self.forward(arrival, (session, pdr), from_ue, (parts, true), &qers)
                    })
                    .collect();
            }
        };
        let kept_from_leaving = |far: &Far| match far.action {
            action if action.contains(ApplyAction::BUFF) => Some(Ok(buffer(far))),
            action if !action.contains(ApplyAction::FORW) => Some(Err(DropReason::FarDrop)),
            _ if waits_for_tunnel(far) => Some(Err(DropReason::TunnelUnknown)),
            _ => None,
        };
        if let Some(outcome) = kept_from_leaving(far) {
            copy(notes, far);
            return outcome;
        }
        let (has_passed, due) =
            rate::charge((session, &self.shared_due), &qers, from_ue, self.now, octets);
        notes.due.extend(due.into_iter().map(|(bucket, up, due)| (owner, bucket, up, due)));
        if !has_passed {
            before_qos(notes);
            return Err(DropReason::RateExceeded);
        }
        let Some(windows) = packet_rate::charge(session, &qers, from_ue, self.now) else {
            before_qos(notes);
            return Err(DropReason::PacketRateExceeded);
        };
        let exempt = |urr: &Urr| {
            urr.settings.exempted.iter().any(|exempted| {
                let of = |spec: &SdfSpec| arrival.is_of_flow(spec, from_ue);
                exempted.flows.iter().any(of)
                    || exempted
                        .applications
                        .iter()
                        .any(|id| self.is_of_application(id, from_ue, arrival))
            })
        };
        let stops = |urr: &&&Urr| exhausted(urr) && !exempt(urr);
        // The first URR in the order of identifiers whose quota is used up decides.
        let mut stopping: Vec<&&Urr> = urrs.iter().filter(stops).collect();
        stopping.sort_by_key(|urr| urr.id);
        let far = match stopping.first() {
            None => far,
            Some(urr) => {
                let action = urr.settings.quota_far.ok_or(DropReason::QuotaExhausted)?;
                let far = session.fars.iter().find(|far| far.id == action).unwrap();
                if let Some(outcome) = kept_from_leaving(far) {
                    copy(notes, far);
                    return outcome;
                }
                far
            }
        };
        for urr in urrs.iter().filter(|urr| !stops(urr)) {
            notes.measured.push((owner, urr.id, from_ue, octets));
        }
        notes.counted = Some((owner, from_ue, octets));
        notes.windows = windows.into_iter().map(|(key, window)| (owner, key, window)).collect();
        copy(notes, far);
        if let Some(Redirect::Url(_)) = &far.forwarding.as_ref().unwrap().redirect {
            let segment = &arrival.packet[ip.upper.min(ip.len)..ip.len];
            let offset = |segment: &[u8]| usize::from(segment[12] >> 4) * 4;
            let is_request = from_ue
                && ip.protocol == 6
                && !ip.is_fragment
                && segment.len() >= 20
                && (20..=segment.len()).contains(&offset(segment))
                && u16_at(segment, 2) == 80;
            // How many of them are answered is a question of time.
            return is_request
                .then_some(OracleOutcome::Consumed)
                .ok_or(DropReason::RedirectUnmatched);
        }
        let parts = far.forwarding.as_ref().unwrap();
        self.forward(arrival, (session, pdr), from_ue, (parts, false), &qers)
    }

    /// Carries out forwarding parameters, or those of a copy.
    fn forward(
        &self,
        arrival: &OraclePacket<'_>,
        (session, pdr): (&OracleSession, &PdrSpec),
        from_ue: bool,
        (forwarding, is_copy): (&Forwarding, bool),
        qers: &[&Qer],
    ) -> OracleExit {
        let OraclePacket { packet, ip, tunnel: from, .. } = arrival;
        let is_of_cp = side::is_of_cp(pdr, Some(forwarding.destination));
        if ip.ttl <= 1 && !is_of_cp {
            return Err(DropReason::TtlExceeded);
        }
        if side::is_on_link(ip) && !is_of_cp {
            return Err(DropReason::IpAddressInvalid);
        }
        let redirected = match &forwarding.redirect {
            Some(Redirect::Address { v4, v6, port }) => {
                let far_side = if from_ue { ip.dst } else { ip.src };
                let addr = match (far_side, v4, v6) {
                    (addr, None, None) => Some(addr),
                    (IpAddr::V4(_), v4, _) => v4.map(IpAddr::V4),
                    (IpAddr::V6(_), _, v6) => v6.map(IpAddr::V6),
                };
                Some((addr.ok_or(DropReason::RedirectUnmatched)?, *port))
            }
            _ => None,
        };
        let policy = forwarding.policy.as_deref();
        let policy = policy.map(|id| POLICIES.iter().find(|policy| policy.id == id).unwrap());
        let dscp = policy.and_then(|policy| policy.dscp);
        let to_ran = forwarding.destination == DestinationInterface::Access;
        let outer = forwarding.outer_header_creation.map(|header| {
            let arrived = from.and_then(|from| from.container);
            let arrived = arrived.filter(|_| !pdr.container_deletion);
            let marked = qers.iter().find_map(|qer| mark_of(qer));
            let of_far = || self.mark_of_far(arrival, pdr);
            let uplink = |container: OracleContainer| OracleContainer {
                is_downlink: false,
                rqi: false,
                ppi: None,
                ..container
            };
            let container = match (from_ue, arrived) {
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
            };
            let is_gtpu = header.tunnel().is_some();
            let tos = forwarding.transport_level_marking.or(dscp.map(|dscp| dscp * 4));
            let tos = tos.unwrap_or(0);
            OracleOuterHeader { header, tos, container: container.filter(|_| is_gtpu) }
        });
        let to_data_network = matches!(
            forwarding.destination,
            DestinationInterface::Core | DestinationInterface::SgiLanN6Lan
        );
        let changed = || {
            let mut inner = match is_of_cp {
                true => packet[..ip.len].to_vec(),
                false => next_hop_packet(&packet[..ip.len]),
            };
            if let Some(target) = redirected {
                redirect(&mut inner, ip, from_ue, target);
            }
            if let Some(dscp) = dscp.filter(|_| outer.is_none()) {
                set_traffic_class(&mut inner, dscp);
            }
            inner
        };
        let network_instance = self.name_of(forwarding);
        let networks = self.networks(session, network_instance);
        let (at, station) = match outer {
            Some(outer) => {
                let within = match outer.header.tunnel() {
                    Some(_) => self.transport(forwarding.destination, network_instance),
                    None => networks,
                };
                self.route(&within, outer.header.addr())
            }
            None if to_data_network => {
                let dst = redirected.map_or(ip.dst, |(dst, _)| if from_ue { dst } else { ip.dst });
                if self.is_own(&networks, dst) {
                    return Err(match from_ue {
                        true => DropReason::UeToOwnAddress,
                        false => DropReason::RouteUnknown,
                    });
                }
                let may_come_back = from_ue && from.is_some() && !is_copy;
                let back = self.switches_locally_at(pdr, forwarding, &networks, dst);
                if let Some(interface) = back.filter(|_| may_come_back) {
                    let interface = &self.interfaces[interface];
                    let (port, frame) =
                        (interface.port, link(interface, interface.mac, &changed()));
                    return Ok(OracleOutcome::SwitchLocally { port, frame });
                }
                let next_hop = policy.and_then(|policy| policy.next_hop);
                let next_hop = next_hop.filter(|_| ip.dst.is_ipv4()).map(IpAddr::V4);
                self.route(&networks, next_hop.unwrap_or(dst))
            }
            None => None,
        }
        .ok_or(DropReason::RouteUnknown)?;
        let interface = &self.interfaces[at];
        let fits = interface.mtu_bytes - outer.map_or(0, |outer| outer.len());
        let is_beyond = ip.len > fits;
        // A fragment that ends beyond the longest datagram is divided no further.
        let ends_at = || usize::from(u16_at(packet, 6) & 0x1fff) * 8 + ip.len - ip.upper;
        if is_beyond && (ip.dont_fragment || ends_at() > 65_535) {
            return Err(DropReason::PacketTooBig);
        }
        let inner = changed();
        let parts = if is_beyond { fragment_ipv4(&inner, fits) } else { vec![inner] };
        let wrap = |part: Vec<u8>| match &outer {
            Some(outer) => tunnel(interface, outer, &part),
            None => part,
        };
        let leaving: Vec<Vec<u8>> = parts.into_iter().map(wrap).collect();
        Ok(self.send_to_station(at, station, &leaving, lane(arrival)))
    }

    /// What PDRs with the FAR of `pdr`, of the same direction, mark packets with.
    fn mark_of_far(&self, arrival: &OraclePacket<'_>, pdr: &PdrSpec) -> Option<OracleContainer> {
        let owner = self.owner_of_teid(arrival.tunnel?.teid)?;
        let session = &self.sessions[owner].1;
        let readings = session.pdrs.iter().flat_map(predefined::readings);
        let from_ue = side::is_from_ue(session, pdr);
        let mut sharing: Vec<(PdrSpec, Option<&OraclePredefinedRule>)> = readings
            .filter(|(other, rule)| {
                other.far == pdr.far
                    && rule.is_none_or(|rule| rule.far().is_none())
                    && side::is_from_ue(session, other) == from_ue
            })
            .collect();
        sharing.sort_by_key(|(other, _)| (other.precedence, other.id));
        sharing.iter().find_map(|(other, rule)| {
            let brought = rule.and_then(|rule| rule.qer()).as_ref().and_then(mark_of);
            let mut qers: Vec<&Qer> =
                session.qers.iter().filter(|qer| other.qers.contains(&qer.id)).collect();
            qers.sort_by_key(|qer| qer.id);
            brought.or_else(|| qers.into_iter().find_map(mark_of))
        })
    }

    /// All conditions of the PDI. Spec: TS 29.244 §5.2.1A, §8.2.89.
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

    /// Packets of the PDR come in on the interface: the one with its tunnel's address, or one of its
    /// network instance.
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

    /// The packet belongs to an application. Spec: TS 29.244 §5.2.1A.2.
    fn is_of_application(
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

    fn send_to_station(
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

/// The whole packet carries one of these protocols, as far as this part of it tells: extension headers
/// may lie in the fragments. Spec: RFC 8200 §4.5.
fn may_carry(ip: &OracleIp, protocols: &[u8]) -> bool {
    let is_unknown =
        ip.dst.is_ipv6() && ip.is_later_fragment && IPV6_EXTENSIONS.contains(&ip.protocol);
    is_unknown || protocols.contains(&ip.protocol)
}

/// What becomes of a part of a tunnel packet. Spec: RFC 791 §3.2; RFC 8200 §4.5.
fn reassemble(ip: &OracleIp) -> OracleExit {
    let len = ip.len - ip.fragment_data;
    if len == 0 || ip.is_more && !len.is_multiple_of(8) {
        return Err(DropReason::ReassemblyMalformed);
    }
    Ok(OracleOutcome::Reassemble)
}

fn lane(arrival: &OraclePacket<'_>) -> OracleLane {
    match (arrival.tunnel, arrival.ip.dst) {
        (Some(_), _) => OracleLane::Tunneled,
        (None, IpAddr::V4(_)) => OracleLane::DownlinkV4,
        (None, IpAddr::V6(_)) => OracleLane::DownlinkV6,
    }
}

fn network_layer(ether_type: u16, packet: &[u8]) -> Result<OracleIp, DropReason> {
    let header = ip(packet).map_err(|bad| match bad {
        OracleIpError::Malformed => DropReason::IpMalformed,
        OracleIpError::Checksum => DropReason::IpChecksumWrong,
    })?;
    if header.dst.is_ipv4() == (ether_type == 0x0800) {
        Ok(header)
    } else {
        Err(DropReason::IpMalformed)
    }
}

/// Request or reply about IPv4 over Ethernet from a possible station. Spec: RFC 826.
fn arp(packet: &[u8]) -> OracleExit {
    let is_right = packet.len() >= 28
        && packet[..6] == [0, 1, 8, 0, 6, 4]
        && [1, 2].contains(&u16_at(packet, 6))
        && packet[8] & 1 == 0
        && packet[8..14] != [0; 6];
    if is_right { Ok(OracleOutcome::Punt(PuntReason::Arp)) } else { Err(DropReason::ArpMalformed) }
}

fn echo_v4(frame: &[u8], ip: &OracleIp, message: &[u8]) -> OracleOutcome {
    if message.len() < 8 || message[..2] != [8, 0] || checksum(message) != 0 {
        return OracleOutcome::Drop(DropReason::IcmpUnhandled);
    }
    if is_forwardable(ip.src) && frame[6] & 1 == 0 {
        return OracleOutcome::Punt(PuntReason::IcmpLocal);
    }
    OracleOutcome::Consumed
}

fn icmpv6_checksum(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> u16 {
    let mut pseudo = [src.octets(), dst.octets()].concat();
    pseudo.extend_from_slice(&(message.len() as u32).to_be_bytes());
    pseudo.extend_from_slice(&[0, 0, 0, 58]);
    pseudo.extend_from_slice(message);
    checksum(&pseudo)
}

/// No packet gets beyond the FAR: it drops, or waits for its tunnel without buffering.
fn is_end(far: &Far) -> bool {
    far.action.contains(ApplyAction::DROP)
        || far.action.contains(ApplyAction::FORW) && waits_for_tunnel(far)
}

/// The PDU Session Container that a QER asks for.
fn mark_of(qer: &Qer) -> Option<OracleContainer> {
    let (qfi, rqi, ppi) = (qer.qfi?.value(), qer.rqi, qer.ppi);
    Some(OracleContainer { is_downlink: true, qfi, rqi, ppi })
}

/// Addresses of the UE and networks behind it: first address and length.
fn networks(pdr: &PdrSpec) -> Vec<(IpAddr, u8)> {
    let UeAddresses { v4, v6 } = pdr.pdi.ue.map(|ue| ue.addresses).unwrap_or_default();
    let own = v4.map(|addr| (IpAddr::V4(addr), 32)).into_iter();
    let own = own.chain(v6.map(|prefix| (prefix.addr().into(), prefix.len())));
    let further = pdr.pdi.further_ues.iter().chain(&pdr.pdi.framed_routes);
    let further = further.map(|prefix| match prefix {
        IpPrefix::V4(prefix) => (prefix.addr().into(), prefix.len()),
        IpPrefix::V6(prefix) => (prefix.addr().into(), prefix.len()),
    });
    own.chain(further).collect()
}

pub(super) fn local_teid(pdr: &PdrSpec) -> Option<u32> {
    match pdr.pdi.f_teid? {
        FTeidSpec::Given { teid, .. } => Some(teid.0),
        FTeidSpec::Choose { .. } => unreachable!("the answer to the request filled it in"),
    }
}

fn contains_address(networks: &[(IpAddr, u8)], addr: IpAddr) -> bool {
    networks.iter().any(|(first, len)| in_prefix(addr, *first, *len))
}

/// An address that some PDR of the session names, or any if none names one.
pub(super) fn is_ue(session: &OracleSession, addr: IpAddr) -> bool {
    let named: Vec<(IpAddr, u8)> = session.pdrs.iter().flat_map(networks).collect();
    named.is_empty() || contains_address(&named, addr)
}

/// The packet without the outer header that its PDR removes. Spec: TS 29.244 §8.2.64.
fn unwrap<'a>(
    arrival: &OraclePacket<'a>,
    removal: Option<HeaderRemoval>,
) -> Result<OraclePacket<'a>, DropReason> {
    use HeaderRemoval as R;
    let OraclePacket { at, packet, ip, tunnel, first } = *arrival;
    let kept = Ok(OraclePacket { at, packet, ip, tunnel, first });
    let protocols: &[u8] = match (removal, tunnel) {
        (None, None) => return kept,
        (Some(R::GtpuUdpIp), Some(_)) => return kept,
        (Some(R::GtpuUdpIpv4), Some(tunnel)) if tunnel.is_ipv4 => return kept,
        (Some(R::GtpuUdpIpv6), Some(tunnel)) if !tunnel.is_ipv4 => return kept,
        (Some(R::UdpIpv4), None) if ip.dst.is_ipv4() => &[17],
        (Some(R::UdpIpv6), None) if ip.dst.is_ipv6() => &[17],
        (Some(R::Ipv4), None) if ip.dst.is_ipv4() => &[4, 41],
        (Some(R::Ipv6), None) if ip.dst.is_ipv6() => &[4, 41],
        _ => return Err(DropReason::OuterHeaderMismatch),
    };
    if !may_carry(&ip, protocols) {
        return Err(DropReason::OuterHeaderMismatch);
    }
    if ip.is_fragment {
        return Err(DropReason::OuterFragment);
    }
    let upper = &packet[ip.upper..ip.len];
    let inner = match ip.protocol {
        17 => {
            let end = upper.get(4..6).map_or(0, |_| usize::from(u16_at(upper, 4)));
            if upper.len() < 8 || end < 8 || end > upper.len() {
                return Err(DropReason::UdpMalformed);
            }
            let datagram = &upper[..end];
            if u16_at(upper, 6) != 0 && udp_sum((ip.src, ip.dst), datagram) != 0 {
                return Err(DropReason::UdpChecksumWrong);
            }
            &datagram[8..]
        }
        _ => upper,
    };
    let inner_ip = super::packet::ip(inner).map_err(|bad| match bad {
        OracleIpError::Malformed => DropReason::InnerMalformed,
        OracleIpError::Checksum => DropReason::IpChecksumWrong,
    })?;
    if ip.protocol != 17 && inner_ip.dst.is_ipv4() != (ip.protocol == 4) {
        return Err(DropReason::InnerMalformed);
    }
    if !is_forwardable(inner_ip.src) || !is_forwardable(inner_ip.dst) {
        return Err(DropReason::IpAddressInvalid);
    }
    Ok(OraclePacket { at, packet: inner, ip: inner_ip, tunnel, first })
}
