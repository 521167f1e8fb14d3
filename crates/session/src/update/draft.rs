//! The records of a session while a change is applied, shared by the first two stages.

use adit_types::{BarId, FarId, PdrId, QerId, UrrId};

use crate::change::{ChooseUe, FTeidSpec};
use crate::cp_function::OwnerId;
use crate::record::{Bar, Far, LocalFTeid, Pdr, Qer, Records, TrafficEndpointId, Urr};
use crate::refusal::{Refusal, RuleId};
use crate::usage::UsageChange;

/// The records after the change, except for TEIDs and UE addresses still to be chosen.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub records: Records,
    /// F-TEIDs to choose, in the order of the change; at most one per PDR or traffic endpoint.
    pub teid_requests: Vec<TeidRequest>,
    /// True to discard buffered packets.
    pub drop_buffered: bool,
    /// True if the control plane restores a session of a previous run; see
    pub is_restoration: bool,
    /// See [`SessionChange::replaces`](crate::SessionChange::replaces).
    pub replaces: Vec<OwnerId>,
    /// UE addresses to choose, in the order of the change; one item per PDR or traffic endpoint.
    pub ue_requests: Vec<UeAddressRequest>,
    /// The change of measurements.
    pub usage: UsageChange,
    /// QERs that the change creates.
    pub created_qers: Vec<QerId>,
}

/// The PDR or traffic endpoint for which an F-TEID or UE address is to be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChoiceTarget {
    Pdr(PdrId),
    TrafficEndpoint(TrafficEndpointId),
}

/// A request to choose UE addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UeAddressRequest {
    pub target: ChoiceTarget,
    pub choose: ChooseUe,
}

/// A request to choose a TEID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TeidRequest {
    pub target: ChoiceTarget,
    pub v4: bool,
    pub v6: bool,
    pub choose_id: Option<u8>,
}

impl Draft {
    /// Removes requests for `target` that an earlier part of the change made.
    pub(super) fn forget(&mut self, target: ChoiceTarget) {
        self.teid_requests.retain(|wanted| wanted.target != target);
        self.ue_requests.retain(|wanted| wanted.target != target);
    }

    /// Returns the F-TEID if the control plane chose it; otherwise records a request to choose it.
    pub(super) fn provide_f_teid(
        &mut self,
        target: ChoiceTarget,
        spec: FTeidSpec,
    ) -> Option<LocalFTeid> {
        match spec {
            FTeidSpec::Given { teid, v4, v6 } => Some(LocalFTeid { teid, v4, v6 }),
            FTeidSpec::Choose { v4, v6, choose_id } => {
                self.teid_requests.push(TeidRequest { target, v4, v6, choose_id });
                None
            }
        }
    }

    /// Records a request to choose UE addresses, if there is one.
    pub(super) fn request_ue(&mut self, target: ChoiceTarget, choose: Option<ChooseUe>) {
        self.ue_requests.extend(choose.map(|choose| UeAddressRequest { target, choose }));
    }
}

/// A record that is found by its identifier.
pub(super) trait RuleRecord {
    type Id: Copy + PartialEq;
    fn id(&self) -> Self::Id;
    fn rule(id: Self::Id) -> RuleId;
}

macro_rules! rule_records {
    ($($kind:ident: $id:ty;)+) => { $(
        impl RuleRecord for $kind {
            type Id = $id;
            fn id(&self) -> $id {
                self.id
            }
            fn rule(id: $id) -> RuleId {
                RuleId::$kind(id)
            }
        }
    )+ };
}

rule_records! {
    Pdr: PdrId;
    Far: FarId;
    Qer: QerId;
    Bar: BarId;
    Urr: UrrId;
}

pub(super) fn find<R: RuleRecord>(records: &mut [R], id: R::Id) -> Result<&mut R, Refusal> {
    let found = records.iter_mut().find(|record| record.id() == id);
    found.ok_or(Refusal::UnknownRule { rule: R::rule(id) })
}

pub(super) fn distinct<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items.dedup();
    items
}
