//! Stage 1: applies the change to a copy of the records.
//!
//! This stage looks at one rule at a time: whether its identifier exists, whether its filters can
//! be parsed. Stage 2 checks rules against each other and against other sessions.

use adit_rules::SourceInterface;
use adit_types::{PdrId, UrrId};

use crate::change::{FarUpdate, PdiSpec, PdrSpec, PdrUpdate, SessionChange};
use crate::record::{
    Far, Forwarding, Pdi, Pdr, Qer, QerUpdate, Records, ReplaceablePdiParts, Sdf, SdfError,
    SdfSpec, Urr, UrrUpdate,
};
use crate::refusal::{Refusal, RuleId};
use crate::rule::RulePart;
use crate::update::draft::{ChoiceTarget, Draft, RuleRecord, distinct, find};
use crate::update::endpoints;
use crate::usage::activation;

/// Applies removals, then creations, then updates.
pub(super) fn provide(records: Records, change: SessionChange) -> Result<Draft, Refusal> {
    let SessionChange { drop_buffered, is_restoration, replaces, .. } = change;
    let mut draft = Draft { records, drop_buffered, is_restoration, replaces, ..Draft::default() };
    remove_all(&mut draft.records.pdrs, &change.remove_pdrs)?;
    endpoints::remove(&mut draft.records, &change.remove_traffic_endpoints)?;
    remove_all(&mut draft.records.fars, &change.remove_fars)?;
    remove_all(&mut draft.records.qers, &change.remove_qers)?;
    remove_all(&mut draft.records.bars, &change.remove_bars)?;
    endpoints::create(&mut draft, change.create_traffic_endpoints)?;
    provide_urrs(
        &mut draft,
        UrrChanges {
            create: change.create_urrs,
            update: change.update_urrs,
            remove: change.remove_urrs,
            query: change.query_urrs,
            query_all: change.query_all_urrs,
        },
    )?;
    draft.usage.at = change.at;
    draft.usage.query_reference = change.query_reference;
    draft.records.s_nssai = change.s_nssai.or(draft.records.s_nssai);
    if let Some(timer) = change.inactivity_timer {
        draft.records.inactivity_timer = Some(timer).filter(|timer| timer.0 != 0);
    }
    for spec in change.create_pdrs {
        let pdr = create_pdr(&mut draft, spec)?;
        insert(&mut draft.records.pdrs, pdr)?;
    }
    for far in change.create_fars {
        insert(&mut draft.records.fars, far)?;
    }
    for &qer in &change.query_packet_rates {
        find(&mut draft.records.qers, qer)?;
    }
    for qer in change.create_qers {
        draft.created_qers.push(qer.id);
        insert(&mut draft.records.qers, qer)?;
    }
    for bar in change.create_bars {
        insert(&mut draft.records.bars, bar)?;
    }
    refuse_repetition(change.update_bars.iter().map(|update| RuleId::Bar(update.id)))?;
    for update in change.update_bars {
        find(&mut draft.records.bars, update.id)?.change(update);
    }
    refuse_repetition(change.update_pdrs.iter().map(|update| RuleId::Pdr(update.id)))?;
    refuse_repetition(change.update_fars.iter().map(|update| RuleId::Far(update.id)))?;
    refuse_repetition(change.update_qers.iter().map(|update| RuleId::Qer(update.id)))?;
    endpoints::update(&mut draft, change.update_traffic_endpoints)?;
    for update in change.update_pdrs {
        update_pdr(&mut draft, update)?;
    }
    for update in change.update_fars {
        update_far(find(&mut draft.records.fars, update.id)?, update)?;
    }
    for update in change.update_qers {
        update_qer(find(&mut draft.records.qers, update.id)?, update);
    }
    activation::update_active_pdrs(&mut draft.records, change.at);
    Ok(draft)
}

/// The changes of URRs.
struct UrrChanges {
    create: Vec<Urr>,
    update: Vec<UrrUpdate>,
    remove: Vec<UrrId>,
    query: Vec<UrrId>,
    query_all: bool,
}

