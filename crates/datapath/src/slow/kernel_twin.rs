//! Packets of the slow path that the kernel twin of their interface gets, alone or as well.
//!
//! ARP and neighbor discovery have one owner, which answers: this module gives the kernel only
//! copies of answers and announcements, so that its table of neighbors is right as well.

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PuntReason};
use adit_types::InterfaceId;
use adit_wire::arp::{ArpOperation, ArpPacket};
use adit_wire::icmpv6;
use adit_wire::neighbor::{NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION};
use core::net::IpAddr;

use crate::context::StepContext;
use crate::departures::Departures;
use crate::interfaces::VlanLink;
use crate::kernel_twin::KernelClass;
use crate::slow::icmp;
use crate::slow::neighbor_discovery::ReceivedIcmp;
use crate::slow_queue::SlowTask;
use crate::transmitter::Transmitter;

/// Gives the kernel twin of a link a packet or a copy of it. Returns the outcome of a packet that
/// the datapath does not process itself.
pub(super) fn share<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    link: &VlanLink,
    buf: &Io::Buf,
    task: &SlowTask,
) -> Option<Result<PuntReason, DropReason>> {
    let interface = link.first()?;
    match *task {
        SlowTask::Arp { l3_offset } => {
            if is_news(link, buf.data().get(usize::from(l3_offset)..).unwrap_or_default()) {
                copy(ctx, tx, buf, interface);
            }
            None
        }
        SlowTask::Icmp { l3_offset, ip } => {
            let received = ReceivedIcmp { link, l3_offset, ip: &ip };
            match icmp::path_mtu_v4(ctx, tx, buf, &received) {
                done @ Some(Ok(_)) => done,
                _ => Some(deliver(ctx, tx, buf, interface, KernelClass::Other)),
            }
        }
        SlowTask::Icmpv6 { l3_offset, ip } => {
            let received = ReceivedIcmp { link, l3_offset, ip: &ip };
            let l3 = buf.data().get(usize::from(l3_offset)..).unwrap_or_default();
            let is_ours = link.owner(ip.addrs.dst()).is_some();
            match ip.payload(l3).first().copied().unwrap_or(0) {
                _ if ip.is_fragment() => None,
                NEIGHBOR_SOLICITATION => None,
                NEIGHBOR_ADVERTISEMENT => {
                    copy(ctx, tx, buf, interface);
                    None
                }
                kind if icmp::HOUSEKEEPING.contains(&kind) => {
                    Some(deliver(ctx, tx, buf, interface, KernelClass::Neighbor))
                }
                icmpv6::PACKET_TOO_BIG => match icmp::path_mtu_v6(ctx, tx, buf, &received) {
                    Err(_) if is_ours => Some(deliver(ctx, tx, buf, interface, KernelClass::Other)),
                    outcome => Some(outcome),
                },
                _ if is_ours => Some(deliver(ctx, tx, buf, interface, KernelClass::Other)),
                _ => None,
            }
        }
        SlowTask::Gtpu { .. } => None,
    }
}

/// True for an answer to us and for an announcement of another station.
fn is_news(link: &VlanLink, bytes: &[u8]) -> bool {
    let Ok((packet, _)) = ArpPacket::parse(bytes) else { return false };
    let owns = |addr| link.owner(IpAddr::V4(addr)).is_some();
    match packet.operation() {
        ArpOperation::REPLY => owns(packet.target_addr()),
        _ => packet.sender_addr() == packet.target_addr() && !owns(packet.sender_addr()),
    }
}

fn deliver<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: &Io::Buf,
    interface: InterfaceId,
    class: KernelClass,
) -> Result<PuntReason, DropReason> {
    let Some(kernel) = &mut tx.queues.kernel else { return Err(DropReason::KernelRingFull) };
    kernel.deliver(ctx.now, buf.data(), interface, class)
}

/// Gives the kernel a copy. A copy beyond rate or room is lost and counted in the class; the kernel
/// then sends a request of its own.
fn copy<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: &Io::Buf,
    interface: InterfaceId,
) {
    let _ = deliver(ctx, tx, buf, interface, KernelClass::Neighbor);
}
