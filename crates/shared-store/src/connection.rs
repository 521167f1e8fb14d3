//! One connection to a server: commands in a pipeline, and replies as they arrive.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use adit_store::StoreError;
use adit_transport::resp::{RespClient, RespError, RespLimits, RespValue};
use adit_transport::{StreamId, StreamState, Transport, TransportError};

use crate::printable::printable;

/// Replies at most: a part of a scan with the largest records.
const LIMITS: RespLimits = RespLimits { value_bytes_max: 256 << 20, elements_max: 1 << 22 };
/// Commands without reply.
const IN_FLIGHT_MAX: usize = 1024;
/// Octets of commands that wait to be sent.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// Push messages between two replies.
const PUSHES_MAX: u32 = 1000;
/// Parts that one call receives, so that a server which never stops sending does not keep the
/// caller.
const PARTS_MAX: u32 = 64;

/// Why a server cannot be used. The connection is closed.
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

impl From<TransportError> for LinkError {
    fn from(error: TransportError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// The words of a command.
pub(crate) type CommandWords<'a> = Vec<&'a [u8]>;

/// Identifies the command of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipelineTag {
    /// One of the commands of a call, by its place.
    Call(usize),
    /// A group, or with number 0 only the lease, queued at this time.
    Write { at: Instant },
    /// The role of the server.
    Role,
    /// The server's own figures, which it may refuse.
    Info,
    /// Replicas must have all commands queued up to this time.
    Wait { at: Instant },
}

/// A stream to a server, and the commands without reply.
#[derive(Debug)]
pub(crate) struct ServerConnection {
    pub(crate) server: SocketAddr,
    stream: StreamId,
    resp: RespClient<PipelineTag>,
    /// When the last reply came, or the first command was queued after it.
    replied: Instant,
    /// When octets came last, or the first command was queued after them.
    heard: Instant,
    pushes: u32,
}

impl ServerConnection {
    /// Begins a stream to `server`.
    pub(crate) fn begin(
        transport: &mut impl Transport,
        server: SocketAddr,
        now: Instant,
    ) -> Result<Self, TransportError> {
        let stream = transport.connect(server)?;
        let resp = RespClient::new(LIMITS, IN_FLIGHT_MAX, OUTPUT_BYTES_MAX);
        Ok(Self { server, stream, resp, replied: now, heard: now, pushes: 0 })
    }

    /// Ends the stream.
    pub(crate) fn end(self, transport: &mut impl Transport) {
        transport.close(self.stream);
    }

    /// Appends a command to the output. False if there is no room now.
    pub(crate) fn command(&mut self, tag: PipelineTag, words: &[&[u8]], now: Instant) -> bool {
        if self.resp.in_flight() == 0 {
            (self.replied, self.heard) = (now, now);
        }
        self.resp.command(tag, words).is_ok()
    }

    /// Commands without reply.
    pub(crate) fn in_flight(&self) -> usize {
        self.resp.in_flight()
    }

    /// For how long a reply has been awaited.
    pub(crate) fn reply_awaited(&self, now: Instant) -> Duration {
        self.awaited(self.replied, now)
    }

    /// For how long octets have been awaited.
    pub(crate) fn octets_awaited(&self, now: Instant) -> Duration {
        self.awaited(self.heard, now)
    }

    fn awaited(&self, since: Instant, now: Instant) -> Duration {
        let is_waiting = self.resp.in_flight() > 0;
        if is_waiting { now.saturating_duration_since(since) } else { Duration::ZERO }
    }

    /// Makes progress without waiting: sends and receives, and hands over each reply. True if
    /// octets arrived.
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
        for _ in 0..PARTS_MAX {
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
                    // Push messages answer nothing.
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
                    return Err(refusal(text, self.server));
                }
                each(tag, reply.value);
            }
        }
        Ok(has_arrived)
    }

    /// Sends as many octets as the transport takes.
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

/// The meaning of a server's error.
fn refusal(text: &[u8], server: SocketAddr) -> LinkError {
    let text = printable(text);
    let mut words = text.split(' ');
    match words.next() {
        Some("MOVED") => match words.nth(1).and_then(|address| moved_to(address, server)) {
            Some(address) if address == server => LinkError::Lost(format!(
                "it says that the records are elsewhere, and names itself ({text})"
            )),
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
        let LinkError::Lost(why) = refusal(b"MOVED 3999 :6379", server) else { panic!("itself") };
        assert!(why.contains("names itself"), "{why}");
        assert!(matches!(refusal(b"READONLY You can't", server), LinkError::Lost(_)));
        assert!(matches!(refusal(b"OOM command not allowed", server), LinkError::Refused(_)));
    }

    #[test]
    fn text_of_a_server_is_printable() {
        let server: SocketAddr = "192.0.2.1:6379".parse().unwrap();
        let LinkError::Refused(text) = refusal(b"ERR \x1b[2J\xff\nok", server) else {
            panic!("another error")
        };
        assert_eq!(text, "ERR \\x1b[2J\\xff\\nok");
    }
}
