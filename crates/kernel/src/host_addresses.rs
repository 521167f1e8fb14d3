//! Addresses that adit adds to the host's devices while it is active: those of N4 and of kernel
//! ports.
//!
//! Each address has a lifetime that adit prolongs. The kernel thus removes the addresses of a
//! process that was killed or hangs.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use adit_types::MacAddr;
use adit_wire::arp::ArpPacket;
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::neighbor::{HOP_LIMIT, MESSAGE_LEN, NeighborAdvertisement, multicast_mac};
use adit_wire::{EtherType, Malformed, protocol};

use crate::error::KernelError;
use crate::netlink::Netlink;
use crate::network::IpNetwork;
use crate::packet_socket::PacketSocket;

/// The all-nodes multicast address. Spec: RFC 4291 §2.7.1.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const IPV6_HEADER_LEN: usize = 40;

/// An address, and the device to which it is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAddress {
    /// Name of the device.
    pub device: String,
    /// The address, with the prefix length of the link.
    pub network: IpNetwork,
}

/// Addresses that adit holds while it is active. Drop removes those that adit added.
#[derive(Debug)]
pub struct HostAddresses {
    netlink: Netlink,
    held: Vec<HeldAddress>,
}

#[derive(Debug)]
struct HeldAddress {
    device: String,
    index: i32,
    network: IpNetwork,
    /// True if adit added the address. The device had the other addresses before, and keeps them.
    is_added: bool,
}

impl HostAddresses {
    /// Adds the addresses for `lifetime`, which [`Self::prolong`] extends. An address that a device
    /// has without a lifetime is left alone.
    ///
    /// # Errors
    /// A device does not exist, or the kernel refuses the address; the addresses added so far are
    /// removed.
    pub fn add(wanted: &[DeviceAddress], lifetime: Duration) -> Result<Self, KernelError> {
        let open = |error| KernelError::device("cannot configure", "network devices", error);
        let mut addresses = Self { netlink: Netlink::open().map_err(open)?, held: Vec::new() };
        for DeviceAddress { device, network } in wanted {
            let fail =
                |operation| move |error: io::Error| KernelError::device(operation, device, error);
            let netlink = &mut addresses.netlink;
            let index = netlink.index(device).map_err(fail("cannot find"))?;
            let had = netlink.has_permanent_address(index, network.addr);
            let is_added = !had.map_err(fail("cannot read the addresses of"))?;
            if is_added {
                let added = netlink.add_address(index, *network, Some(lifetime));
                added.map_err(fail("cannot give its address to"))?;
            }
            let (device, network) = (device.clone(), *network);
            addresses.held.push(HeldAddress { device, index, network, is_added });
        }
        Ok(addresses)
    }

    /// Makes the addresses last for `lifetime` from now on.
    ///
    /// # Errors
    /// A device has lost its address, and the kernel refuses to add it again.
    pub fn prolong(&mut self, lifetime: Duration) -> Result<(), KernelError> {
        for HeldAddress { device, index, network, .. } in
            self.held.iter().filter(|held| held.is_added)
        {
            let prolonged = self.netlink.add_address(*index, *network, Some(lifetime));
            prolonged.map_err(|error| {
                KernelError::device("cannot prolong the address of", device, error)
            })?;
        }
        Ok(())
    }

    /// Announces every address once on its link, by a gratuitous ARP or an unsolicited Neighbor
    /// Advertisement. Links other than Ethernet have no stations to notify.
    ///
    /// # Errors
    /// The kernel's, for example without `CAP_NET_RAW`. The remaining addresses are announced
    /// nevertheless.
    pub fn announce(&self) -> Result<(), KernelError> {
        let mut outcome = Ok(());
        for HeldAddress { device, index, network, .. } in &self.held {
            if let Err(error) = announce(*index, network.addr) {
                let operation = "cannot announce the address of";
                outcome = Err(KernelError::device(operation, device, error));
            }
        }
        outcome
    }
}

impl Drop for HostAddresses {
    fn drop(&mut self) {
        for held in self.held.iter().filter(|held| held.is_added) {
            // Otherwise the kernel removes it when its lifetime ends.
            let _ = self.netlink.remove_address(held.index, held.network);
        }
    }
}

fn announce(index: i32, addr: IpAddr) -> io::Result<()> {
    let Some(socket) = PacketSocket::open(index)? else { return Ok(()) };
    let malformed = |_: Malformed| io::Error::from(io::ErrorKind::InvalidData);
    match addr {
        // A request that needs no answer. Spec: RFC 5227 §2.3.
        IpAddr::V4(addr) => {
            let mut packet = [0; ArpPacket::LEN];
            ArpPacket::request(socket.mac, addr, addr).emit(&mut packet).map_err(malformed)?;
            socket.send(MacAddr::BROADCAST, EtherType::ARP, &packet)
        }
        // Spec: RFC 4861 §7.2.6.
        IpAddr::V6(addr) => {
            let mut packet = [0; IPV6_HEADER_LEN + MESSAGE_LEN];
            advertise(&mut packet, addr, socket.mac).map_err(malformed)?;
            socket.send(multicast_mac(ALL_NODES), EtherType::IPV6, &packet)
        }
    }
}

/// Writes an unsolicited Neighbor Advertisement with the override flag, so that nodes replace
/// cached link-layer addresses.
fn advertise(packet: &mut [u8], target: Ipv6Addr, mac: MacAddr) -> Result<(), Malformed> {
    let pseudo = PseudoHeader { src: target, dst: ALL_NODES };
    let header = Ipv6Header::new(&Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: u16::try_from(MESSAGE_LEN).unwrap_or_default(),
        next_header: protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        src: pseudo.src,
        dst: pseudo.dst,
    });
    header.emit(packet)?;
    let advertisement = NeighborAdvertisement {
        target,
        target_mac: Some(mac),
        router: false,
        solicited: false,
        override_entry: true,
    };
    let message = packet.get_mut(IPV6_HEADER_LEN..).unwrap_or_default();
    advertisement.emit(message, &pseudo).map(|_| ())
}
