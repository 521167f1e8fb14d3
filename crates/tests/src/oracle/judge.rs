//! Judges a frame: link layer, packets to ourselves, user packets.

use core::net::{IpAddr, Ipv6Addr};

use adit_rules::{DropReason, PuntReason};

use super::arrival::{OraclePacket, OracleTunnel, may_carry, unwrap, with_outer_mark};
use super::checksum::{OracleAddrs, checksum, icmpv6_sum, udp_sum};
use super::enforce::is_end;
use super::packet::{OracleGtpu, OracleIp, OracleIpError, gtpu, ip, is_forwardable, u16_at};
use super::verdict::{OracleBufferedBy, OracleExit, OracleOutcome, OracleVerdict, VerdictNotes};
use super::{Oracle, OracleRole, side};

impl Oracle {
    /// The verdict on `frame`, received on `port`.
    #[must_use]
    pub fn judge(&self, port: u16, frame: &[u8]) -> OracleVerdict {
        let mut notes = VerdictNotes::default();
        let outcome = self.frame(port, frame, None, &mut notes).unwrap_or_else(OracleOutcome::Drop);
        notes.verdict(outcome)
    }

    /// The verdicts on a frame with this `verdict` once a quota that counts it is used up, if
    /// packets have a FAR then; one for each such quota. Nothing changes.
    #[must_use]
    pub fn judge_beyond_quotas(
        &mut self,
        verdict: &OracleVerdict,
        port: u16,
        frame: &[u8],
    ) -> Vec<OracleVerdict> {
        let mut verdicts = Vec::new();
        for &(at, id, ..) in &verdict.measured {
            let session = &mut self.sessions[at].1;
            let has_far =
                session.urrs.iter().any(|urr| urr.id == id && urr.settings.quota_far.is_some());
            let usage = session.usage.get_mut(&id).unwrap();
            if !has_far || usage.quota.is_none() {
                continue;
            }
            let quota = usage.quota.replace((0, 0));
            verdicts.push(self.judge(port, frame));
            self.sessions[at].1.usage.get_mut(&id).unwrap().quota = quota;
        }
        verdicts
    }

    /// The outcome of a frame. `held`: the rules that buffered it before.
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
                let packet = &frame[l3..];
                let mtu = here.iter().map(|at| self.interfaces[*at].mtu_bytes).max();
                let ip = network_layer(ether_type, packet).map_err(|reason| {
                    if is_cut(packet, mtu) { DropReason::FrameCut } else { reason }
                })?;
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
                        OraclePacket { at, packet, ip, tunnel: None, outer_tos: 0, first: None }
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

    /// A packet to one of our addresses: the user packet of a G-PDU, or the outcome of anything
    /// else.
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
        let addrs = OracleAddrs { src: ip.src, dst: ip.dst };
        let has_checksum = !ip.dst.is_ipv4() && u16_at(datagram, 6) != 0;
        if has_checksum && udp_sum(addrs, &datagram[..end]) != 0 {
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
        let (tunnel, outer_tos) = (Some(tunnel), ip.tos);
        Ok(Ok(OraclePacket { at, packet: inner, ip: inner_ip, tunnel, outer_tos, first: None }))
    }

    /// GTP-U messages other than G-PDUs and End Markers. Spec: TS 29.281 §7.
    fn signaling(&self, frame: &[u8], header: &OracleGtpu, message: &[u8]) -> OracleExit {
        let payload = &message[header.payload..header.end];
        match header.message_type {
            1 if frame[6] & 1 != 0 => Err(DropReason::FrameMalformed),
            1 => Ok(OracleOutcome::Punt(PuntReason::GtpuEchoRequest)),
            2 => Ok(OracleOutcome::Punt(PuntReason::GtpuEchoResponse)),
            // TEID Data I and a GTP-U peer address of IPv4. The oracle does not judge other
            // encodings.
            26 if payload.len() == 12 && payload[0] == 16 && payload[5..8] == [133, 0, 4] => {
                Ok(OracleOutcome::Punt(PuntReason::GtpuErrorIndication))
            }
            26 => Ok(OracleOutcome::Consumed),
            31 => Ok(OracleOutcome::Punt(PuntReason::GtpuExtensionNotification)),
            _ => Err(DropReason::GtpuMessageUnknown),
        }
    }

    /// ICMPv6 to ourselves or to a group. The oracle judges valid echo requests and solicitations
    /// only.
    fn neighbor_discovery(
        &self,
        here: &[usize],
        frame: &[u8],
        packet: &[u8],
        ip: &OracleIp,
    ) -> OracleOutcome {
        let message = &packet[ip.upper.min(ip.len)..ip.len];
        if ip.src.is_ipv4() {
            return OracleOutcome::Consumed;
        }
        let addrs = OracleAddrs { src: ip.src, dst: ip.dst };
        let is_right = icmpv6_sum(addrs, message) == 0 && frame[6] & 1 == 0;
        if !is_right || ip.is_fragment || ip.src.is_unspecified() {
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

    /// A user packet of either direction. Spec: TS 29.244 §5.2.1.
    fn user_packet(
        &self,
        arrival: &OraclePacket<'_>,
        held: Option<&OracleBufferedBy>,
        notes: &mut VerdictNotes,
    ) -> OracleExit {
        notes.lane = Some(arrival.lane());
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
        let packet = &with_outer_mark(&inner)?;
        let ip = ip(packet).unwrap();
        let inner = OraclePacket { packet, ip, ..inner };
        self.apply_rules(&inner, arrival.lane(), &found, held.is_some(), notes)
    }
}

/// The outcome of a fragment of a GTP-U packet. Spec: RFC 791 §3.2; RFC 8200 §4.5.
fn reassemble(ip: &OracleIp) -> OracleExit {
    let len = ip.len - ip.fragment_data;
    if len == 0 || ip.is_more && !len.is_multiple_of(8) {
        return Err(DropReason::ReassemblyMalformed);
    }
    Ok(OracleOutcome::Reassemble)
}

/// True for a packet of which a port passed only the beginning: more than fits the link.
fn is_cut(packet: &[u8], mtu: Option<usize>) -> bool {
    let whole = match packet.first().map(|octet| octet >> 4) {
        Some(4) if packet.len() >= 4 => u16_at(packet, 2).into(),
        Some(6) if packet.len() >= 6 => 40 + usize::from(u16_at(packet, 4)),
        _ => return false,
    };
    mtu.is_some_and(|mtu| packet.len() > mtu) && whole > packet.len()
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
