//! Packets above the MTU in both directions, and GTP-U packets that arrive in fragments. Spec: RFC
//! 791 §3.2; RFC 1191 §3; TS 29.281 §4.2.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::icmp::IcmpHeader;
use adit_wire::ipv4::Ipv4Header;
use adit_wire::udp::UdpHeader;
use adit_wire::{parse_gtpu, protocol};
use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};

use super::PORT;
use super::tunnels::session_over_ipv6;
use crate::demo::report::AditCounters;
use crate::gnb::{Leg, teid};
use crate::scenario::expect::all;
use crate::scenario::probe::{DATAGRAMS, ProbeSockets};
use crate::scenario::session::{ScenarioContext, ScenarioRules};
use crate::scenario::sniffer::Ipv4Capture;
use crate::topology::{ADIT_N3, DN};
use adit_lab_process::netns::NetNamespace;

/// MTU of adit's N3 and N6 links. Unit: octets.
const MTU: u16 = 1500;
/// Maximum length of an inner packet that fits N3 with outer IPv4, UDP and GTP-U headers and a PDU
/// Session Container. Unit: octets.
const FITS_N3: u16 = MTU - (20 + 8 + 16);
/// Length of a packet that fits N6, but with outer headers not N3. Unit: octets.
const FULL_BYTES: u16 = 1500;
/// Length of a packet that fits neither N3 nor N6. Unit: octets.
const BEYOND: u16 = 1700;
/// Length of the IPv4 and UDP headers. Unit: octets.
const HEADERS: u16 = 20 + 8;
/// Timeout for one datagram.
const PATIENCE: Duration = Duration::from_secs(1);

/// Checks packets above the MTU: without DF they arrive in two fragments, with DF the sender
/// receives the MTU by ICMP. The gNB's kernel fragments the uplink GTP-U packets.
pub(super) fn fragmentation(context: &ScenarioContext<'_>) -> Result<String> {
    context.network.topology.set_mtu(context.ue, BEYOND)?;
    let session = context.establish_with(&ScenarioRules::USUAL)?;
    let view = FragmentProbe::open(context)?;
    view.may_fragment(true)?;
    let down = view.downlink(FULL_BYTES)?;
    check_divided("downlink", &down, FULL_BYTES, FITS_N3)?;
    let up = view.uplink(FULL_BYTES)?;
    ensure!(up == [Piece::whole(FULL_BYTES)], "uplink, N6 had {up:?} of a packet that fits");
    let up = view.uplink(BEYOND)?;
    check_divided("uplink", &up, BEYOND, MTU)?;
    view.may_fragment(false)?;
    view.refused()?;
    session.end()?;
    let [down, up] = [down, up].map(|pieces| pieces.iter().map(|p| p.bytes).collect::<Vec<_>>());
    Ok(format!(
        "fragments of {down:?} octets downlink, {up:?} uplink; with DF the senders received \
         {FITS_N3} and {MTU}"
    ))
}

/// Checks that adit reassembles GTP-U packets that arrive in two fragments, over IPv6.
pub(super) fn reassembly(context: &ScenarioContext<'_>) -> Result<String> {
    if !context.network.topology.ipv6 {
        return Ok("skipped: the kernel has no IPv6".to_owned());
    }
    let (gnb, session) = session_over_ipv6(context)?;
    let probe = ProbeSockets::open(context, PORT)?;
    let wire = Ipv4Capture::open(&context.network.topology.dn)?;
    let flow = [SocketAddrV4::new(context.ue.ipv4(), PORT), SocketAddrV4::new(DN, PORT)];
    let own = session.established().uplink_teid;
    let before = reassembled(context)?;
    gnb.send_long(own, flow, 0..DATAGRAMS, usize::from(FULL_BYTES - HEADERS))?;
    all("uplink", &probe.receive_uplink(DATAGRAMS)?)?;
    let pieces = packets_at_server(context, &wire)?;
    let whole = (0..DATAGRAMS).map(|_| Piece::whole(FULL_BYTES));
    ensure!(pieces.iter().copied().eq(whole), "N6 had {pieces:?}");
    let fragments = reassembled(context)? - before;
    ensure!(fragments == u64::from(DATAGRAMS), "adit counts {fragments} reassembled fragments");
    session.end()?;
    Ok(format!("{DATAGRAMS} tunnel packets in two fragments each were reassembled"))
}

