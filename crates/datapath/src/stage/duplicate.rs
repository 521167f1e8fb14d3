//! Sends the copies of packets that FARs request.

use adit_pktio::PacketBuf;

use crate::columns::{Matched, MatchedPacket, UserPacket};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::origin::Origin;
use crate::stage::forward_plan::{finish, plan_forwarding, rewrite};
use crate::stage::fragment::send_fragments;
use crate::transmitter::Transmitter;

/// Sends a copy of the packet in `buf` to every destination that its FAR duplicates to.
///
/// A copy is forwarded as the packet would be, but by the parameters of the duplication, and
/// whether or not the packet itself leaves. A copy that cannot be made or sent is counted as lost;
/// that does not affect the packet.
///
/// Cost: copies the packet once per destination into a buffer of the worker's pool.
/// Spec: TS 29.244 §5.2.1, §7.5.2.3 (Duplicating Parameters), §8.2.26 (DUPL).
#[cold]
pub(super) fn duplicate<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: &Io::Buf,
    packet: UserPacket<'_>,
    matched: &Matched<'_>,
) {
    let UserPacket { arrival, ip, .. } = packet;
    let fars = &matched.rules.fars;
    for far in matched.far.duplicates.iter().filter_map(|at| fars.get(usize::from(*at))) {
        let matched = Matched { far, ..*matched };
        let made =
            plan_forwarding(ctx, buf.data(), arrival, ip, &matched).ok().zip(copy(tx.io, buf));
        let Some((course, mut copy)) = made else {
            tx.books.tally.lose_duplicate();
            continue;
        };
        if course.divided_to.is_some() {
            let packet = MatchedPacket { packet, matched: &matched };
            send_fragments(ctx, tx, copy, packet, &course, Origin::Copy);
            continue;
        }
        let written = rewrite(&mut copy, arrival, ip, &course)
            .and_then(|()| finish(&mut copy, &matched, &course));
        match written {
            Ok(()) => tx.send(ctx, copy, &course.egress, Origin::Copy),
            Err(_) => tx.books.tally.lose_duplicate(),
        }
    }
}

/// Copies the packet to another buffer; `None` if the pool is exhausted or the buffer too short.
fn copy<Io: Departures>(io: &mut Io, buf: &Io::Buf) -> Option<Io::Buf> {
    let mut copy = io.alloc()?;
    copy.append(buf.data().len())?.copy_from_slice(buf.data());
    Some(copy)
}
