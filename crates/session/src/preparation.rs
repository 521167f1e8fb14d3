//! The part of restoring a session that does not need the store, so that another thread can do it.

use crate::kept::{FormerSession, PreparedSession};
use crate::packed_record::RecordParts;
use crate::provisioning::{Pfds, Provisioning, RuleCatalog};
use crate::record::Records;
use crate::session::SessionIdentity;
use crate::update::{check_former_alone, compile_alone};

/// Checks and compiles sessions of a previous process, for a store with an equal provisioning.
#[derive(Debug, Clone)]
pub struct SessionPreparer {
    provisioning: Provisioning,
}

impl SessionPreparer {
    /// Makes a preparer for stores with `provisioning`.
    #[must_use]
    pub const fn new(provisioning: Provisioning) -> Self {
        Self { provisioning }
    }

    pub(crate) const fn provisioning(&self) -> &Provisioning {
        &self.provisioning
    }

    /// Checks and compiles a session for [`SessionStore::restore`](crate::SessionStore::restore).
    /// Does nothing if the session's rules depend on more than the provisioning, or if the store
    /// will refuse the session; `restore` then does all the work.
    pub fn prepare(&self, former: &mut FormerSession) {
        let FormerSession { names, parts, prepared, .. } = former;
        let RecordParts { records, usage, buffer_epoch } = parts;
        if depends_on_store(records) {
            return;
        }
        // The store has the control planes' applications; sessions with these are left out.
        let pfds = Pfds::default();
        let known = RuleCatalog { configured: &self.provisioning, pfds: &pfds };
        let Ok(keys) = check_former_alone(known, records) else { return };
        let identity = SessionIdentity {
            up_seid: names.up_seid,
            origin: names.origin,
            buffer_epoch: *buffer_epoch,
            packet_rates: &[],
        };
        let rules = compile_alone(known, identity, records, usage.has_activity());
        *prepared = Some(Box::new(PreparedSession { keys, rules: Box::new(rules) }));
    }
}

/// True if rules need PFDs of applications, or packet rates, which only the store has.
fn depends_on_store(records: &Records) -> bool {
    let mut pdrs = records.pdrs.iter();
    pdrs.any(|pdr| pdr.pdi.application.is_some() || !pdr.predefined.is_empty())
        || records.qers.iter().any(|qer| qer.packet_rate.is_some())
}
