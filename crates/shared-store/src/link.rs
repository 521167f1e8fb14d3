//! The connection to the primary: finding it, and commands with their replies.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use adit_resp::{RespClient, RespLimits, RespValue};
use adit_store::StoreError;
use adit_transport::{StreamId, StreamState, Transport, TransportError};
use adit_types::Nanos;

/// Replies at most: a part of a scan with the largest records.
const LIMITS: RespLimits = RespLimits { value_bytes_max: 256 << 20, elements_max: 1 << 22 };
/// Commands without reply.
const IN_FLIGHT_MAX: usize = 1024;
/// Octets of commands that wait to be sent.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// Longest sleep before the deadline is looked at again.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Why a call of a server failed. The connection is closed.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// The connection is over, or the server cannot serve: another one may.
    Lost(String),
    /// The records are at this server of the Cluster.
    Moved(SocketAddr),
    /// The server refuses a command.
    Refused(String),
    /// No server can help.
    Final(StoreError),
}

/// What commands are made of.
pub(crate) type CommandWords<'a> = Vec<&'a [u8]>;

#[derive(Debug)]
struct ServerConnection {
    server: SocketAddr,
    stream: StreamId,
    resp: RespClient<()>,
}

/// At most one connection, to one of several servers.
pub(crate) struct ServerLink<T> {
    transport: T,
    servers: Vec<SocketAddr>,
    /// The place of the server that is tried first.
    first: usize,
    /// The server to try first.
    preferred: Option<SocketAddr>,
    connection: Option<ServerConnection>,
    began: Instant,
    /// Connections that failed or were lost.
    pub failures: u64,
}

impl<T: Transport> ServerLink<T> {
    pub(crate) fn new(transport: T, servers: Vec<SocketAddr>) -> Self {
        let began = Instant::now();
        Self { transport, servers, first: 0, preferred: None, connection: None, began, failures: 0 }
    }

    pub(crate) fn server(&self) -> Option<SocketAddr> {
        self.connection.as_ref().map(|connection| connection.server)
    }

    /// The servers to try, in this order.
    pub(crate) fn candidates(&mut self) -> impl Iterator<Item = SocketAddr> {
        let servers = self.servers.iter().cycle().skip(self.first).take(self.servers.len());
        self.preferred.take().into_iter().chain(servers.copied())
    }

    /// Next time the first `count` servers come last.
    pub(crate) const fn rotate(&mut self, count: usize) {
        if !self.servers.is_empty() {
            self.first = (self.first + count) % self.servers.len();
        }
    }

    /// The server to try first.
    pub(crate) const fn prefer(&mut self, server: SocketAddr) {
        self.preferred = Some(server);
    }

    /// Opens a connection to `server` instead of the one that there is.
    pub(crate) fn open(&mut self, server: SocketAddr, deadline: Instant) -> Result<(), LinkError> {
        self.close();
        let lost = |error: TransportError| LinkError::Lost(error.to_string());
        let opened = self.transport.connect(server).map_err(lost);
        let stream = opened.inspect_err(|_| self.failures += 1)?;
        let resp = RespClient::new(LIMITS, IN_FLIGHT_MAX, OUTPUT_BYTES_MAX);
        self.connection = Some(ServerConnection { server, stream, resp });
        loop {
            self.transport.poll(Nanos(self.nanos()));
            match self.transport.state(stream) {
                StreamState::Open => return Ok(()),
                StreamState::Closed(error) => return Err(self.fail(lost(error))),
                StreamState::Connecting => {}
            }
            if !self.wait(deadline) {
                return Err(self.fail(lost(TransportError::TimedOut)));
            }
        }
    }

