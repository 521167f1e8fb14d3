//! Streams over TCP sockets of the kernel.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, connect, recv, send,
    socket_with,
};

use adit_types::Nanos;

use crate::{StreamId, StreamState, Transport, TransportError, busy_poll};

/// Maximum number of streams of one transport.
const STREAMS_MAX: usize = 1024;
/// Maximum number of events that one system call returns.
const EVENTS_MAX: usize = 64;
/// The event data that identifies the listening socket; smaller values are [`StreamId`]s.
const LISTENER_EVENT: u64 = u64::MAX;
/// How long a receive call may poll the queue of a NIC. Unit: µs.
const BUSY_POLL_US: i32 = 50;

/// Flags of every socket.
const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// How a thread waits if nothing has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelWait {
    /// The thread sleeps in [`Transport::wait`].
    Sleep,
    /// The thread polls. [`Transport::wait`] returns at once, and receive calls poll the NIC
    /// (`SO_BUSY_POLL`) if the kernel and the driver support that.
    Poll,
}

/// Nonblocking sockets, and one epoll instance for their events.
#[derive(Debug)]
pub struct KernelTcp {
    wait: KernelWait,
    epoll: OwnedFd,
    streams: BTreeMap<StreamId, KernelStream>,
    next_stream: usize,
    listener: Option<TcpListener>,
    /// True if an event reported a peer at the listener, and no call of `accept` has found none
    /// since.
    has_peers: bool,
}

#[derive(Debug)]
struct KernelStream {
    socket: OwnedFd,
    state: StreamState,
    /// True if an event reported it, and no call has found the contrary since.
    readable: bool,
    writable: bool,
    /// True if an event reported that the peer sends nothing more.
    ended: bool,
}

impl KernelTcp {
    /// Creates a transport without streams.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn new(wait: KernelWait) -> Result<Self, TransportError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let streams = BTreeMap::new();
        Ok(Self { wait, epoll, streams, next_stream: 0, listener: None, has_peers: false })
    }

    fn add(&mut self, socket: OwnedFd, state: StreamState) -> Result<StreamId, TransportError> {
        if self.streams.len() >= STREAMS_MAX {
            return Err(TransportError::Full(STREAMS_MAX));
        }
        set_tcp_nodelay(&socket, true)?;
        if self.wait == KernelWait::Poll {
            busy_poll::request(socket.as_fd(), BUSY_POLL_US);
        }
        let id = StreamId(self.next_stream);
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(u64::try_from(id.0).unwrap_or(LISTENER_EVENT));
        epoll::add(&self.epoll, &socket, data, flags)?;
        let is_open = state == StreamState::Open;
        let stream =
            KernelStream { socket, state, readable: is_open, writable: is_open, ended: false };
        self.streams.insert(id, stream);
        self.next_stream += 1;
        Ok(id)
    }

    /// Returns the stream; `None` while it connects.
    fn open_stream(&mut self, id: StreamId) -> Result<Option<&mut KernelStream>, TransportError> {
        let stream = self.streams.get_mut(&id).ok_or(TransportError::NoStream)?;
        match stream.state {
            StreamState::Connecting => Ok(None),
            StreamState::Open => Ok(Some(stream)),
            StreamState::Closed(error) => Err(error),
        }
    }

    /// True if a call on the only socket is cheaper than querying its events first.
    fn is_direct(&self) -> bool {
        self.wait == KernelWait::Poll && self.streams.len() == 1 && self.listener.is_none()
    }

    /// Queries which sockets are ready, and waits for at most `limit` if none is.
    fn poll_events(&mut self, limit: Duration) {
        let timeout = Timespec::try_from(limit).ok();
        // Not a field of `self`: epoll events are not `Send`.
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        // An error means that a signal interrupted the wait: the caller calls again.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, timeout.as_ref()) else { return };
        for event in events {
            let data = event.data.u64();
            self.has_peers |= data == LISTENER_EVENT;
            let id = StreamId(usize::try_from(data).unwrap_or(usize::MAX));
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let flags = event.flags;
            let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            stream.ended |= flags.intersects(ended);
            stream.readable |= flags.intersects(epoll::EventFlags::IN | ended);
            if flags.intersects(epoll::EventFlags::OUT | ended) {
                stream.writable = true;
                if stream.state == StreamState::Connecting {
                    stream.state = match socket_error(&stream.socket) {
                        Ok(Ok(())) => StreamState::Open,
                        Ok(Err(errno)) | Err(errno) => StreamState::Closed(errno.into()),
                    };
                }
            }
        }
    }
}

