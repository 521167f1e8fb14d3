//! Packs values into octets, as in the `PackedRecord` of each session in the store.
//!
//! Records stay packed because the control plane changes only few of millions of sessions at a
//! time, and most fields of a rule are unset in most rules. A structure is packed as one bit per
//! field, followed by the fields that are not *absent*: not zero, false, empty, `None` or the first
//! variant. Integers take one octet per seven bits. Equal values have equal octets.
//!
//! The octets contain neither types nor lengths, so any change of a structure (a field added,
//! removed or moved) changes the format and must raise `PackedRecord::VERSION`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use adit_types::{
    BarId, BitRate, DomainId, FarId, IpPrefix, Ipv4Prefix, Ipv6Prefix, Nanos, PdrId, Precedence,
    QerId, Qfi, Seid, Teid, UrrId, UsageSlot,
};

use crate::cp_function::OwnerId;

/// A value that can be packed.
pub(crate) trait Pack: Sized + PartialEq {
    /// Returns the value that is left out when a structure is packed.
    fn absent() -> Self;

    /// True if the value equals [`Pack::absent`].
    fn is_absent(&self) -> bool {
        *self == Self::absent()
    }

    /// Appends the packed value to `out`.
    fn pack(&self, out: &mut Vec<u8>);

    /// Removes a value from the front of `from`; `None` if the octets there are not a packed value.
    fn unpack(from: &mut &[u8]) -> Option<Self>;
}

