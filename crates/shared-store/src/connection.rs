//! A connection to a server: queues commands in a pipeline, and passes on replies when they arrive.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use adit_store::StoreError;
use adit_transport::resp::{RespClient, RespError, RespLimits, RespValue};
use adit_transport::{StreamId, StreamState, Transport, TransportError};

use crate::printable::printable;

/// Maximum size of replies: one part of a scan with the largest records.
const SERVER_RESP_LIMITS: RespLimits =
    RespLimits { value_bytes_max: 256 << 20, elements_max: 1 << 22 };
/// Maximum of commands that await a reply.
const IN_FLIGHT_MAX: usize = 1024;
/// Maximum of octets of commands that wait to be sent.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// Maximum of push messages between two replies.
const PUSHES_MAX: u32 = 1000;
/// Maximum of receive calls that one call makes, so that a server which never stops sending does
/// not hold up the caller.
const RECEIVE_CALLS_MAX: u32 = 64;

/// The reason why a server cannot be used. The caller closes the connection.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// The connection failed, or this server cannot serve; another server may.
    Lost(String),
    /// The records are on another server of the Cluster, the one at this address.
    Moved(SocketAddr),
    /// The server refused a command.
    Refused(String),
    /// No server can help: trying another one is pointless.
    Final(StoreError),
}

impl From<TransportError> for LinkError {
    fn from(error: TransportError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// The words of a command: its name and its arguments.
pub(crate) type CommandWords<'a> = Vec<&'a [u8]>;

/// The tag of a queued command, which its reply is returned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipelineTag {
    /// A command of a blocking call; its index among the commands of the call.
    Call(usize),
    /// The write script: a group, or only the lease if the number is 0; queued at this time.
    Write { at: Instant },
    /// `ROLE`: the role of the server and its replicas.
    Role,
    /// `INFO`: the server's figures and settings. A server may refuse the command.
    Info,
    /// `WAIT`: how many replicas have all commands queued up to this time.
    Wait { at: Instant },
}

/// A stream to a server, and the commands that await a reply.
#[derive(Debug)]
pub(crate) struct ServerConnection {
    pub(crate) server: SocketAddr,
    stream: StreamId,
    resp: RespClient<PipelineTag>,
    /// When the last reply arrived, or the first command after it was queued.
    replied: Instant,
    /// When octets last arrived, or the first command after them was queued.
    heard: Instant,
    pushes: u32,
}

impl ServerConnection {
    /// Begins to connect to `server`.
    pub(crate) fn begin(
        transport: &mut impl Transport,
        server: SocketAddr,
        now: Instant,
    ) -> Result<Self, TransportError> {
        let stream = transport.connect(server)?;
        let resp = RespClient::new(SERVER_RESP_LIMITS, IN_FLIGHT_MAX, OUTPUT_BYTES_MAX);
        Ok(Self { server, stream, resp, replied: now, heard: now, pushes: 0 })
    }

    /// Closes the stream.
    pub(crate) fn end(self, transport: &mut impl Transport) {
        transport.close(self.stream);
    }

    /// Appends a command to the output. False if the output has no room now.
    pub(crate) fn command(&mut self, tag: PipelineTag, words: &[&[u8]], now: Instant) -> bool {
        if self.resp.in_flight() == 0 {
            (self.replied, self.heard) = (now, now);
        }
        self.resp.command(tag, words).is_ok()
    }

    /// Returns how many commands await a reply.
    pub(crate) fn in_flight(&self) -> usize {
        self.resp.in_flight()
    }

    /// Returns how long a reply has been awaited; zero if no command awaits one.
    pub(crate) fn reply_awaited(&self, now: Instant) -> Duration {
        self.awaited_since(self.replied, now)
    }

    /// Returns how long octets have been awaited; zero if no command awaits a reply.
    pub(crate) fn octets_awaited(&self, now: Instant) -> Duration {
        self.awaited_since(self.heard, now)
    }

    fn awaited_since(&self, since: Instant, now: Instant) -> Duration {
        let is_waiting = self.resp.in_flight() > 0;
        if is_waiting { now.saturating_duration_since(since) } else { Duration::ZERO }
    }

