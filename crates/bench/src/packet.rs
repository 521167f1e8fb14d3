//! The packets of the bench.

use std::net::{Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, PortId, Qfi, Teid, VlanId};
use adit_wire::checksum::Sum;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::udp::UdpHeader;
use adit_wire::vlan::VlanTag;
use adit_wire::{
    EtherType, OuterIpv4, OuterIpv6, PduSessionContainer, UdpChecksum, emit_gtpu_ipv4,
    emit_gtpu_ipv6,
};
use anyhow::Context;
use rand::Rng;
use rand::rngs::SmallRng;
use zerocopy::IntoBytes;

use super::network::{self, BenchIpVersion, BenchSession, INNER_LEN};

/// Hosts of the data network, behind its gateway: 20.0.0.0 to 99.255.255.255.
const NETWORK_START: u32 = 20 << 24;
const NETWORK_HOSTS: u32 = 80 << 24;
/// IPv6 prefix of the same hosts.
const NETWORK6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 8, 0, 0, 0, 0, 0);

/// Offset of the EtherType.
const ETHER_TYPE_AT: usize = 12;
/// Length of the Ethernet header.
const LINK_LEN: usize = 14;
/// Length of Ethernet, IPv4, UDP and GTP-U headers with a PDU Session Container. Unit: octets.
pub(crate) const TUNNEL_HEADERS_LEN: usize = LINK_LEN + 20 + 8 + 16;
/// Offset of the GTP-U flags, after Ethernet, IPv4 and UDP.
const GTPU_AT: usize = LINK_LEN + 20 + 8;
const SEQUENCE_FLAG: u8 = 0x02;
const SPARE_FLAG: u8 = 0x08;

/// A kind of packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchPacket {
    /// A G-PDU from the gNB.
    Uplink {
        /// With a PDU Session Container.
        container: bool,
        /// IP version of the UE's packet.
        family: BenchIpVersion,
        /// Deviation from a usual packet.
        quirk: Quirk,
    },
    /// An IP packet from the data network.
    Downlink {
        /// IP version.
        family: BenchIpVersion,
    },
}

/// Deviation of an uplink packet from a usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quirk {
    /// None.
    None,
    /// A sequence number.
    Sequence,
    /// The spare bit of GTP-U: receivers ignore it, but the fast path does not handle it.
    Spare,
    /// An unknown EtherType.
    EtherType,
    /// An unknown TEID.
    Teid,
    /// The source address of another UE.
    Source,
}

/// A host of the data network, and the family of the packet.
#[derive(Debug, Clone, Copy)]
struct RemoteHost {
    host: u32,
    port: u16,
    v6: bool,
}

impl BenchPacket {
    /// A usual uplink packet.
    pub(crate) const UPLINK: Self = Self::uplink(BenchIpVersion::V4);
    /// A usual downlink packet.
    pub(crate) const DOWNLINK: Self = Self::Downlink { family: BenchIpVersion::V4 };

    /// Returns a usual uplink packet of a family.
    pub(crate) const fn uplink(family: BenchIpVersion) -> Self {
        Self::Uplink { container: true, family, quirk: Quirk::None }
    }

    /// True for packets from the gNB.
    pub(crate) const fn is_uplink(self) -> bool {
        matches!(self, Self::Uplink { .. })
    }

