//! gNB emulation: one GTP-U endpoint in the RAN namespace, with a TUN device for each UE.
//!
//! Uplink: the gNB sends each packet that a program writes to `ue<N>` as a G-PDU with a PDU Session
//! Container. Downlink: the gNB checks TEID and QFI of a G-PDU and writes its packet to `ue<N>`.
//! Each direction has a thread and its own counters, independent of adit's. Spec: TS 29.281 §4.4,
//! §5.1, §7.2; TS 38.415 §5.5.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::iter::repeat_with;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_types::{Qfi, Teid};
use adit_wire::PduSessionContainer;
use adit_wire::gtpu::{
    ERROR_INDICATION_LEN_MAX, ErrorIndication, FLAG_E, GtpuHeader, GtpuMessageType, GtpuOptional,
    UDP_PORT, emit_echo_request, emit_echo_response, emit_error_indication,
};
use adit_wire::gtpu_ext::ExtensionType;
use adit_wire::gtpu_ie::{GtpuIe, GtpuIes};
use adit_wire::{GtpuPacket, PduType, parse_gtpu};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt,
    sockopt::UdpGroSegment,
};
use rustix::event::{Timespec, epoll};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg, sockopt};

use adit_lab_process::stop::Stop;

/// Length of the uplink headers: GTP-U header, optional fields, PDU Session Container. Unit:
/// octets.
pub(crate) const UL_HEADERS: usize = GtpuHeader::LEN + GtpuOptional::LEN + 4;
/// Size of the buffer for one packet with its headers, on links of up to 9600 octets.
const SLOT_BYTES: usize = 10_240;
/// Maximum number of packets that one system call sends, and that the gNB reads from one UE before
/// it reads from the next.
const BATCH_PKTS: usize = 32;
/// Interval at which idle threads check whether to end.
const IDLE: Duration = Duration::from_millis(100);
/// Size of a socket buffer: large enough for the datagrams that arrive while the downlink thread
/// waits for a core.
const SOCKET_BYTES: usize = 8 << 20;
/// High octets of all gNB TEIDs, which distinguish them from TEIDs of others.
const TEID_TAG: u32 = 0x6e62_0000;
const RETRY: Duration = Duration::from_secs(1);

/// One of the two gNB tunnels of a UE: before or after the path switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leg {
    /// The tunnel from the session establishment.
    First,
    /// The tunnel after the path switch.
    Second,
}

/// Returns the gNB's TEID for the UE with index `ue` (from 0) on `leg`.
#[must_use]
pub(crate) fn teid(ue: u8, leg: Leg) -> Teid {
    Teid(TEID_TAG | u32::from(ue) << 8 | u32::from(leg == Leg::Second))
}

fn ue_of(teid: Teid) -> Option<(usize, Leg)> {
    let [hi, lo, ue, leg] = teid.0.to_be_bytes();
    let leg = match leg {
        0 => Leg::First,
        1 => Leg::Second,
        _ => return None,
    };
    (TEID_TAG == u32::from_be_bytes([hi, lo, 0, 0])).then_some((usize::from(ue), leg))
}

/// Counters of one direction.
#[derive(Debug, Default)]
pub(crate) struct GnbTraffic {
    /// Number of G-PDUs.
    pub pkts: AtomicU64,
    /// Octets of the inner packets.
    pub bytes: AtomicU64,
}

