//! Predefined rules, and the PDRs that activate them.
//!
//! All worlds have the same rules, here as text. Spec: TS 29.244 §7.5.2.2, §8.2.72.

use adit_rules::ApplyAction;
use adit_session::{Far, PdrSpec, Qer, SdfSpec};
use adit_types::{FarId, Precedence, QerId, Qfi};

/// A predefined rule.
#[derive(Debug, Clone, Copy)]
pub struct OraclePredefinedRule {
    /// Its name.
    pub name: &'static str,
    /// The name of its group.
    pub group: Option<&'static str>,
    /// Its own precedence.
    pub precedence: Option<u32>,
    /// One flow description.
    pub text: &'static str,
    /// The rule drops packets; otherwise the FAR of the PDR applies.
    pub drops: bool,
    /// QoS flow with which it marks packets.
    pub qfi: Option<u8>,
}

/// The rules of every world.
pub const RULES: [OraclePredefinedRule; 4] = [
    rule("dns", "permit out 17 from any 53 to assigned"),
    OraclePredefinedRule {
        group: Some("group"),
        drops: true,
        precedence: Some(1),
        ..rule("blocked", "permit out 17 from 8.8.8.0/24 to assigned")
    },
    OraclePredefinedRule {
        group: Some("group"),
        qfi: Some(3),
        ..rule("any", "permit out ip from any to assigned")
    },
    OraclePredefinedRule {
        precedence: Some(4),
        qfi: Some(7),
        ..rule("tcp", "permit out 6 from any to any")
    },
];

const fn rule(name: &'static str, text: &'static str) -> OraclePredefinedRule {
    OraclePredefinedRule { name, group: None, precedence: None, text, drops: false, qfi: None }
}

/// The readings of a PDR: itself, or one PDR for each of its active rules.
pub(super) fn readings(pdr: &PdrSpec) -> Vec<(PdrSpec, Option<&'static OraclePredefinedRule>)> {
    if pdr.predefined.is_empty() {
        return vec![(pdr.clone(), None)];
    }
    let is_active = |rule: &&OraclePredefinedRule| {
        let mut names = pdr.predefined.iter().map(|name| &**name);
        names.any(|name| name == rule.name || Some(name) == rule.group)
    };
    let reading = |rule: &'static OraclePredefinedRule| {
        let mut pdr = pdr.clone();
        pdr.precedence = rule.precedence.map_or(pdr.precedence, Precedence);
        let flow_description = Some(rule.text.into());
        pdr.pdi.sdf = vec![SdfSpec { flow_description, ..SdfSpec::default() }];
        (pdr, Some(rule))
    };
    RULES.iter().filter(is_active).map(reading).collect()
}

impl OraclePredefinedRule {
    /// The FAR of the rule itself.
    pub(super) fn far(&self) -> Option<Far> {
        let (id, action) = (FarId(u32::MAX), ApplyAction::DROP);
        self.drops.then_some(Far {
            id,
            action,
            bar: None,
            forwarding: None,
            duplicating: Vec::new(),
        })
    }

    /// The QER of the rule itself.
    pub(super) fn qer(&self) -> Option<Qer> {
        Some(Qer { id: QerId(u32::MAX), qfi: Qfi::new(self.qfi?), ..Qer::default() })
    }
}
