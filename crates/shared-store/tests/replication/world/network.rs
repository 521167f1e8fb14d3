//! Streams in memory between two hosts: octets arrive in parts, links fail, hosts crash.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use adit_transport::{StreamId, StreamState, Transport, TransportError};
use adit_types::Nanos;

use super::random::ReplicationRandom;

/// One direction of a stream.
#[derive(Debug, Default)]
struct LinkDirection {
    octets: VecDeque<u8>,
    /// The sender has ended it.
    is_ended: bool,
}

/// A stream. Side 0 connected.
#[derive(Debug)]
struct MemoryStream {
    hosts: [usize; 2],
    /// From side 0, from side 1.
    directions: [LinkDirection; 2],
    is_accepted: bool,
    /// The state of each side: a reset reaches it, or its host crashed and forgot the stream.
    is_reset: [bool; 2],
    is_forgotten: [bool; 2],
}

#[derive(Debug, Default)]
struct NetworkState {
    streams: Vec<MemoryStream>,
    /// The address at which a host listens.
    listening: [Option<SocketAddr>; 2],
    is_down: bool,
}

/// The network of both hosts.
#[derive(Debug, Clone)]
pub(crate) struct LossyNetwork {
    state: Rc<RefCell<NetworkState>>,
    random: ReplicationRandom,
}

/// The streams of one process on a host.
#[derive(Debug)]
pub(crate) struct MemoryTransport {
    host: usize,
    network: LossyNetwork,
    listens: bool,
    /// Streams that existed before this process did belong to another one.
    first: usize,
}

impl LossyNetwork {
    pub(crate) fn new(random: ReplicationRandom) -> Self {
        Self { state: Rc::default(), random }
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.state.borrow_mut().is_down = is_down;
    }

    /// Resets all streams; octets on their way are lost.
    pub(crate) fn cut(&self) {
        for stream in &mut self.state.borrow_mut().streams {
            stream.directions = Default::default();
            stream.is_reset = [true; 2];
        }
    }

    /// The process on a host ends without a word. The other side may learn it later, from a reset.
    pub(crate) fn crash(&self, host: usize) {
        let mut state = self.state.borrow_mut();
        state.listening[host] = None;
        for stream in &mut state.streams {
            for side in 0..2 {
                if stream.hosts[side] == host {
                    stream.is_forgotten[side] = true;
                }
            }
        }
    }

    pub(crate) fn transport(&self, host: usize) -> MemoryTransport {
        let first = self.state.borrow().streams.len() * 2;
        MemoryTransport { host, network: self.clone(), listens: false, first }
    }
}

impl MemoryTransport {
    fn with<R>(
        &self,
        id: StreamId,
        act: impl FnOnce(&mut MemoryStream, usize, bool) -> Result<R, TransportError>,
    ) -> Result<R, TransportError> {
        let mut state = self.network.state.borrow_mut();
        let is_down = state.is_down;
        let (index, side) = (id.0 / 2, id.0 % 2);
        let stream = state.streams.get_mut(index).ok_or(TransportError::NoStream)?;
        // A host that forgot the stream resets it at the next segment.
        if stream.is_forgotten[1 - side] && !is_down && self.network.random.permille(20) {
            stream.is_reset[side] = true;
        }
        if stream.is_reset[side] {
            return Err(TransportError::Reset);
        }
        act(stream, side, is_down)
    }
}

impl Transport for MemoryTransport {
    fn poll(&mut self, _now: Nanos) {}

    fn wait(&mut self, _limit: Duration) {}

    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError> {
        let mut state = self.network.state.borrow_mut();
        let other = state.listening.iter().position(|listening| *listening == Some(peer));
        let Some(other) = other.filter(|other| *other != self.host) else {
            return Err(TransportError::Refused);
        };
        state.streams.push(MemoryStream {
            hosts: [self.host, other],
            directions: Default::default(),
            is_accepted: false,
            is_reset: [false; 2],
            is_forgotten: [false; 2],
        });
        Ok(StreamId((state.streams.len() - 1) * 2))
    }

    fn listen(&mut self, local: SocketAddr) -> Result<(), TransportError> {
        self.listens = true;
        self.network.state.borrow_mut().listening[self.host] = Some(local);
        Ok(())
    }

    fn accept(&mut self) -> Option<StreamId> {
        let mut state = self.network.state.borrow_mut();
        if !self.listens || state.is_down {
            return None;
        }
        let host = self.host;
        let found = state.streams.iter_mut().position(|stream| {
            !stream.is_accepted && stream.hosts[1] == host && stream.is_reset == [false; 2]
        })?;
        if found * 2 < self.first {
            state.streams[found].is_accepted = true;
            return None;
        }
        state.streams[found].is_accepted = true;
        Some(StreamId(found * 2 + 1))
    }

    fn state(&mut self, stream: StreamId) -> StreamState {
        let state = self.with(stream, |stream, _, is_down| {
            let is_open = stream.is_accepted && !is_down;
            Ok(if is_open { StreamState::Open } else { StreamState::Connecting })
        });
        state.unwrap_or_else(StreamState::Closed)
    }

    fn send(&mut self, stream: StreamId, octets: &[u8]) -> Result<usize, TransportError> {
        let most = self.network.random.below(4000) + 1;
        self.with(stream, |stream, side, _| {
            let queue = &mut stream.directions[side].octets;
            let room = 20_000usize.saturating_sub(queue.len());
            let len = octets.len().min(usize::try_from(most).unwrap()).min(room);
            queue.extend(&octets[..len]);
            Ok(len)
        })
    }

    fn receive(&mut self, stream: StreamId, room: &mut [u8]) -> Result<usize, TransportError> {
        let most = self.network.random.below(4000);
        self.with(stream, |stream, side, is_down| {
            let from = &mut stream.directions[1 - side];
            if is_down {
                return Ok(0);
            }
            if from.octets.is_empty() && from.is_ended {
                return Err(TransportError::Ended);
            }
            let len = from.octets.len().min(room.len()).min(usize::try_from(most).unwrap());
            for (octet, arrived) in room.iter_mut().zip(from.octets.drain(..len)) {
                *octet = arrived;
            }
            Ok(len)
        })
    }

    fn close(&mut self, stream: StreamId) {
        let _ = self.with(stream, |stream, side, _| {
            stream.directions[side].is_ended = true;
            Ok(())
        });
    }
}
