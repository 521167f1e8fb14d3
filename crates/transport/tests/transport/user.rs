//! Streams of two stacks over ports in memory, whose wire delays, loses and reorders frames.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use adit_pktio::mem::{MemBuf, MemIo};
use adit_pktio::{Burst, PacketBuf, PacketIo, PortInfo};
use adit_transport::{StreamId, StreamState, Transport, TransportError, UserTcp, UserTcpConfig};
use adit_types::{MacAddr, Nanos, PortId};
use std::cell::RefCell;
use std::rc::Rc;

/// Frames on their way, one queue for each direction.
type Wire = Rc<RefCell<[VecDeque<Vec<u8>>; 2]>>;

/// One end of the wire.
struct WireEnd {
    memory: MemIo,
    wire: Wire,
    end: usize,
    /// Every so many frames sent one is lost; 0 for none.
    loss: u64,
    /// Every so many frames overtake the one before; 0 for none.
    reorder: u64,
    /// Every so many frames have another octet somewhere, and are cut there every second time; 0
    /// for none.
    damage: u64,
    sent: u64,
}

impl PacketIo for WireEnd {
    type Buf = MemBuf;

    fn rx_burst(&mut self, _: PortId, limit: usize, burst: &mut Burst<MemBuf>) -> usize {
        let queue = &mut self.wire.borrow_mut()[self.end];
        let count = limit.min(queue.len()).min(burst.remaining_capacity());
        burst.extend(queue.drain(..count).map(|frame| MemBuf::from_packet(&frame)));
        count
    }

    fn tx_burst(&mut self, _: PortId, burst: &mut Burst<MemBuf>) -> usize {
        let count = burst.len();
        for frame in burst.drain(..) {
            self.sent += 1;
            if self.loss > 0 && self.sent.is_multiple_of(self.loss) {
                continue;
            }
            let mut frame = frame.data().to_vec();
            // ARP has no checksum: only that of Ethernet protects it.
            let is_arp = frame[12..14] == [8, 6];
            if self.damage > 0 && self.sent.is_multiple_of(self.damage) && !is_arp {
                let at = usize::try_from(self.sent.wrapping_mul(0x9e37_79b9) >> 3).unwrap()
                    % frame.len();
                frame[at] = frame[at].wrapping_add(u8::try_from(self.sent % 255).unwrap() + 1);
                if self.sent.is_multiple_of(2 * self.damage) {
                    frame.truncate(at);
                }
            }
            let queue = &mut self.wire.borrow_mut()[1 - self.end];
            queue.push_back(frame);
            if self.reorder > 0 && self.sent.is_multiple_of(self.reorder) && queue.len() > 1 {
                let last = queue.len() - 1;
                queue.swap(last, last - 1);
            }
        }
        count
    }

    fn alloc(&mut self) -> Option<MemBuf> {
        self.memory.alloc()
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        self.memory.port_info(port)
    }
}

struct Pair {
    ends: [UserTcp<WireEnd>; 2],
    wire: Wire,
    now: u64,
}

const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]];
const PORT: u16 = 6379;

impl Pair {
    fn new(addresses: [&str; 2], [loss, reorder, damage]: [u64; 3]) -> Self {
        let wire = Wire::default();
        let end = |end: usize| {
            let mac = MacAddr([2, 0, 0, 0, 0, u8::try_from(end).unwrap()]);
            let memory = MemIo::new(&[mac]);
            let io =
                WireEnd { memory, wire: Rc::clone(&wire), end, loss, reorder, damage, sent: 0 };
            let config = UserTcpConfig {
                mac: None,
                address: addresses[end].parse().unwrap(),
                prefix_len: 24,
                gateway: None,
                stream_bytes: 32_768,
                streams_max: 20,
                seed: 7 + u64::try_from(end).unwrap(),
            };
            UserTcp::new(io, PortId(0), config, Nanos(0)).unwrap()
        };
        Self { ends: [end(0), end(1)], wire, now: 0 }
    }

    /// Polls both ends with a clock of 20 µs per turn until `done`.
    fn until(&mut self, mut done: impl FnMut(&mut [UserTcp<WireEnd>; 2]) -> bool) {
        for _ in 0..5_000_000 {
            self.now += 20_000;
            self.ends.iter_mut().for_each(|end| end.poll(Nanos(self.now)));
            if done(&mut self.ends) {
                return;
            }
        }
        panic!("nothing happens");
    }