fn provide_urrs(draft: &mut Draft, changes: UrrChanges) -> Result<(), Refusal> {
    let UrrChanges { create, update, remove, query, query_all } = changes;
    let Draft { records, usage, .. } = draft;
    remove_all(&mut records.urrs, &remove)?;
    for pdr in &mut records.pdrs {
        pdr.urrs.retain(|urr| !remove.contains(urr));
    }
    for &id in &query {
        find(&mut records.urrs, id)?;
    }
    usage.queried = match query_all {
        true => records.urrs.iter().map(|urr| urr.id).collect(),
        false => query,
    };
    usage.removed = remove;
    for urr in create {
        insert(&mut records.urrs, urr)?;
    }
    refuse_repetition(update.iter().map(|update| RuleId::Urr(update.id)))?;
    for update in &update {
        find(&mut records.urrs, update.id)?.change(update.clone());
    }
    usage.updated = update;
    Ok(())
}

fn insert<R: RuleRecord>(records: &mut Vec<R>, record: R) -> Result<(), Refusal> {
    if records.iter().any(|known| known.id() == record.id()) {
        return Err(Refusal::DuplicateRule { rule: R::rule(record.id()) });
    }
    records.push(record);
    Ok(())
}

fn remove_all<R: RuleRecord>(records: &mut Vec<R>, ids: &[R::Id]) -> Result<(), Refusal> {
    refuse_repetition(ids.iter().map(|&id| R::rule(id)))?;
    for &id in ids {
        let found = records.iter().position(|record| record.id() == id);
        records.remove(found.ok_or(Refusal::UnknownRule { rule: R::rule(id) })?);
    }
    Ok(())
}

fn refuse_repetition(rules: impl Iterator<Item = RuleId>) -> Result<(), Refusal> {
    let mut rules: Vec<RuleId> = rules.collect();
    rules.sort_unstable();
    match rules.windows(2).find(|pair| pair.first() == pair.last()) {
        Some(&[rule, ..]) => Err(Refusal::DuplicateRule { rule }),
        _ => Ok(()),
    }
}

fn create_pdr(draft: &mut Draft, spec: PdrSpec) -> Result<Pdr, Refusal> {
    Ok(Pdr {
        id: spec.id,
        precedence: spec.precedence,
        pdi: draft.provide_pdi(spec.id, spec.pdi)?,
        outer_header_removal: spec.outer_header_removal,
        container_deletion: spec.container_deletion,
        far: spec.far,
        qers: distinct(spec.qers),
        urrs: distinct(spec.urrs),
        times: spec.times,
        is_active: true,
        predefined: distinct(spec.predefined),
    })
}

fn update_pdr(draft: &mut Draft, update: PdrUpdate) -> Result<(), Refusal> {
    let pdi = match update.pdi {
        Some(spec) => {
            let target = ChoiceTarget::Pdr(update.id);
            let before = find(&mut draft.records.pdrs, update.id)?.pdi.clone();
            let had_tunnel =
                before.f_teid.is_some() || draft.teid_requests.iter().any(|w| w.target == target);
            let is_patch = is_patch(&before, had_tunnel, &spec);
            if !is_patch {
                draft.forget(target);
            } else if !names_no_ue(&spec) {
                draft.ue_requests.retain(|wanted| wanted.target != target);
            }
            let keeps_ue = names_no_ue(&spec);
            let new = draft.provide_pdi(update.id, spec)?;
            Some(if is_patch { completed_pdi(before, keeps_ue, new) } else { new })
        }
        None => None,
    };
    let pdr = find(&mut draft.records.pdrs, update.id)?;
    pdr.precedence.change(update.precedence);
    pdr.outer_header_removal.change(update.outer_header_removal);
    pdr.container_deletion.change(update.container_deletion);
    pdr.far.change(update.far);
    pdr.times.change(update.times);
    pdr.qers.change(update.qers.map(distinct));
    pdr.urrs.change(update.urrs.map(distinct));
    if let Some(pdi) = pdi {
        pdr.pdi = pdi;
    }
    for name in update.deactivate {
        let active = pdr.predefined.iter().position(|known| *known == name);
        pdr.predefined.remove(active.ok_or(Refusal::InactivePredefinedRule { pdr: pdr.id })?);
    }
    pdr.predefined.extend(update.activate);
    pdr.predefined = distinct(core::mem::take(&mut pdr.predefined));
    Ok(())
}

/// True if the PDI of an update names neither tunnel, UE nor traffic endpoint; or if it is from
/// Access and lacks the tunnel that the present PDI has. Such a PDI changes only parts.
///
/// INTEROP: a PDI in an update replaces the present one as a whole, but some control planes send
/// only the parts that change. Spec: TS 29.244 §7.5.4.2.
fn is_patch(before: &Pdi, had_tunnel: bool, spec: &PdiSpec) -> bool {
    let lost_tunnel = spec.source == SourceInterface::Access && had_tunnel;
    spec.source == before.source
        && spec.f_teid.is_none()
        && spec.traffic_endpoints.is_empty()
        && before.traffic_endpoints.is_empty()
        && (names_no_ue(spec) || lost_tunnel)
}

