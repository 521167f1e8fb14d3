//! Selects the fast rule of a packet by SDF filters.

use adit_pktio::{Burst, PacketBuf};
use adit_rules::compile::FilterKey;
use adit_rules::{FlowKey, UsualFlow};
use adit_tables::{CellFlags, FastRuleCellRef, FastRuleFilter, TablesView};
use adit_types::Direction;
use adit_wire::{UsualFiveTuple, UsualTuple, usual_five_tuple, usual_tuple};

use super::direction::FastDirection;
use super::family::{FamilyMix, FamilyOrder};
use super::packet::FastPacket;
use super::{FastPackets, prefetch_rule, set_flag};

/// Selects the fast rules of packets whose sessions have several, by SDF filters, and prefetches
/// the cache lines that all packets of the burst need next. Returns the flags of the cells that
/// turn out to contain a fast rule.
///
/// Shape: writes `selected` of these packets.
/// Cost:  one pass if a single filter decides for each packet: it prefetches the line of the rule.
///        Otherwise two passes more: first the matcher, whose lines the first pass prefetched,
///        selects a rule and prefetches its line; then the usage counters of the rule are
///        prefetched.
#[inline(never)]
pub(super) fn select_rules<'v, B: PacketBuf, D: FastDirection, F: FamilyMix>(
    view: &TablesView<'v>,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> CellFlags {
    // PERF (adit-bench datapath --sdf): filters and selectors extend into the second lines of
    // cells.
    packets.iter().filter_map(|packet| packet.cell).for_each(FastRuleCellRef::prefetch_second_line);
    // PERF (adit-bench datapath --sdf): a loop that handles only single filters has enough
    // registers.
    let mut has_urrs = false;
    let order = visit_order::<F>(packets);
    let done = visit_from::<_, F>(0, &order, rx, packets, |buf, packet, is_v6| {
        let Some(cell) = packet.cell else { return false };
        // The key is built before the filter is read, so that the filter's words stay in registers.
        let Some(key) = filter_key::<_, D>(packet, buf, is_v6) else {
            return view.fast_rule_filter(cell).is_some();
        };
        let Some(filter) = view.fast_rule_filter(cell) else { return false };
        if select_by_filter::<D>(view, &filter, packet, &key) {
            set_flag(&mut has_urrs);
        }
        true
    });
    if done < packets.len() {
        return select_others::<_, D, F>(done, view, rx, packets);
    }
    if has_urrs {
        prefetch_selected_usage(view, packets);
    }
    CellFlags::default()
}

/// Continues [`select_rules`] after `done` packets, for sessions of every kind.
#[inline(never)]
fn select_others<'v, B: PacketBuf, D: FastDirection, F: FamilyMix>(
    done: usize,
    view: &TablesView<'v>,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> CellFlags {
    let mut has_selectors = false;
    let mut rules = CellFlags::default();
    let order = visit_order::<F>(packets);
    visit_from::<_, F>(done, &order, rx, packets, |buf, packet, is_v6| {
        let Some(cell) = packet.cell else { return true };
        if view.prefetch_selector(cell, is_v6) {
            has_selectors = true;
        } else if let Some(filter) = view.any_fast_rule_filter(cell) {
            rules |= filter.flags();
            if let Some(key) = filter_key::<_, D>(packet, buf, is_v6) {
                select_by_filter::<D>(view, &filter, packet, &key);
            }
        } else {
            rules |= prefetch_rule::<D>(view, packet);
        }
        true
    });
    if has_selectors {
        visit_from::<_, F>(done, &order, rx, packets, |buf, packet, is_v6| {
            let selector = packet.cell.and_then(|cell| view.fast_rule_selector(cell));
            let Some(selector) = selector else { return true };
            rules |= selector.flags();
            let key = flow_key(packet, buf, D::DIRECTION, is_v6);
            packet.selected = key.and_then(|key| selector.find(&key));
            packet.selected.inspect(|selected| selected.prefetch());
            true
        });
    }
    prefetch_selected_usage(view, packets);
    rules
}

/// Prefetches the usage counters of the fast rules that SDF filters selected. Reads these rules.
#[inline(never)]
fn prefetch_selected_usage<'v>(view: &TablesView<'v>, packets: &FastPackets<'v>) {
    for selected in packets.iter().filter_map(|packet| packet.selected) {
        view.prefetch_selected_usage(selected);
    }
}

