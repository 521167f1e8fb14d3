//! A thread that sends packets of sessions, in random order and as fast as it can.
//!
//! A program in the kernel sends whole frames, so that the core under test limits the rate, not the
//! sender.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use adit_lab_engine::frame::{FrameFormat, Template, TesterTunnel, UePacketKind};
use adit_lab_engine::plan::{PlanConfig, SessionOrder, draw_plan};
use adit_lab_engine::stamp::Stamp;
use adit_types::{MacAddr, Qfi, VlanId};
use adit_wire::PduSessionContainer;
use anyhow::{Context, Result};
use rustix::process::Pid;

use super::ENDPOINTS;
use super::cpu_time::own_thread_cpu_ns;
use super::programs::{FRAMES, LiveFrameSender, SendWindow, SentCounter};
use crate::demo::bring_up::QFI;
use crate::topology::{ADIT_N3, GNB};
use adit_lab_measure::ports::{PACKET_BYTES, PortDirection};
use adit_lab_process::netns::NetDevice;

/// The running sender. Drop stops it.
#[derive(Debug)]
pub(super) struct PacketSender {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
    id: Pid,
    made: SentCounter,
}

/// Makes frames of random sessions.
///
/// # Errors
/// There are no sessions.
fn prepare(
    direction: PortDirection,
    uplink_teids: &[u32],
    src_mac: MacAddr,
    dst_mac: MacAddr,
) -> Result<Vec<Vec<u8>>> {
    let uplink = direction == PortDirection::Uplink;
    let qfi = Qfi::new(QFI).context("the QFI has six bits")?;
    let tunnel = uplink.then_some(TesterTunnel {
        upf: ADIT_N3.into(),
        gnb: GNB.into(),
        psc: Some(PduSessionContainer::uplink(qfi)),
    });
    let (vlan, inner) = (VlanId::UNTAGGED, UePacketKind::Udp4);
    let form = FrameFormat { src_mac, dst_mac, vlan, tunnel, uplink, inner, endpoints: ENDPOINTS };
    let template = Template::new(&form, PACKET_BYTES)?;
    anyhow::ensure!(!uplink_teids.is_empty(), "no session to send packets of");
    let mut plan = draw_plan(&PlanConfig {
        teids: uplink_teids,
        first: 0,
        gnbs: &[GNB.into()],
        source_ports: 1,
        weights: &[1],
        order: SessionOrder::Random,
        seed: 1,
    });
    plan.truncate(FRAMES);
    let stamp = Stamp { tag: 0, session: 0, sequence: 0, intended: 0 };
    let frames = plan.iter().map(|entry| {
        let mut frame = vec![0; template.frame_len()];
        template.write(&mut frame, entry, stamp);
        frame
    });
    Ok(frames.collect())
}

impl PacketSender {
    /// Starts to send packets of random sessions through `from`, a device in this thread's
    /// namespace, to the device with address `to`.
    ///
    /// # Errors
    /// There are no sessions, the kernel cannot run the sending program, or no thread can be
    /// started.
    pub(super) fn start(
        direction: PortDirection,
        uplink_teids: &[u32],
        from: NetDevice,
        to: MacAddr,
        window: SendWindow<'_>,
    ) -> Result<Self> {
        let frames = prepare(direction, uplink_teids, from.mac, to)?;
        let mut maker = LiveFrameSender::load(&frames, from.index, window)?;
        let (made, stop) = (maker.counter()?, Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let (id, started) = channel();
        let thread = std::thread::Builder::new()
            .name("lab-sender".to_owned())
            .spawn(move || {
                let _ = id.send(rustix::thread::gettid());
                while !stopped.load(Ordering::Relaxed) {
                    maker.send()?;
                }
                Ok(())
            })
            .context("start the sender")?;
        let id = started.recv().context("the sender has ended")?;
        Ok(Self { stop, thread: Some(thread), id, made })
    }

    /// Returns the number of packets sent so far, including those for which the device had no room.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn offered_pkts(&self) -> Result<u64> {
        self.made.pkts()
    }

    /// Returns the CPU time used so far. Unit: ns.
    ///
    /// # Errors
    /// The sender has ended.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        own_thread_cpu_ns(self.id)
    }

    /// Stops the sender.
    ///
    /// # Errors
    /// The sender could not send.
    pub(super) fn stop(mut self) -> Result<()> {
        self.end().unwrap_or(Ok(()))
    }

    fn end(&mut self) -> Option<Result<()>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for PacketSender {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use adit_types::Teid;
    use adit_wire::ethernet::EthernetHeader;
    use adit_wire::ipv4::Ipv4Header;
    use adit_wire::udp::UdpHeader;

    use super::super::SERVER;
    use super::*;

    #[test]
    fn frames_are_of_the_sessions_in_both_directions() {
        let macs = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
        let frames = |direction| prepare(direction, &[7, 8], macs[0], macs[1]).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for frame in frames(PortDirection::Uplink) {
            let (outer, datagram) = Ipv4Header::parse(&frame[EthernetHeader::LEN..]).unwrap();
            assert_eq!((outer.src(), outer.dst()), (GNB, ADIT_N3));
            let packet = &datagram[UdpHeader::LEN..];
            let gtpu = adit_wire::parse_gtpu(packet).unwrap();
            let (ip, rest) = Ipv4Header::parse(&packet[packet.len() - PACKET_BYTES..]).unwrap();
            assert_eq!((ip.dst(), rest.len()), (SERVER, PACKET_BYTES - Ipv4Header::LEN));
            seen.insert((gtpu.teid, IpAddr::from(ip.src())));
        }
        let ue = |last| IpAddr::from(Ipv4Addr::new(10, 45, 0, last));
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(Teid(7), ue(2)), (Teid(8), ue(3))]);
        for frame in frames(PortDirection::Downlink) {
            let (ip, _) = Ipv4Header::parse(&frame[EthernetHeader::LEN..]).unwrap();
            assert_eq!(ip.src(), SERVER);
            assert!([ue(2), ue(3)].contains(&ip.dst().into()));
            assert_eq!(frame.len(), EthernetHeader::LEN + PACKET_BYTES);
        }
        assert!(prepare(PortDirection::Uplink, &[], macs[0], macs[1]).is_err());
    }
}
