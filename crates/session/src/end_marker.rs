//! End Markers: which FARs leave a tunnel, and the QoS flow of each End Marker.
//!
//! Each FAR that requests an End Marker gets one, even if several leave the same tunnel, because
//! control planes count them. Spec: TS 29.244 §5.3.2, §8.2.40 (SNDEM); TS 23.501 §5.8.2.9.

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel};
use adit_types::{FarId, InterfaceSet, Qfi};

use crate::change::{FarUpdate, SessionChange};
use crate::provisioning::RuleCatalog;
use crate::record::{Far, Pdr, Records};

/// An End Marker to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMarker {
    /// The tunnel whose traffic ends.
    pub tunnel: GtpuTunnel,
    /// The interfaces that lead to the far end of the tunnel.
    pub interfaces: InterfaceSet,
    /// The QoS flow of the traffic; `None` if there are several.
    pub qfi: Option<Qfi>,
}

/// Returns the End Markers that a change requests from FARs that forwarded into a tunnel before.
pub(crate) fn requested(
    known: RuleCatalog<'_>,
    before: &Records,
    change: &SessionChange,
) -> Vec<(FarId, EndMarker)> {
    let asks = |update: &&FarUpdate| update.send_end_marker;
    let marker = |update: &FarUpdate| {
        let far = before.fars.iter().find(|far| far.id == update.id)?;
        let tunnel = far.tunnel().filter(|_| far.action.contains(ApplyAction::FORW))?;
        let parts = far.forwarding.as_ref()?;
        let to_ran = parts.destination == DestinationInterface::Access;
        let qfi = if to_ran { qfi(known, before, far.id) } else { None };
        let interfaces = known.configured.forwarding_interfaces(parts);
        Some((far.id, EndMarker { tunnel, interfaces, qfi }))
    };
    change.update_fars.iter().filter(asks).filter_map(marker).collect()
}

/// Returns those End Markers of `asked` whose FARs no longer use the tunnel after the change. A FAR
/// that now buffers may still return to the tunnel, so it does not count.
pub(crate) fn of_left_tunnels(asked: Vec<(FarId, EndMarker)>, after: &[Far]) -> Vec<EndMarker> {
    let has_left = |(id, marker): &(FarId, EndMarker)| {
        after.iter().find(|far| far.id == *id).is_none_or(|far| {
            far.tunnel() != Some(marker.tunnel) && !far.action.contains(ApplyAction::BUFF)
        })
    };
    asked.into_iter().filter(has_left).map(|(_, marker)| marker).collect()
}

/// Returns the QoS flow with which all packets of a FAR are marked; `None` if there are several.
fn qfi(known: RuleCatalog<'_>, records: &Records, far: FarId) -> Option<Qfi> {
    let pdrs = records.pdrs.iter().filter(|pdr| pdr.far == Some(far));
    let mut qfis: Vec<Qfi> = pdrs.flat_map(|pdr| marked_qfis(known, records, pdr)).collect();
    qfis.dedup();
    match qfis[..] {
        [qfi] => Some(qfi),
        _ => None,
    }
}

/// Returns the QoS flows with which a PDR's QERs or predefined rules mark packets.
fn marked_qfis(known: RuleCatalog<'_>, records: &Records, pdr: &Pdr) -> Vec<Qfi> {
    let own = records.marking_qer(pdr).and_then(|qer| qer.qfi);
    match pdr.predefined.is_empty() {
        true => own.into_iter().collect(),
        false => known.predefined(&pdr.predefined).filter_map(|rule| rule.qfi.or(own)).collect(),
    }
}
