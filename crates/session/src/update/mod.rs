//! A change of a session, in numbered stages: provide, resolve | compile, commit.
//!
//! The first two read the store and may refuse; the last two cannot fail, and only the last one
//! writes. Establishment starts from a session without rules, deletion ends in one.

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
mod withdraw;

pub(crate) use s2_resolve::{FormerUsage, Resolved};
pub(crate) use s3_compile::compile;
pub(crate) use s4_commit::{ChangeKind, Committed, Compiled, commit, compile_change};

use adit_types::{Nanos, Teid};

use crate::change::SessionChange;
use crate::record::{Pdr, Records};
use crate::refusal::Refusal;
use crate::session::OpenSession;
use crate::store::SessionStore;
use crate::update::draft::{Draft, Restoration};
use crate::usage::{UsageChange, activation};

/// Runs the stages that may refuse for a session that a former run had with `records`, of whose TEIDs it had chosen
/// `teids`.
///
/// # Errors
/// The first [`Refusal`] found.
pub(crate) fn prepare_restoration(
    store: &SessionStore,
    now: Nanos,
    session: &OpenSession,
    mut records: Records,
    teids: Vec<Teid>,
    mut former: FormerUsage,
) -> Result<Resolved, Refusal> {
    if let Some(settled) = activation::advanced(&records, now) {
        records = settled;
        former.packed = None;
    }
    // Stage 2 writes into rules that name traffic endpoints or other PDRs' filters.
    let names_others = |pdr: &Pdr| {
        let mut filters = pdr.pdi.sdf.iter();
        !pdr.pdi.traffic_endpoints.is_empty() || filters.any(|sdf| sdf.reference().is_some())
    };
    if records.pdrs.iter().any(names_others) {
        former.packed = None;
    }
    let restoration = Restoration::Kept(teids);
    let usage = UsageChange { at: now, ..UsageChange::default() };
    let draft = Draft { records, restoration, usage, ..Draft::default() };
    let resolved = s2_resolve::resolve(store, session, draft)?;
    Ok(Resolved { former: Some(Box::new(former)), ..resolved })
}

/// Runs the stages that may refuse.
///
/// # Errors
/// The first [`Refusal`] found.
pub(crate) fn prepare(
    store: &SessionStore,
    session: &OpenSession,
    change: SessionChange,
) -> Result<Resolved, Refusal> {
    let draft = s1_provide::provide(session.records.clone(), change)?;
    s2_resolve::resolve(store, session, draft)
}
