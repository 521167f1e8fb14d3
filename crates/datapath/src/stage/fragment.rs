//! Fragments IPv4 packets that are longer than the MTU and may be fragmented.
//!
//! The user's packet is divided before outer headers are put in front: each fragment leaves in a
//! tunnel packet of its own, so that no node on the way has to reassemble tunnel packets. The
//! packet becomes its first fragment. The other fragments are from then on packets with outcomes of
//! their own, counted by `fragments_added_pkts`.
//! Spec: RFC 791 §3.2; RFC 1812 §4.2.2.7.

use adit_pktio::{Burst, PacketBuf};
use adit_rules::DropReason;
use adit_types::limits::BURST_MAX;
use adit_wire::Ipv4Split;

use crate::columns::{MatchedPacket, UserPacket};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::origin::Origin;
use crate::stage::forward_plan::{ForwardPlan, finish, rewrite};
use crate::stage::send::{WrittenFrame, send_or_queue};
use crate::tally::StepTally;
use crate::transmitter::Transmitter;

/// Maximum of fragments of one packet.
const FRAGMENTS_MAX: usize = BURST_MAX;

/// Sends the packet in `buf` as fragments of at most `course.divided_to` octets. Fragments of a
/// copy are counted as copies. Without buffers the packet is dropped as `FragmentNoBuffer`; if it
/// cannot be divided, as `PacketTooBig`.
///
/// Cost:   a copy of every fragment but the first into a buffer of the worker's pool.
#[cold]
pub(super) fn send_fragments<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    mut buf: Io::Buf,
    packet: MatchedPacket<'_, '_>,
    course: &ForwardPlan<'_>,
    origin: Origin,
) {
    let MatchedPacket { packet: UserPacket { session, arrival, ip }, matched } = packet;
    let mut fragments = Burst::new();
    let mtu_bytes = course.divided_to.unwrap_or(u16::MAX);
    let divided = rewrite(&mut buf, arrival, ip, course)
        .and_then(|()| divide(tx.io, &mut buf, mtu_bytes, &mut fragments));
    if let Err(reason) = divided {
        refuse(&mut tx.books.tally, reason, origin);
        return;
    }
    if origin != Origin::Copy {
        tx.books.tally.add_fragments(fragments.len());
    }
    for mut fragment in core::iter::once(buf).chain(fragments) {
        let bytes = u16::try_from(fragment.data().len()).unwrap_or(u16::MAX);
        if let Err(reason) = finish(&mut fragment, matched, course) {
            refuse(&mut tx.books.tally, reason, origin);
            continue;
        }
        match origin {
            Origin::Copy => tx.send(ctx, fragment, &course.egress, origin),
            _ => {
                let egress = &course.egress;
                let frame = WrittenFrame { buf: fragment, len: bytes, session, matched, egress };
                send_or_queue(ctx, tx, frame);
            }
        }
    }
}

#[cold]
fn refuse(tally: &mut StepTally, reason: DropReason, origin: Origin) {
    match origin {
        Origin::Copy => tally.lose_duplicate(),
        _ => tally.drop(reason),
    }
}

/// Divides the packet in `buf`, which becomes its first fragment; appends the others to
/// `fragments`.
///
/// # Errors
/// `FragmentNoBuffer` or `PacketTooBig`; the packet and `fragments` must not be used then.
fn divide<Io: Departures>(
    io: &mut Io,
    buf: &mut Io::Buf,
    mtu_bytes: u16,
    fragments: &mut Burst<Io::Buf>,
) -> Result<(), DropReason> {
    let split = Ipv4Split::new(buf.data(), mtu_bytes).ok_or(DropReason::PacketTooBig)?;
    if split.count() > FRAGMENTS_MAX {
        return Err(DropReason::PacketTooBig);
    }
    for n in 1..split.count() {
        let mut fragment = io.alloc().ok_or(DropReason::FragmentNoBuffer)?;
        let room = fragment.append(split.len(n)).ok_or(DropReason::FragmentNoBuffer)?;
        split.emit(buf.data(), n, room).ok_or(DropReason::PacketTooBig)?;
        fragment.set_mark(buf.mark());
        fragments.push(fragment);
    }
    if !buf.truncate(split.len(0)) {
        return Err(DropReason::PacketTooBig);
    }
    split.emit_header(0, buf.data_mut()).ok_or(DropReason::PacketTooBig)
}
