//! The objects that rules may name, from all sources.

use adit_rules::SdfSet;

use super::pfd::Pfds;
use super::{PredefinedRule, Provisioning};

/// The objects that rules may name: the configured ones, and applications of control planes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleCatalog<'a> {
    pub configured: &'a Provisioning,
    pub pfds: &'a Pfds,
}

impl<'a> RuleCatalog<'a> {
    /// Returns the filters of an application, if it is known. PFDs override the configuration.
    pub(crate) fn application(&self, id: &str) -> Option<&'a SdfSet> {
        self.pfds.filters(id).or_else(|| self.configured.application(id))
    }

    /// Returns the predefined rules with these names or in groups with these names, each once, in
    /// the order of the configuration.
    pub(crate) fn predefined<'n>(
        &self,
        names: &'n [Box<str>],
    ) -> impl Iterator<Item = &'a PredefinedRule> + use<'a, 'n> {
        let rules = self.configured.predefined_rules.iter();
        rules.filter(move |rule| names.iter().any(|name| rule.has_name(name)))
    }
}
