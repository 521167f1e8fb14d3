//! Copies of packets that FARs ask for.

use adit_pktio::{PacketBuf, PacketIo};
use adit_wire::IpPacket;

use crate::columns::{Arrival, Matched};
use crate::outbound::{Origin, Outbound};
use crate::stage::egress::Env;
use crate::stage::s6_apply::apply;

/// Sends a copy of the packet in `buf` to every destination that its FAR duplicates to.
///
/// A copy is forwarded as the packet would be, with parameters of its own, whatever becomes of the
/// packet. One that cannot be made or sent is counted as lost, and the packet goes its way.
///
/// Cost: copies the packet once per destination into a buffer of the worker's pool.
/// Spec: TS 29.244 §5.2.1, §7.5.2.3 (Duplicating Parameters), §8.2.26 (DUPL).
#[cold]
pub(super) fn duplicate<Io: PacketIo>(
    env: &Env<'_>,
    io: &mut Io,
    out: &mut Outbound<Io::Buf>,
    buf: &Io::Buf,
    (arrival, ip): (&mut Arrival, &IpPacket),
    matched: &Matched<'_>,
) {
    if core::mem::replace(&mut arrival.is_copied, true) {
        return;
    }
    let fars = &matched.rules.fars;
    for far in matched.far.duplicates.iter().filter_map(|at| fars.get(usize::from(*at))) {
        let matched = Matched { far, ..*matched };
        let sent = copy(io, buf).and_then(|mut copy| {
            let way = apply(env, &mut copy, arrival, ip, &matched).ok()?;
            Some((copy, way))
        });
        match sent {
            Some((copy, way)) => out.send(env, io, copy, &way, Origin::Copy),
            None => out.tally.lose_duplicate(),
        }
    }
}

/// The packet in a buffer of its own; `None` when the pool is exhausted or its buffers are short.
fn copy<Io: PacketIo>(io: &mut Io, buf: &Io::Buf) -> Option<Io::Buf> {
    let mut copy = io.alloc()?;
    copy.append(buf.data().len())?.copy_from_slice(buf.data());
    Some(copy)
}
