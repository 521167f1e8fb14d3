//! Reports link-layer addresses that stations announce.

use core::net::IpAddr;

use adit_rules::{AddressConflict, WorkerEvent};
use adit_types::{InterfaceId, MacAddr};

use crate::books::Books;
use crate::context::StepContext;
use crate::interfaces::VlanLink;
use crate::limits::{MessageLimits, RefillRate};

/// An announced link-layer address of a neighbor; see [`WorkerEvent::NeighborLearned`].
#[derive(Debug, Clone, Copy)]
pub(super) struct NeighborSighting {
    pub interface: InterfaceId,
    pub addr: IpAddr,
    pub mac: MacAddr,
    pub solicited: bool,
    pub conflict: AddressConflict,
}

/// An address that a station claims to have.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimedAddress {
    pub addr: IpAddr,
    pub mac: MacAddr,
}

/// Reports the link-layer address of a neighbor if it is unknown or being verified; and, at a
/// limited rate per neighbor, if it differs from the known one. Other announcements change nothing.
pub(super) fn report(
    ctx: &StepContext<'_>,
    limits: &mut MessageLimits,
    books: &mut Books,
    sighting: NeighborSighting,
) {
    let NeighborSighting { interface, addr, mac, solicited, conflict } = sighting;
    let Some(known) = ctx.view.neighbor(interface, addr) else { return };
    let event = WorkerEvent::NeighborLearned { interface, addr, mac, solicited, conflict };
    let is_news = match known.mac {
        None => true,
        Some(old) if old == mac => solicited && known.is_doubted,
        Some(_) if !limits.neighbors.take(ctx.now, Some(known.index.0)) => {
            return books.tally.drop_event();
        }
        Some(_) => true,
    };
    if is_news {
        books.report_unsolicited(event);
    }
}

/// Reports, at a limited rate, that a station with the link-layer address `mac` uses `addr`, if
/// that is one of ours. A Neighbor Advertisement has the same effect as ARP. Spec: RFC 5227 §2.4.
pub(super) fn report_conflict(
    ctx: &StepContext<'_>,
    limits: &mut MessageLimits,
    books: &mut Books,
    link: &VlanLink,
    station: &ClaimedAddress,
) {
    let ClaimedAddress { addr, mac } = *station;
    let Some(own) = link.owner(addr).filter(|own| own.mac != mac) else { return };
    if !limits.conflicts.take(ctx.now, RefillRate::STRANGERS) {
        return books.tally.drop_event();
    }
    let event = WorkerEvent::OwnAddressUsed { interface: own.id, addr, mac };
    books.report_unsolicited(event);
}