    /// Sends and receives as far as possible without waiting, and calls `each` for each reply. True
    /// if octets arrived.
    pub(crate) fn advance(
        &mut self,
        transport: &mut impl Transport,
        now: Instant,
        each: &mut dyn FnMut(PipelineTag, RespValue<'_>),
    ) -> Result<bool, LinkError> {
        match transport.state(self.stream) {
            StreamState::Connecting => return Ok(false),
            StreamState::Closed(error) => return Err(error.into()),
            StreamState::Open => {}
        }
        self.flush(transport)?;
        let mut has_arrived = false;
        for _ in 0..RECEIVE_CALLS_MAX {
            let arrived = transport.receive(self.stream, self.resp.input_room())?;
            if arrived == 0 {
                break;
            }
            has_arrived = true;
            self.heard = now;
            self.resp.input_arrived(arrived);
            let unreadable = |error: RespError| LinkError::Lost(error.to_string());
            while let Some(reply) = self.resp.next_reply().map_err(unreadable)? {
                let Some(tag) = reply.tag else {
                    // Push messages are not replies to commands.
                    self.pushes += 1;
                    if self.pushes > PUSHES_MAX {
                        return Err(LinkError::Lost(
                            "it sends messages instead of replies".to_owned(),
                        ));
                    }
                    continue;
                };
                (self.replied, self.pushes) = (now, 0);
                if let RespValue::Error(text) = reply.value
                    && tag != PipelineTag::Info
                {
                    return Err(link_error_of(text, self.server));
                }
                each(tag, reply.value);
            }
        }
        Ok(has_arrived)
    }

    /// Sends as many octets of the output as the transport takes.
    pub(crate) fn flush(&mut self, transport: &mut impl Transport) -> Result<(), LinkError> {
        while !self.resp.output().is_empty() {
            match transport.send(self.stream, self.resp.output())? {
                0 => break,
                len => self.resp.output_sent(len),
            }
        }
        Ok(())
    }
}

/// Converts an error that a server returned into what it means for the connection.
fn link_error_of(text: &[u8], server: SocketAddr) -> LinkError {
    let text = printable(text);
    let mut words = text.split(' ');
    match words.next() {
        Some("MOVED") => {
            match words.nth(1).and_then(|address| parse_redirection(address, server)) {
                Some(address) if address == server => LinkError::Lost(format!(
                    "it says that the records are elsewhere, and names itself ({text})"
                )),
                Some(address) => LinkError::Moved(address),
                None => LinkError::Lost(format!(
                    "it names another server of the Cluster by something else than an address ({text})"
                )),
            }
        }
        Some(
            "READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "NOSCRIPT" | "ASK" | "TRYAGAIN"
            | "UNBLOCKED",
        ) => LinkError::Lost(text),
        _ => LinkError::Refused(text),
    }
}

/// Parses the address in a redirection. If the host is missing, it is that of `server`, which sent
/// the redirection.
fn parse_redirection(address: &str, server: SocketAddr) -> Option<SocketAddr> {
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
        let to = |text: &str| match link_error_of(text.as_bytes(), server) {
            LinkError::Moved(address) => Some(address.to_string()),
            _ => None,
        };
        assert_eq!(to("MOVED 3999 192.0.2.2:6381").as_deref(), Some("192.0.2.2:6381"));
        assert_eq!(to("MOVED 3999 :6381").as_deref(), Some("192.0.2.1:6381"));
        assert_eq!(to("MOVED 3999 2001:db8::1:6381").as_deref(), Some("[2001:db8::1]:6381"));
        assert_eq!(to("MOVED 3999 redis-2:6381"), None);
        assert_eq!(to("MOVED"), None);
        let LinkError::Lost(why) = link_error_of(b"MOVED 3999 :6379", server) else {
            panic!("itself")
        };
        assert!(why.contains("names itself"), "{why}");
        assert!(matches!(link_error_of(b"READONLY You can't", server), LinkError::Lost(_)));
        assert!(matches!(link_error_of(b"OOM command not allowed", server), LinkError::Refused(_)));
    }

    #[test]
    fn text_of_a_server_is_printable() {
        let server: SocketAddr = "192.0.2.1:6379".parse().unwrap();
        let LinkError::Refused(text) = link_error_of(b"ERR \x1b[2J\xff\nok", server) else {
            panic!("another error")
        };
        assert_eq!(text, "ERR \\x1b[2J\\xff\\nok");
    }
}
