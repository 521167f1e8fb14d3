//! The objects that rules may name, whatever their source.

use adit_rules::SdfSet;

use super::pfd::Pfds;
use super::{PredefinedRule, Provisioning};

/// The objects that rules may name: the operator's configuration, and applications of control
/// planes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleCatalog<'a> {
    pub configured: &'a Provisioning,
    pub pfds: &'a Pfds,
}

impl<'a> RuleCatalog<'a> {
    /// The filters of an application, if it is known. PFDs take precedence over the configuration.
    pub(crate) fn application(&self, id: &str) -> Option<&'a SdfSet> {
        self.pfds.filters(id).or_else(|| self.configured.application(id))
    }

    /// The predefined rules of these names and groups, each once, in the order of the
    /// configuration.
    pub(crate) fn predefined<'n>(
        &self,
        names: &'n [Box<str>],
    ) -> impl Iterator<Item = &'a PredefinedRule> + use<'a, 'n> {
        let rules = self.configured.predefined_rules.iter();
        rules.filter(move |rule| names.iter().any(|name| rule.has_name(name)))
    }
}