    fn connect(&mut self, address: &str) -> (StreamId, StreamId) {
        let peer = SocketAddr::new(address.parse::<IpAddr>().unwrap(), PORT);
        self.ends[1].listen(peer).unwrap();
        let near = self.ends[0].connect(peer).unwrap();
        let mut far = None;
        self.until(|ends| {
            far = far.or_else(|| ends[1].accept());
            far.is_some() && ends[0].state(near) == StreamState::Open
        });
        (near, far.unwrap())
    }

    fn transfer(&mut self, near: StreamId, far: StreamId, octets: usize) {
        let data: Vec<u8> = (0..octets).map(|at| at.to_le_bytes()[0]).collect();
        let (mut sent, mut received, mut room) = (0, Vec::new(), [0; 5000]);
        self.until(|ends| {
            sent += ends[0].send(near, &data[sent..]).unwrap();
            let len = ends[1].receive(far, &mut room).unwrap();
            received.extend_from_slice(&room[..len]);
            received.len() == data.len()
        });
        assert!(received == data);
    }
}

#[test]
fn neighbors_are_resolved_and_octets_arrive_in_order_over_either_family() {
    for addresses in ADDRESSES {
        let mut pair = Pair::new(addresses, [0; 3]);
        let (near, far) = pair.connect(addresses[1]);
        pair.transfer(near, far, 1_000_000);
    }
}

#[test]
fn octets_arrive_in_order_although_frames_are_lost_and_reordered() {
    let mut pair = Pair::new(ADDRESSES[0], [13, 7, 0]);
    let (near, far) = pair.connect(ADDRESSES[0][1]);
    pair.transfer(near, far, 300_000);
}

#[test]
fn octets_arrive_unchanged_although_frames_are_damaged_and_cut() {
    for addresses in ADDRESSES {
        for damage in [7, 11] {
            let mut pair = Pair::new(addresses, [0, 0, damage]);
            let (near, far) = pair.connect(addresses[1]);
            pair.transfer(near, far, 40_000);
        }
    }
}

#[test]
fn frames_of_any_octets_change_nothing() {
    let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
    let (near, far) = pair.connect(ADDRESSES[0][1]);
    let mut random = 1u64;
    let mut octet = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 56).to_le_bytes()[0]
    };
    for round in 0..50_000usize {
        let mut frame: Vec<u8> = (0..round % 120).map(|_| octet()).collect();
        // To the second stack: ARP, IPv4 and IPv6 in turn, IPv4 without options.
        let header = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 8, [6, 0, 0xdd][round % 3], 0x45];
        let len = frame.len().min(header.len());
        frame[..len].copy_from_slice(&header[..len]);
        pair.wire.borrow_mut()[1].push_back(frame);
        if round % 50 == 0 {
            pair.until(|_| true);
        }
    }
    pair.transfer(near, far, 10_000);
}

#[test]
fn end_of_a_stream_reaches_the_peer_and_frees_its_socket() {
    let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
    // More streams one after the other than there may be at the same time.
    for round in 0..40 {
        let (near, far) = pair.connect(ADDRESSES[0][1]);
        pair.transfer(near, far, 10);
        pair.ends[0].close(near);
        assert_eq!(pair.ends[0].send(near, b"x"), Err(TransportError::NoStream), "{round}");
        let mut room = [0; 10];
        pair.until(|ends| ends[1].receive(far, &mut room) == Err(TransportError::Ended));
        assert_eq!(pair.ends[1].state(far), StreamState::Closed(TransportError::Ended));
        pair.ends[1].close(far);
        pair.until(|ends| ends.iter_mut().all(|end| end.state(near) != StreamState::Open));
    }
}

#[test]
fn idle_stream_stays_open_while_another_is_used() {
    let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
    let (idle, idle_far) = pair.connect(ADDRESSES[0][1]);
    let (used, used_far) = pair.connect(ADDRESSES[0][1]);
    for _ in 0..30 {
        pair.transfer(used, used_far, 1000);
        let end = pair.now + 1_000_000_000;
        while pair.now < end {
            pair.now += 1_000_000;
            pair.ends.iter_mut().for_each(|stack| stack.poll(Nanos(pair.now)));
        }
    }
    assert_eq!(pair.ends[0].state(idle), StreamState::Open);
    assert_eq!(pair.ends[1].state(idle_far), StreamState::Open);
    pair.transfer(idle, idle_far, 1000);
}

