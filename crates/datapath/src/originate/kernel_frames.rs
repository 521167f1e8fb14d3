//! Frames of kernel twins, which leave through the ports of their interfaces.

use adit_pktio::PacketBuf;
use adit_tables::Interface;
use adit_types::MacAddr;
use adit_types::limits::FROM_KERNEL_PER_STEP_MAX;
use adit_wire::EtherType;
use adit_wire::ethernet::{EthernetHeader, emit_link, link_len};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::originate::resize;
use crate::worker_state::WorkerState;

/// A frame without a tag, in its parts.
struct KernelFrame<'f> {
    dst: MacAddr,
    src: MacAddr,
    ether_type: EtherType,
    payload: &'f [u8],
}

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
        if let Some((interface, frame)) = checked {
            match tx.io.alloc().and_then(|buf| written(interface, &frame, buf)) {
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
fn checked<'f>(interface: &Interface, frame: &'f [u8]) -> Option<KernelFrame<'f>> {
    /// A second tag of a service provider. Spec: IEEE 802.1Q §9.6.
    const SERVICE_TAG: EtherType = EtherType(0x88a8);
    let (header, payload) = EthernetHeader::parse(frame).ok()?;
    let ether_type = header.ether_type();
    let fits = payload.len() <= interface.unfragmented_bytes.into();
    let has_tag = ether_type == EtherType::VLAN || ether_type == SERVICE_TAG;
    let (dst, src) = (header.dst(), header.src());
    (fits && !has_tag).then_some(KernelFrame { dst, src, ether_type, payload })
}

/// Writes the frame into `buf`, with the tag of the interface.
fn written<B: PacketBuf>(interface: &Interface, frame: &KernelFrame<'_>, mut buf: B) -> Option<B> {
    let KernelFrame { dst, src, ether_type, payload } = *frame;
    let len = link_len(interface.vlan);
    let octets = resize(&mut buf, len + payload.len())?;
    emit_link(octets, dst, src, interface.vlan, ether_type).ok()?;
    octets.get_mut(len..)?.copy_from_slice(payload);
    Some(buf)
}
