//! Streams over the TCP of smoltcp, on a port of their own.

mod device;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_pktio::PacketIo;
use adit_types::{MacAddr, Nanos, PortId};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use self::device::StackDevice;
use crate::{StreamId, StreamState, Transport, TransportError};

/// Number of sockets that wait for peers at the same time.
const LISTENING_MAX: usize = 8;
/// How long all listening sockets may be in handshakes before the oldest one is dropped. A
/// handshake takes one round trip.
const HANDSHAKES_WAIT_MAX: smoltcp::time::Duration = smoltcp::time::Duration::from_millis(100);
/// Maximum number of bursts that one poll receives.
const BURSTS_MAX: usize = 8;
/// The first local port for streams that this side opens (RFC 6335 §6).
const FIRST_LOCAL_PORT: u16 = 49_152;
/// How long a stream is idle before it probes whether its peer is alive.
const KEEP_ALIVE_INTERVAL: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(1);
/// How long a peer may be silent. NOTE: smoltcp 0.14 closes idle streams after this time too,
/// unless they send keep-alives.
const SILENCE_MAX: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(5);

/// Addresses and sizes of the stack.
#[derive(Debug, Clone)]
pub struct UserTcpConfig {
    /// Link-layer address; `None` for the port's own. Another address requires promiscuous mode.
    pub mac: Option<MacAddr>,
    /// The stack's own address.
    pub address: IpAddr,
    /// Prefix length of the link.
    pub prefix_len: u8,
    /// The gateway for addresses outside the prefix.
    pub gateway: Option<IpAddr>,
    /// Size of a stream's buffer in each direction, and so the largest receive window. Unit:
    /// octets.
    pub stream_bytes: usize,
    /// Maximum number of streams, including those that wait for peers or are in a handshake.
    pub streams_max: usize,
    /// An unpredictable number, from which initial sequence numbers and ports are derived.
    pub seed: u64,
}

/// TCP in user space over one port of `Io`.
pub struct UserTcp<Io: PacketIo> {
    device: StackDevice<Io>,
    interface: Interface,
    sockets: SocketSet<'static>,
    streams: BTreeMap<StreamId, SocketHandle>,
    next_stream: usize,
    /// Sockets that were closed here and whose connection has not ended yet.
    closing: Vec<SocketHandle>,
    listening: Vec<SocketHandle>,
    /// Time since which all listening sockets have been in handshakes.
    crowded_since: Option<Instant>,
    local: Option<SocketAddr>,
    config: UserTcpConfig,
    next_port: u16,
    /// When the stack has work next, if nothing arrives.
    due: Option<Instant>,
    /// True if something was sent, opened or closed since the last poll.
    touched: bool,
}

impl<Io: PacketIo> fmt::Debug for UserTcp<Io> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.config, &self.streams);
        f.debug_tuple("UserTcp").field(&all).finish_non_exhaustive()
    }
}

impl<Io: PacketIo> UserTcp<Io> {
    /// Creates a stack on `port` of `io`, which no other code may use.
    ///
    /// # Errors
    /// The address or the gateway cannot be used.
    pub fn new(
        io: Io,
        port: PortId,
        config: UserTcpConfig,
        now: Nanos,
    ) -> Result<Self, TransportError> {
        let mac = config.mac.unwrap_or_else(|| io.port_info(port).mac);
        let mut device = StackDevice::new(io, port);
        let mut setup = Config::new(HardwareAddress::Ethernet(EthernetAddress(mac.0)));
        setup.random_seed = config.seed;
        let mut interface = Interface::new(setup, &mut device, instant(now));
        let address = IpCidr::new(config.address.into(), config.prefix_len);
        let mut is_valid = true;
        interface.update_ip_addrs(|all| is_valid = all.push(address).is_ok());
        let routes = interface.routes_mut();
        is_valid &= match config.gateway {
            Some(IpAddr::V4(gateway)) => routes.add_default_ipv4_route(gateway).is_ok(),
            Some(IpAddr::V6(gateway)) => routes.add_default_ipv6_route(gateway).is_ok(),
            None => true,
        };
        if !is_valid {
            return Err(TransportError::Unreachable);
        }
        let spread = u16::try_from(config.seed % 16_000).unwrap_or(0);
        Ok(Self {
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
            streams: BTreeMap::new(),
            next_stream: 0,
            closing: Vec::new(),
            listening: Vec::new(),
            crowded_since: None,
            local: None,
            config,
            next_port: FIRST_LOCAL_PORT + spread,
            due: None,
            touched: true,
        })
    }