impl GnbTraffic {
    fn add(&self, pkts: u64, bytes: u64) {
        self.pkts.fetch_add(pkts, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The gNB's counters. Its threads write them; any thread may read.
#[derive(Debug, Default)]
pub(crate) struct GnbCounters {
    /// G-PDUs to adit.
    pub uplink: GnbTraffic,
    /// G-PDUs from adit.
    pub downlink: GnbTraffic,
    /// Uplink packets that the kernel did not accept for sending.
    pub uplink_lost: AtomicU64,
    /// Downlink packets without a downlink PDU Session Container of the expected QFI.
    pub qfi_mismatches: AtomicU64,
    /// G-PDUs with a TEID that the gNB never assigned.
    pub unknown_teids: AtomicU64,
    /// Malformed messages, and messages of a type that a gNB does not expect.
    pub malformed: AtomicU64,
    /// Error Indications received: adit does not know a TEID that the gNB used.
    pub error_indications: AtomicU64,
    /// Packets that a TUN device did not accept.
    pub tun_refused: AtomicU64,
    /// End Markers received.
    pub end_markers: AtomicU64,
    /// Echo Requests answered.
    pub echo_answered: AtomicU64,
    /// Echo Responses received that carry a Recovery IE.
    pub echo_received: AtomicU64,
}

/// The gNB's state for one UE.
#[derive(Debug)]
struct UeTunnel {
    device: File,
    /// adit's TEID; zero while the session does not exist.
    uplink_teid: AtomicU32,
    first_leg_pkts: AtomicU64,
    second_leg_pkts: AtomicU64,
    /// True if the gNB has forgotten the UE's TEIDs: it then answers packets with Error
    /// Indications.
    forgotten: AtomicBool,
}

/// State that both threads share.
#[derive(Debug)]
struct GnbState {
    socket: UdpSocket,
    upf: SocketAddr,
    qfi: Qfi,
    ues: Vec<UeTunnel>,
    counters: GnbCounters,
    /// Downlink packets by the QFI in their PDU Session Container.
    qfi_pkts: [AtomicU64; 64],
    /// True if the gNB does not answer Echo Requests.
    silent: AtomicBool,
    /// True once the kernel has refused to segment a message into packets, as it does if a device
    /// cannot compute checksums.
    sends_singly: AtomicBool,
    stop: Stop,
}

/// A running gNB. Drop ends its threads, which closes the UE devices.
#[derive(Debug)]
pub(crate) struct Gnb {
    shared: Arc<GnbState>,
    threads: Vec<JoinHandle<()>>,
}

impl Gnb {
    /// Starts the threads. `socket` is bound to the gNB's GTP-U address; `devices` are the UEs.
    ///
    /// # Errors
    /// The socket or the devices cannot be prepared.
    pub(crate) fn start(
        socket: UdpSocket,
        upf: Ipv4Addr,
        qfi: Qfi,
        devices: Vec<File>,
    ) -> Result<Self> {
        socket.set_read_timeout(Some(IDLE)).context("receive timeout of the gNB socket")?;
        sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)
            .context("receive buffer of the gNB socket")?;
        sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BYTES)
            .context("send buffer of the gNB socket")?;
        // Best effort: without this option packets are received one by one.
        let _ = setsockopt(&socket, UdpGroSegment, &true);
        let ues = devices.into_iter().map(|device| UeTunnel {
            device,
            uplink_teid: AtomicU32::new(0),
            first_leg_pkts: AtomicU64::new(0),
            second_leg_pkts: AtomicU64::new(0),
            forgotten: AtomicBool::new(false),
        });
        Self::run(GnbState {
            socket,
            upf: (upf, UDP_PORT).into(),
            qfi,
            ues: ues.collect(),
            counters: GnbCounters::default(),
            qfi_pkts: [const { AtomicU64::new(0) }; 64],
            silent: AtomicBool::new(false),
            sends_singly: AtomicBool::new(false),
            stop: Stop::default(),
        })
    }

    fn run(shared: GnbState) -> Result<Self> {
        let shared = Arc::new(shared);
        let epoll = shared.watch_devices()?;
        let (up, down) = (Arc::clone(&shared), Arc::clone(&shared));
        let mut gnb = Self { shared, threads: Vec::new() };
        let uplink = thread::Builder::new().name("gnb-uplink".to_owned());
        gnb.threads.push(uplink.spawn(move || up.run_uplink(&epoll)).context("thread")?);
        let downlink = thread::Builder::new().name("gnb-downlink".to_owned());
        gnb.threads.push(downlink.spawn(move || down.run_downlink()).context("thread")?);
        Ok(gnb)
    }

    /// Forwards uplink packets of the UE with index `ue` to adit's `teid`; zero stops forwarding.
    pub(crate) fn connect(&self, ue: usize, teid: Teid) {
        if let Some(ue) = self.shared.ues.get(ue) {
            ue.uplink_teid.store(teid.0, Ordering::Release);
        }
    }

    /// Makes the gNB forget the TEIDs of a UE or know them again. If they are forgotten, it answers
    /// the UE's downlink packets with Error Indications. Spec: TS 29.281 §7.3.1.
    pub(crate) fn forget(&self, ue: usize, forgotten: bool) {
        if let Some(ue) = self.shared.ues.get(ue) {
            ue.forgotten.store(forgotten, Ordering::Release);
        }
    }

    /// Stops answers to Echo Requests, as if the gNB were unreachable, or permits them again.
    pub(crate) fn silence(&self, silent: bool) {
        self.shared.silent.store(silent, Ordering::Release);
    }

    /// Returns the counters.
    #[must_use]
    pub(crate) fn counters(&self) -> &GnbCounters {
        &self.shared.counters
    }

    /// Returns the number of downlink packets with `qfi`, of all UEs.
    #[must_use]
    pub(crate) fn qfi_pkts(&self, qfi: Qfi) -> u64 {
        let pkts = self.shared.qfi_pkts.get(usize::from(qfi.value()));
        pkts.map_or(0, |pkts| pkts.load(Ordering::Relaxed))
    }

    /// Returns the numbers of downlink packets of one UE through its first and second tunnel.
    #[must_use]
    pub(crate) fn leg_pkts(&self, ue: usize) -> (u64, u64) {
        self.shared.ues.get(ue).map_or((0, 0), |ue| {
            (ue.first_leg_pkts.load(Ordering::Relaxed), ue.second_leg_pkts.load(Ordering::Relaxed))
        })
    }

    /// Sends an Echo Request to adit each second until the response arrives. Returns the round-trip
    /// time.
    ///
    /// # Errors
    /// No response with a Recovery IE arrives within `timeout`, or `stop` was raised.
    pub(crate) fn echo(&self, timeout: Duration, stop: &Stop) -> Result<Duration> {
        let before = self.counters().echo_received.load(Ordering::Relaxed);
        let start = Instant::now();
        let mut request = [0; 16];
        for sequence in 1.. {
            let len = emit_echo_request(&mut request, sequence, None)
                .map_err(|error| anyhow::anyhow!("write an Echo Request: {error:?}"))?;
            let sent = Instant::now();
            let message = request.get(..len).unwrap_or_default();
            self.shared.socket.send_to(message, self.shared.upf).context("send Echo Request")?;
            while sent.elapsed() < RETRY {
                if self.counters().echo_received.load(Ordering::Relaxed) > before {
                    return Ok(sent.elapsed());
                }
                stop.sleep(Duration::from_millis(1))?;
            }
            if start.elapsed() >= timeout {
                break;
            }
        }
        bail!("adit did not answer a GTP-U Echo Request with a Recovery IE within {timeout:?}")
    }
}

impl Drop for Gnb {
    fn drop(&mut self) {
        self.shared.stop.raise();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("adit-lab: a gNB thread panicked");
            }
        }
    }
}

