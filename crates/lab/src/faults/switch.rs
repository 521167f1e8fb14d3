//! The switch that connects all hosts of a run. By its rules it loses, delays and drops frames, and
//! it records who answers.
//!
//! Each host has a veth pair for each of its networks. The other ends are in the namespace of the
//! switch, where packet sockets read and write them. So faults need only packet sockets from the
//! kernel, and the hosts cannot notice a lost packet by an ICMP, RST or loss of carrier.
//!
//! A prober that belongs to no host sends ARP requests for the UPF's addresses all the time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_lab_process::netns::NetNamespace;
use adit_lab_process::stop::Stop;
use adit_types::MacAddr;
use adit_wire::EtherType;
use adit_wire::arp::{ArpOperation, ArpPacket};
use adit_wire::ethernet::EthernetHeader;
use adit_wire::ipv4::Ipv4Header;
use adit_wire::udp::UdpHeader;
use anyhow::{Context, Result};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::bind;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, eth, recv, send, socket_with,
};

use crate::faults::timeline::{Timeline, lock};

/// Interval at which the prober sends.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_millis(50);
/// The prober's link-layer address.
const PROBER_MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0x99, 0x01]);
/// Maximum number of frames that are read from one port before the next.
const BURST_FRAMES_MAX: usize = 64;
const FRAME_LEN_MAX: usize = 2048;
/// UDP port of PFCP.
const PFCP_PORT: u16 = 8805;
/// Maximum wait of the switch's loop.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// The treatment of frames in one direction of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PathRule {
    /// True to drop all frames.
    pub drops: bool,
    /// Share of frames that are lost at random. Unit: per mille.
    pub loss_permille: u16,
    /// Delay of each frame; the order stays.
    pub delay: Duration,
}

impl PathRule {
    /// Drops all frames.
    pub(crate) const SILENT: Self = Self { drops: true, loss_permille: 0, delay: Duration::ZERO };
}

/// The rules of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PortRules {
    /// The rule for frames that the host sends.
    pub from_host: PathRule,
    /// The rule for frames that the host receives.
    pub to_host: PathRule,
}

/// An ARP Reply that the prober received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArpAnswer {
    /// Time of the reply. Unit: ms since the start of the run.
    pub at_ms: u64,
    pub address: Ipv4Addr,
    pub mac: MacAddr,
}

/// A PFCP message from the UPF to the SMF, as the switch saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PfcpFrame {
    /// Time of the message. Unit: ms since the start of the run.
    pub at_ms: u64,
    /// Link-layer address of the sender.
    pub mac: MacAddr,
    pub octets: Vec<u8>,
}

/// The messages that the switch has recorded.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    pub arp: Vec<ArpAnswer>,
    pub pfcp: Vec<PfcpFrame>,
}

/// One device of the switch, to which a host is connected.
#[derive(Debug, Clone)]
pub(crate) struct PortName {
    /// Name of the device in the namespace of the switch; [`Switch::set`] uses it.
    pub device: String,
    /// Number of the network. Hosts in the same network reach each other.
    pub network: u8,
}

/// An address that the prober sends ARP requests for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProberTarget {
    pub network: u8,
    pub address: Ipv4Addr,
    /// The prober's own address in the network.
    pub prober: Ipv4Addr,
}

/// The running switch. Drop ends it.
#[derive(Debug)]
pub(crate) struct Switch {
    rules: Arc<Mutex<BTreeMap<String, PortRules>>>,
    observations: Arc<Mutex<Observations>>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Starts to forward frames between `ports`, which are devices in `namespace`.
    ///
    /// # Errors
    /// The system does not permit packet sockets, or a device is missing.
    pub(crate) fn start(
        namespace: &NetNamespace,
        ports: &[PortName],
        probed: Vec<ProberTarget>,
        timeline: &Timeline,
    ) -> Result<Self> {
        let open = || ports.iter().map(open_port).collect::<Result<Vec<_>>>();
        let ports = namespace.enter(open)?;
        let rules = Arc::<Mutex<BTreeMap<String, PortRules>>>::default();
        let observations = Arc::<Mutex<Observations>>::default();
        let stop = Stop::default();
        let mut forwarder = SwitchLoop {
            ports,
            stations: HashMap::new(),
            delayed: BinaryHeap::new(),
            order: 0,
            probed,
            next_probe: Instant::now(),
            rng: SmallRng::from_os_rng(),
            rules: Arc::clone(&rules),
            observations: Arc::clone(&observations),
            timeline: timeline.clone(),
        };
        let stopped = stop.clone();
        let thread = thread::Builder::new()
            .name("switch".to_owned())
            .spawn(move || forwarder.run(&stopped))
            .context("start the switch")?;
        Ok(Self { rules, observations, stop, thread: Some(thread) })
    }