/// Returns the order of the packets of a mixed burst; an empty order for other bursts.
#[inline(always)]
// PERF (adit-bench datapath --sdf): compiled away unless IP versions are mixed.
fn visit_order<F: FamilyMix>(packets: &FastPackets<'_>) -> FamilyOrder {
    if F::ARE_MIXED { FamilyOrder::of(packets) } else { FamilyOrder::new() }
}

/// Calls `visit` with each packet and whether it is IPv6, until `visit` returns false; in `order`
/// if IP versions are mixed. Skips the first `done` packets. Returns how many packets were skipped
/// or visited with the result true.
#[inline(always)]
// PERF (adit-bench datapath --sdf): makes the IP version a constant in `visit`.
fn visit_from<'v, B: PacketBuf, F: FamilyMix>(
    done: usize,
    order: &FamilyOrder,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
    mut visit: impl FnMut(&B, &mut FastPacket<'v>, bool) -> bool,
) -> usize {
    let mut count = 0;
    if F::ARE_MIXED {
        let [v4, v6] = order.families();
        for (family, is_v6) in [(v4, false), (v6, true)] {
            for at in family.iter().map(|at| usize::from(*at)) {
                if count >= done
                    && let (Some(buf), Some(packet)) = (rx.get(at), packets.get_mut(at))
                    && !visit(buf, packet, is_v6)
                {
                    return count;
                }
                count += 1;
            }
        }
        return count;
    }
    let bufs = rx.get(done..).unwrap_or_default().iter();
    let rest = packets.get_mut(done..).unwrap_or_default().iter_mut();
    let stopped = bufs.zip(rest).position(|(buf, packet)| {
        let is_v6 = F::is_v6(packet);
        !visit(buf, packet, is_v6)
    });
    stopped.map_or(packets.len(), |count| done + count)
}

/// Selects the fast rule of the packet with `key` by a single filter, and prefetches the rule and
/// its buckets. Returns true if its usage counters remain to be prefetched.
#[inline(always)]
// PERF (adit-bench datapath --sdf): a call would pass the filter through memory.
fn select_by_filter<'v, D: FastDirection>(
    view: &TablesView<'v>,
    filter: &FastRuleFilter<'v>,
    packet: &mut FastPacket<'v>,
    key: &FilterKey,
) -> bool {
    packet.selected = view.select_by_filter(filter, key);
    let filter = filter.packed();
    if filter.is_plain() {
        return false;
    }
    if filter.has_meters() {
        view.prefetch_meters(packet.session, D::DIRECTION);
    }
    filter.has_urrs()
}

/// Returns the user's packet in its frame; empty if the packet is not usual.
#[inline(always)]
// PERF (adit-bench datapath --sdf): inlined, runs for every packet.
fn user_packet<'b, B: PacketBuf>(packet: &FastPacket<'_>, buf: &'b B) -> Option<&'b [u8]> {
    buf.data().get(usize::from(packet.offset)..)?.get(..usize::from(packet.len))
}

/// Returns the fields of a packet that a single filter compares. `None` for packets that take the
/// stages: unusual ones, fragments (only the stages know their ports), and the shortest ones.
#[inline(always)]
// PERF (adit-bench datapath --sdf): a call would pass the key through memory.
fn filter_key<B: PacketBuf, D: FastDirection>(
    packet: &FastPacket<'_>,
    buf: &B,
    is_v6: bool,
) -> Option<FilterKey> {
    let UsualFiveTuple { src, dst, ports, protocol } =
        usual_five_tuple(buf.data(), packet.offset, packet.len, is_v6)?;
    let remote = if D::DIRECTION == Direction::Uplink { dst } else { src };
    Some(FilterKey { is_v6, remote, protocol, ports })
}

/// Returns the fields of a packet that a matcher compares. `None` for fragments, which take the
/// stages: only these know the ports of the first fragment.
#[inline(always)]
// PERF (adit-bench datapath --sdf): a call would pass the key through memory.
pub(super) fn flow_key<B: PacketBuf>(
    packet: &FastPacket<'_>,
    buf: &B,
    direction: Direction,
    is_v6: bool,
) -> Option<FlowKey> {
    let UsualTuple { src, dst, src_port, dst_port, protocol, tos } =
        usual_tuple(user_packet(packet, buf)?, is_v6)?;
    let flow = UsualFlow { src, dst, src_port, dst_port, protocol, tos };
    Some(FlowKey::of_usual(direction, is_v6, &flow))
}
