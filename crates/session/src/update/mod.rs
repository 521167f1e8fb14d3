//! A change of a session, in numbered stages: provide, resolve | compile, commit.
//!
//! The first two stages read the store and may refuse; the last two cannot fail, and only the last
//! one writes. An establishment starts from a session without rules, a deletion ends with one.

mod check;
mod choose_f_teid;
mod choose_ue;
mod draft;
mod endpoints;
mod exemption;
mod found;
mod pool;
mod predefined;
mod provisioned;
mod s1_provide;
mod s2_resolve;
mod s3_compile;
mod s4_commit;
mod usage_plan;

pub(crate) use s2_resolve::{Resolved, check_former_alone};
pub(crate) use s3_compile::{compile, compile_alone};
pub(crate) use s4_commit::{
    ChangeKind, Committed, CompiledChange, FormerUsage, commit, compile_change, compile_restoration,
};

use adit_rules::SessionRules;
use adit_types::{Nanos, Teid};

use crate::change::SessionChange;
use crate::kept::PreparedSession;
use crate::record::{Pdr, Records};
use crate::refusal::Refusal;
use crate::session::OpenSession;
use crate::store::SessionStore;
use crate::usage::{UsageChange, activation};

/// The rules that a session had in a previous run.
#[derive(Debug)]
pub(crate) struct FormerRules {
    pub records: Records,
    /// The TEIDs that we chose in the previous run.
    pub teids: Vec<Teid>,
    /// Keys and rules compiled from the records, if another thread prepared them.
    pub prepared: Option<Box<PreparedSession>>,
}

/// Runs the stages that may refuse for a session of a previous run. Also returns its compiled rules
/// if these were prepared.
///
/// # Errors
/// The first [`Refusal`] that is found.
pub(crate) fn prepare_restoration(
    store: &SessionStore,
    now: Nanos,
    session: &OpenSession,
    FormerRules { mut records, teids, mut prepared }: FormerRules,
    former: &mut FormerUsage<'_>,
) -> Result<(Resolved, Option<Box<SessionRules>>), Refusal> {
    if let Some(settled) = activation::with_active_pdrs(&records, now) {
        records = settled;
        (former.packed, prepared) = (None, None);
    }
    // Stage 2 changes PDRs that name traffic endpoints or other PDRs' filters: pack them again.
    let names_others = |pdr: &Pdr| {
        let mut filters = pdr.pdi.sdf.iter();
        !pdr.pdi.traffic_endpoints.is_empty() || filters.any(|sdf| sdf.reference().is_some())
    };
    if records.pdrs.iter().any(names_others) {
        former.packed = None;
    }
    let (keys, rules) = match prepared {
        Some(prepared) => {
            let PreparedSession { keys, rules } = *prepared;
            (keys, Some(rules))
        }
        None => (check_former_alone(store.catalog(), &mut records)?, None),
    };
    let usage = UsageChange { at: now, ..UsageChange::default() };
    let mut resolved =
        Resolved { records, keys, restored_teids: teids, usage, ..Resolved::default() };
    s2_resolve::resolve_former(store, session, &mut resolved)?;
    Ok((resolved, rules))
}

/// Runs the stages that may refuse: provide and resolve.
///
/// # Errors
/// The first [`Refusal`] that is found.
pub(crate) fn prepare(
    store: &SessionStore,
    session: &OpenSession,
    change: SessionChange,
) -> Result<Resolved, Refusal> {
    let draft = s1_provide::provide(session.records.clone(), change)?;
    s2_resolve::resolve(store, session, draft)
}
