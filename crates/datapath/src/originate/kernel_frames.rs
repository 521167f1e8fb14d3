//! Frames of kernel twins, which leave through the ports of their interfaces.

use adit_pktio::PacketBuf;
use adit_tables::Interface;
use adit_types::limits::FROM_KERNEL_PER_STEP_MAX;
use adit_wire::EtherType;
use adit_wire::ethernet::{EthernetHeader, emit_link, link_len};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::originate::resize;
use crate::worker_state::WorkerState;

/// Sends frames of the kernel that wait, within a limit. Returns whether there was one.
pub(crate) fn send<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
) -> bool {
    if !state.queues.has_kernel_frames() {
        return false;
    }
    // Apart from the queues, which the frames go to.
    let Some(mut kernel) = state.queues.kernel.take() else { return false };
    let mut tx = state.transmitter(io);
    for _ in 0..FROM_KERNEL_PER_STEP_MAX {
        let Some((id, frame)) = kernel.next_frame() else { break };
        let checked = ctx.interfaces.get(id).and_then(|of| Some((of, checked(of, frame)?)));
        let is_refused = checked.is_none();
        if let Some((interface, (header, payload))) = checked {
            match tx.io.alloc().and_then(|buf| written(interface, header, payload, buf)) {
                Some(buf) => tx.originate(interface, buf),
                None => tx.lose_originated(),
            }
        }
        kernel.count_from(id, is_refused);
    }
    state.queues.kernel = Some(kernel);
    true
}

/// The parts of a frame, if the interface carries it: not too long, and without a tag, which would
/// reach another VLAN.
fn checked<'f>(interface: &Interface, frame: &'f [u8]) -> Option<(&'f EthernetHeader, &'f [u8])> {
    let (header, payload) = EthernetHeader::parse(frame).ok()?;
    let fits = payload.len() <= interface.unfragmented_bytes.into();
    let has_tag = matches!(header.ether_type(), EtherType::VLAN | EtherType::SERVICE_VLAN);
    (fits && !has_tag).then_some((header, payload))
}

/// Writes the frame into `buf`, with the tag of the interface.
fn written<B: PacketBuf>(
    interface: &Interface,
    header: &EthernetHeader,
    payload: &[u8],
    mut buf: B,
) -> Option<B> {
    let len = link_len(interface.vlan);
    let octets = resize(&mut buf, len + payload.len())?;
    emit_link(octets, header.dst(), header.src(), interface.vlan, header.ether_type()).ok()?;
    octets.get_mut(len..)?.copy_from_slice(payload);
    Some(buf)
}