    /// Sets the rules of a port.
    pub(crate) fn set(&self, device: &str, rules: PortRules) {
        lock(&self.rules).insert(device.to_owned(), rules);
    }

    /// Removes all rules.
    pub(crate) fn heal(&self) {
        lock(&self.rules).clear();
    }

    /// Returns the observations since the last call, and removes them.
    pub(crate) fn take_observations(&self) -> Observations {
        std::mem::take(&mut *lock(&self.observations))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.raise();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("adit-lab: the switch panicked");
        }
    }
}

fn open_port(name: &PortName) -> Result<SwitchPort> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(eth::ALL))
        .context("open a packet socket")?;
    let device = getifaddrs().context("list the network devices")?.find_map(|entry| {
        let address = entry.address.filter(|_| entry.interface_name == name.device)?;
        address.as_link_addr().copied()
    });
    let device = device.with_context(|| format!("no device {}", name.device))?;
    bind(socket.as_raw_fd(), &device).with_context(|| format!("bind to {}", name.device))?;
    Ok(SwitchPort { device: name.device.clone(), network: name.network, socket })
}

#[derive(Debug)]
struct SwitchPort {
    device: String,
    network: u8,
    socket: OwnedFd,
}

/// A delayed frame, ordered by time and then by arrival.
type DelayedFrame = Reverse<(Instant, u64, usize, Vec<u8>)>;

struct SwitchLoop {
    ports: Vec<SwitchPort>,
    /// Index of the port behind which a station of a network is.
    stations: HashMap<(u8, MacAddr), usize>,
    delayed: BinaryHeap<DelayedFrame>,
    order: u64,
    probed: Vec<ProberTarget>,
    next_probe: Instant,
    rng: SmallRng,
    rules: Arc<Mutex<BTreeMap<String, PortRules>>>,
    observations: Arc<Mutex<Observations>>,
    timeline: Timeline,
}

