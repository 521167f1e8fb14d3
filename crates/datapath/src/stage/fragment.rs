//! Packets of IPv4 that are longer than the MTU and may be fragmented.
//!
//! The user's packet is divided, before outer headers are put in front: each fragment leaves in a
//! tunnel packet of its own, so that no node on the way has to put tunnel packets together. The
//! packet becomes its first fragment; the others are packets of their own from here on, counted by
//! `fragments_added_pkts`, and have outcomes of their own.
//! Spec: RFC 791 §3.2; RFC 1812 §4.2.2.7.

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::DropReason;
use adit_types::SessionIndex;
use adit_types::limits::BURST_MAX;
use adit_wire::{IpPacket, Ipv4Split};

use crate::columns::{Matched, PacketArrival};
use crate::stage::egress::StepContext;
use crate::stage::s6_apply::{ForwardPlan, finish, rewrite, send_or_queue};
use crate::worker_state::{Origin, WorkerState};

/// Fragments that one packet is divided into at most.
const FRAGMENTS_MAX: usize = BURST_MAX;

/// Sends the packet in `buf` on its course in fragments of at most `mtu_bytes` octets. A copy of a
/// packet is counted as copies.
///
/// Cost:   a copy of every fragment but the first into a buffer of the worker's pool.
/// Errors: none; `FragmentNoBuffer` without buffers, `PacketTooBig` for what cannot be divided.
#[cold]
pub(super) fn send_fragments<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    mut buf: Io::Buf,
    (session, arrival, ip): (SessionIndex, &PacketArrival, &IpPacket),
    (matched, course, mtu_bytes): (&Matched<'_>, &ForwardPlan<'_>, u16),
    origin: Origin,
) {
    let mut fragments = Burst::new();
    let divided = rewrite(&mut buf, arrival, ip, course)
        .and_then(|()| divide(io, &mut buf, mtu_bytes, &mut fragments));
    if let Err(reason) = divided {
        refuse(out, reason, origin);
        return;
    }
    if origin != Origin::Copy {
        out.tally.add_fragments(fragments.len());
    }
    for mut fragment in core::iter::once(buf).chain(fragments) {
        let bytes = u16::try_from(fragment.data().len()).unwrap_or(u16::MAX);
        if let Err(reason) = finish(&mut fragment, matched, course) {
            refuse(out, reason, origin);
            continue;
        }
        match origin {
            Origin::Copy => out.send(env, io, fragment, &course.egress, origin),
            _ => send_or_queue(env, io, out, (fragment, bytes), (session, matched, &course.egress)),
        }
    }
}

#[cold]
fn refuse<B: PacketBuf>(out: &mut WorkerState<B>, reason: DropReason, origin: Origin) {
    match origin {
        Origin::Copy => out.tally.lose_duplicate(),
        Origin::Received(_) | Origin::Guaranteed(_) | Origin::Own => out.tally.drop(reason),
    }
}

/// Divides the packet in `buf`, which becomes its first fragment; the others go into `fragments`.
///
/// # Errors
/// `FragmentNoBuffer`, `PacketTooBig`; the packet and `fragments` are of no use then.
fn divide<Io: PacketIo>(
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
        fragments.push(fragment);
    }
    if !buf.truncate(split.len(0)) {
        return Err(DropReason::PacketTooBig);
    }
    split.emit_header(0, buf.data_mut()).ok_or(DropReason::PacketTooBig)
}
