//! Errors of the protocol.

/// A violation of the protocol, after which the connection cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RespError {
    /// The first octet of a value is not that of any type.
    #[error("0x{0:02x} is not the first octet of a RESP value")]
    UnknownType(u8),
    /// A CR without LF, an LF without CR, or a bulk string longer than announced.
    #[error("a line or a bulk string does not end with CR LF")]
    LineEnd,
    /// The line of a value is longer than
    /// [`LINE_BYTES_MAX`](crate::resp::RespLimits::LINE_BYTES_MAX).
    #[error("a line has more than {max} octets", max = crate::resp::RespLimits::LINE_BYTES_MAX)]
    LongLine,
    /// A number, length or boolean is malformed.
    #[error("a number, length or boolean is not one")]
    Number,
    /// A verbatim string has no format.
    #[error("a verbatim string does not begin with three letters and a colon")]
    Verbatim,
    /// A value has more octets than allowed.
    #[error("a value has more than {0} octets")]
    LargeValue(usize),
    /// A value has more elements than allowed, counting nested ones.
    #[error("a value has more than {0} elements")]
    ManyElements(u32),
    /// A reply arrived while no command waits for one.
    #[error("the server sent a reply although no command waits for one")]
    Unsolicited,
    /// A request is not an array of bulk strings, or is empty.
    #[error("a request is not an array of bulk strings")]
    NotACommand,
}
