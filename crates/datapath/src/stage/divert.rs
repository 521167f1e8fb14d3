//! Diverts packets whose FAR does not forward them, but buffers or reports them.

use adit_pktio::PacketBuf;
use adit_rules::{ApplyAction, DataDelivery, DropReason, WorkerEvent};
use adit_types::Direction;

use crate::books::Books;
use crate::buffering::{Buffering, Notice};
use crate::columns::{Matched, MatchedPacket, UserPacket};
use crate::context::StepContext;
use crate::owned_packet::{MatchedIds, OwnedPacket};
use crate::stage::admit::admit_far;
use crate::stage::measure::UsageMeter;

/// Applies a FAR that does not forward, but buffers packets or reports those that it drops. If
/// there is no room the packet is dropped as `BufferFull`.
///
/// Spec:   TS 29.244 §5.2.3.1, §8.2.26.
#[cold]
pub(crate) fn divert<B: PacketBuf>(
    ctx: &StepContext<'_>,
    buffering: &mut Buffering<B>,
    books: &mut Books,
    buf: B,
    packet: MatchedPacket<'_, '_>,
) {
    let MatchedPacket { packet: UserPacket { session, arrival, ip }, matched } = packet;
    let notify = |buffering: &mut Buffering<B>, books: &mut Books, notice| {
        if matched.direction == Direction::Downlink {
            self::notify(ctx, buffering, books, packet, notice);
        }
    };
    let far = matched.far;
    if !far.buffers() {
        notify(buffering, books, ApplyAction::DDPN);
        books.tally.drop(admit_far(far).err().unwrap_or(DropReason::FarDrop));
        return;
    }
    notify(buffering, books, ApplyAction::NOCP);
    let ids = MatchedIds::new(matched);
    let held = OwnedPacket { buf, session, arrival: *arrival, ip: *ip, matched: ids };
    if buffering.push(held, matched.rules, far.buffer_pkts_max, ctx.now) {
        notify(buffering, books, ApplyAction::BDPN);
    } else {
        notify(buffering, books, ApplyAction::DDPN);
        UsageMeter::new(ctx, matched).count_dropped(matched, u64::from(ip.total_len), books);
        books.tally.drop(DropReason::BufferFull);
    }
}

/// Notifies the control thread of downlink data if the FAR's actions contain `notice`.
pub(crate) fn notify<B: PacketBuf>(
    ctx: &StepContext<'_>,
    buffering: &mut Buffering<B>,
    books: &mut Books,
    MatchedPacket { packet, matched }: MatchedPacket<'_, '_>,
    notice: ApplyAction,
) {
    if !matched.far.action.contains(notice) {
        return;
    }
    let delivery = match notice {
        ApplyAction::BDPN => Some(DataDelivery::Buffered),
        ApplyAction::DDPN => Some(DataDelivery::Discarded),
        _ => None,
    };
    let Matched { rules, pdr, .. } = matched;
    let (up_seid, generation, at) = (rules.up_seid, rules.generation, ctx.now);
    let notice = Notice { up_seid, generation, pdr: pdr.id, delivery, at };
    if buffering.claim_notice(packet.session, notice) {
        let event = WorkerEvent::DownlinkData {
            session: up_seid,
            pdr: pdr.id,
            dscp: Some(packet.ip.tos >> 2),
            qfi: rules.qers_of(pdr).find_map(|qer| qer.qfi),
            delivery,
        };
        books.report(event);
    }
}