impl KernelStream {
    fn fail(&mut self, error: TransportError) -> TransportError {
        self.state = StreamState::Closed(error);
        error
    }
}

impl Transport for KernelTcp {
    fn poll(&mut self, _now: Nanos) {
        // Only an event can report that a stream has connected, or is writable again.
        let all_writable = self.streams.values().all(|stream| stream.writable);
        if self.wait == KernelWait::Poll && !(self.is_direct() && all_writable) {
            self.poll_events(Duration::ZERO);
        }
    }

    fn wait(&mut self, limit: Duration) {
        let ready = self.streams.values().any(|stream| stream.readable);
        if self.wait == KernelWait::Sleep {
            // If a stream is readable already, only queries events: a busy stream must not delay
            // the others.
            self.poll_events(if ready { Duration::ZERO } else { limit });
        }
    }

    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError> {
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SOCKET_FLAGS, None)?;
        let state = match connect(&socket, &peer) {
            Ok(()) => StreamState::Open,
            Err(Errno::INPROGRESS) => StreamState::Connecting,
            Err(errno) => return Err(errno.into()),
        };
        self.add(socket, state)
    }

    fn listen(&mut self, local: SocketAddr) -> Result<(), TransportError> {
        let listener = TcpListener::bind(local)?;
        listener.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(LISTENER_EVENT);
        epoll::add(&self.epoll, &listener, data, epoll::EventFlags::IN)?;
        self.listener = Some(listener);
        Ok(())
    }

    fn accept(&mut self) -> Option<StreamId> {
        let listener = self.listener.as_ref().filter(|_| self.has_peers)?;
        let Ok(socket) = accept_with(listener, SOCKET_FLAGS) else {
            self.has_peers = false;
            return None;
        };
        // Beyond the maximum number of streams, dropping the socket closes the connection.
        self.add(socket, StreamState::Open).ok()
    }

    fn state(&mut self, stream: StreamId) -> StreamState {
        let closed = StreamState::Closed(TransportError::NoStream);
        self.streams.get(&stream).map_or(closed, |stream| stream.state)
    }

    fn send(&mut self, stream: StreamId, octets: &[u8]) -> Result<usize, TransportError> {
        let stream = self.open_stream(stream)?.filter(|stream| stream.writable);
        let Some(stream) = stream else { return Ok(0) };
        match send(&stream.socket, octets, SendFlags::NOSIGNAL) {
            Ok(len) => Ok(len),
            Err(Errno::AGAIN | Errno::INTR) => {
                stream.writable = false;
                Ok(0)
            }
            Err(errno) => Err(stream.fail(errno.into())),
        }
    }

    fn receive(&mut self, stream: StreamId, room: &mut [u8]) -> Result<usize, TransportError> {
        let is_direct = self.is_direct();
        let stream = self.open_stream(stream)?.filter(|stream| stream.readable || is_direct);
        let Some(stream) = stream else { return Ok(0) };
        let room_len = room.len();
        match recv(&stream.socket, room, RecvFlags::empty()) {
            Ok((_, 0)) if room_len > 0 => Err(stream.fail(TransportError::Ended)),
            Ok((_, len)) => {
                // The kernel has no more octets if it returned less than the room; later octets
                // cause a new event.
                stream.readable = len == room_len || stream.ended;
                Ok(len)
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                stream.readable = false;
                Ok(0)
            }
            Err(errno) => Err(stream.fail(errno.into())),
        }
    }

    fn close(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }
}
