//! IPv6 neighbor discovery: solicitation, advertisement, their link-layer address options, and the
//! multicast addresses that they are sent to. The cache is in `tables::neighbor`. Spec: RFC 4861
//! §4.3, §4.4, §4.6.1, §7.1; RFC 4291 §2.7.1; RFC 2464 §7.

use core::net::Ipv6Addr;

use adit_types::MacAddr;

use crate::Malformed;
use crate::icmpv6::{Icmpv6Header, PseudoHeader, emit};
use crate::view::FieldWriter;

/// ICMPv6 type: neighbor solicitation.
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// ICMPv6 type: neighbor advertisement.
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// Hop limit of a valid message: no router has forwarded it. The caller checks it.
pub const HOP_LIMIT: u8 = 255;

/// Length of a message with a link-layer address option. Unit: octets.
pub const MESSAGE_LEN: usize = 32;

/// Option: link-layer address of the sender.
const SOURCE_LINK_LAYER: u8 = 1;
/// Option: link-layer address of the target.
const TARGET_LINK_LAYER: u8 = 2;

/// Requests the hardware address of `target`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborSolicitation {
    /// Address to resolve; never multicast.
    pub target: Ipv6Addr,
    /// Hardware address of the sender; absent if its IP address is unspecified.
    pub source_mac: Option<MacAddr>,
}

/// Advertises that `target` has the hardware address `target_mac`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborAdvertisement {
    /// Advertised address; never multicast.
    pub target: Ipv6Addr,
    /// Hardware address of the target; may be absent in the answer to a unicast solicitation.
    pub target_mac: Option<MacAddr>,
    /// Flag R: the sender is a router.
    pub router: bool,
    /// Flag S: the message answers a solicitation.
    pub solicited: bool,
    /// Flag O: the receiver is to replace the cached address.
    pub override_entry: bool,
}

impl NeighborSolicitation {
    /// Reads a whole ICMPv6 message.
    ///
    /// # Errors
    /// Those of [`Icmpv6Header::parse`]; `BadField` for another type or code, or a multicast
    /// target; `BadLength` for an option of length zero or beyond the message.
    pub fn parse(pseudo: &PseudoHeader, message: &[u8]) -> Result<Self, Malformed> {
        let body = parse_body(pseudo, message, NEIGHBOR_SOLICITATION, SOURCE_LINK_LAYER)?;
        Ok(Self { target: body.target, source_mac: body.mac })
    }

    /// Writes the message. Returns its length: [`MESSAGE_LEN`], or 24 without hardware address.
    ///
    /// # Errors
    /// `Truncated` if `out` is too short.
    pub fn emit(&self, out: &mut [u8], pseudo: &PseudoHeader) -> Result<usize, Malformed> {
        let header = Icmpv6Header::new(NEIGHBOR_SOLICITATION, 0, 0);
        let mut body = [0; 24];
        let len = emit_body(&mut body, self.target, SOURCE_LINK_LAYER, self.source_mac)?;
        emit(out, pseudo, &header, body.get(..len).unwrap_or_default())
    }
}

impl NeighborAdvertisement {
    /// Reads a whole ICMPv6 message.
    ///
    /// # Errors
    /// Those of [`NeighborSolicitation::parse`].
    pub fn parse(pseudo: &PseudoHeader, message: &[u8]) -> Result<Self, Malformed> {
        let body = parse_body(pseudo, message, NEIGHBOR_ADVERTISEMENT, TARGET_LINK_LAYER)?;
        Ok(Self {
            target: body.target,
            target_mac: body.mac,
            router: body.flags & FLAG_R != 0,
            solicited: body.flags & FLAG_S != 0,
            override_entry: body.flags & FLAG_O != 0,
        })
    }

    /// Writes the message. Returns its length: [`MESSAGE_LEN`], or 24 without hardware address.
    ///
    /// # Errors
    /// `Truncated` if `out` is too short.
    pub fn emit(&self, out: &mut [u8], pseudo: &PseudoHeader) -> Result<usize, Malformed> {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let flags = flag(self.router, FLAG_R)
            | flag(self.solicited, FLAG_S)
            | flag(self.override_entry, FLAG_O);
        let header = Icmpv6Header::new(NEIGHBOR_ADVERTISEMENT, 0, flags);
        let mut body = [0; 24];
        let len = emit_body(&mut body, self.target, TARGET_LINK_LAYER, self.target_mac)?;
        emit(out, pseudo, &header, body.get(..len).unwrap_or_default())
    }
}

const FLAG_R: u32 = 1 << 31;
const FLAG_S: u32 = 1 << 30;
const FLAG_O: u32 = 1 << 29;

