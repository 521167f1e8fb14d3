//! Information elements of GTP-U messages, and a bounded iterator over them. Spec: TS 29.281 §8.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::Teid;

use crate::Malformed;

/// Recovery: the value has 1 octet and no length field.
pub const RECOVERY: u8 = 14;
/// TEID Data I: the value has 4 octets and no length field.
pub const TEID_DATA_I: u8 = 16;
/// GTP-U Peer Address: an IPv4 or IPv6 address.
pub const PEER_ADDRESS: u8 = 133;
/// Extension Header Type List; the only element with a length field of one octet.
pub const EXTENSION_HEADER_TYPE_LIST: u8 = 141;
/// Recovery Time Stamp: when the sender started.
pub const RECOVERY_TIME_STAMP: u8 = 231;
/// Private Extension.
pub const PRIVATE_EXTENSION: u8 = 255;

/// One information element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GtpuIe<'a> {
    /// Recovery: a restart counter, which has no meaning in GTP-U.
    Recovery(u8),
    /// TEID Data I: the TEID of a G-PDU.
    TeidDataI(Teid),
    /// GTP-U Peer Address.
    PeerAddress(IpAddr),
    /// Extension Header Type List: one octet per type.
    ExtensionHeaderTypeList(&'a [u8]),
    /// Recovery Time Stamp. Unit: seconds since 1900-01-01 00:00 UTC.
    RecoveryTimeStamp(u32),
    /// Private Extension.
    Private {
        /// IANA private enterprise number.
        enterprise: u16,
        /// Value in the enterprise's own form.
        value: &'a [u8],
    },
    /// An element that Adit does not interpret. It has a length field.
    Unknown {
        /// Type, 128..=255.
        kind: u8,
        /// Value.
        value: &'a [u8],
    },
}

/// Iterates over information elements. Ends after the first error. Each step consumes octets, so
/// the length of the message bounds the number of steps.
///
/// ```text
/// Type below 128:  type | value, whose length follows from the type
/// Type from 128:   type | length (2 octets; 1 for type 141) | value
/// ```
#[derive(Debug, Clone)]
pub struct GtpuIes<'a> {
    rest: &'a [u8],
}

impl<'a> GtpuIes<'a> {
    /// Begins at `bytes`: the octets after the header and extension headers, without padding.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn step(&mut self) -> Result<GtpuIe<'a>, Malformed> {
        let (kind, value) = match *self.rest {
            [kind @ RECOVERY, ref tail @ ..] => (kind, self.take(kind, tail, 1)?),
            [kind @ TEID_DATA_I, ref tail @ ..] => (kind, self.take(kind, tail, 4)?),
            [kind @ EXTENSION_HEADER_TYPE_LIST, len, ref tail @ ..] => {
                (kind, self.take(kind, tail, usize::from(len))?)
            }
            [kind @ 128..=255, high, low, ref tail @ ..] => {
                (kind, self.take(kind, tail, usize::from(u16::from_be_bytes([high, low])))?)
            }
            [kind, ..] => return Err(Malformed::BadIe(kind)),
            [] => return Err(Malformed::truncated(1, 0)),
        };
        decode(kind, value)
    }

    fn take(&mut self, kind: u8, tail: &'a [u8], len: usize) -> Result<&'a [u8], Malformed> {
        let (value, rest) = tail.split_at_checked(len).ok_or(Malformed::BadIe(kind))?;
        self.rest = rest;
        Ok(value)
    }
}

fn decode(kind: u8, value: &[u8]) -> Result<GtpuIe<'_>, Malformed> {
    match (kind, value) {
        (RECOVERY, &[counter]) => Ok(GtpuIe::Recovery(counter)),
        (TEID_DATA_I, &[a, b, c, d]) => {
            Ok(GtpuIe::TeidDataI(Teid(u32::from_be_bytes([a, b, c, d]))))
        }
        (PEER_ADDRESS, _) => peer_address(value),
        (EXTENSION_HEADER_TYPE_LIST, _) => Ok(GtpuIe::ExtensionHeaderTypeList(value)),
        (PRIVATE_EXTENSION, &[high, low, ref value @ ..]) => {
            Ok(GtpuIe::Private { enterprise: u16::from_be_bytes([high, low]), value })
        }
        (RECOVERY_TIME_STAMP, &[a, b, c, d, ..]) => {
            Ok(GtpuIe::RecoveryTimeStamp(u32::from_be_bytes([a, b, c, d])))
        }
        (PRIVATE_EXTENSION | RECOVERY | RECOVERY_TIME_STAMP | TEID_DATA_I, _) => {
            Err(Malformed::BadIe(kind))
        }
        _ => Ok(GtpuIe::Unknown { kind, value }),
    }
}

fn peer_address(value: &[u8]) -> Result<GtpuIe<'_>, Malformed> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Ok(GtpuIe::PeerAddress(Ipv4Addr::from_octets(octets).into()));
    }
    match <[u8; 16]>::try_from(value) {
        Ok(octets) => Ok(GtpuIe::PeerAddress(Ipv6Addr::from_octets(octets).into())),
        Err(_) => Err(Malformed::BadIe(PEER_ADDRESS)),
    }
}