/// Buffers for packets to be sent, each with [`UL_HEADERS`] octets of headers in front.
struct PacketSlots {
    slots: Vec<[u8; SLOT_BYTES]>,
    lens: Vec<usize>,
}

impl PacketSlots {
    fn packet(&mut self) -> Option<&mut [u8; SLOT_BYTES]> {
        self.slots.get_mut(self.lens.len())
    }

    fn filled(&self) -> impl Iterator<Item = &[u8]> {
        self.slots.iter().zip(&self.lens).filter_map(|(slot, &len)| slot.get(..len))
    }
}

impl GnbState {
    fn watch_devices(&self) -> Result<OwnedFd> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        for (data, ue) in (0u64..).zip(&self.ues) {
            let data = epoll::EventData::new_u64(data);
            epoll::add(&epoll, &ue.device, data, epoll::EventFlags::IN).context("watch a UE")?;
        }
        Ok(epoll)
    }

    fn run_uplink(&self, epoll: &OwnedFd) {
        let mut events = Vec::with_capacity(256);
        let mut slots = PacketSlots {
            slots: vec![[0; SLOT_BYTES]; BATCH_PKTS],
            lens: Vec::with_capacity(BATCH_PKTS),
        };
        let timeout = Timespec::try_from(IDLE).ok();
        while !self.stop.is_raised() {
            events.clear();
            // Repeats a wait that failed or was interrupted; the flag ends the loop.
            let spare = rustix::buffer::spare_capacity(&mut events);
            if epoll::wait(epoll, spare, timeout.as_ref()).is_err() {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            for event in &events {
                let index = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                if let Some(ue) = self.ues.get(index) {
                    self.uplink_burst(ue, &mut slots);
                }
            }
        }
    }

    /// Reads up to one batch of a UE's packets and sends them to adit.
    fn uplink_burst(&self, ue: &UeTunnel, slots: &mut PacketSlots) {
        let teid = Teid(ue.uplink_teid.load(Ordering::Acquire));
        slots.lens.clear();
        while let Some(slot) = slots.packet() {
            let (headers, packet) = slot.split_at_mut(UL_HEADERS);
            let Ok(len @ 1..) = (&ue.device).read(packet) else { break };
            // A UE without a PDU session has no radio bearer, so its packets are discarded.
            if teid.0 == 0 || write_ul_headers(headers, teid, self.qfi, len).is_none() {
                continue;
            }
            slots.lens.push(UL_HEADERS + len);
        }
        if !slots.lens.is_empty() {
            let sent = self.send_batch(slots);
            let lost = slots.lens.len() - sent;
            let bytes: usize = slots.lens.iter().take(sent).map(|len| len - UL_HEADERS).sum();
            self.counters.uplink.add(wide(sent), wide(bytes));
            self.counters.uplink_lost.fetch_add(wide(lost), Ordering::Relaxed);
        }
    }

    /// Sends packets in order; returns how many the kernel accepted.
    fn send_batch(&self, slots: &PacketSlots) -> usize {
        let packets: Vec<&[u8]> = slots.filled().collect();
        let mut sent = 0;
        while !self.sends_singly.load(Ordering::Relaxed) {
            let left = packets.get(sent..).unwrap_or_default();
            let train = train_len(left);
            if train == 0 {
                return sent;
            }
            match self.send_train(left.get(..train).unwrap_or_default()) {
                Ok(_) => sent += train,
                Err(Errno::EINTR) => {}
                Err(_) => self.sends_singly.store(true, Ordering::Relaxed),
            }
        }
        sent + self.send_singly(packets.get(sent..).unwrap_or_default())
    }

    /// Sends consecutive packets as one message, which the kernel segments.
    fn send_train(&self, packets: &[&[u8]]) -> nix::Result<usize> {
        let SocketAddr::V4(to) = self.upf else { return Err(Errno::EAFNOSUPPORT) };
        let parts: Vec<_> = packets.iter().map(|packet| IoSlice::new(packet)).collect();
        let len = packets.first().and_then(|packet| u16::try_from(packet.len()).ok());
        let cut = [ControlMessage::UdpGsoSegments(&len.unwrap_or_default())];
        let controls = if packets.len() > 1 { &cut[..] } else { &[] };
        let to = SockaddrIn::from(to);
        sendmsg(self.socket.as_raw_fd(), &parts, controls, MsgFlags::empty(), Some(&to))
    }

    fn send_singly(&self, packets: &[&[u8]]) -> usize {
        let addr = SocketAddrAny::from(self.upf);
        let iovs: Vec<[IoSlice<'_>; 1]> = packets.iter().map(|p| [IoSlice::new(p)]).collect();
        let mut controls: Vec<_> =
            repeat_with(SendAncillaryBuffer::default).take(iovs.len()).collect();
        let mut messages: Vec<MMsgHdr<'_>> = iovs
            .iter()
            .zip(&mut controls)
            .map(|(iov, control)| MMsgHdr::new_with_addr(&addr, iov, control))
            .collect();
        let mut sent = 0;
        while let Some(left) = messages.get_mut(sent..).filter(|left| !left.is_empty()) {
            match sendmmsg(&self.socket, left, SendFlags::empty()) {
                Ok(count @ 1..) => sent += count,
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
        sent
    }

    fn run_downlink(&self) {
        let mut messages = vec![0; usize::from(u16::MAX)];
        while !self.stop.is_raised() {
            // A timeout lets the loop check the flag. Other errors are transient, such as an ICMP
            // error in response to an earlier packet.
            let Ok((len, size, from)) = self.receive(&mut messages) else { continue };
            for bytes in messages.get(..len).unwrap_or_default().chunks(size) {
                match parse_gtpu(bytes) {
                    Ok(packet) => self.handle(&packet, bytes, from),
                    Err(_) => count(&self.counters.malformed),
                }
            }
        }
    }

    /// Receives a message, or several from one sender that the kernel has joined. Returns the total
    /// length, the length of each message but the last, and the sender.
    fn receive(&self, messages: &mut [u8]) -> nix::Result<(usize, usize, SocketAddr)> {
        let mut controls = nix::cmsg_space!(i32);
        let mut parts = [IoSliceMut::new(messages)];
        let (fd, flags) = (self.socket.as_raw_fd(), MsgFlags::empty());
        let received = recvmsg::<SockaddrIn>(fd, &mut parts, Some(&mut controls), flags)?;
        let from = received.address.ok_or(Errno::EAFNOSUPPORT)?;
        let size = received.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::UdpGroSegments(size) => usize::try_from(size).ok(),
            _ => None,
        });
        let len = received.bytes;
        let from = (from.ip(), from.port()).into();
        Ok((len, size.unwrap_or(len).max(1), from))
    }

    fn handle(&self, packet: &GtpuPacket, bytes: &[u8], from: SocketAddr) {
        match packet.message_type {
            GtpuMessageType::G_PDU => self.downlink(packet, packet.payload(bytes)),
            GtpuMessageType::ECHO_REQUEST if self.silent.load(Ordering::Acquire) => {}
            GtpuMessageType::ECHO_REQUEST => self.answer_echo(packet.sequence.unwrap_or(0), from),
            GtpuMessageType::ECHO_RESPONSE => {
                let mut ies = GtpuIes::new(packet.payload(bytes));
                if ies.any(|ie| matches!(ie, Ok(GtpuIe::Recovery(_)))) {
                    count(&self.counters.echo_received);
                } else {
                    count(&self.counters.malformed);
                }
            }
            GtpuMessageType::END_MARKER => count(&self.counters.end_markers),
            GtpuMessageType::ERROR_INDICATION => count(&self.counters.error_indications),
            _ => count(&self.counters.malformed),
        }
    }

    fn downlink(&self, packet: &GtpuPacket, inner: &[u8]) {
        let found = ue_of(packet.teid).and_then(|(ue, leg)| Some((self.ues.get(ue)?, leg)));
        let Some((ue, leg)) = found else { return count(&self.counters.unknown_teids) };
        if ue.forgotten.load(Ordering::Acquire) {
            return self.refuse(packet.teid);
        }
        if packet.psc.is_none_or(|psc| psc.pdu_type != PduType::Downlink || psc.qfi != self.qfi) {
            count(&self.counters.qfi_mismatches);
        }
        let qfi = packet.psc.and_then(|psc| self.qfi_pkts.get(usize::from(psc.qfi.value())));
        if let Some(pkts) = qfi {
            count(pkts);
        }
        count(match leg {
            Leg::First => &ue.first_leg_pkts,
            Leg::Second => &ue.second_leg_pkts,
        });
        self.counters.downlink.add(1, wide(inner.len()));
        if rustix::io::write(&ue.device, inner).is_err() {
            count(&self.counters.tun_refused);
        }
    }

    /// Sends an Error Indication for `teid` to adit.
    fn refuse(&self, teid: Teid) {
        let Ok(own) = self.socket.local_addr() else { return };
        let mut message = [0; ERROR_INDICATION_LEN_MAX];
        let indication = ErrorIndication { teid, peer: own.ip() };
        let Ok(len) = emit_error_indication(&mut message, &indication, None) else {
            unreachable!("there is room for the longest Error Indication")
        };
        // If the message is lost, the next packet causes another one.
        let _ = self.socket.send_to(message.get(..len).unwrap_or_default(), self.upf);
    }

    fn answer_echo(&self, sequence: u16, from: SocketAddr) {
        let mut response = [0; 32];
        let Ok(len) = emit_echo_response(&mut response, sequence, None) else {
            unreachable!("an Echo Response has 14 octets")
        };
        // Spec: TS 29.281 §4.4.2.2: the response goes to the source of the request.
        if self.socket.send_to(response.get(..len).unwrap_or_default(), from).is_ok() {
            count(&self.counters.echo_answered);
        }
    }
}

/// Returns how many of the first packets can be sent as one message: they have the same length,
/// except that the last may be shorter.
fn train_len(packets: &[&[u8]]) -> usize {
    let Some(first) = packets.first() else { return 0 };
    let full = packets.iter().take_while(|packet| packet.len() == first.len()).count();
    let shorter = packets.get(full).is_some_and(|packet| packet.len() < first.len());
    full + usize::from(shorter)
}

/// Writes the headers of an uplink packet of `len` octets; `None` if the packet is too long.
pub(crate) fn write_ul_headers(out: &mut [u8], teid: Teid, qfi: Qfi, len: usize) -> Option<()> {
    let body = u16::try_from(len + UL_HEADERS - GtpuHeader::LEN).ok()?;
    let (header, rest) = out.split_at_mut_checked(GtpuHeader::LEN)?;
    let (optional, extension) = rest.split_at_mut_checked(GtpuOptional::LEN)?;
    GtpuHeader::new(FLAG_E, GtpuMessageType::G_PDU, body, teid).emit(header).ok()?;
    GtpuOptional::new(0, ExtensionType::PDU_SESSION_CONTAINER).emit(optional).ok()?;
    extension.get_mut(..4)?.copy_from_slice(&PduSessionContainer::uplink(qfi).short_extension());
    Some(())
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use super::*;

    const QFI: u8 = 9;

    /// Makes a gNB whose UE device is one end of a SOCK_SEQPACKET pair.
    fn gnb_on_loopback() -> (Gnb, UdpSocket, File) {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let (device, program): (OwnedFd, OwnedFd) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None)
                .unwrap();
        let upf = UdpSocket::bind("127.0.0.1:0").unwrap();
        upf.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let shared = GnbState {
            socket: UdpSocket::bind("127.0.0.1:0").unwrap(),
            upf: upf.local_addr().unwrap(),
            qfi: Qfi::new(QFI).unwrap(),
            ues: vec![UeTunnel {
                device: device.into(),
                uplink_teid: AtomicU32::new(0),
                first_leg_pkts: AtomicU64::new(0),
                second_leg_pkts: AtomicU64::new(0),
                forgotten: AtomicBool::new(false),
            }],
            counters: GnbCounters::default(),
            qfi_pkts: [const { AtomicU64::new(0) }; 64],
            silent: AtomicBool::new(false),
            sends_singly: AtomicBool::new(false),
            stop: Stop::default(),
        };
        shared.socket.set_read_timeout(Some(IDLE)).unwrap();
        (Gnb::run(shared).unwrap(), upf, program.into())
    }

    fn wait_for(condition: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(5);
        while !condition() {
            assert!(Instant::now() < end, "condition never became true");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn uplink_packet_carries_teid_and_qfi() {
        let (gnb, upf, mut program) = gnb_on_loopback();
        gnb.connect(0, Teid(0x0102_0304));
        program.write_all(b"inner packet").unwrap();
        let mut message = [0; 100];
        let (len, _) = upf.recv_from(&mut message).unwrap();
        let expected = [0x34, 255, 0, 20, 1, 2, 3, 4, 0, 0, 0, 0x85, 1, 0x10, QFI, 0];
        assert_eq!(message[..16], expected);
        assert_eq!(&message[16..len], b"inner packet");
        wait_for(|| gnb.counters().uplink.pkts.load(Ordering::Relaxed) == 1);
    }

    #[test]
    fn downlink_packet_reaches_its_device_and_a_wrong_qfi_is_counted() {
        let (gnb, upf, mut program) = gnb_on_loopback();
        let gnb_addr = gnb.shared.socket.local_addr().unwrap();
        for (leg, qfi) in [(Leg::First, QFI), (Leg::Second, QFI + 1)] {
            let mut message = vec![0x34, 255, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0x85, 1, 0, qfi, 0];
            message[4..8].copy_from_slice(&teid(0, leg).0.to_be_bytes());
            message.extend_from_slice(b"ip");
            upf.send_to(&message, gnb_addr).unwrap();
        }
        wait_for(|| gnb.counters().downlink.pkts.load(Ordering::Relaxed) == 2);
        assert_eq!(gnb.leg_pkts(0), (1, 1));
        assert_eq!(gnb.counters().qfi_mismatches.load(Ordering::Relaxed), 1);
        let mut inner = [0; 10];
        assert_eq!(program.read(&mut inner).unwrap(), 2);
    }

    #[test]
    fn foreign_teid_and_garbage_are_counted_and_go_nowhere() {
        let (gnb, upf, _program) = gnb_on_loopback();
        let gnb_addr = gnb.shared.socket.local_addr().unwrap();
        upf.send_to(&[0x30, 255, 0, 1, 9, 9, 9, 9, 0x45], gnb_addr).unwrap();
        upf.send_to(&[0x48, 1, 2], gnb_addr).unwrap();
        let counters = gnb.counters();
        wait_for(|| counters.malformed.load(Ordering::Relaxed) == 1);
        wait_for(|| counters.unknown_teids.load(Ordering::Relaxed) == 1);
        assert_eq!(counters.downlink.pkts.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn echo_is_answered_and_its_response_is_counted() {
        let (gnb, upf, _program) = gnb_on_loopback();
        let gnb_addr = gnb.shared.socket.local_addr().unwrap();
        upf.send_to(&[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 7, 0, 0], gnb_addr).unwrap();
        let mut message = [0; 100];
        let (len, _) = upf.recv_from(&mut message).unwrap();
        assert_eq!(message[..len], [0x32, 2, 0, 6, 0, 0, 0, 0, 0, 7, 0, 0, 14, 0]);
        upf.send_to(&message[..len], gnb_addr).unwrap();
        wait_for(|| gnb.counters().echo_received.load(Ordering::Relaxed) == 1);
    }

    #[test]
    fn forgotten_ue_gets_an_error_indication_and_no_packet() {
        let (gnb, upf, mut program) = gnb_on_loopback();
        let gnb_addr = gnb.shared.socket.local_addr().unwrap();
        gnb.forget(0, true);
        let mut message = vec![0x30, 255, 0, 2, 0, 0, 0, 0];
        message[4..8].copy_from_slice(&teid(0, Leg::First).0.to_be_bytes());
        message.extend_from_slice(b"ip");
        upf.send_to(&message, gnb_addr).unwrap();
        let mut answer = [0; 100];
        let (len, _) = upf.recv_from(&mut answer).unwrap();
        let packet = parse_gtpu(&answer[..len]).unwrap();
        assert_eq!(packet.message_type, GtpuMessageType::ERROR_INDICATION);
        let ies: Vec<_> = GtpuIes::new(packet.payload(&answer[..len])).collect();
        assert_eq!(
            ies,
            [Ok(GtpuIe::TeidDataI(teid(0, Leg::First))), Ok(GtpuIe::PeerAddress(gnb_addr.ip()))]
        );
        assert!(program.read(&mut answer).is_err(), "the packet went to the UE");
    }

    #[test]
    fn silent_gnb_answers_no_echo_until_silence_ends() {
        let (gnb, upf, _program) = gnb_on_loopback();
        let gnb_addr = gnb.shared.socket.local_addr().unwrap();
        let mut message = [0; 100];
        let ask = |sequence| [0x32, 1, 0, 4, 0, 0, 0, 0, 0, sequence, 0, 0];
        gnb.silence(true);
        upf.send_to(&ask(7), gnb_addr).unwrap();
        upf.send_to(b"the gNB has read the request", gnb_addr).unwrap();
        wait_for(|| gnb.counters().malformed.load(Ordering::Relaxed) == 1);
        gnb.silence(false);
        upf.send_to(&ask(8), gnb_addr).unwrap();
        let (len, _) = upf.recv_from(&mut message).unwrap();
        assert_eq!((len, message[9]), (14, 8));
    }

    #[test]
    fn packets_of_one_length_leave_together_and_arrive_one_by_one_in_order() {
        let (gnb, upf, mut program) = gnb_on_loopback();
        let lens = [700, 700, 700, 30, 700, 900, 900, 50];
        gnb.connect(0, Teid(0x0102_0304));
        for len in lens {
            program.write_all(&vec![7; len]).unwrap();
        }
        let mut message = [0; 2000];
        let arrived = lens.map(|_| upf.recv_from(&mut message).unwrap().0 - UL_HEADERS);
        assert_eq!(arrived, lens);
        assert!(!gnb.shared.sends_singly.load(Ordering::Relaxed), "loopback takes trains");
    }

    #[test]
    fn train_ends_behind_a_shorter_packet_or_before_a_longer_one() {
        let of = |lens: &[usize]| {
            let packets: Vec<_> = lens.iter().map(|len| vec![0; *len]).collect();
            train_len(&packets.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[9]), 1);
        assert_eq!(of(&[9, 9, 8, 9]), 3);
        assert_eq!(of(&[9, 9, 10]), 2);
        assert_eq!(of(&[9, 10, 10]), 1);
    }

    #[test]
    fn messages_that_the_kernel_has_joined_are_taken_apart() {
        let (gnb, upf, _program) = gnb_on_loopback();
        setsockopt(&gnb.shared.socket, UdpGroSegment, &true).unwrap();
        let gnb_addr = gnb.shared.socket.local_addr().unwrap();
        let SocketAddr::V4(to) = gnb_addr else { panic!("{gnb_addr}") };
        // Three messages that the gNB ignores.
        let messages =
            [IoSlice::new(&[0x48; 12]), IoSlice::new(&[0x48; 12]), IoSlice::new(&[0x48; 5])];
        let cut = [ControlMessage::UdpGsoSegments(&12)];
        let to = SockaddrIn::from(to);
        sendmsg(upf.as_raw_fd(), &messages, &cut, MsgFlags::empty(), Some(&to)).unwrap();
        wait_for(|| gnb.counters().malformed.load(Ordering::Relaxed) == 3);
    }

    #[test]
    fn teid_names_its_ue_and_leg() {
        assert_eq!(ue_of(teid(249, Leg::Second)), Some((249, Leg::Second)));
        assert_eq!(ue_of(Teid(0x0000_0100)), None);
    }
}
