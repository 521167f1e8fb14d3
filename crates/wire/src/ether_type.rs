//! Types of the payload of a MAC header or a VLAN tag. Spec: IEEE 802.3 §3.2.6.

/// Type of the payload of a MAC header, host order. Values below 0x0600 are IEEE 802.3 lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// A customer VLAN tag follows (IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// A service VLAN tag follows (IEEE 802.1ad).
    pub const SERVICE_VLAN: Self = Self(0x88a8);
}
