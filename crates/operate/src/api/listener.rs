//! The sockets at which an interface listens: TCP, or a Unix socket whose file says who may
//! connect.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// After this time without an octet, the kernel probes whether the peer is there.
const PEER_IDLE: Duration = Duration::from_secs(30);

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(crate) enum ApiPeer {
    Remote(IpAddr),
    /// A process of this host that may open the socket's file: its uid and pid, for the log.
    Local(String),
}

impl ApiPeer {
    /// The address by which connections are limited: all processes of this host share one.
    pub(crate) fn address(&self) -> IpAddr {
        match self {
            Self::Remote(address) => *address,
            Self::Local(_) => Ipv4Addr::UNSPECIFIED.into(),
        }
    }
}

/// A socket at which clients connect.
pub(crate) trait ApiListener {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts the next connection.
    async fn next(&self) -> io::Result<(Self::Stream, ApiPeer)>;
}

impl ApiListener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, ApiPeer)> {
        let (stream, peer) = self.accept().await?;
        // Answers are small and written whole: TCP must not delay them.
        let _ = stream.set_nodelay(true);
        notice_lost_peer(&stream);
        Ok((stream, ApiPeer::Remote(peer.ip())))
    }
}

impl ApiListener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, ApiPeer)> {
        let (stream, _) = self.accept().await?;
        let who = match sockopt::socket_peercred(&stream) {
            Ok(known) => format!("uid {} pid {}", known.uid.as_raw(), known.pid.as_raw_nonzero()),
            Err(_) => "a process of this host".to_owned(),
        };
        Ok((stream, ApiPeer::Local(who)))
    }
}

/// Makes the kernel end a connection whose peer is gone without closing it, even while a stream
/// sends nothing.
fn notice_lost_peer(stream: &TcpStream) {
    // If this fails, the connection ends when something is sent.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, PEER_IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, PEER_IDLE / 3);
    let _ = sockopt::set_tcp_keepcnt(stream, 3);
}
