//! Fragments of tunnel packets, which are reassembled before any other processing; and the ports of
//! users' packets that arrive in fragments, which are forwarded as they are.
//! Spec: TS 29.244 §5.2.1A; RFC 791 §3.2; RFC 8200 §4.5.

use adit_pktio::{Burst, PacketBuf};
use adit_rules::DropReason;
use adit_types::{InterfaceSet, Nanos, PortId};
use adit_wire::{FragmentPosition, IpAddrs, parse_ip, protocol};

use crate::columns::BurstColumn;
use crate::first_fragments::FirstFragments;
use crate::handoff::Handoff;
use crate::reason::verify_udp;
use crate::reassembly::{DatagramKey, Reassembly, TunnelFragment, hash_of_datagram};
use crate::tally::StepTally;

/// A fragment of a tunnel packet. It waits for the end of its burst.
pub(crate) struct ArrivedFragment<B> {
    pub buf: B,
    /// The interface that the frame arrived on.
    pub interfaces: InterfaceSet,
    /// Where the outer IP header begins in the frame. Unit: octets.
    pub ip_offset: u16,
    /// Source and destination of the outer header.
    pub addrs: IpAddrs,
    /// True if this worker owns the session, so that it reassembles the datagram. Otherwise a hash
    /// of the datagram selects the worker.
    pub is_ours: bool,
}

/// The fragments of one worker.
pub(crate) struct Fragments<B> {
    arrived: BurstColumn<ArrivedFragment<B>>,
    /// Tunnel packets that wait for the rest of their fragments.
    pub reassembly: Reassembly<B>,
    /// Ports of users' packets in fragments.
    pub first_fragments: FirstFragments,
}

impl<B: PacketBuf> Fragments<B> {
    /// Allocates all memory that will be used.
    pub(crate) fn new() -> Self {
        let (reassembly, first_fragments) = (Reassembly::new(), FirstFragments::new());
        Self { arrived: BurstColumn::new(), reassembly, first_fragments }
    }

    /// True while fragments wait for the end of their burst.
    #[inline]
    pub(crate) fn any_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Keeps a fragment of a tunnel packet until the end of the burst.
    #[cold]
    pub(crate) fn add(&mut self, arrived: ArrivedFragment<B>, tally: &mut StepTally) {
        if self.arrived.try_push(arrived).is_err() {
            // Cannot happen: the column has room for a whole burst.
            tally.drop(DropReason::ReassemblyFull);
        }
    }

    /// Reassembles the fragments that arrived in the burst. Complete packets are added to `whole`;
    /// fragments of datagrams that other workers reassemble are handed off.
    #[cold]
    pub(crate) fn join(
        &mut self,
        now: Nanos,
        port: PortId,
        whole: &mut Burst<B>,
        handoff: &mut Handoff<B>,
        tally: &mut StepTally,
    ) {
        for ArrivedFragment { buf, interfaces, ip_offset, addrs, is_ours } in
            core::mem::take(&mut self.arrived)
        {
            let packet = buf.data().get(usize::from(ip_offset)..).unwrap_or_default();
            let Some(place) = FragmentPosition::read(packet) else {
                tally.drop(DropReason::ReassemblyMalformed);
                continue;
            };
            let FragmentPosition { identification, protocol, .. } = place;
            let key = DatagramKey { interfaces, addrs, identification, protocol };
            let owner = handoff.of_hash(hash_of_datagram(&key));
            // With an event scheduler all fragments of a datagram are in one flow, which this
            // worker has: it reassembles them.
            if !is_ours && owner != handoff.worker() && handoff.flows().is_none() {
                handoff.hand_to(owner, port, buf, tally);
                continue;
            }
            let fragment = TunnelFragment { buf, ip_offset, place };
            let Some(buf) = self.reassembly.add(now, key, fragment, tally) else { continue };
            match verify_udp_checksum(&buf, ip_offset) {
                Ok(()) => whole.push(buf),
                Err(reason) => tally.drop(reason),
            }
        }
    }
}

/// Verifies the UDP checksum of a reassembled datagram: IPv4 identifications repeat, and only the
/// checksum detects that fragments of different datagrams were mixed. Spec: RFC 4963 §5.
fn verify_udp_checksum<B: PacketBuf>(buf: &B, ip_offset: u16) -> Result<(), DropReason> {
    let packet = buf.data().get(usize::from(ip_offset)..).unwrap_or_default();
    let ip = parse_ip(packet, false).map_err(|_| DropReason::ReassemblyMalformed)?;
    match ip.protocol {
        protocol::UDP => verify_udp(&ip, ip.payload(packet)),
        _ => Ok(()),
    }
}
