//! Bounds of what a peer may send.

/// Bounds of a value from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RespLimits {
    /// Largest value, with its headers. Unit: octets.
    pub value_bytes_max: usize,
    /// Most elements of a value, with those of its elements and with itself.
    pub elements_max: u32,
}

impl RespLimits {
    /// Longest line: a simple string, an error, a number or a length. Unit: octets.
    pub const LINE_BYTES_MAX: usize = 4096;
}

impl Default for RespLimits {
    /// 1 MiB and 65,536 elements.
    fn default() -> Self {
        Self { value_bytes_max: 1 << 20, elements_max: 1 << 16 }
    }
}