    /// Returns the name of the direction in reports.
    pub(crate) const fn direction(self) -> &'static str {
        if self.is_uplink() { "uplink" } else { "downlink" }
    }

    /// Returns the port on which these packets arrive.
    pub(crate) const fn rx_port(self) -> PortId {
        PortId(if self.is_uplink() { 0 } else { 1 })
    }

    /// Writes one packet of `session` with a random remote host. Returns its length.
    ///
    /// # Errors
    /// Never for the lengths of this bench.
    pub(crate) fn write(
        self,
        frame: &mut [u8; 256],
        session: BenchSession,
        random: &mut SmallRng,
    ) -> anyhow::Result<usize> {
        let host = NETWORK_START + random.random_range(0..NETWORK_HOSTS);
        // Each PDR with a filter has its own port.
        let (Self::Uplink { family, .. } | Self::Downlink { family }) = self;
        let filters = network::FILTERED_PDRS;
        let (v6, filter) = match family {
            BenchIpVersion::V4 => (false, random.random_range(0..filters)),
            BenchIpVersion::V6 => (true, random.random_range(0..filters)),
            BenchIpVersion::Mixed => {
                // The first half of the filters are for IPv4.
                let filter = random.random_range(0..filters);
                (filter >= filters / 2, filter)
            }
        };
        let remote = RemoteHost { host, port: network::FILTER_PORT + filter, v6 };
        self.write_to(frame, session, remote)
    }

    /// Writes one packet of `session` from or to `remote`.
    fn write_to(
        self,
        frame: &mut [u8; 256],
        session: BenchSession,
        remote: RemoteHost,
    ) -> anyhow::Result<usize> {
        let link = match self {
            Self::Uplink { container, quirk, .. } => {
                let unknown = quirk == Quirk::Teid;
                let teid = Teid(if unknown { session.teid.0 ^ 1 << 31 } else { session.teid.0 });
                match session.n3_v6 {
                    false => {
                        let tunnel = BenchTunnel::of_gnb(session.gnb, teid);
                        write_tunnel(frame, tunnel, container, quirk)?
                    }
                    true => tunnel_over_v6(session.gnb, teid, container)?.len(),
                }
            }
            Self::Downlink { .. } if let Some(teid) = session.n9_teid => {
                write_tunnel(frame, BenchTunnel::of_upf(teid), true, Quirk::None)?
            }
            Self::Downlink { .. } => {
                let [dst, src] = [network::MACS[1], network::DN_MAC];
                write_ethernet(frame, dst, src, if remote.v6 { 0x86dd } else { 0x0800 })
            }
        };
        let end = link + usize::from(INNER_LEN);
        let mut session = session;
        if matches!(self, Self::Uplink { quirk: Quirk::Source, .. }) {
            session.ue = Ipv4Addr::from_bits(session.ue.to_bits() ^ 1);
        }
        write_inner(&mut frame[link..end], self.is_uplink(), session, remote)?;
        if let Self::Uplink { container, .. } = self
            && session.n3_v6
        {
            let mut outer = tunnel_over_v6(session.gnb, session.teid, container)?;
            outer.udp_checksum = UdpChecksum::Compute(Sum::new().bytes(&frame[link..end]));
            emit_gtpu_ipv6(&mut frame[..link], &outer)
                .map_err(|error| anyhow::anyhow!("{error:?}"))?;
        }
        if session.vlan == VlanId::UNTAGGED {
            return Ok(end);
        }
        frame.copy_within(ETHER_TYPE_AT..end, ETHER_TYPE_AT + VlanTag::LEN);
        frame[ETHER_TYPE_AT..][..2].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
        frame[ETHER_TYPE_AT + 2..][..2].copy_from_slice(&session.vlan.value().to_be_bytes());
        Ok(end + VlanTag::LEN)
    }
}

/// Returns the headers of a packet to gNB `number`, Ethernet included.
///
/// # Errors
/// Never for the lengths of this bench.
pub(crate) fn headers_to_gnb(number: u16) -> anyhow::Result<[u8; TUNNEL_HEADERS_LEN]> {
    let (dst, dst_mac) = network::gnb(number);
    let tunnel = BenchTunnel {
        src: network::N3_ADDR,
        src_mac: network::MACS[0],
        dst,
        dst_mac,
        teid: Teid(0),
        container: |qfi| PduSessionContainer::downlink(qfi, false),
    };
    let mut frame = [0; 256];
    write_tunnel(&mut frame, tunnel, true, Quirk::None)?;
    frame.first_chunk().copied().context("a frame")
}

/// A tunnel to or from the measured UPF.
#[derive(Clone, Copy)]
struct BenchTunnel {
    src: Ipv4Addr,
    src_mac: MacAddr,
    dst: Ipv4Addr,
    dst_mac: MacAddr,
    teid: Teid,
    /// Makes the PDU Session Container of a packet with the given QFI.
    container: fn(Qfi) -> PduSessionContainer,
}

impl BenchTunnel {
    /// Returns the tunnel from gNB `number`.
    const fn of_gnb(number: u16, teid: Teid) -> Self {
        let (src, src_mac) = network::gnb(number);
        let container = PduSessionContainer::uplink;
        let [dst_mac, _] = network::MACS;
        Self { src, src_mac, dst: network::N3_ADDR, dst_mac, teid, container }
    }

