//! A thread that sends packets of sessions in random order as fast as it can.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use adit_lab_engine::frame::PROBE_PORT;
use adit_types::{Qfi, Teid};
use adit_wire::gtpu;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::protocol;
use adit_wire::udp::UdpHeader;
use anyhow::{Context, Result, anyhow};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

use super::{PortDirection, SERVER};
use crate::gnb::{UL_HEADERS, write_ul_headers};
use crate::topology::ADIT_N3;

/// The UE's IP packet: addresses and ports, and the rest zeros.
pub(super) const PACKET_BYTES: usize = 64;
/// Packets that are prepared and sent again and again.
const PREPARED_PKTS: usize = 4096;
/// Packets of one system call.
const BATCH_PKTS: usize = 64;

/// A session's part of its packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionPackets {
    pub ue: Ipv4Addr,
    pub uplink_teid: Teid,
}

/// The running sender. Drop stops it.
#[derive(Debug)]
pub(super) struct PacketSender {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Prepared {
    octets: Vec<u8>,
    to: SocketAddr,
}

fn prepare(direction: PortDirection, session: SessionPackets, qfi: Qfi) -> Result<Prepared> {
    let SessionPackets { ue, uplink_teid } = session;
    if direction == PortDirection::Downlink {
        let payload = PACKET_BYTES - Ipv4Header::LEN - UdpHeader::LEN;
        let to = SocketAddrV4::new(ue, PROBE_PORT).into();
        return Ok(Prepared { octets: vec![0; payload], to });
    }
    let mut octets = vec![0; UL_HEADERS + PACKET_BYTES];
    write_ul_headers(&mut octets, uplink_teid, qfi, PACKET_BYTES).context("headers")?;
    let (ip, udp) = octets[UL_HEADERS..].split_at_mut(Ipv4Header::LEN);
    let total_len = u16::try_from(PACKET_BYTES)?;
    let fields = Ipv4Fields {
        tos: 0,
        total_len,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        src: ue,
        dst: SERVER,
    };
    let malformed = |_| anyhow!("packet of {PACKET_BYTES} octets");
    Ipv4Header::new(&fields).emit(ip).map_err(malformed)?;
    UdpHeader::new(PROBE_PORT, PROBE_PORT, u16::try_from(udp.len())?, 0)
        .emit(udp)
        .map_err(malformed)?;
    Ok(Prepared { octets, to: SocketAddrV4::new(ADIT_N3, gtpu::UDP_PORT).into() })
}

impl PacketSender {
    /// Sends packets of random `sessions` from `socket`.
    ///
    /// # Errors
    /// There are no sessions; no thread can be started.
    pub(super) fn start(
        socket: UdpSocket,
        direction: PortDirection,
        sessions: &[SessionPackets],
        qfi: Qfi,
    ) -> Result<Self> {
        let mut random = StdRng::from_os_rng();
        let pick = |_| sessions.get(random.random_range(0..sessions.len().max(1))).copied();
        let chosen: Option<Vec<SessionPackets>> = (0..PREPARED_PKTS).map(pick).collect();
        let chosen = chosen.context("no session to send packets of")?;
        let packets: Result<Vec<Prepared>> =
            chosen.into_iter().map(|session| prepare(direction, session, qfi)).collect();
        let (packets, stop) = (packets?, Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("lab-sender".to_owned())
            .spawn(move || send_all(&socket, &packets, &stopped))
            .context("start the sender")?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for PacketSender {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn send_all(socket: &UdpSocket, packets: &[Prepared], stop: &AtomicBool) {
    let addresses: Vec<SocketAddrAny> =
        packets.iter().map(|packet| SocketAddrAny::from(packet.to)).collect();
    let slices: Vec<[IoSlice<'_>; 1]> =
        packets.iter().map(|packet| [IoSlice::new(&packet.octets)]).collect();
    let mut controls: Vec<_> =
        std::iter::repeat_with(SendAncillaryBuffer::default).take(packets.len()).collect();
    let mut messages: Vec<MMsgHdr<'_>> = slices
        .iter()
        .zip(&addresses)
        .zip(&mut controls)
        .map(|((slice, to), control)| MMsgHdr::new_with_addr(to, slice, control))
        .collect();
    while !stop.load(Ordering::Relaxed) {
        for batch in messages.chunks_mut(BATCH_PKTS) {
            // What the kernel refuses is not sent: the receiver counts.
            let _ = sendmmsg(socket, batch, SendFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uplink_packet_is_a_g_pdu_with_the_whole_packet() {
        let session = SessionPackets { ue: Ipv4Addr::new(10, 45, 0, 9), uplink_teid: Teid(7) };
        let qfi = Qfi::new(9).unwrap();
        let uplink = prepare(PortDirection::Uplink, session, qfi).unwrap();
        let packet = adit_wire::parse_gtpu(&uplink.octets).unwrap();
        assert_eq!(packet.teid, Teid(7));
        let (ip, rest) = Ipv4Header::parse(&uplink.octets[UL_HEADERS..]).unwrap();
        assert_eq!((ip.src(), ip.dst(), rest.len()), (session.ue, SERVER, PACKET_BYTES - 20));
        let downlink = prepare(PortDirection::Downlink, session, qfi).unwrap();
        assert_eq!((downlink.octets.len(), downlink.to.ip()), (36, session.ue.into()));
    }
}