    /// Creates a socket, if the stack has room for one.
    fn new_socket(&mut self) -> Result<Socket<'static>, TransportError> {
        let max = self.config.streams_max;
        if self.sockets.iter().count() >= max {
            // Removes a closed socket whose peer has not closed its side: it must not block a new
            // stream.
            if self.closing.is_empty() {
                return Err(TransportError::Full(max));
            }
            self.sockets.remove(self.closing.remove(0));
        }
        let buffer = || SocketBuffer::new(vec![0; self.config.stream_bytes]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Cubic);
        socket.set_timeout(Some(SILENCE_MAX));
        socket.set_keep_alive(Some(KEEP_ALIVE_INTERVAL));
        Ok(socket)
    }

    fn add_stream(&mut self, handle: SocketHandle) -> StreamId {
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        self.streams.insert(id, handle);
        id
    }

    fn socket(&mut self, stream: StreamId) -> Result<&mut Socket<'static>, TransportError> {
        let handle = self.streams.get(&stream).ok_or(TransportError::NoStream)?;
        Ok(self.sockets.get_mut(*handle))
    }

    /// Adds listening sockets up to their maximum number. Replaces those whose peer began a
    /// handshake and disappeared.
    fn fill_listening(&mut self) -> Result<(), TransportError> {
        let Some(local) = self.local else { return Ok(()) };
        remove_ended(&mut self.sockets, &mut self.listening);
        while self.listening.len() < LISTENING_MAX {
            let mut socket = self.new_socket()?;
            socket.listen(local).map_err(|_| TransportError::Unreachable)?;
            self.listening.push(self.sockets.add(socket));
        }
        Ok(())
    }

    /// Drops the oldest handshake once all listening sockets have been in handshakes for
    /// [`HANDSHAKES_WAIT_MAX`], so that such peers do not lock others out.
    fn drop_oldest_handshake(&mut self, now: Instant) {
        let state = |handle: &SocketHandle| self.sockets.get::<Socket<'_>>(*handle).state();
        let is_crowded = self.listening.iter().all(|handle| state(handle) == State::SynReceived);
        if !is_crowded || self.listening.is_empty() {
            self.crowded_since = None;
        } else if now > *self.crowded_since.get_or_insert(now) + HANDSHAKES_WAIT_MAX {
            self.crowded_since = None;
            self.sockets.remove(self.listening.remove(0));
            let _ = self.fill_listening();
        }
    }
}

impl<Io: PacketIo> Transport for UserTcp<Io> {
    fn poll(&mut self, now: Nanos) {
        let now = instant(now);
        for _ in 0..BURSTS_MAX {
            let has_input = self.device.receive_burst();
            let is_due = self.due.is_some_and(|due| due <= now);
            if !(has_input || is_due || self.touched || self.device.has_unsent()) {
                return;
            }
            self.interface.poll(now, &mut self.device, &mut self.sockets);
            self.device.flush();
            self.touched = false;
            self.drop_oldest_handshake(now);
            remove_ended(&mut self.sockets, &mut self.closing);
            self.due = self.interface.poll_at(now, &self.sockets);
            if !has_input {
                return;
            }
        }
    }

    fn wait(&mut self, _limit: Duration) {}

    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError> {
        let link = IpCidr::new(self.config.address.into(), self.config.prefix_len);
        let is_reachable = peer.is_ipv4() == self.config.address.is_ipv4()
            && (self.config.gateway.is_some() || link.contains_addr(&peer.ip().into()));
        if !is_reachable {
            return Err(TransportError::Unreachable);
        }
        let mut socket = self.new_socket()?;
        let local = self.next_port;
        self.next_port = local.checked_add(1).unwrap_or(FIRST_LOCAL_PORT);
        let connected = socket.connect(self.interface.context(), peer, local);
        connected.map_err(|_| TransportError::Unreachable)?;
        self.touched = true;
        let handle = self.sockets.add(socket);
        Ok(self.add_stream(handle))
    }

