//! Compares two configurations: which changes a running adit can apply, and which it cannot.
//!
//! The declaration of a section states how a reload changes each key; this module compares arrays
//! of tables, and the rates that sessions share.

mod lists;
mod qos;
#[cfg(test)]
mod tests;

use super::Config;
use super::comparison::{ChangeEffect, ConfigChange, ConfigComparison, KeyRefusal};
use super::table::Section as _;

/// State of the running adit that the comparison needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunningParts {
    /// True if XDP programs or network cards forward packets in front of the workers.
    pub has_offload: bool,
}

/// Returns the changes from `old`, which runs, to `new`.
///
/// # Errors
/// All keys that would change and that a running adit cannot change.
pub(crate) fn compare(
    old: &Config,
    new: &Config,
    running: RunningParts,
) -> Result<Vec<ConfigChange>, Vec<KeyRefusal>> {
    let mut found = ConfigComparison::default();
    old.file.compare(&new.file, "", &mut found);
    if old.n4_listen != new.n4_listen && old.n4.listen == new.n4.listen {
        let why = format!("its device has another address, {}; restart adit", new.n4_listen.ip());
        found.refuse("n4.listen", why);
    }
    // Keys that depend on the model, the workers or the kind of store are not reported with it.
    let of_models = ["receivers", "spread", "rss_key", "eventdev", "poll"];
    found.forget_if("datapath.model", &of_models.map(|key| format!("datapath.{key}")));
    found.forget_if("datapath.workers", &["datapath.poll".to_owned()]);
    found.forget_if("store.kind", &["store.".to_owned()]);
    found.ports(&old.ports, &new.ports);
    found.interfaces(old, new, running);
    found.routes(new, &old.routes, &new.routes);
    found.ue_pools(old, &old.ue_pools, &new.ue_pools);
    found.by_name("application", &old.file.applications, &new.file.applications, |of| &of.id);
    found.forwarding_policies(&old.forwarding_policies, &new.forwarding_policies);
    let rules = (&old.file.predefined_rules, &new.file.predefined_rules);
    found.by_name("predefined_rule", rules.0, rules.1, |of| &of.name);
    found.qos(&old.file.qos, &new.file.qos);
    found.switched_domains(old, new);
    found.finish()
}