/// Returns the solicited-node multicast address of `addr`. Spec: RFC 4291 §2.7.1.
#[must_use]
pub const fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    Ipv6Addr::from_octets([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// Returns the hardware address for packets to the multicast address `addr`. Spec: RFC 2464 §7.
#[must_use]
pub const fn multicast_mac(addr: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = addr.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

struct NdMessageBody {
    flags: u32,
    target: Ipv6Addr,
    mac: Option<MacAddr>,
}

fn parse_body(
    pseudo: &PseudoHeader,
    message: &[u8],
    kind: u8,
    option: u8,
) -> Result<NdMessageBody, Malformed> {
    let (header, rest) = Icmpv6Header::parse(pseudo, message)?;
    if header.kind() != kind {
        return Err(Malformed::BadField(header.kind()));
    }
    if header.code() != 0 {
        return Err(Malformed::BadField(header.code()));
    }
    let (target, options) =
        rest.split_first_chunk::<16>().ok_or_else(|| Malformed::truncated(24, message.len()))?;
    let target = Ipv6Addr::from_octets(*target);
    if target.is_multicast() {
        return Err(Malformed::BadField(0xff));
    }
    Ok(NdMessageBody { flags: header.word(), target, mac: find_mac(options, option)? })
}

/// Finds an Ethernet address in the options. Bounded, because each step consumes at least 8 octets.
/// Spec: RFC 4861 §4.6.
fn find_mac(mut options: &[u8], wanted: u8) -> Result<Option<MacAddr>, Malformed> {
    let mut found = None;
    while let [kind, units, ..] = *options {
        let len = usize::from(units) * 8;
        let have = options.len();
        let (option, rest) = match options.split_at_checked(len) {
            Some(parts) if len > 0 => parts,
            _ => return Err(Malformed::bad_length(len, have)),
        };
        if let (&[_, _, a, b, c, d, e, f], None) = (option, found)
            && kind == wanted
        {
            found = Some(MacAddr([a, b, c, d, e, f]));
        }
        options = rest;
    }
    if options.is_empty() { Ok(found) } else { Err(Malformed::truncated(2, options.len())) }
}

fn emit_body(
    out: &mut [u8],
    target: Ipv6Addr,
    option: u8,
    mac: Option<MacAddr>,
) -> Result<usize, Malformed> {
    let mut body = FieldWriter::new(out);
    body.put(&target.octets())?;
    if let Some(mac) = mac {
        body.put(&[option, 1])?;
        body.put(&mac.0)?;
    }
    Ok(body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn target() -> Ipv6Addr {
        "fe80::1:2:3".parse().unwrap()
    }

    fn pseudo() -> PseudoHeader {
        PseudoHeader { src: "fe80::9".parse().unwrap(), dst: solicited_node(target()) }
    }

    #[test]
    fn solicitation_round_trips_and_lays_out_the_option() {
        let asked = NeighborSolicitation { target: target(), source_mac: Some(MAC) };
        let mut out = [0xa5; 40];
        assert_eq!(asked.emit(&mut out, &pseudo()), Ok(MESSAGE_LEN));
        assert_eq!((out[0], out[1], &out[4..8]), (135, 0, &[0; 4][..]));
        assert_eq!(out[8..24], target().octets());
        assert_eq!(out[24..33], [1, 1, 2, 0, 0, 0, 0, 1, 0xa5]);
        assert_eq!(NeighborSolicitation::parse(&pseudo(), &out[..32]), Ok(asked));
        for len in 0..32 {
            assert!(NeighborSolicitation::parse(&pseudo(), &out[..len]).is_err());
            assert!(asked.emit(&mut [0; 32][..len], &pseudo()).is_err());
        }
        let bare = NeighborSolicitation { source_mac: None, ..asked };
        assert_eq!(bare.emit(&mut out, &pseudo()), Ok(24));
        assert_eq!(NeighborSolicitation::parse(&pseudo(), &out[..24]), Ok(bare));
    }

    #[test]
    fn advertisement_round_trips_with_every_flag() {
        for bits in 0..8u8 {
            let told = NeighborAdvertisement {
                target: target(),
                target_mac: Some(MAC),
                router: bits & 4 != 0,
                solicited: bits & 2 != 0,
                override_entry: bits & 1 != 0,
            };
            let mut out = [0xa5; 32];
            assert_eq!(told.emit(&mut out, &pseudo()), Ok(32));
            assert_eq!((out[0], out[4], out[24]), (136, bits << 5, TARGET_LINK_LAYER));
            assert_eq!(NeighborAdvertisement::parse(&pseudo(), &out), Ok(told));
            assert!(NeighborSolicitation::parse(&pseudo(), &out).is_err());
        }
    }

    #[test]
    fn options_of_impossible_length_are_refused_and_unknown_ones_skipped() {
        assert_eq!(find_mac(&[1, 0, 0, 0, 0, 0, 0, 0], 1), Err(Malformed::bad_length(0, 8)));
        assert_eq!(find_mac(&[1, 2, 0, 0, 0, 0, 0, 0], 1), Err(Malformed::bad_length(16, 8)));
        assert_eq!(find_mac(&[1], 1), Err(Malformed::truncated(2, 1)));
        let options = [14, 1, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1];
        assert_eq!(find_mac(&options, 1), Ok(Some(MAC)));
        assert_eq!(find_mac(&options, 2), Ok(None));
    }

    #[test]
    fn solicitation_for_a_multicast_target_is_refused() {
        let asked = NeighborSolicitation { target: pseudo().dst, source_mac: None };
        let mut out = [0xa5; 24];
        asked.emit(&mut out, &pseudo()).unwrap();
        let refused = NeighborSolicitation::parse(&pseudo(), &out);
        assert_eq!(refused, Err(Malformed::BadField(0xff)));
    }

    #[test]
    fn multicast_addresses_follow_the_low_octets() {
        let addr: Ipv6Addr = "2001:db8::aabb:ccdd".parse().unwrap();
        assert_eq!(solicited_node(addr), "ff02::1:ffbb:ccdd".parse::<Ipv6Addr>().unwrap());
        let mac = MacAddr([0x33, 0x33, 0xff, 0xbb, 0xcc, 0xdd]);
        assert_eq!(multicast_mac(solicited_node(addr)), mac);
    }
}
