//! Why a stream does not work.

use rustix::io::Errno;

/// Why a stream could not begin, or is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The peer ended the stream in order.
    #[error("the peer closed the connection")]
    Ended,
    /// Nobody accepts connections at this address.
    #[error("the peer refused the connection")]
    Refused,
    /// The peer or the network reset the stream, or it was closed here.
    #[error("the connection was reset")]
    Reset,
    /// The peer does not answer.
    #[error("the peer does not answer")]
    TimedOut,
    /// There is no route, or no source address for the peer's family.
    #[error("there is no route to the address")]
    Unreachable,
    /// The local address is in use.
    #[error("the local address is in use")]
    AddressInUse,
    /// As many streams exist as may.
    #[error("{0} connections exist, and no more are allowed")]
    Full(usize),
    /// The stream was closed before.
    #[error("there is no such connection")]
    NoStream,
    /// Another error of the kernel.
    #[error("the kernel refused: {0}")]
    Kernel(Errno),
}

impl From<Errno> for TransportError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::CONNREFUSED => Self::Refused,
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Self::Reset,
            Errno::TIMEDOUT => Self::TimedOut,
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL => Self::Unreachable,
            Errno::ADDRINUSE => Self::AddressInUse,
            other => Self::Kernel(other),
        }
    }
}
