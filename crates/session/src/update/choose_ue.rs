//! Chooses UE addresses from the operator's pools. Spec: TS 29.244 §5.21.3, §8.2.62.

use adit_rules::{SessionKey, UeAddresses};
use adit_types::{PdrId, SessionIndex};

use super::draft::{ChoiceTarget, UeAddressRequest};
use crate::alloc::{UePlan, ue_ip};
use crate::keys::{self, SessionDomains};
use crate::provisioning::DomainSet;
use crate::record::{Records, UeMatch};
use crate::refusal::Refusal;
use crate::store::SessionStore;

/// The UE addresses of one session: those before the change, and those planned so far.
struct UeAddressChoice<'a> {
    store: &'a SessionStore,
    session: SessionIndex,
    /// Claims of the session before the change.
    before: Vec<SessionKey>,
    /// Claims that the change states itself.
    stated: Vec<SessionKey>,
    /// Routing domains in which the session may claim an address.
    domains: DomainSet,
    plans: Vec<UePlan>,
}

/// Plans an address for each PDR and endpoint that requests one, and writes it into the records.
///
/// Within a session, requests to the same pools get the same address: the one that the session
/// already has from them, or that was planned for it before. Returns the new addresses.
pub(super) fn choose(
    store: &SessionStore,
    session: SessionIndex,
    before: &Records,
    records: &mut Records,
    wanted: &[UeAddressRequest],
) -> Result<Vec<UePlan>, Refusal> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let own = &store.provisioning;
    let before = keys::claims(own, before);
    let stated = keys::claims(own, records);
    // The chosen addresses do not affect the domains to which a rule belongs.
    let scope = SessionDomains::new(own, records);
    let domains = scope.of_all_claims();
    let mut choice = UeAddressChoice { store, session, before, stated, domains, plans: Vec::new() };
    for wanted in wanted {
        let of_target = domains_of(&scope, records, wanted.target);
        let network_instance = network_instance(records, wanted.target).map(Box::<str>::from);
        let mut chosen = Vec::new();
        for is_v4 in [true, false] {
            let is_wanted = if is_v4 { wanted.choose.v4 } else { wanted.choose.v6 };
            if is_wanted {
                let network_instance = network_instance.as_deref();
                chosen.push(choice.choose_one(is_v4, network_instance, of_target, wanted)?);
            }
        }
        write(records, wanted, chosen)?;
    }
    Ok(choice.plans)
}

impl UeAddressChoice<'_> {
    fn choose_one(
        &mut self,
        is_v4: bool,
        network_instance: Option<&str>,
        domains: DomainSet,
        wanted: &UeAddressRequest,
    ) -> Result<SessionKey, Refusal> {
        let pools = &self.store.ue_pools;
        let pdr = pdr_of(wanted.target);
        let candidates = pools.candidates(is_v4, network_instance, domains, &wanted.choose.pools);
        if candidates.is_empty() {
            return Err(match wanted.choose.pools.is_empty() || pools.is_empty() {
                true => Refusal::NoUePool { pdr },
                false => Refusal::UnknownUePool { pdr },
            });
        }
        let planned = self.plans.iter().map(|plan| (plan.pool(), plan.key));
        let is_had = |key: &SessionKey| pools.is_from(&candidates, *key, self.session);
        let had = self.before.iter().copied().find(is_had);
        let planned =
            planned.filter(|(pool, _)| candidates.contains(pool)).map(|(_, key)| key).next();
        if let Some(key) = had.or(planned) {
            return Ok(key);
        }
        let is_taken = |key| {
            let is_held = |key| self.store.ues.holder(key).is_some() || self.stated.contains(&key);
            keys::within(key, self.domains).any(is_held)
        };
        let plan = pools.plan(&candidates, is_taken).ok_or(Refusal::UePoolsExhausted { pdr })?;
        self.plans.push(plan);
        Ok(plan.key)
    }
}

/// Returns the PDR at fault; `None` if a traffic endpoint is at fault.
const fn pdr_of(target: ChoiceTarget) -> Option<PdrId> {
    match target {
        ChoiceTarget::Pdr(id) => Some(id),
        ChoiceTarget::TrafficEndpoint(_) => None,
    }
}

/// Returns the routing domains from whose pools `target` may get its address.
fn domains_of(scope: &SessionDomains<'_>, records: &Records, target: ChoiceTarget) -> DomainSet {
    let pdr = match target {
        ChoiceTarget::Pdr(id) => records.pdrs.iter().find(|pdr| pdr.id == id),
        ChoiceTarget::TrafficEndpoint(_) => None,
    };
    pdr.map_or(scope.of_endpoints(), |pdr| scope.of_choice(&pdr.pdi))
}

fn network_instance(records: &Records, target: ChoiceTarget) -> Option<&str> {
    match target {
        ChoiceTarget::Pdr(id) => {
            let pdr = records.pdrs.iter().find(|pdr| pdr.id == id)?;
            pdr.pdi.network_instance.as_deref()
        }
        ChoiceTarget::TrafficEndpoint(id) => {
            let endpoint = records.traffic_endpoints.iter().find(|known| known.id == id)?;
            endpoint.network_instance.as_deref()
        }
    }
}

/// Adds the chosen addresses to those that the control plane gave, in the PDR or endpoint.
fn write(
    records: &mut Records,
    wanted: &UeAddressRequest,
    chosen: Vec<SessionKey>,
) -> Result<(), Refusal> {
    let ue = match wanted.target {
        ChoiceTarget::Pdr(id) => {
            records.pdrs.iter_mut().find(|pdr| pdr.id == id).map(|pdr| &mut pdr.pdi.ue)
        }
        ChoiceTarget::TrafficEndpoint(id) => {
            let mut endpoints = records.traffic_endpoints.iter_mut();
            endpoints.find(|known| known.id == id).map(|endpoint| &mut endpoint.ue)
        }
    };
    let Some(ue) = ue else { return Ok(()) };
    let given = ue.map(|given| given.addresses).unwrap_or_default();
    if given.v4.is_some() && wanted.choose.v4 || given.v6.is_some() && wanted.choose.v6 {
        return Err(Refusal::UeAddressStatedAndRequested { pdr: pdr_of(wanted.target) });
    }
    let chosen = ue_ip::addresses(chosen);
    let addresses = UeAddresses { v4: given.v4.or(chosen.v4), v6: given.v6.or(chosen.v6) };
    *ue = Some(UeMatch { addresses, side: wanted.choose.side });
    Ok(())
}
