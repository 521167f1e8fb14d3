//! The network around the bench: addresses, sessions, and the size and rate of packets.

use std::net::{Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, Nanos, PortId, Seid, Teid, VlanId};
use anyhow::Context;
use rand::Rng;
use rand::rngs::SmallRng;

pub(crate) const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 3, 2]), MacAddr([2, 0, 0, 0, 6, 2])];
pub(crate) const PORTS: [PortId; 2] = [PortId(0), PortId(1)];
const GNB_MAC: MacAddr = MacAddr([2, 0, 0, 0, 3, 1]);
pub(crate) const DN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 6, 1]);
pub(crate) const N3_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
pub(crate) const GNB_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
pub(crate) const DN_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);
/// Our address on N6, or on N9.
pub(crate) const N6_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 2);
pub(crate) const QFI: u8 = 9;

/// Length of the inner IP packet. Unit: octets.
pub(crate) const INNER_LEN: u16 = 64;

/// Virtual time per burst of 32 packets in benches with rates: 10.7 million packets per second.
pub(crate) const BURST_TIME: Nanos = Nanos(3000);

/// Maximum number of gNBs of a bench.
pub(crate) const GNBS_MAX: u16 = 256;

/// Prefix length of the subnet of N3, in which the gNBs are.
pub(crate) const N3_PREFIX_LEN: u8 = 22;

/// Returns address and MAC address of gNB `number`, which is below [`GNBS_MAX`].
pub(crate) const fn gnb(number: u16) -> (Ipv4Addr, MacAddr) {
    let [high, low] = number.to_be_bytes();
    match number {
        0 => (GNB_ADDR, GNB_MAC),
        _ => (Ipv4Addr::new(10, 0, 2, low), MacAddr([2, 0, 0, 1, high, low])),
    }
}

/// Our IPv6 address on N3.
pub(crate) const N3_ADDR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 2);

/// Returns the IPv6 address of gNB `number`.
pub(crate) const fn gnb6(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 1, number)
}

/// The VLAN of either interface in benches with tags.
pub(crate) const VLAN: u16 = 100;

/// Number of PDRs with SDF filters per direction. [`FILTER_PORT`] is the remote port of the first.
pub(crate) const FILTERED_PDRS: u16 = 4;
pub(crate) const FILTER_PORT: u16 = 5000;

/// Returns the IPv6 prefix of the UE with this IPv4 address.
pub(crate) fn ue6(ue: Ipv4Addr) -> Ipv6Addr {
    let first = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0);
    Ipv6Addr::from_bits(first.to_bits() + (u128::from(ue.to_bits() & 0xff_ffff) << 64))
}

/// The data of an established session that packets need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BenchSession {
    /// The TEID to which the gNB sends.
    pub teid: Teid,
    /// The address of the UE.
    pub ue: Ipv4Addr,
    /// The SEID of the UP function.
    pub up_seid: Seid,
    /// The VLAN of the session's packets, or untagged.
    pub vlan: VlanId,
    /// Index of the session's gNB.
    pub gnb: u16,
    /// True if the gNB's tunnel is over IPv6.
    pub n3_v6: bool,
    /// TEID of the N9 tunnel for downlink packets from another UPF; `None` if packets come over N6.
    pub n9_teid: Option<Teid>,
}

/// Returns one of `sessions` at random.
///
/// # Errors
/// `sessions` is empty.
pub(crate) fn random_session(
    sessions: &[BenchSession],
    random: &mut SmallRng,
) -> anyhow::Result<BenchSession> {
    let index = random.random_range(0..sessions.len().max(1));
    sessions.get(index).copied().context("a session")
}

/// The IP version of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchIpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Either family, at random. With filters, each packet matches a filter of its family.
    Mixed,
}
