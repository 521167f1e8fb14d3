//! Predefined rules, which PDRs activate by name.

use adit_rules::SdfSet;
use adit_types::{Precedence, Qfi};

/// A rule that PDRs activate by its name or the name of its group. The PDR selects the UE's packets
/// (tunnel, UE address, network instance, QoS flows) and has FAR, QERs and URRs; the rule selects
/// some of these packets. Spec: TS 29.244 §7.5.2.2, §8.2.72, §8.2.73; TS 23.503 §6.3.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredefinedRule {
    /// Name of the rule.
    pub name: Box<str>,
    /// Name of the group with which it is activated.
    pub group: Option<Box<str>>,
    /// Precedence among the session's PDRs; `None` if that of the activating PDR applies.
    pub precedence: Option<Precedence>,
    /// The packets that the rule detects.
    pub detection: PredefinedDetection,
    /// The action on the detected packets.
    pub action: PredefinedAction,
    /// QoS flow with which downlink packets are marked, even if the PDR's QERs name another one.
    pub qfi: Option<Qfi>,
}

/// How a predefined rule detects packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PredefinedDetection {
    /// By filters: at least one, of which one must match a packet.
    Filters(SdfSet),
    /// By the filters of the application with this identifier, configured or from PFDs.
    Application(Box<str>),
}

/// The action of a predefined rule on packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredefinedAction {
    /// Applies the FAR of the PDR.
    Forward,
    /// Drops the packets.
    Drop,
}

impl PredefinedRule {
    /// Returns the application by which the rule detects packets; `None` if it has filters.
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
