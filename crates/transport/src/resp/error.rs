//! Why octets are not RESP.

/// A violation of the protocol. The connection cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RespError {
    /// The first octet names no type.
    #[error("0x{0:02x} is not the first octet of a RESP value")]
    UnknownType(u8),
    /// A CR without LF, an LF without CR, or a bulk string that is longer than announced.
    #[error("a line or a bulk string does not end with CR LF")]
    LineEnd,
    /// The line of a value is longer than
    /// [`LINE_BYTES_MAX`](crate::resp::RespLimits::LINE_BYTES_MAX).
    #[error("a line has more than {max} octets", max = crate::resp::RespLimits::LINE_BYTES_MAX)]
    LongLine,
    /// A number, a length or a boolean cannot be read.
    #[error("a number, length or boolean is not one")]
    Number,
    /// A verbatim string without its format.
    #[error("a verbatim string does not begin with three letters and a colon")]
    Verbatim,
    /// A value with more octets than allowed.
    #[error("a value has more than {0} octets")]
    LargeValue(usize),
    /// A value with more elements than allowed, nested ones included.
    #[error("a value has more than {0} elements")]
    ManyElements(u32),
    /// A reply without a command.
    #[error("the server sent a reply although no command waits for one")]
    Unsolicited,
    /// A request that is not an array of bulk strings, or an empty one.
    #[error("a request is not an array of bulk strings")]
    NotACommand,
}
