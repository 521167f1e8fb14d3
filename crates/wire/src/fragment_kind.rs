//! The part of a datagram that a packet is. Spec: RFC 791 §3.2; RFC 8200 §4.5.

/// Which part of a datagram a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FragmentKind {
    /// The whole datagram.
    None,
    /// The first fragment: it has the upper-layer header.
    First,
    /// A later fragment: it has no upper-layer header.
    Later,
}