impl SwitchLoop {
    fn run(&mut self, stop: &Stop) {
        while !stop.is_raised() {
            let ready = self.wait();
            let rules = lock(&self.rules).clone();
            for port in ready {
                self.read(port, &rules);
            }
            let now = Instant::now();
            while self.delayed.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
                if let Some(Reverse((_, _, port, frame))) = self.delayed.pop() {
                    self.write(port, &frame);
                }
            }
            if now >= self.next_probe {
                self.next_probe = now + PROBE_INTERVAL;
                self.probe(&rules);
            }
        }
    }

    /// Waits for frames, or until the next delayed frame or probe is due. Returns the ports that
    /// have frames.
    fn wait(&self) -> Vec<usize> {
        let now = Instant::now();
        let due = self
            .delayed
            .peek()
            .map_or(self.next_probe, |Reverse((due, ..))| (*due).min(self.next_probe));
        let left = due.saturating_duration_since(now).min(WAIT_MAX);
        let mut ends: Vec<PollFd<'_>> =
            self.ports.iter().map(|port| PollFd::new(&port.socket, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(left).ok();
        if poll(&mut ends, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let is_ready = |end: &PollFd<'_>| !end.revents().is_empty();
        ends.iter().enumerate().filter(|(_, end)| is_ready(end)).map(|(at, _)| at).collect()
    }

    fn read(&mut self, port: usize, rules: &BTreeMap<String, PortRules>) {
        let mut buffer = [0; FRAME_LEN_MAX];
        for _ in 0..BURST_FRAMES_MAX {
            let Some(from) = self.ports.get(port) else { return };
            let Ok((len, _)) = recv(&from.socket, &mut buffer[..], RecvFlags::empty()) else {
                return;
            };
            let rule = rules.get(&from.device).copied().unwrap_or_default().from_host;
            let Some(frame) = buffer.get(..len) else { return };
            if !self.is_lost(rule) {
                self.forward(port, frame, rule.delay, rules);
            }
        }
    }

    fn is_lost(&mut self, rule: PathRule) -> bool {
        rule.drops
            || (rule.loss_permille > 0
                && self.rng.random_range(0..1000) < u32::from(rule.loss_permille))
    }

    fn forward(
        &mut self,
        port: usize,
        frame: &[u8],
        delay: Duration,
        rules: &BTreeMap<String, PortRules>,
    ) {
        let Some(network) = self.ports.get(port).map(|port| port.network) else { return };
        let Ok((ethernet, payload)) = EthernetHeader::parse(frame) else { return };
        self.observe(ethernet, payload);
        if ethernet.dst() == PROBER_MAC {
            return;
        }
        self.stations.insert((network, ethernet.src()), port);
        let known = self.stations.get(&(network, ethernet.dst())).copied();
        for to in 0..self.ports.len() {
            let is_wanted = known.is_none_or(|known| known == to);
            if to != port && is_wanted && self.network(to) == Some(network) {
                self.deliver(to, frame, delay, rules);
            }
        }
    }

    fn network(&self, port: usize) -> Option<u8> {
        self.ports.get(port).map(|port| port.network)
    }

    fn deliver(
        &mut self,
        to: usize,
        frame: &[u8],
        delay: Duration,
        rules: &BTreeMap<String, PortRules>,
    ) {
        let Some(device) = self.ports.get(to).map(|port| &port.device) else { return };
        let rule = rules.get(device).copied().unwrap_or_default().to_host;
        if self.is_lost(rule) {
            return;
        }
        let delay = delay + rule.delay;
        if delay.is_zero() {
            return self.write(to, frame);
        }
        self.order += 1;
        self.delayed.push(Reverse((Instant::now() + delay, self.order, to, frame.to_vec())));
    }

    /// Sends a frame. A device that is down or has a full queue loses the frame, as a link does.
    fn write(&self, port: usize, frame: &[u8]) {
        if let Some(port) = self.ports.get(port) {
            let _ = send(&port.socket, frame, SendFlags::empty());
        }
    }

    fn probe(&mut self, rules: &BTreeMap<String, PortRules>) {
        for probed in self.probed.clone() {
            let ethernet = EthernetHeader::new(MacAddr::BROADCAST, PROBER_MAC, EtherType::ARP);
            let request = ArpPacket::request(PROBER_MAC, probed.prober, probed.address);
            let mut frame = [0; EthernetHeader::LEN + ArpPacket::LEN];
            let (link, arp) = frame.split_at_mut(EthernetHeader::LEN);
            if ethernet.emit(link).is_err() || request.emit(arp).is_err() {
                return;
            }
            for to in 0..self.ports.len() {
                if self.network(to) == Some(probed.network) {
                    self.deliver(to, &frame, Duration::ZERO, rules);
                }
            }
        }
    }

    fn observe(&self, ethernet: &EthernetHeader, payload: &[u8]) {
        let at_ms = self.timeline.now_ms();
        if ethernet.ether_type() == EtherType::ARP && ethernet.dst() == PROBER_MAC {
            let Ok((arp, _)) = ArpPacket::parse(payload) else { return };
            if arp.operation() == ArpOperation::REPLY {
                let (address, mac) = (arp.sender_addr(), arp.sender_mac());
                lock(&self.observations).arp.push(ArpAnswer { at_ms, address, mac });
            }
        }
        if ethernet.ether_type() == EtherType::IPV4 {
            let Ok((_, datagram)) = Ipv4Header::parse(payload) else { return };
            let Ok((udp, octets)) = UdpHeader::parse(datagram) else { return };
            let mac = ethernet.src();
            if udp.src_port() == PFCP_PORT && crate::faults::addresses::upf_of_mac(mac).is_some() {
                let octets = octets.to_vec();
                lock(&self.observations).pfcp.push(PfcpFrame { at_ms, mac, octets });
            }
        }
    }
}
