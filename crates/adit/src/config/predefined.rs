//! The `[[predefined_rule]]` sections: rules that control planes activate by name.

use adit_session::{PredefinedAction, PredefinedDetection, PredefinedRule};
use adit_types::limits::PREDEFINED_RULES_MAX;
use adit_types::{Precedence, Qfi};

use super::check_len_max;
use super::comparison::RULES;
use super::declare::section;
use super::fields::name;
use super::keys::IntoKey as _;
use super::kinds::{integer, text, words};
use super::provisioning::{ApplicationSettings, FLOW_DESCRIPTION, filters};
use super::section::ConfigDocument;

/// The largest QFI: six bits. Spec: TS 23.501 §5.7.1.1.
const QFI_MAX: u8 = 63;

section! {
    /// Predefined rules. A PDR activates one by its name, or all rules of a group by the group's
    /// name. The PDR gives the UE, forwarding, measurement and marking; the rule selects packets
    /// among those of the PDR.
    PredefinedRuleSection(RULES) {
        /// Its name.
        name: String, text("a name").check(name).required(String::new()) => ["\"no-mail\"",
            "\"video-flow\""];
        /// A group that the rule is activated with.
        group: Option<String>, text("a name").optional("none") => ["\"family\""];
        /// Its packets, unless an application gives them.
        flow_descriptions: Vec<String>, text(FLOW_DESCRIPTION).list("those of the application")
            => ["[\"permit out 6 from any 25 to assigned\"]"];
        /// An application whose packets it selects, instead of flow descriptions.
        application: Option<String>, text("the id of an [[application]]").optional("none") => ["",
            "\"video\""];
        /// Precedence among the PDRs of the session.
        precedence: Option<u32>, integer(0..=u32::MAX).optional("that of the activating PDR")
            => ["50"];
        /// "forward" (by the FAR of the PDR) or "drop".
        action: PredefinedAction, words(&[("forward", PredefinedAction::Forward),
            ("drop", PredefinedAction::Drop)]).or(PredefinedAction::Forward) => ["\"drop\""];
        /// QFI of downlink packets.
        qfi: Option<u8>, integer(0..=QFI_MAX).optional("by the QERs of the PDR") => ["", "5"];
    }
}

/// Checks all rules, and returns them.
pub(super) fn check(
    document: &ConfigDocument<'_>,
    sections: &[PredefinedRuleSection],
    applications: &[ApplicationSettings],
) -> Vec<PredefinedRule> {
    check_len_max(document, "predefined_rule", sections.len(), PREDEFINED_RULES_MAX, "rules");
    let rule = |(index, section): (usize, &PredefinedRuleSection)| {
        let path = format!("predefined_rule[{index}]");
        let PredefinedRuleSection { name, .. } = section;
        let is_name = sections[..index].iter().any(|other| other.name == *name);
        if is_name || sections.iter().any(|other| other.group.as_ref() == Some(name)) {
            let what =
                format!("\"{name}\" is taken already; names of rules and groups must differ");
            document.problem(&format!("{path}.name"), what);
        }
        section.rule(document, &path, applications)
    };
    sections.iter().enumerate().map(rule).collect()
}

impl PredefinedRuleSection {
    fn rule(
        &self,
        document: &ConfigDocument<'_>,
        path: &str,
        applications: &[ApplicationSettings],
    ) -> PredefinedRule {
        let problem = |key: &str, what: &str| document.problem(&format!("{path}.{key}"), what);
        let detection = match &self.application {
            None => {
                let path = format!("{path}.flow_descriptions");
                let filters = filters(document, &path, &self.flow_descriptions);
                PredefinedDetection::Filters(filters.into())
            }
            Some(id) => {
                if !applications.iter().any(|known| known.id == *id) {
                    problem("application", &format!("there is no application \"{id}\""));
                }
                if !self.flow_descriptions.is_empty() {
                    let what = "takes the place of flow_descriptions; write one of them";
                    problem("application", what);
                }
                PredefinedDetection::Application(id.as_str().into())
            }
        };
        if self.qfi.is_some() && self.action == PredefinedAction::Drop {
            problem("qfi", "marks nothing, because the rule drops its packets");
        }
        PredefinedRule {
            name: self.name.as_str().into(),
            group: self.group.as_deref().map(Box::from),
            precedence: self.precedence.map(Precedence),
            detection,
            action: self.action,
            qfi: self.qfi.and_then(Qfi::new),
        }
    }
}
