//! The maximum segment size that TCP announces, lowered to the size that fits the path of a packet.
//! Spec: RFC 9293 §3.7.1.

use adit_rules::{HeaderCreation, HeaderRemoval};
use adit_types::TcpMss;

use super::OracleRole;
use super::forward::OracleForwarding;
use super::frame::{OracleOuterHeader, correct_checksum};
use super::packet::u16_at;

impl OracleForwarding<'_> {
    /// The packet that leaves through an interface behind `outer`, with the MSS that it may
    /// announce. Copies keep theirs.
    pub(super) fn with_mss(
        &self,
        packet: Vec<u8>,
        leaves_at: usize,
        outer: Option<&OracleOuterHeader>,
    ) -> Vec<u8> {
        let on = [leaves_at, self.arrival.at].map(|at| &self.oracle.interfaces[at]);
        let Some(network) = on.into_iter().find(|of| of.role == OracleRole::N6) else {
            return packet;
        };
        let overheads = [outer.map_or(0, |of| self.created(of)), self.removed()];
        let headers = if packet[0] >> 4 == 4 { 40 } else { 60 };
        let fits = on.iter().zip(overheads).map(|(on, overhead)| on.mtu_bytes - overhead - headers);
        match network.tcp_mss {
            TcpMss::Off => packet,
            _ if self.is_copy => packet,
            TcpMss::AtMost(most) => self.lowered(packet, usize::from(most)),
            TcpMss::Clamp => self.lowered(packet, fits.min().unwrap()),
        }
    }

    /// Octets of a created outer header, of a tunnel with the longest container.
    fn created(&self, outer: &OracleOuterHeader) -> usize {
        match outer.header {
            HeaderCreation::Gtpu(tunnel) => self.longest_tunnel(tunnel.addr.is_ipv4()),
            _ => outer.len(),
        }
    }

    /// IP, UDP, GTP-U with its optional fields, a container with a paging policy, and a service
    /// class if a QER of the session has one.
    fn longest_tunnel(&self, is_ipv4: bool) -> usize {
        let class =
            if self.session.qers.iter().any(|of| of.service_class.is_some()) { 4 } else { 0 };
        (if is_ipv4 { 20 } else { 40 }) + 8 + 12 + 8 + class
    }

    /// Octets of the outer header that was removed.
    fn removed(&self) -> usize {
        match (self.arrival.tunnel, self.pdr.outer_header_removal) {
            (Some(tunnel), _) => self.longest_tunnel(tunnel.is_ipv4),
            (None, Some(HeaderRemoval::UdpIpv4)) => 28,
            (None, Some(HeaderRemoval::UdpIpv6)) => 48,
            (None, Some(HeaderRemoval::Ipv4)) => 20,
            (None, Some(HeaderRemoval::Ipv6)) => 40,
            (None, _) => 0,
        }
    }

    /// The packet with all options of a SYN that announce more than `most` lowered.
    fn lowered(&self, packet: Vec<u8>, most: usize) -> Vec<u8> {
        let ip = &self.arrival.ip;
        let tcp = ip.upper;
        let is_whole = packet.len() >= tcp + 20;
        if ip.protocol != 6 || ip.is_later_fragment || !is_whole || packet[tcp + 13] & 2 == 0 {
            return packet;
        }
        let mut after = packet.clone();
        let end = packet.len().min(tcp + usize::from(packet[tcp + 12] >> 4) * 4);
        let mut at = tcp + 20;
        while at < end && packet[at] != 0 {
            let len = match packet[at] {
                1 => 1,
                _ if at + 1 < end && packet[at + 1] >= 2 => usize::from(packet[at + 1]),
                _ => break,
            };
            let is_mss = packet[at] == 2 && len == 4 && at + 4 <= end;
            if is_mss && usize::from(u16_at(&packet, at + 2)) > most {
                after[at + 2..at + 4].copy_from_slice(&u16::try_from(most).unwrap().to_be_bytes());
            }
            at += len;
        }
        if after != packet {
            correct_checksum(&mut after, &packet, tcp + 16);
        }
        after
    }
}
