//! The setting of the maximum segment size that TCP announces.

/// The setting of a data network for the maximum segment size (MSS) of TCP connections, in both
/// directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TcpMss {
    /// The MSS stays as it is.
    #[default]
    Off,
    /// At most the size that fits one packet on its path: on the link to the data network, and in
    /// the tunnel.
    Clamp,
    /// At most this MSS. Unit: octets.
    AtMost(u16),
}

impl TcpMss {
    /// True if a SYN may have to be changed.
    #[inline]
    #[must_use]
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}