    /// Ends the connection.
    pub(crate) fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.transport.close(connection.stream);
            self.transport.poll(Nanos(self.nanos()));
        }
    }

    /// Sends commands, and hands over each reply with the place of its command. An error closes the connection.
    pub(crate) fn exchange(
        &mut self,
        commands: &[CommandWords<'_>],
        deadline: Instant,
        each: &mut dyn FnMut(usize, RespValue<'_>),
    ) -> Result<(), LinkError> {
        let exchanged = self.try_exchange(commands, deadline, each);
        exchanged.map_err(|error| self.fail(error))
    }

    fn try_exchange(
        &mut self,
        commands: &[CommandWords<'_>],
        deadline: Instant,
        each: &mut dyn FnMut(usize, RespValue<'_>),
    ) -> Result<(), LinkError> {
        let lost = |error: TransportError| LinkError::Lost(error.to_string());
        let (mut queued, mut answered) = (0, 0);
        while answered < commands.len() {
            self.transport.poll(Nanos(self.nanos()));
            let Some(ServerConnection { server, stream, resp }) = &mut self.connection else {
                return Err(LinkError::Lost("there is no connection".to_owned()));
            };
            while let Some(command) = commands.get(queued)
                && resp.command((), command).is_ok()
            {
                queued += 1;
            }
            while !resp.output().is_empty() {
                match self.transport.send(*stream, resp.output()).map_err(lost)? {
                    0 => break,
                    len => resp.output_sent(len),
                }
            }
            let arrived = self.transport.receive(*stream, resp.input_room()).map_err(lost)?;
            resp.input_arrived(arrived);
            let protocol = |error: adit_resp::RespError| LinkError::Lost(error.to_string());
            while let Some(reply) = resp.next_reply().map_err(protocol)? {
                // Push messages answer nothing.
                if reply.tag.is_none() {
                    continue;
                }
                if let RespValue::Error(text) = reply.value {
                    return Err(refusal(text, *server));
                }
                each(answered, reply.value);
                answered += 1;
            }
            if arrived == 0 && answered < commands.len() && !self.wait(deadline) {
                return Err(lost(TransportError::TimedOut));
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: LinkError) -> LinkError {
        self.failures += u64::from(!matches!(error, LinkError::Moved(_)));
        self.close();
        error
    }

    /// Waits for the transport; false if the time is up.
    fn wait(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        self.transport.wait(left.min(WAIT_MAX));
        !left.is_zero()
    }

    fn nanos(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What the error of a server means.
fn refusal(text: &[u8], server: SocketAddr) -> LinkError {
    let text = String::from_utf8_lossy(text).into_owned();
    let mut words = text.split(' ');
    match words.next() {
        Some("MOVED") => match words.nth(1).and_then(|address| moved_to(address, server)) {
            Some(address) => LinkError::Moved(address),
            None => LinkError::Lost(format!(
                "it names another server of the Cluster by something else than an address ({text})"
            )),
        },
        Some(
            "READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "NOSCRIPT" | "ASK" | "TRYAGAIN"
            | "UNBLOCKED",
        ) => LinkError::Lost(text),
        _ => LinkError::Refused(text),
    }
}

/// The address in a redirection; without a host it is that of the server which sent it.
fn moved_to(address: &str, server: SocketAddr) -> Option<SocketAddr> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip: IpAddr = if host.is_empty() { server.ip() } else { host.parse().ok()? };
    Some(SocketAddr::new(ip, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirection_names_a_server() {
        let server: SocketAddr = "192.0.2.1:6379".parse().unwrap();
        let to = |text: &str| match refusal(text.as_bytes(), server) {
            LinkError::Moved(address) => Some(address.to_string()),
            _ => None,
        };
        assert_eq!(to("MOVED 3999 192.0.2.2:6381").as_deref(), Some("192.0.2.2:6381"));
        assert_eq!(to("MOVED 3999 :6381").as_deref(), Some("192.0.2.1:6381"));
        assert_eq!(to("MOVED 3999 2001:db8::1:6381").as_deref(), Some("[2001:db8::1]:6381"));
        assert_eq!(to("MOVED 3999 redis-2:6381"), None);
        assert_eq!(to("MOVED"), None);
        assert!(matches!(refusal(b"READONLY You can't", server), LinkError::Lost(_)));
        assert!(matches!(refusal(b"OOM command not allowed", server), LinkError::Refused(_)));
    }
}
