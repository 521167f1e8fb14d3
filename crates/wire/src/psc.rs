//! PDU Session Container: a frame of the PDU session user plane protocol in a GTP-U extension
//! header. Adit does not read the fields after QFI and PPI (QoS monitoring, sequence numbers).
//! Spec: TS 38.415 §5.5.2, §5.5.3; TS 29.281 §5.2.2.7.

use adit_types::Qfi;

use crate::Malformed;
use crate::gtpu_ext::ExtensionType;

/// The direction of a container. Spec: TS 38.415 §5.5.3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PduType {
    /// DL PDU SESSION INFORMATION, code 0: from the UPF towards the NG-RAN.
    Downlink,
    /// UL PDU SESSION INFORMATION, code 1: from the NG-RAN towards the UPF.
    Uplink,
}

/// The fields of a PDU Session Container that Adit reads and writes.
///
/// ```text
/// Downlink   8 7 6 5 4 3 2 1           Uplink   8 7 6 5 4 3 2 1
/// 1          type 0 |Q|S|M|-           1        type 1 |Q|D|U|S
/// 2          PPP|RQI|   QFI            2        N39|NIE|  QFI
/// 3          PPI  | spare  (if PPP)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PduSessionContainer {
    /// Direction.
    pub pdu_type: PduType,
    /// QoS flow of the packet.
    pub qfi: Qfi,
    /// True if reflective QoS is indicated. Always false in uplink.
    pub rqi: bool,
    /// Paging policy indicator, 0..=7; makes the container longer. Always absent in uplink.
    pub ppi: Option<u8>,
}

impl PduSessionContainer {
    /// Creates a container towards the NG-RAN.
    #[inline]
    #[must_use]
    pub const fn downlink(qfi: Qfi, rqi: bool) -> Self {
        Self { pdu_type: PduType::Downlink, qfi, rqi, ppi: None }
    }

    /// Creates a container from the NG-RAN.
    #[inline]
    #[must_use]
    pub const fn uplink(qfi: Qfi) -> Self {
        Self { pdu_type: PduType::Uplink, qfi, rqi: false, ppi: None }
    }

    /// Parses the content of the extension header: the octets between its length octet and its next
    /// extension header type.
    ///
    /// # Errors
    /// `BadExtension` if the content is too short for its flags, or its type is neither downlink
    /// nor uplink.
    #[inline]
    pub fn parse(content: &[u8]) -> Result<Self, Malformed> {
        let &[first, second, ref rest @ ..] = content else { return Err(MALFORMED) };
        let qfi = qfi(second);
        match first >> 4 {
            0 => {
                let ppi = match (second & 0x80 != 0, rest) {
                    (false, _) => None,
                    (true, [octet, ..]) => Some(octet >> 5),
                    (true, []) => return Err(MALFORMED),
                };
                Ok(Self { pdu_type: PduType::Downlink, qfi, rqi: second & 0x40 != 0, ppi })
            }
            1 => Ok(Self { pdu_type: PduType::Uplink, qfi, rqi: false, ppi: None }),
            _ => Err(MALFORMED),
        }
    }
}

/// Returns QoS flow and reflective QoS indication of the four-octet container that ends at `end` of
/// a frame, which is directly before the inner packet in usual G-PDUs.
#[cold]
#[must_use]
pub fn usual_container_marking(frame: &[u8], end: u8) -> Option<(Qfi, bool)> {
    let end = usize::from(end);
    let content = frame.get(end.checked_sub(3)?..end.checked_sub(1)?)?;
    let container = PduSessionContainer::parse(content).ok()?;
    Some((container.qfi, container.rqi))
}

const MALFORMED: Malformed = Malformed::BadExtension(ExtensionType::PDU_SESSION_CONTAINER.0);

#[inline]
fn qfi(octet: u8) -> Qfi {
    match Qfi::new(octet & Qfi::MAX) {
        Some(qfi) => qfi,
        None => unreachable!("the mask leaves six bits"),
    }
}

impl PduSessionContainer {
    /// Returns the length of this container's extension header: 4 octets, or 8 with a PPI.
    #[inline]
    #[must_use]
    pub const fn extension_len(&self) -> usize {
        if self.ppi.is_some() { 8 } else { 4 }
    }

    /// Returns the extension header without PPI, which ends the chain.
    #[inline]
    #[must_use]
    pub fn short_extension(&self) -> [u8; 4] {
        [1, self.type_octet(), self.flow_octet(), ExtensionType::NONE.0]
    }

    /// Returns the extension header with a PPI and padding, which ends the chain.
    #[inline]
    pub(crate) fn long_extension(&self, ppi: u8) -> [u8; 8] {
        let flags = 0x80 | self.flow_octet();
        [2, self.type_octet(), flags, (ppi & 7) << 5, 0, 0, 0, ExtensionType::NONE.0]
    }

    fn type_octet(&self) -> u8 {
        match self.pdu_type {
            PduType::Downlink => 0,
            PduType::Uplink => 1 << 4,
        }
    }

    fn flow_octet(&self) -> u8 {
        u8::from(self.rqi) << 6 | self.qfi.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psc_downlink_round_trips_for_every_value() {
        for octet in 0..=63 {
            for rqi in [false, true] {
                let qfi = Qfi::new(octet).unwrap();
                let expected =
                    PduSessionContainer { pdu_type: PduType::Downlink, qfi, rqi, ppi: None };
                let ext = PduSessionContainer::downlink(qfi, rqi).short_extension();
                assert_eq!(PduSessionContainer::parse(&ext[1..3]), Ok(expected));
                for ppi in 0..8 {
                    let long =
                        PduSessionContainer { ppi: Some(ppi), ..expected }.long_extension(ppi);
                    let expected = PduSessionContainer { ppi: Some(ppi), ..expected };
                    assert_eq!(PduSessionContainer::parse(&long[1..7]), Ok(expected));
                }
            }
        }
    }

    #[test]
    fn psc_uplink_known_octets_parse() {
        let psc = PduSessionContainer::parse(&[0x10, 0xc9]).unwrap();
        assert_eq!((psc.pdu_type, psc.qfi.value()), (PduType::Uplink, 9));
        assert_eq!((psc.rqi, psc.ppi), (false, None));
        assert_eq!(PduSessionContainer::uplink(psc.qfi).short_extension(), [1, 0x10, 9, 0]);
    }

    #[test]
    fn psc_short_or_of_unknown_type_is_refused() {
        for content in [&[][..], &[0], &[0, 0x80], &[0x20, 1], &[0xf0, 1, 2, 3, 4, 5]] {
            assert_eq!(PduSessionContainer::parse(content), Err(MALFORMED), "{content:?}");
        }
    }
}
