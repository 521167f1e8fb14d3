//! GTP-U extension headers: types, how to treat unknown ones, and a bounded iterator over a chain.
//! Spec: TS 29.281 §5.2.

use adit_types::limits::GTPU_EXTENSIONS_MAX;

use crate::Malformed;

/// Type of a GTP-U extension header. Bits 8 and 7 determine how a node treats an unknown type.
/// Spec: TS 29.281 §5.2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ExtensionType(pub u8);

impl ExtensionType {
    /// No more extension headers.
    pub const NONE: Self = Self(0x00);
    /// Long PDCP PDU number, in the form that an endpoint need not understand.
    pub const LONG_PDCP_PDU_NUMBER_OPTIONAL: Self = Self(0x03);
    /// Service class indicator.
    pub const SERVICE_CLASS_INDICATOR: Self = Self(0x20);
    /// UDP port of the G-PDU that an Error Indication answers.
    pub const UDP_PORT: Self = Self(0x40);
    /// RAN container.
    pub const RAN_CONTAINER: Self = Self(0x81);
    /// Long PDCP PDU number.
    pub const LONG_PDCP_PDU_NUMBER: Self = Self(0x82);
    /// Xw RAN container.
    pub const XW_RAN_CONTAINER: Self = Self(0x83);
    /// NR RAN container.
    pub const NR_RAN_CONTAINER: Self = Self(0x84);
    /// PDU Session Container (`psc`).
    pub const PDU_SESSION_CONTAINER: Self = Self(0x85);
    /// PDCP PDU number.
    pub const PDCP_PDU_NUMBER: Self = Self(0xc0);

    /// True for the types above, which Adit reads or may ignore.
    #[inline]
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(self.0, 0x00 | 0x03 | 0x20 | 0x40 | 0x81..=0x85 | 0xc0)
    }

    /// Returns the required action of a node that does not support this type.
    #[inline]
    #[must_use]
    pub const fn comprehension(self) -> Comprehension {
        match self.0 >> 6 {
            0 => Comprehension::NotRequiredForward,
            1 => Comprehension::NotRequiredDiscard,
            2 => Comprehension::RequiredByEndpoint,
            _ => Comprehension::RequiredByRecipient,
        }
    }

    /// True if an endpoint must understand this type.
    #[inline]
    #[must_use]
    pub const fn is_required_by_endpoint(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// The meaning of bits 8 and 7 of an extension header type. Spec: TS 29.281 §5.2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comprehension {
    /// 00: need not be understood; an intermediate node forwards it.
    NotRequiredForward,
    /// 01: need not be understood; an intermediate node removes its content.
    NotRequiredDiscard,
    /// 10: the endpoint must understand it; an intermediate node forwards it.
    RequiredByEndpoint,
    /// 11: any receiver must understand it.
    RequiredByRecipient,
}

/// One extension header.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1        Length n, in 4 octets, at least 1
/// 2..4n-1  Content
/// 4n       Next extension header type
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GtpuExtension<'a> {
    /// Type, which is in the octet before the header.
    pub kind: ExtensionType,
    /// Content without length and next type: 4n − 2 octets.
    pub content: &'a [u8],
}

/// Iterates over a chain of extension headers. Ends after the first error.
#[derive(Debug, Clone)]
pub struct GtpuExtensions<'a> {
    next: ExtensionType,
    rest: &'a [u8],
    walked: usize,
}

impl<'a> GtpuExtensions<'a> {
    /// Begins with the header of type `next` at the front of `bytes`.
    #[inline]
    #[must_use]
    pub fn new(next: ExtensionType, bytes: &'a [u8]) -> Self {
        Self { next, rest: bytes, walked: 0 }
    }

    /// Returns the octets after the headers returned so far; at the end, those after the chain.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn step(&mut self) -> Result<GtpuExtension<'a>, Malformed> {
        let kind = self.next;
        if self.walked == GTPU_EXTENSIONS_MAX {
            return Err(Malformed::TooManyExtensions);
        }
        self.walked += 1;
        let bad = Malformed::BadExtension(kind.0);
        let len = self.rest.first().map_or(0, |units| usize::from(*units) * 4);
        let (header, rest) = self.rest.split_at_checked(len).ok_or(bad)?;
        let [_, content @ .., next] = header else { return Err(bad) };
        self.next = ExtensionType(*next);
        self.rest = rest;
        Ok(GtpuExtension { kind, content })
    }
}

impl<'a> Iterator for GtpuExtensions<'a> {
    type Item = Result<GtpuExtension<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == ExtensionType::NONE {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.next = ExtensionType::NONE;
        }
        Some(step)
    }
}

/// Returns the extension header for a UDP port, which ends the chain. Spec: TS 29.281 §5.2.2.1.
#[must_use]
pub fn udp_port_extension(udp_port: u16) -> [u8; 4] {
    let [high, low] = udp_port.to_be_bytes();
    [1, high, low, ExtensionType::NONE.0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_chain_is_walked_to_its_end() {
        let bytes = [1, 0, 9, 0x40, 2, 1, 2, 3, 4, 5, 6, 0, 0x45, 0x00];
        let mut walk = GtpuExtensions::new(ExtensionType::PDU_SESSION_CONTAINER, &bytes);
        let first = walk.next().unwrap().unwrap();
        assert_eq!((first.kind.0, first.content), (0x85, &[0, 9][..]));
        let second = walk.next().unwrap().unwrap();
        assert_eq!((second.kind.0, second.content), (0x40, &[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(walk.next(), None);
        assert_eq!(walk.rest(), &[0x45, 0x00]);
    }

    #[test]
    fn extension_of_length_zero_or_beyond_the_end_is_refused_once() {
        for bytes in [&[][..], &[0, 0, 0, 0], &[1, 0, 0], &[2, 0, 0, 0, 0, 0, 0]] {
            let mut walk = GtpuExtensions::new(ExtensionType(0x85), bytes);
            assert_eq!(walk.next(), Some(Err(Malformed::BadExtension(0x85))), "{bytes:?}");
            assert_eq!(walk.next(), None);
        }
    }

    #[test]
    fn extension_chain_is_bounded() {
        let chain = [1, 0, 0, 0x20].repeat(GTPU_EXTENSIONS_MAX + 1);
        let walk = GtpuExtensions::new(ExtensionType(0x20), &chain);
        assert_eq!(walk.last(), Some(Err(Malformed::TooManyExtensions)));
    }

    #[test]
    fn extension_comprehension_follows_from_the_top_bits() {
        assert_eq!(ExtensionType(0x21).comprehension(), Comprehension::NotRequiredForward);
        assert_eq!(ExtensionType(0x41).comprehension(), Comprehension::NotRequiredDiscard);
        assert_eq!(ExtensionType(0x86).comprehension(), Comprehension::RequiredByEndpoint);
        assert_eq!(ExtensionType(0xc1).comprehension(), Comprehension::RequiredByRecipient);
        assert!(!ExtensionType(0xc1).is_known());
        assert!(ExtensionType(0xc1).is_required_by_endpoint());
    }
}
