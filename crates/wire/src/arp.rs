//! ARP for IPv4 over Ethernet. Callers decide which addresses they resolve and learn. Spec: RFC
//! 826.

use core::net::Ipv4Addr;

use adit_types::MacAddr;
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::view::{fixed_header, split};
use crate::{EtherType, Malformed};

/// ARP operation code. There are constants for those that Adit uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct ArpOperation(pub u16);

impl ArpOperation {
    /// Requests the hardware address of the target.
    pub const REQUEST: Self = Self(1);
    /// Announces the hardware address of the sender.
    pub const REPLY: Self = Self(2);
}

/// ARP packet for IPv4 over Ethernet.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1-2      Hardware type = 1
/// 3-4      Protocol type = 0x0800
/// 5        Hardware length = 6
/// 6        Protocol length = 4
/// 7-8      Operation
/// 9-14     Sender hardware address
/// 15-18    Sender protocol address
/// 19-24    Target hardware address
/// 25-28    Target protocol address
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ArpPacket {
    hardware_type: U16,
    protocol_type: U16,
    hardware_len: u8,
    protocol_len: u8,
    operation: U16,
    sender_mac: [u8; 6],
    sender_addr: [u8; 4],
    target_mac: [u8; 6],
    target_addr: [u8; 4],
}

fixed_header!(ArpPacket, 28);

/// Hardware and protocol address of the sender or the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArpStation {
    /// Hardware address.
    pub mac: MacAddr,
    /// Protocol address.
    pub addr: Ipv4Addr,
}

impl ArpPacket {
    /// Returns a request for the hardware address of `target`; the target hardware address is zero.
    #[must_use]
    pub fn request(sender_mac: MacAddr, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        let none = MacAddr([0; 6]);
        let sender = ArpStation { mac: sender_mac, addr: sender };
        Self::new(ArpOperation::REQUEST, sender, ArpStation { mac: none, addr: target })
    }

    /// Returns the reply to `request` by the owner of its target address.
    #[must_use]
    pub fn reply(request: &Self, mac: MacAddr) -> Self {
        let sender = ArpStation { mac, addr: request.target_addr() };
        let target = ArpStation { mac: request.sender_mac(), addr: request.sender_addr() };
        Self::new(ArpOperation::REPLY, sender, target)
    }

    /// Returns a packet with these fields.
    #[must_use]
    pub fn new(operation: ArpOperation, sender: ArpStation, target: ArpStation) -> Self {
        Self {
            hardware_type: U16::new(1),
            protocol_type: U16::new(EtherType::IPV4.0),
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::new(operation.0),
            sender_mac: sender.mac.0,
            sender_addr: sender.addr.octets(),
            target_mac: target.mac.0,
            target_addr: target.addr.octets(),
        }
    }

    /// Returns the packet at the front of `bytes`, and the rest (Ethernet padding).
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 28 octets; `BadField` for other hardware or protocol
    /// types; `BadLength` for other address lengths.
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        let (packet, rest) = split::<Self>(bytes)?;
        if packet.hardware_type.get() != 1 {
            return Err(Malformed::BadField(packet.hardware_type.to_bytes()[1]));
        }
        if packet.protocol_type.get() != EtherType::IPV4.0 {
            return Err(Malformed::BadField(packet.protocol_type.to_bytes()[1]));
        }
        if packet.hardware_len != 6 {
            return Err(Malformed::bad_length(usize::from(packet.hardware_len), 6));
        }
        if packet.protocol_len != 4 {
            return Err(Malformed::bad_length(usize::from(packet.protocol_len), 4));
        }
        Ok((packet, rest))
    }

    /// Operation code.
    #[must_use]
    pub fn operation(&self) -> ArpOperation {
        ArpOperation(self.operation.get())
    }

    /// Hardware address of the sender.
    #[must_use]
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(self.sender_mac)
    }

    /// Protocol address of the sender; unspecified in a probe (RFC 5227).
    #[must_use]
    pub fn sender_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.sender_addr)
    }

    /// Hardware address of the target; meaningless in a request.
    #[must_use]
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(self.target_mac)
    }

    /// Protocol address of the target.
    #[must_use]
    pub fn target_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.target_addr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: [u8; 28] =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];

    #[test]
    fn arp_request_known_octets_parse_and_emit() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let (us, them) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut out = [0xa5; 28];
        ArpPacket::request(mac, us, them).emit(&mut out).unwrap();
        assert_eq!(out, REQUEST);
        let (parsed, _) = ArpPacket::parse(&REQUEST).unwrap();
        assert_eq!(*parsed, ArpPacket::request(mac, us, them));
        assert_eq!((parsed.sender_mac(), parsed.sender_addr()), (mac, us));
    }

    #[test]
    fn arp_reply_swaps_sender_and_target() {
        let (request, _) = ArpPacket::parse(&REQUEST).unwrap();
        let reply = ArpPacket::reply(request, MacAddr([2, 0, 0, 0, 0, 2]));
        assert_eq!(reply.operation(), ArpOperation::REPLY);
        assert_eq!(reply.sender_addr(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(reply.target_addr(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(reply.target_mac(), MacAddr([2, 0, 0, 0, 0, 1]));
    }

    #[test]
    fn arp_of_other_types_lengths_or_prefix_is_refused() {
        for len in 0..28 {
            assert_eq!(ArpPacket::parse(&REQUEST[..len]), Err(Malformed::truncated(28, len)));
        }
        for at in [1, 2, 4, 5] {
            let mut wrong = REQUEST;
            wrong[at] ^= 0x10;
            assert!(ArpPacket::parse(&wrong).is_err(), "octet {at}");
        }
    }
}
