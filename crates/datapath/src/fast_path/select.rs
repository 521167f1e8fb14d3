//! SDF filters select the fast rule of a packet.

use adit_pktio::{Burst, PacketBuf};
use adit_rules::{FlowKey, UsualFlow};
use adit_tables::{FastRuleSelector, SelectedFastRule, TablesView};
use adit_types::Direction;
use adit_wire::{UsualTuple, usual_tuple};

use super::FastPackets;
use super::family::{FamilyMix, FamilyOrder};
use super::packet::FastPacket;

/// Selects the fast rules of packets whose sessions have several, by SDF filters.
///
/// Shape: writes `selected` of these packets.
/// Cost:  two passes: the matcher, whose lines were prefetched, selects the line of a rule and prefetches
///        it; then that line is read, and its usage counters are prefetched.
#[inline(never)]
pub(super) fn select_rules<'v, B: PacketBuf, F: FamilyMix>(
    direction: Direction,
    view: &TablesView<'v>,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) {
    let select = |(buf, packet): (&B, &mut FastPacket<'v>)| {
        let cell = packet.cell.filter(|_| packet.is_usual);
        let selector = cell.and_then(|cell| view.fast_rule_selector(cell));
        packet.selected = selector.and_then(|selector| match F::is_v6(packet) {
            false => find::<_, false>(direction, &selector, packet, buf),
            true => find::<_, true>(direction, &selector, packet, buf),
        });
        packet.selected.inspect(|selected| selected.prefetch());
    };
    if F::ARE_MIXED {
        for family in FamilyOrder::of(packets).families() {
            family.iter().map(|at| usize::from(*at)).for_each(|at| {
                rx.get(at).zip(packets.get_mut(at)).map(select);
            });
        }
    } else {
        rx.iter().zip(packets.iter_mut()).for_each(select);
    }
    for selected in packets.iter().filter_map(|packet| packet.selected) {
        view.prefetch_selected_usage(selected);
    }
}

/// Finds the fast rule of one packet. Fragments take the stages, which know the ports of the first
/// fragment.
// PERF (adit bench datapath --sdf): a call would pass the key through memory.
#[inline(always)]
fn find<'v, B: PacketBuf, const IS_V6: bool>(
    direction: Direction,
    selector: &FastRuleSelector<'v>,
    packet: &FastPacket<'v>,
    buf: &B,
) -> Option<SelectedFastRule<'v>> {
    let (start, len) = (usize::from(packet.offset), usize::from(packet.len));
    let ip = buf.data().get(start..)?.get(..len)?;
    let UsualTuple { src, dst, src_port, dst_port, protocol, tos } = usual_tuple(ip, IS_V6)?;
    let flow = UsualFlow { src, dst, src_port, dst_port, protocol, tos };
    selector.find(&FlowKey::of_usual(direction, IS_V6, &flow))
}
