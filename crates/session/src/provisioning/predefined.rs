//! Rules that PDRs activate by name.

use adit_rules::SdfSet;
use adit_types::{Precedence, Qfi};

/// A rule that PDRs activate by its name or its group's. The PDR says whose packets it is about
/// (tunnel, UE, network instance, QoS flows) and has the FAR, QERs and URRs; the rule says which of
/// them. Spec: TS 29.244 §7.5.2.2, §8.2.72, §8.2.73; TS 23.503 §6.3.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredefinedRule {
    /// Its name.
    pub name: Box<str>,
    /// Name of the group with which it is activated.
    pub group: Option<Box<str>>,
    /// Counts among the session's PDRs instead of that of the PDR that activates the rule.
    pub precedence: Option<Precedence>,
    /// The packets that it detects.
    pub detection: PredefinedDetection,
    /// The action on them.
    pub action: PredefinedAction,
    /// QoS flow that downlink packets are marked with, whatever the PDR's QERs say.
    pub qfi: Option<Qfi>,
}

/// How a predefined rule detects packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PredefinedDetection {
    /// At least one must match a packet; never empty.
    Filters(SdfSet),
    /// As this configured application, or its PFDs.
    Application(Box<str>),
}

/// The action of a predefined rule on packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredefinedAction {
    /// As the FAR of the PDR says.
    Forward,
    /// Drops them.
    Drop,
}

impl PredefinedRule {
    /// The application by which it detects packets, if it does.
    #[must_use]
    pub fn application(&self) -> Option<&str> {
        match &self.detection {
            PredefinedDetection::Application(id) => Some(id),
            PredefinedDetection::Filters(_) => None,
        }
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        *self.name == *name || self.group.as_deref() == Some(name)
    }
}
