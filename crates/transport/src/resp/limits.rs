//! Limits on what a peer may send.

/// Limits on a value from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RespLimits {
    /// Maximum length of a value, with its headers. Unit: octets.
    pub value_bytes_max: usize,
    /// Maximum number of elements of a value, counting nested ones and the value itself.
    pub elements_max: u32,
}

impl RespLimits {
    /// Maximum length of a line: a simple string, an error, a number or a length. Unit: octets.
    pub const LINE_BYTES_MAX: usize = 4096;
}

impl Default for RespLimits {
    /// Allows 1 MiB and 65,536 elements.
    fn default() -> Self {
        Self { value_bytes_max: 1 << 20, elements_max: 1 << 16 }
    }
}