    /// Returns the tunnel from another UPF, for packets to the UE.
    const fn of_upf(teid: Teid) -> Self {
        const fn container(qfi: Qfi) -> PduSessionContainer {
            PduSessionContainer::downlink(qfi, false)
        }
        let [_, dst_mac] = network::MACS;
        let (src, src_mac) = (network::DN_ADDR, network::DN_MAC);
        Self { src, src_mac, dst: network::N6_ADDR, dst_mac, teid, container }
    }
}

/// Returns the headers of a tunnel over IPv6 from gNB `number`, without the inner checksum.
fn tunnel_over_v6(number: u16, teid: Teid, has_container: bool) -> anyhow::Result<OuterIpv6> {
    let qfi = Qfi::new(network::QFI).context("six bits")?;
    let [dst_mac, _] = network::MACS;
    Ok(OuterIpv6 {
        src_mac: network::gnb(number).1,
        dst_mac,
        vlan: VlanId::UNTAGGED,
        src: network::gnb6(number),
        dst: network::N3_ADDR6,
        traffic_class: 0,
        flow_label: 0,
        src_port: 2152,
        teid,
        psc: has_container.then(|| PduSessionContainer::uplink(qfi)),
        service_class: None,
        inner_len: INNER_LEN,
        udp_checksum: UdpChecksum::Zero,
    })
}

/// Writes all headers before the UE's packet. Returns their length.
fn write_tunnel(
    frame: &mut [u8; 256],
    tunnel: BenchTunnel,
    has_container: bool,
    quirk: Quirk,
) -> anyhow::Result<usize> {
    let qfi = Qfi::new(network::QFI).context("six bits")?;
    let BenchTunnel { src, src_mac, dst, dst_mac, teid, container } = tunnel;
    let outer = OuterIpv4 {
        src_mac,
        dst_mac,
        vlan: VlanId::UNTAGGED,
        src,
        dst,
        tos: 0,
        identification: 0,
        src_port: 2152,
        teid,
        psc: has_container.then(|| container(qfi)),
        service_class: None,
        inner_len: INNER_LEN,
    };
    let len = outer.len();
    emit_gtpu_ipv4(&mut frame[..len], &outer).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    match quirk {
        Quirk::Sequence => frame[GTPU_AT] |= SEQUENCE_FLAG,
        Quirk::Spare => frame[GTPU_AT] |= SPARE_FLAG,
        Quirk::EtherType => frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes()),
        Quirk::None | Quirk::Teid | Quirk::Source => {}
    }
    Ok(len)
}

fn write_ethernet(frame: &mut [u8; 256], dst: MacAddr, src: MacAddr, ether_type: u16) -> usize {
    frame[..6].copy_from_slice(&dst.0);
    frame[6..12].copy_from_slice(&src.0);
    frame[12..LINK_LEN].copy_from_slice(&ether_type.to_be_bytes());
    LINK_LEN
}

/// Writes a UDP packet between the UE and a host.
fn write_inner(
    packet: &mut [u8],
    uplink: bool,
    session: BenchSession,
    RemoteHost { host, port, v6 }: RemoteHost,
) -> anyhow::Result<()> {
    let (from_port, to_port) = if uplink { (4000, port) } else { (port, 4000) };
    let upper = if v6 {
        let ue = Ipv6Addr::from_bits(network::ue6(session.ue).to_bits() | 1);
        let far = Ipv6Addr::from_bits(NETWORK6.to_bits() | u128::from(host));
        let (src, dst) = if uplink { (ue, far) } else { (far, ue) };
        let header = Ipv6Header::new(&Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_len: INNER_LEN - 40,
            next_header: 17,
            hop_limit: 64,
            src,
            dst,
        });
        packet[..40].copy_from_slice(header.as_bytes());
        40
    } else {
        let far = Ipv4Addr::from_bits(host);
        let (src, dst) = if uplink { (session.ue, far) } else { (far, session.ue) };
        let header = Ipv4Header::new(&Ipv4Fields {
            tos: 0,
            total_len: INNER_LEN,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: 17,
            src,
            dst,
        });
        packet[..20].copy_from_slice(header.as_bytes());
        20
    };
    let udp_len = INNER_LEN - u16::try_from(upper)?;
    let header = UdpHeader::new(from_port, to_port, udp_len, 0);
    packet[upper..upper + 8].copy_from_slice(header.as_bytes());
    Ok(())
}