/// Implements [`Pack`] for a structure from the names of all of its fields (at most 64). Or
/// declares structures and implements [`Pack`] for them.
macro_rules! packed {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $type:ident {
            $( $(#[$doc:meta])* $field_vis:vis $field:ident: $part:ty, )+
        }
    )+) => { $(
        $(#[$meta])*
        $vis struct $type { $( $(#[$doc])* $field_vis $field: $part, )+ }

        $crate::pack::packed!($type { $($field),+ });
    )+ };
    ($type:ty { $($field:ident),+ $(,)? }) => {
        impl $crate::pack::Pack for $type {
            fn absent() -> Self {
                Self { $($field: $crate::pack::Pack::absent()),+ }
            }

            fn is_absent(&self) -> bool {
                let Self { $($field),+ } = self;
                true $(&& $crate::pack::Pack::is_absent($field))+
            }

            fn pack(&self, out: &mut Vec<u8>) {
                let Self { $($field),+ } = self;
                let mut present = $crate::pack::PresenceBits::default();
                $(present.push(!$crate::pack::Pack::is_absent($field));)+
                $crate::pack::Pack::pack(&present.bits(), out);
                $(if !$crate::pack::Pack::is_absent($field) {
                    $crate::pack::Pack::pack($field, out);
                })+
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                let mut present = $crate::pack::PresenceBits::of($crate::pack::Pack::unpack(from)?);
                Some(Self { $($field: match present.next() {
                    true => $crate::pack::Pack::unpack(from)?,
                    false => $crate::pack::Pack::absent(),
                }),+ })
            }
        }
    };
}

/// Implements [`Pack`] for an enumeration without data, from the names of all of its variants.
macro_rules! packed_enum {
    ($type:ty { $first:ident $(, $rest:ident)* $(,)? }) => {
        impl $crate::pack::Pack for $type {
            fn absent() -> Self {
                Self::$first
            }

            fn pack(&self, out: &mut Vec<u8>) {
                // Exhaustive: fails to compile if an alternative is missing.
                match self {
                    Self::$first $(| Self::$rest)* => {}
                }
                let all = [Self::$first $(, Self::$rest)*];
                let position = (0_u8..).zip(all).find(|(_, one)| one == self);
                out.extend(position.map(|(at, _)| at));
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                let at = u8::unpack(from)?;
                [Self::$first $(, Self::$rest)*].get(usize::from(at)).copied()
            }
        }
    };
}

/// Which fields of a structure follow: one bit each, the lowest for the first field.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PresenceBits {
    bits: u64,
    at: u32,
}

impl PresenceBits {
    pub(crate) const fn of(bits: u64) -> Self {
        Self { bits, at: 0 }
    }

    pub(crate) const fn bits(self) -> u64 {
        self.bits
    }

    pub(crate) fn push(&mut self, is_present: bool) {
        self.bits |= u64::from(is_present) << self.at;
        self.at += 1;
    }

    pub(crate) fn next(&mut self) -> bool {
        let is_present = self.bits >> self.at & 1 == 1;
        self.at += 1;
        is_present
    }
}

/// Removes `N` octets from the front of `from`.
pub(crate) fn take_octets<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (octets, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*octets)
}

impl Pack for u64 {
    fn absent() -> Self {
        0
    }

    fn pack(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            let [low, ..] = rest.to_le_bytes();
            out.push(low | 0x80);
            rest >>= 7;
        }
        let [low, ..] = rest.to_le_bytes();
        out.push(low);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        let mut value = 0;
        for shift in (0..Self::BITS).step_by(7) {
            let [octet] = take_octets(from)?;
            value |= Self::from(octet & 0x7f) << shift;
            if octet < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

/// Implements [`Pack`] by conversion to and from another type.
macro_rules! packed_as {
    ($($type:ty as $other:ty: $to:expr, $of:expr;)+) => { $(
        impl $crate::pack::Pack for $type {
            fn absent() -> Self {
                let Some(value) = $of(<$other as $crate::pack::Pack>::absent()) else {
                    unreachable!("what is absent has a value")
                };
                value
            }

            fn pack(&self, out: &mut Vec<u8>) {
                $crate::pack::Pack::pack(&$to(self), out);
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                $of(<$other as $crate::pack::Pack>::unpack(from)?)
            }
        }
    )+ };
}

pub(crate) use {packed, packed_as, packed_enum};

packed_as! {
    u32 as u64: |value: &Self| u64::from(*value), |value: u64| Self::try_from(value).ok();
    u16 as u64: |value: &Self| u64::from(*value), |value: u64| Self::try_from(value).ok();
    PdrId as u16: |id: &Self| id.0, |value| Some(Self(value));
    FarId as u32: |id: &Self| id.0, |value| Some(Self(value));
    QerId as u32: |id: &Self| id.0, |value| Some(Self(value));
    UrrId as u32: |id: &Self| id.0, |value| Some(Self(value));
    BarId as u8: |id: &Self| id.0, |value| Some(Self(value));
    Teid as u32: |teid: &Self| teid.0, |value| Some(Self(value));
    Seid as u64: |seid: &Self| seid.0, |value| Some(Self(value));
    DomainId as u8: |domain: &Self| domain.0, |value| Some(Self(value));
    OwnerId as u32: |owner: &Self| owner.0, |value| Some(Self(value));
    Precedence as u32: |precedence: &Self| precedence.0, |value| Some(Self(value));
    UsageSlot as u32: |slot: &Self| slot.0, |value| Some(Self(value));
    Qfi as u8: |qfi: &Self| qfi.value(), Self::new;
    Nanos as u64: |nanos: &Self| nanos.0, |value| Some(Self(value));
    BitRate as u64: |rate: &Self| rate.as_bps(), |value| Some(Self::from_bps(value));
}

impl Pack for u8 {
    fn absent() -> Self {
        0
    }

    fn pack(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        take_octets(from).map(|[octet]| octet)
    }
}

/// Only within a structure, where the presence bit is the value.
impl Pack for bool {
    fn absent() -> Self {
        false
    }

    fn pack(&self, _: &mut Vec<u8>) {}

    fn unpack(_: &mut &[u8]) -> Option<Self> {
        Some(true)
    }
}

/// Only within a structure, where the presence bit is set if there is a value.
impl<T: Pack> Pack for Option<T> {
    fn absent() -> Self {
        None
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn pack(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.pack(out);
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        T::unpack(from).map(Some)
    }
}

impl<T: Pack> Pack for Box<T> {
    fn absent() -> Self {
        Self::new(T::absent())
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }

    fn pack(&self, out: &mut Vec<u8>) {
        (**self).pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        T::unpack(from).map(Self::new)
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn absent() -> Self {
        Self::new()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn pack(&self, out: &mut Vec<u8>) {
        (self.len() as u64).pack(out);
        self.iter().for_each(|element| element.pack(out));
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        let len = usize::try_from(u64::unpack(from)?).ok()?;
        // Each element takes at least one octet, so a wrong length cannot reserve much memory.
        let mut elements = Self::with_capacity(len.min(from.len()));
        for _ in 0..len {
            elements.push(T::unpack(from)?);
        }
        Some(elements)
    }
}

impl<A: Pack, B: Pack> Pack for (A, B) {
    fn absent() -> Self {
        (A::absent(), B::absent())
    }

    fn pack(&self, out: &mut Vec<u8>) {
        self.0.pack(out);
        self.1.pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some((A::unpack(from)?, B::unpack(from)?))
    }
}

/// Implements [`Pack`] for owned text: its length, then its octets.
macro_rules! packed_text {
    ($($type:ty),+) => { $(
        impl Pack for $type {
            fn absent() -> Self {
                Self::from("")
            }

            fn is_absent(&self) -> bool {
                self.is_empty()
            }

            fn pack(&self, out: &mut Vec<u8>) {
                (self.len() as u64).pack(out);
                out.extend_from_slice(self.as_bytes());
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                let len = usize::try_from(u64::unpack(from)?).ok()?;
                let (text, rest) = from.split_at_checked(len)?;
                *from = rest;
                core::str::from_utf8(text).ok().map(Self::from)
            }
        }
    )+ };
}

packed_text!(Box<str>, Arc<str>);

impl Pack for Ipv4Addr {
    fn absent() -> Self {
        Self::UNSPECIFIED
    }

    fn pack(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets());
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        take_octets::<4>(from).map(Self::from)
    }
}

impl Pack for Ipv6Addr {
    fn absent() -> Self {
        Self::UNSPECIFIED
    }

    fn pack(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets());
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        take_octets::<16>(from).map(Self::from)
    }
}

impl Pack for IpAddr {
    fn absent() -> Self {
        Self::V4(Ipv4Addr::UNSPECIFIED)
    }

    fn pack(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_ipv6()));
        match self {
            Self::V4(addr) => addr.pack(out),
            Self::V6(addr) => addr.pack(out),
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        match u8::unpack(from)? {
            0 => Ipv4Addr::unpack(from).map(Self::V4),
            _ => Ipv6Addr::unpack(from).map(Self::V6),
        }
    }
}

/// Implements [`Pack`] for prefixes of one family: the length, then the octets that it covers.
macro_rules! packed_prefix {
    ($($type:ty, $addr:ty;)+) => { $(
        impl Pack for $type {
            fn absent() -> Self {
                let Some(all) = Self::containing(<$addr>::UNSPECIFIED, 0) else {
                    unreachable!("a length of zero fits every family")
                };
                all
            }

            fn pack(&self, out: &mut Vec<u8>) {
                out.push(self.len());
                let octets = self.addr().octets();
                out.extend_from_slice(&octets[..usize::from(self.len().div_ceil(8))]);
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                let len = u8::unpack(from)?;
                let mut octets = <$addr>::UNSPECIFIED.octets();
                let (known, rest) = from.split_at_checked(usize::from(len.div_ceil(8)))?;
                octets.get_mut(..known.len())?.copy_from_slice(known);
                *from = rest;
                Self::containing(<$addr>::from(octets), len)
            }
        }
    )+ };
}

packed_prefix! {
    Ipv4Prefix, Ipv4Addr;
    Ipv6Prefix, Ipv6Addr;
}

impl Pack for IpPrefix {
    fn absent() -> Self {
        Self::V4(Pack::absent())
    }

    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(prefix) => {
                out.push(0);
                prefix.pack(out);
            }
            Self::V6(prefix) => {
                out.push(1);
                prefix.pack(out);
            }
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        match u8::unpack(from)? {
            0 => Pack::unpack(from).map(Self::V4),
            _ => Pack::unpack(from).map(Self::V6),
        }
    }
}

/// Packs a value and returns it unpacked; panics if octets are left over.
#[cfg(test)]
pub(crate) fn repacked<T: Pack>(value: &T) -> T {
    let mut out = Vec::new();
    value.pack(&mut out);
    let mut rest = &out[..];
    let again = T::unpack(&mut rest).unwrap();
    assert!(rest.is_empty(), "{rest:?} left over");
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_length_come_back() {
        for value in (0..64).map(|bit| 1_u64 << bit).chain([0, 127, 128, u64::MAX]) {
            assert_eq!(repacked(&value), value);
        }
        assert_eq!(u16::unpack(&mut &[0x80, 0x80, 0x04][..]), None, "65536 is no u16");
        assert_eq!(u64::unpack(&mut &[0xff; 11][..]), None, "too long");
        assert_eq!(u64::unpack(&mut &[0x80][..]), None, "cut off");
    }

    #[test]
    fn addresses_prefixes_and_texts_come_back() {
        for addr in ["10.0.0.1", "0.0.0.0", "2001:db8::1", "::"] {
            let addr: IpAddr = addr.parse().unwrap();
            assert_eq!(repacked(&addr), addr);
        }
        for prefix in ["10.2.0.0/15", "0.0.0.0/0", "10.0.0.1/32"] {
            let prefix = IpPrefix::V4(prefix.parse().unwrap());
            assert_eq!(repacked(&prefix), prefix);
        }
        for prefix in ["2001:db8::/61", "::/0", "2001:db8::1/128"] {
            let prefix = IpPrefix::V6(prefix.parse().unwrap());
            assert_eq!(repacked(&prefix), prefix);
        }
        let texts: Vec<Box<str>> = vec!["".into(), "internet".into()];
        assert_eq!(repacked(&texts), texts);
    }

    #[test]
    fn absent_fields_take_a_bit() {
        #[derive(Debug, PartialEq)]
        struct PackedSample {
            flag: bool,
            number: Option<u64>,
            list: Vec<u16>,
        }
        packed!(PackedSample { flag, number, list });
        let octets = |sample: &PackedSample| {
            let mut out = Vec::new();
            sample.pack(&mut out);
            out
        };
        assert_eq!(octets(&PackedSample::absent()), [0]);
        let zero = PackedSample { flag: true, number: Some(0), list: vec![7, 300] };
        assert_eq!(octets(&zero), [0b111, 0, 2, 7, 0xac, 2]);
        assert_eq!(repacked(&zero), zero);
    }
}
