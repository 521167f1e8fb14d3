//! Views of complete values.

/// A value, without the attributes in front of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RespValue<'a> {
    /// A simple string, such as `OK`.
    Simple(&'a [u8]),
    /// An error: code and text, such as `ERR unknown command`.
    Error(&'a [u8]),
    /// An integer.
    Integer(i64),
    /// A floating-point number (RESP3).
    Double(f64),
    /// A boolean (RESP3).
    Boolean(bool),
    /// Decimal digits of an integer of any size (RESP3).
    BigNumber(&'a [u8]),
    /// Null: that of RESP3, or the null bulk string or null array of RESP2.
    Null,
    /// A string of octets, or the text of a verbatim string.
    Bulk(&'a [u8]),
    /// Elements in their order.
    Array(RespElements<'a>),
    /// Alternating keys and values (RESP3).
    Map(RespElements<'a>),
    /// Elements without order (RESP3).
    Set(RespElements<'a>),
    /// A message that is no reply to a command (RESP3).
    Push(RespElements<'a>),
}

/// The elements of a complete value; the elements of a map are alternating keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RespElements<'a> {
    /// The octets of the remaining elements and everything that follows them.
    pub(crate) octets: &'a [u8],
    pub(crate) left: u32,
}

impl RespElements<'_> {
    /// Returns the number of remaining elements.
    #[must_use]
    pub fn count_left(&self) -> u32 {
        self.left
    }
}