/// Returns when the sender of an Echo Request or Echo Response started; `None` if the message does
/// not contain it. `ies` are the octets after the headers. A malformed element ends the search.
///
/// Units:   seconds since 1900-01-01 00:00 UTC.
/// Spec: TS 29.281 §7.2.1, §7.2.2; TS 23.007 §18A.
#[must_use]
pub fn recovery_time_stamp(ies: &[u8]) -> Option<u32> {
    GtpuIes::new(ies).map_while(Result::ok).find_map(|ie| match ie {
        GtpuIe::RecoveryTimeStamp(value) => Some(value),
        _ => None,
    })
}

impl<'a> Iterator for GtpuIes<'a> {
    type Item = Result<GtpuIe<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.rest = &[];
        }
        Some(step)
    }
}

/// The elements of an Error Indication, which describe the G-PDU that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorIndication {
    /// TEID of the G-PDU.
    pub teid: Teid,
    /// Destination address of the G-PDU: the endpoint that does not know the TEID.
    pub peer: IpAddr,
}

impl ErrorIndication {
    /// Reads TEID and peer address of an Error Indication, and ignores other elements.
    ///
    /// # Errors
    /// `MissingIe` if TEID Data I or GTP-U Peer Address is absent; `BadIe` for a malformed element.
    /// Spec: TS 29.281 §7.3.1.
    pub fn parse(ies: &[u8]) -> Result<Self, Malformed> {
        let (mut teid, mut peer) = (None, None);
        for ie in GtpuIes::new(ies) {
            match ie? {
                GtpuIe::TeidDataI(value) => teid = teid.or(Some(value)),
                GtpuIe::PeerAddress(value) => peer = peer.or(Some(value)),
                _ => {}
            }
        }
        Ok(Self {
            teid: teid.ok_or(Malformed::MissingIe(TEID_DATA_I))?,
            peer: peer.ok_or(Malformed::MissingIe(PEER_ADDRESS))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ies_of_every_kind_are_walked() {
        let bytes = [
            14, 7, 16, 0, 0, 1, 2, 133, 0, 4, 10, 0, 0, 1, 141, 2, 0x85, 0x40, 200, 0, 1, 9, 255,
            0, 3, 0x12, 0x34, 5,
        ];
        let ies: Result<Vec<_>, _> = GtpuIes::new(&bytes).collect();
        let expected = vec![
            GtpuIe::Recovery(7),
            GtpuIe::TeidDataI(Teid(0x0102)),
            GtpuIe::PeerAddress(Ipv4Addr::new(10, 0, 0, 1).into()),
            GtpuIe::ExtensionHeaderTypeList(&[0x85, 0x40]),
            GtpuIe::Unknown { kind: 200, value: &[9] },
            GtpuIe::Private { enterprise: 0x1234, value: &[5] },
        ];
        assert_eq!(ies, Ok(expected));
    }

    #[test]
    fn ies_that_cannot_be_end_the_walk() {
        let cases: [&[u8]; 8] = [
            &[14],
            &[16, 1, 2, 3],
            &[15, 1],
            &[133, 0, 5, 1, 2, 3, 4, 5],
            &[133, 0],
            &[141],
            &[255, 0, 1, 1],
            &[200, 0, 2, 1],
        ];
        for bytes in cases {
            let mut walk = GtpuIes::new(bytes);
            assert_eq!(walk.next(), Some(Err(Malformed::BadIe(bytes[0]))), "{bytes:?}");
            assert_eq!(walk.next(), None);
        }
    }

    #[test]
    fn recovery_time_stamp_is_found_behind_other_elements_and_not_behind_impossible_ones() {
        let stamp = [231, 0, 4, 0xe9, 0, 0, 7];
        let after = |head: &[u8]| recovery_time_stamp(&[head, &stamp].concat());
        assert_eq!(after(&[]), Some(0xe900_0007));
        assert_eq!(after(&[14, 0, 200, 0, 1, 9]), Some(0xe900_0007));
        assert_eq!(after(&[15, 0]), None);
        assert_eq!(recovery_time_stamp(&[14, 0]), None);
        for len in 0..stamp.len() {
            assert_eq!(recovery_time_stamp(&stamp[..len]), None);
        }
        assert_eq!(recovery_time_stamp(&[231, 0, 5, 0, 0, 0, 1, 0xff]), Some(1), "later octets");
    }

    #[test]
    fn error_indication_without_a_mandatory_element_is_refused() {
        let teid = [16, 0, 0, 0, 5];
        let peer = [133, 0, 4, 1, 2, 3, 4];
        assert_eq!(ErrorIndication::parse(&teid), Err(Malformed::MissingIe(PEER_ADDRESS)));
        assert_eq!(ErrorIndication::parse(&peer), Err(Malformed::MissingIe(TEID_DATA_I)));
        let both = ErrorIndication::parse(&[&teid[..], &peer[..]].concat()).unwrap();
        assert_eq!((both.teid, both.peer), (Teid(5), Ipv4Addr::new(1, 2, 3, 4).into()));
    }
}