/// An IPv4 packet on the wire, which may be a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// Fragment offset. Unit: octets.
    offset: u16,
    more_fragments: bool,
    /// Total length. Unit: octets.
    bytes: u16,
}

impl Piece {
    const fn whole(bytes: u16) -> Self {
        Self { offset: 0, more_fragments: false, bytes }
    }

    fn of(ip: &Ipv4Header) -> Self {
        Self {
            offset: ip.fragment_offset() * 8,
            more_fragments: ip.more_fragments(),
            bytes: ip.total_len(),
        }
    }
}

/// Checks that there are two fragments, in order, which fit the MTU and cover a packet of `bytes`
/// octets.
fn check_divided(what: &str, pieces: &[Piece], bytes: u16, mtu: u16) -> Result<()> {
    // The first is as long as the MTU allows, rounded down to the unit of offsets, eight octets.
    let first = (mtu - 20) / 8 * 8;
    let wanted = [
        Piece { offset: 0, more_fragments: true, bytes: first + 20 },
        Piece { offset: first, more_fragments: false, bytes: bytes - first },
    ];
    ensure!(pieces == wanted, "{what}: expected {wanted:?}, found {pieces:?}");
    Ok(())
}

/// A socket and a capture at the UE and at the server.
struct FragmentProbe<'a> {
    context: &'a ScenarioContext<'a>,
    ue: UdpSocket,
    dn: UdpSocket,
    ran_wire: Ipv4Capture,
    dn_wire: Ipv4Capture,
}

impl<'a> FragmentProbe<'a> {
    fn open(context: &'a ScenarioContext<'a>) -> Result<Self> {
        let topology = &context.network.topology;
        Ok(Self {
            context,
            ue: bind(&topology.ran, context.ue.ipv4())?,
            dn: bind(&topology.dn, DN)?,
            ran_wire: Ipv4Capture::open(&topology.ran)?,
            dn_wire: Ipv4Capture::open(&topology.dn)?,
        })
    }

    /// Makes both ends send without DF, or with it.
    fn may_fragment(&self, may: bool) -> Result<()> {
        // With PROBE, packets have DF even if the kernel has learned a smaller path MTU.
        let mode = if may { Ipv4PathMtuDiscovery::DONT } else { Ipv4PathMtuDiscovery::PROBE };
        for socket in [&self.ue, &self.dn] {
            set_ip_mtu_discover(socket, mode).context("set IP_MTU_DISCOVER")?;
        }
        Ok(())
    }

    /// Sends a packet of `bytes` octets to the UE, where it must arrive. Returns the inner packets
    /// of the G-PDUs that carried it.
    fn downlink(&self, bytes: u16) -> Result<Vec<Piece>> {
        send_and_check("downlink", &self.dn, &self.ue, bytes)?;
        let tunnel = teid(self.context.index(), Leg::First);
        self.ran_wire.seen(self.context, |packet| {
            let (outer, datagram) = Ipv4Header::parse(packet).ok()?;
            // Skips fragments of GTP-U packets.
            if outer.src() != ADIT_N3 || Piece::of(outer) != Piece::whole(outer.total_len()) {
                return None;
            }
            let (udp, message) = UdpHeader::parse(datagram).ok()?;
            let gtpu = parse_gtpu(message).ok().filter(|_| udp.dst_port() == UDP_PORT)?;
            let ours = gtpu.message_type == GtpuMessageType::G_PDU && gtpu.teid == tunnel;
            let (ip, _) = Ipv4Header::parse(gtpu.payload(message)).ok().filter(|_| ours)?;
            Some(Piece::of(ip))
        })
    }

    /// Sends a packet of `bytes` octets from the UE, which must arrive. Returns the packets on N6
    /// that carried it.
    fn uplink(&self, bytes: u16) -> Result<Vec<Piece>> {
        send_and_check("uplink", &self.ue, &self.dn, bytes)?;
        packets_at_server(self.context, &self.dn_wire)
    }