    fn listen(&mut self, local: SocketAddr) -> Result<(), TransportError> {
        if !self.interface.has_ip_addr(IpAddress::from(local.ip())) {
            return Err(TransportError::Unreachable);
        }
        self.local = Some(local);
        self.fill_listening()
    }

    fn accept(&mut self) -> Option<StreamId> {
        // On failure there is no room for another socket; the remaining ones accept, and a later
        // call adds more.
        let _ = self.fill_listening();
        let sockets = &self.sockets;
        let is_open = |handle: &SocketHandle| sockets.get::<Socket<'_>>(*handle).may_send();
        let found = self.listening.iter().position(is_open)?;
        let handle = self.listening.remove(found);
        Some(self.add_stream(handle))
    }

    fn state(&mut self, stream: StreamId) -> StreamState {
        let Ok(socket) = self.socket(stream) else {
            return StreamState::Closed(TransportError::NoStream);
        };
        match socket.state() {
            State::SynSent | State::SynReceived | State::Listen => StreamState::Connecting,
            State::Established => StreamState::Open,
            State::CloseWait if socket.can_recv() => StreamState::Open,
            State::CloseWait => StreamState::Closed(TransportError::Ended),
            _ => StreamState::Closed(TransportError::Reset),
        }
    }

    fn send(&mut self, stream: StreamId, octets: &[u8]) -> Result<usize, TransportError> {
        let socket = self.socket(stream)?;
        if matches!(socket.state(), State::SynSent | State::SynReceived) {
            return Ok(0);
        }
        let len = socket.send_slice(octets).map_err(|_| TransportError::Reset)?;
        self.touched |= len > 0;
        Ok(len)
    }

    fn receive(&mut self, stream: StreamId, room: &mut [u8]) -> Result<usize, TransportError> {
        let socket = self.socket(stream)?;
        if matches!(socket.state(), State::SynSent | State::SynReceived) {
            return Ok(0);
        }
        let is_filled = socket.recv_queue() * 2 >= socket.recv_capacity();
        match socket.recv_slice(room) {
            Ok(len) => {
                // If the window was small, the peer must be informed that it has grown.
                self.touched |= is_filled;
                Ok(len)
            }
            Err(RecvError::Finished) => Err(TransportError::Ended),
            Err(RecvError::InvalidState) => Err(TransportError::Reset),
        }
    }

    fn close(&mut self, stream: StreamId) {
        let Some(handle) = self.streams.remove(&stream) else { return };
        self.sockets.get_mut::<Socket<'_>>(handle).close();
        self.closing.push(handle);
        self.touched = true;
    }
}

impl<Io: PacketIo> Drop for UserTcp<Io> {
    /// Resets the remaining streams, so that their peers notice.
    fn drop(&mut self) {
        let handles = self.streams.values().chain(&self.closing);
        for handle in handles.copied().collect::<Vec<_>>() {
            self.sockets.get_mut::<Socket<'_>>(handle).abort();
        }
        let now = self.due.unwrap_or(Instant::ZERO);
        self.interface.poll(now, &mut self.device, &mut self.sockets);
        self.device.flush();
    }
}

fn instant(now: Nanos) -> Instant {
    Instant::from_micros(i64::try_from(now.0 / 1000).unwrap_or(i64::MAX))
}

/// Removes the sockets whose connections have ended.
fn remove_ended(sockets: &mut SocketSet<'_>, handles: &mut Vec<SocketHandle>) {
    handles.retain(|handle| {
        let state = sockets.get::<Socket<'_>>(*handle).state();
        let has_ended = matches!(state, State::Closed | State::TimeWait);
        if has_ended {
            sockets.remove(*handle);
        }
        !has_ended
    });
}