fn names_no_ue(spec: &PdiSpec) -> bool {
    let PdiSpec { ue, choose_ue, further_ues, framed_routes, .. } = spec;
    ue.is_none() && choose_ue.is_none() && further_ues.is_empty() && framed_routes.is_empty()
}

/// Completes the new PDI by parts of the present one that it leaves out, except filters.
fn completed_pdi(before: Pdi, keeps_ue: bool, new: Pdi) -> Pdi {
    let qfis = if new.qfis.is_empty() { before.qfis } else { new.qfis };
    let network_instance = new.network_instance.or(before.network_instance);
    let interface_type = new.interface_type;
    Pdi {
        f_teid: before.f_teid,
        ue: if keeps_ue { before.ue } else { new.ue },
        further_ues: if keeps_ue { before.further_ues } else { new.further_ues },
        framed_routes: if keeps_ue { before.framed_routes } else { new.framed_routes },
        own: ReplaceablePdiParts {
            network_instance: network_instance.clone(),
            qfis: qfis.clone(),
            interface_type,
        },
        network_instance,
        qfis,
        ..new
    }
}

impl Draft {
    fn provide_pdi(&mut self, pdr: PdrId, spec: PdiSpec) -> Result<Pdi, Refusal> {
        let has_own = spec.f_teid.is_some()
            || spec.ue.is_some()
            || spec.choose_ue.is_some()
            || !spec.further_ues.is_empty()
            || !spec.framed_routes.is_empty();
        if !spec.traffic_endpoints.is_empty() && has_own {
            return Err(Refusal::TrafficEndpointNotAlone { pdr });
        }
        self.request_ue(ChoiceTarget::Pdr(pdr), spec.choose_ue);
        let network_instance = spec.network_instance.filter(|name| !name.is_empty());
        let qfis = distinct(spec.qfis);
        Ok(Pdi {
            source: spec.source,
            interface_type: spec.interface_type,
            traffic_endpoints: distinct(spec.traffic_endpoints),
            further: Vec::new(),
            own: ReplaceablePdiParts {
                network_instance: network_instance.clone(),
                qfis: qfis.clone(),
                interface_type: spec.interface_type,
            },
            f_teid: spec
                .f_teid
                .and_then(|f_teid| self.provide_f_teid(ChoiceTarget::Pdr(pdr), f_teid)),
            network_instance,
            ue: spec.ue,
            further_ues: distinct(spec.further_ues),
            framed_routes: distinct(spec.framed_routes),
            qfis,
            application: spec.application,
            sdf: spec.sdf.into_iter().map(|sdf| provide_sdf(pdr, sdf)).collect::<Result<_, _>>()?,
        })
    }
}

fn provide_sdf(pdr: PdrId, spec: SdfSpec) -> Result<Sdf, Refusal> {
    spec.provide().map_err(|error| match error {
        SdfError::WithoutId => Refusal::SdfWithoutId { pdr },
        SdfError::FlowLabel(flow_label) => Refusal::SdfFlowLabelInvalid { pdr, flow_label },
        SdfError::Text(error) => Refusal::SdfInvalid { pdr, error },
    })
}

fn update_far(far: &mut Far, update: FarUpdate) -> Result<(), Refusal> {
    far.action.change(update.action);
    far.bar.change(update.bar);
    let missing = Refusal::FarWithoutDestination { far: update.id };
    for (at, parts) in update.duplicating.into_iter().enumerate() {
        if at == far.duplicating.len() {
            far.duplicating.push(Forwarding::new(parts.destination.set().ok_or(missing)?));
        }
        far.duplicating[at].change(parts);
    }
    let Some(parts) = update.forwarding else { return Ok(()) };
    match &mut far.forwarding {
        Some(known) => known.change(parts),
        none => {
            let mut new = Forwarding::new(parts.destination.set().ok_or(missing)?);
            new.change(parts);
            *none = Some(new);
        }
    }
    Ok(())
}

/// Updates a QER. If its packet rate is removed, the packet rate status is, too.
fn update_qer(qer: &mut Qer, update: QerUpdate) {
    if update.packet_rate.is_withdrawal() {
        qer.packet_status = None;
    }
    qer.change(update);
}
