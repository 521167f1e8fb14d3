//! What stations say about link-layer addresses, as far as the control thread must know it.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{AddressConflict, WorkerEvent};
use adit_types::{InterfaceId, MacAddr};

use crate::context::StepContext;
use crate::slow::limiter::SlowLimits;
use crate::worker_state::WorkerState;

/// A station's word about its link-layer address: as of [`WorkerEvent::NeighborLearned`].
#[derive(Debug, Clone, Copy)]
pub(super) struct NeighborSighting {
    pub interface: InterfaceId,
    pub addr: IpAddr,
    pub mac: MacAddr,
    pub solicited: bool,
    pub conflict: AddressConflict,
}

/// Reports what a station says about a neighbor that somebody sends to: its address while that is
/// sought or doubted, and claims of another one at a bounded rate for each neighbor. The rest is no
/// news.
pub(super) fn report<B: PacketBuf>(
    ctx: &StepContext<'_>,
    limits: &mut SlowLimits,
    state: &mut WorkerState<B>,
    word: NeighborSighting,
) {
    let NeighborSighting { interface, addr, mac, solicited, conflict } = word;
    let Some(known) = ctx.view.neighbor(interface, addr) else { return };
    let event = WorkerEvent::NeighborLearned { interface, addr, mac, solicited, conflict };
    let is_news = match known.mac {
        None => true,
        Some(old) if old == mac => solicited && known.is_doubted,
        Some(_) if !limits.neighbors.take(ctx.now, Some(known.index.0)) => {
            return state.tally.drop_event();
        }
        Some(_) => true,
    };
    if is_news {
        state.events.push_unsolicited(&mut state.tally, event);
    }
}