#[test]
fn idle_stream_notices_that_its_peer_is_gone() {
    let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
    let (near, _) = pair.connect(ADDRESSES[0][1]);
    let end = pair.now + 7_000_000_000;
    while pair.now < end {
        pair.now += 1_000_000;
        pair.ends[0].poll(Nanos(pair.now));
    }
    assert_eq!(pair.ends[0].state(near), StreamState::Closed(TransportError::Reset));
}

/// Begins as many handshakes as the second stack takes at a time, none of which ends.
fn begin_handshakes(pair: &mut Pair, peer: SocketAddr) {
    for _ in 0..8 {
        let near = pair.ends[0].connect(peer).unwrap();
        pair.until(|_| true);
        pair.wire.borrow_mut()[0].clear();
        // The peer gets no RST.
        pair.ends[0].close(near);
        pair.ends[0].poll(Nanos(pair.now));
        pair.wire.borrow_mut()[1].clear();
    }
}

#[test]
fn handshakes_that_never_end_keep_no_peer_out() {
    let peer = SocketAddr::new(ADDRESSES[0][1].parse().unwrap(), PORT);
    for wait_s in [0, 4, 60] {
        let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
        // So that both have each other's link-layer address.
        let _ = pair.connect(ADDRESSES[0][1]);
        begin_handshakes(&mut pair, peer);
        let end = pair.now + wait_s * 1_000_000_000;
        while pair.now < end {
            pair.now += 1_000_000;
            pair.ends[1].poll(Nanos(pair.now));
            pair.wire.borrow_mut()[0].clear();
        }
        let (began, mut stream) = (pair.now, None);
        pair.until(|ends| {
            let of = *stream.get_or_insert_with(|| ends[0].connect(peer).unwrap());
            if let StreamState::Closed(_) = ends[0].state(of) {
                ends[0].close(of);
                stream = None;
            }
            ends[0].state(of) == StreamState::Open && ends[1].accept().is_some()
        });
        assert!(pair.now - began < 500_000_000, "{} ns", pair.now - began);
    }
}

#[test]
fn peers_that_do_not_end_their_side_keep_nobody_out() {
    let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
    let mut kept = Vec::new();
    // The other stack has 20 sockets, 8 of which wait for peers.
    for _ in 0..30 {
        let (near, far) = pair.connect(ADDRESSES[0][1]);
        pair.ends[1].close(far);
        kept.push(near);
        if kept.len() > 18 {
            pair.ends[0].close(kept.remove(0));
        }
    }
    let (near, far) = pair.connect(ADDRESSES[0][1]);
    pair.transfer(near, far, 1000);
}

#[test]
fn streams_beyond_the_maximum_are_refused() {
    let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
    let peer = SocketAddr::new(ADDRESSES[0][1].parse().unwrap(), PORT);
    for _ in 0..20 {
        pair.ends[0].connect(peer).unwrap();
    }
    assert_eq!(pair.ends[0].connect(peer), Err(TransportError::Full(20)));
}

#[test]
fn peer_without_listener_resets_and_silent_peer_times_out() {
    let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
    let closed = StreamState::Closed(TransportError::Reset);
    let peer = SocketAddr::new(ADDRESSES[0][1].parse().unwrap(), PORT);
    let stream = pair.ends[0].connect(peer).unwrap();
    pair.until(|ends| ends[0].state(stream) == closed);
    assert!(pair.now < 1_000_000_000, "the reset arrives at once");
    let nobody = SocketAddr::new("10.0.0.9".parse().unwrap(), PORT);
    let stream = pair.ends[0].connect(nobody).unwrap();
    pair.until(|ends| ends[0].state(stream) == closed);
    assert!(pair.now < 10_000_000_000, "{}", pair.now);
}

#[test]
fn address_without_route_and_foreign_local_address_are_refused() {
    let mut pair = Pair::new(ADDRESSES[0], [0; 3]);
    for foreign in ["fd00::9", "10.0.1.1"] {
        let foreign = SocketAddr::new(foreign.parse().unwrap(), PORT);
        assert_eq!(pair.ends[0].connect(foreign), Err(TransportError::Unreachable));
        assert_eq!(pair.ends[0].listen(foreign), Err(TransportError::Unreachable));
    }
}