    /// Checks that packets with DF above the MTU do not pass, and that their senders receive the
    /// MTU by ICMP.
    fn refused(&self) -> Result<()> {
        let ue = self.context.ue.ipv4();
        send(&self.dn, &self.ue, FULL_BYTES)?;
        let mtus =
            self.dn_wire.seen(self.context, |packet| fragmentation_needed(packet, DN, ue))?;
        ensure!(mtus == [FITS_N3], "downlink with DF: the sender received {mtus:?}");
        send(&self.ue, &self.dn, BEYOND)?;
        let mtus =
            self.ran_wire.seen(self.context, |packet| fragmentation_needed(packet, ue, DN))?;
        ensure!(mtus == [MTU], "uplink with DF: the sender received {mtus:?}");
        let passed = packets_at_server(self.context, &self.dn_wire)?;
        ensure!(passed.is_empty(), "uplink with DF: {passed:?} arrived");
        Ok(())
    }
}

/// Returns the packets of the scenario's UE that reach the server.
fn packets_at_server(context: &ScenarioContext<'_>, wire: &Ipv4Capture) -> Result<Vec<Piece>> {
    let ue = context.ue.ipv4();
    wire.seen(context, |packet| {
        let (ip, _) = Ipv4Header::parse(packet).ok()?;
        (ip.src() == ue).then(|| Piece::of(ip))
    })
}

/// Returns adit's count of fragments merged into another fragment: for each GTP-U packet, one less
/// than its fragments.
fn reassembled(context: &ScenarioContext<'_>) -> Result<u64> {
    let document = context.network.adit.admin().show("counters", context.stop)?;
    Ok(AditCounters::read(&document)?.punts.get("reassembled").copied().unwrap_or(0))
}

/// Binds a socket in a namespace.
pub(super) fn bind(namespace: &NetNamespace, addr: Ipv4Addr) -> Result<UdpSocket> {
    let addr: SocketAddr = (addr, PORT).into();
    let socket = namespace.enter(|| UdpSocket::bind(addr).with_context(|| format!("bind {addr}")));
    let socket = socket?;
    socket.set_read_timeout(Some(PATIENCE)).context("receive timeout")?;
    Ok(socket)
}

/// Sends a packet of `bytes` octets, and returns its payload.
fn send(from: &UdpSocket, to: &UdpSocket, bytes: u16) -> Result<Vec<u8>> {
    // The payload repeats after 251 octets, a prime, so that a wrong offset is detected.
    let payload: Vec<u8> = (0..=250).cycle().take(usize::from(bytes - HEADERS)).collect();
    from.send_to(&payload, to.local_addr()?).context("send")?;
    Ok(payload)
}

/// Sends a packet of `bytes` octets and checks that it arrives unchanged.
fn send_and_check(what: &str, from: &UdpSocket, to: &UdpSocket, bytes: u16) -> Result<()> {
    let sent = send(from, to, bytes)?;
    let mut arrived = [0; 2048];
    let len = to.recv(&mut arrived);
    let len = len.with_context(|| format!("{what}: no packet of {bytes} octets arrived"))?;
    ensure!(
        arrived.get(..len) == Some(&sent[..]),
        "{what}: the received packet differs from the sent one"
    );
    Ok(())
}

/// Returns the MTU in an ICMP Fragmentation Needed message about a packet between these addresses;
/// `None` for any other packet.
fn fragmentation_needed(packet: &[u8], src: Ipv4Addr, dst: Ipv4Addr) -> Option<u16> {
    const UNREACHABLE: u8 = 3;
    const FRAGMENTATION_NEEDED: u8 = 4;
    let (ip, message) = Ipv4Header::parse(packet).ok()?;
    if ip.protocol() != protocol::ICMP || ip.dst() != src {
        return None;
    }
    let (icmp, _) = IcmpHeader::parse(message).ok()?;
    // Compares only the addresses in the quoted header.
    let quoted = message.get(8 + 12..8 + 20)?;
    let ours = quoted == [src.octets(), dst.octets()].concat();
    let kind = (icmp.kind(), icmp.code()) == (UNREACHABLE, FRAGMENTATION_NEEDED);
    (kind && ours).then(|| icmp.next_hop_mtu())
}
