//! Errors of streams.

use std::io;

use rustix::io::Errno;

/// The reason why a stream could not begin, or is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The peer closed the stream.
    #[error("the peer closed the connection")]
    Ended,
    /// No program accepts connections at this address.
    #[error("the peer refused the connection")]
    Refused,
    /// The peer or the network reset the stream, or it was closed here.
    #[error("the connection was reset")]
    Reset,
    /// The peer does not answer.
    #[error("the peer does not answer")]
    TimedOut,
    /// There is no route, or no source address of the peer's address family.
    #[error("there is no route to the address")]
    Unreachable,
    /// The local address is in use.
    #[error("the local address is in use")]
    AddressInUse,
    /// The maximum number of streams exists.
    #[error("{0} connections exist, and no more are allowed")]
    Full(usize),
    /// The stream does not exist, or was closed.
    #[error("there is no such connection")]
    NoStream,
    /// The transport has no certificate of its own, so it only opens connections.
    #[error("this transport accepts no connections")]
    ClientOnly,
    /// TLS failed with this peer.
    #[error("TLS: {0}")]
    Tls(TlsFault),
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

impl From<io::Error> for TransportError {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).unwrap_or(Errno::INVAL).into()
    }
}

/// The reason why TLS failed with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// No configured authority signed the peer's certificate.
    #[error("the certificate of the peer is signed by none of the configured authorities")]
    UnknownIssuer,
    /// The peer's certificate is for another address or name.
    #[error("the certificate of the peer is for another address or name")]
    OtherName,
    /// The peer's certificate has expired, or is not valid yet.
    #[error("the certificate of the peer has expired or is not valid yet")]
    Expired,
    /// The peer's certificate cannot be used for another reason.
    #[error("the certificate of the peer is not accepted")]
    Certificate,
    /// The peer requires a certificate, or rejects this side's.
    #[error("the peer wants a certificate, or does not accept the one that it got")]
    OwnCertificate,
    /// The peer does not speak TLS, or another version.
    #[error("the peer does not speak TLS 1.2 or 1.3, or violates it")]
    Protocol,
}

impl From<&rustls::Error> for TlsFault {
    fn from(error: &rustls::Error) -> Self {
        use rustls::{AlertDescription, CertificateError, Error};
        match error {
            Error::InvalidCertificate(why) => match why {
                CertificateError::UnknownIssuer => Self::UnknownIssuer,
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::OtherName,
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Self::Expired,
                _ => Self::Certificate,
            },
            Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::HandshakeFailure,
            ) => Self::OwnCertificate,
            _ => Self::Protocol,
        }
    }
}
