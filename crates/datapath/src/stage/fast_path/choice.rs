//! Which express a packet takes where SDF filters tell.

use adit_pktio::{Burst, PacketBuf};
use adit_rules::{FlowKey, UsualFlow};
use adit_tables::{FastRuleSelector, SelectedFastRule, TablesView};
use adit_types::Direction;
use adit_wire::protocol;

use super::{FamilyMix, FamilyOrder, FastPacket};
use crate::columns::BurstColumn;

/// Finds the expresses of packets whose sessions have several, by the SDF filters.
///
/// Shape: writes `chosen` of these packets' rows.
/// Cost:  two passes: the matcher, whose lines were asked for, then the express that it tells.
#[inline(never)]
pub(super) fn choose<'v, B: PacketBuf, F: FamilyMix>(
    direction: Direction,
    view: &TablesView<'v>,
    rx: &Burst<B>,
    rows: &mut BurstColumn<FastPacket<'v>>,
) {
    let decide = |(buf, row): (&B, &mut FastPacket<'v>)| {
        let choice =
            row.slot.and_then(|home| view.fast_rule_selector(home)).filter(|_| row.is_usual);
        row.chosen_rule = choice.and_then(|choice| match F::is_v6(row) {
            false => find::<_, false>(direction, &choice, row, buf),
            true => find::<_, true>(direction, &choice, row, buf),
        });
        row.chosen_rule.inspect(|chosen| chosen.prefetch());
    };
    if F::ARE_MIXED {
        for part in FamilyOrder::of_rows(rows).parts() {
            part.iter().map(|place| usize::from(*place)).for_each(|place| {
                rx.get(place).zip(rows.get_mut(place)).map(decide);
            });
        }
    } else {
        rx.iter().zip(rows.iter_mut()).for_each(decide);
    }
    for found in rows.iter().filter_map(|row| row.chosen_rule) {
        view.prefetch_selected_usage(found);
    }
}

// PERF: a call would pass the key through memory.
#[inline(always)]
fn find<'v, B: PacketBuf, const IS_V6: bool>(
    direction: Direction,
    choice: &FastRuleSelector<'v>,
    row: &FastPacket<'v>,
    buf: &B,
) -> Option<SelectedFastRule<'v>> {
    let (start, len) = (usize::from(row.offset), usize::from(row.len));
    let packet = buf.data().get(start..)?.get(..len)?;
    let flow = usual_flow(packet, IS_V6)?;
    choice.find(&FlowKey::of_usual(direction, IS_V6, &flow))
}

/// What SDF filters see of a usual packet: that it has a header of its family was recognized.
#[inline(always)]
// PERF: a call would pass the fields through memory.
fn usual_flow(packet: &[u8], is_v6: bool) -> Option<UsualFlow> {
    let word = |octets: &[u8; 4]| u32::from_be_bytes(*octets);
    let (src, dst, protocol, tos, upper) = match is_v6 {
        false => {
            let (header, upper) = packet.split_first_chunk::<20>()?;
            let (words, _) = header.as_chunks::<4>();
            // The stages know what the first fragment of a packet said of ports.
            if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
                return None;
            }
            let address = |at: usize| [word(&words[at]), 0, 0, 0];
            (address(3), address(4), header[9], header[1], upper)
        }
        true => {
            let (header, upper) = packet.split_first_chunk::<40>()?;
            let (words, _) = header.as_chunks::<4>();
            let address = |at: usize| core::array::from_fn(|of| word(&words[at + of]));
            (address(2), address(6), header[6], header[0] << 4 | header[1] >> 4, upper)
        }
    };
    let (src_port, dst_port) = match upper {
        &[a, b, c, d, ..] if protocol::has_ports(protocol) => {
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        }
        _ => (0, 0),
    };
    Some(UsualFlow { src, dst, src_port, dst_port, protocol, tos })
}
