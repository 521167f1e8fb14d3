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

pub(crate) use s2_resolve::Resolved;
pub(crate) use s3_compile::compile;
pub(crate) use s4_commit::{ChangeKind, Committed, Compiled, commit, compile_change};

use crate::change::SessionChange;
use crate::refusal::Refusal;
use crate::session::OpenSession;
use crate::store::SessionStore;

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
