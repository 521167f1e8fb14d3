//! Third stage: which rules treat the packet?

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, FlowSelector, PdrEntry, SessionRules};
use adit_tables::View;
use adit_types::{Direction, SessionIndex};
use adit_wire::{IpPacket, five_tuple};

use crate::columns::{Arrival, Lane, Matched, Side, Verdict};

/// Finds PDR and FAR of every packet in the lane.
///
/// Shape:   reads `sessions`, `arrivals`, `ips` and, for SDF filters, packet bytes; writes
///          `verdicts[0..n]`. n ≤ BURST_MAX.
/// Cost:    PDRs by ascending precedence until one matches; ports are read only for PDRs with SDF
///          filters. No allocation, no clock.
/// Spec:    TS 29.244 §5.2.1 (lookup of the session, then of its PDR), §5.2.1A.
/// Errors:  none; misses are verdicts.
pub(crate) fn s3_classify<'v, B: PacketBuf, S: Side>(view: &View<'v>, lane: &mut Lane<'v, B, S>) {
    let Lane { bufs, arrivals, ips, sessions, verdicts, .. } = lane;
    for (((buf, arrival), ip), session) in bufs.iter().zip(&*arrivals).zip(&*ips).zip(&*sessions) {
        verdicts.push(match classify::<S>(view, *session, buf.data(), arrival, ip) {
            Ok(matched) => Verdict::Pass(matched),
            Err(reason) => Verdict::Drop(reason),
        });
    }
}

#[inline]
fn classify<'v, S: Side>(
    view: &View<'v>,
    session: SessionIndex,
    frame: &[u8],
    arrival: &Arrival,
    ip: &IpPacket,
) -> Result<Matched<'v>, DropReason> {
    let rules = view.rules(session).ok_or(S::UNKNOWN)?;
    if S::DIRECTION == Direction::Uplink && !rules.allows_source(ip.addrs.src()) {
        return Err(DropReason::UeSourceSpoofed);
    }
    let packet = frame.get(usize::from(arrival.ip_offset)..).unwrap_or_default();
    let matched = find_pdr::<S>(rules, packet, arrival, ip)?;
    if arrival.outer.fits(matched.pdr.outer_header_removal) {
        Ok(matched)
    } else {
        Err(DropReason::OuterHeaderMismatch)
    }
}

/// The first PDR that `packet`, of which `ip` is the header, matches, with its FAR.
///
/// # Errors
/// `PdrUnmatched` without one.
#[inline]
pub(crate) fn find_pdr<'v, S: Side>(
    rules: &'v SessionRules,
    packet: &[u8],
    arrival: &Arrival,
    ip: &IpPacket,
) -> Result<Matched<'v>, DropReason> {
    let mut flow = None;
    let pdr = rules
        .pdrs(S::DIRECTION)
        .iter()
        .find(|pdr| {
            matches_headers::<S>(pdr, arrival, ip)
                && (pdr.sdf.is_empty() || {
                    let flow = flow.get_or_insert_with(|| selector(packet, ip));
                    pdr.sdf.iter().any(|filter| filter.matches(S::DIRECTION, flow))
                })
        })
        .ok_or(DropReason::PdrUnmatched)?;
    // A compiled PDR refers to a FAR of its own session.
    let far = rules.fars.get(usize::from(pdr.far)).ok_or(DropReason::PdrUnmatched)?;
    Ok(Matched { rules, pdr, far })
}

/// All conditions of a PDR except its SDF filters.
///
/// Spec: TS 29.244 §5.2.1A, §8.2.89: with QFIs, packets without one do not match.
#[inline]
fn matches_headers<S: Side>(pdr: &PdrEntry, arrival: &Arrival, ip: &IpPacket) -> bool {
    let ue = match S::DIRECTION {
        Direction::Uplink => ip.addrs.src(),
        Direction::Downlink => ip.addrs.dst(),
    };
    S::comes_from(pdr.source)
        && pdr.interfaces.intersects(arrival.interfaces)
        && pdr.teid.is_none_or(|teid| teid == arrival.teid)
        && (pdr.qfis.is_empty() || arrival.qfi.is_some_and(|qfi| pdr.qfis.contains(&qfi)))
        && pdr.ue.matches(ue)
}

/// What SDF filters see of `packet`.
#[inline]
fn selector(packet: &[u8], ip: &IpPacket) -> FlowSelector {
    let tuple = five_tuple(packet, ip);
    FlowSelector {
        src: tuple.addrs.src(),
        dst: tuple.addrs.dst(),
        protocol: tuple.protocol,
        src_port: tuple.src_port,
        dst_port: tuple.dst_port,
        tos: tuple.tos,
        spi: (tuple.spi != 0).then_some(tuple.spi),
        flow_label: tuple.flow_label,
    }
}
