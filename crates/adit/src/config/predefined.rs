//! The `[[predefined_rule]]` sections: rules that control planes activate by name.

use adit_session::{PredefinedAction, PredefinedDetection, PredefinedRule};
use adit_types::limits::PREDEFINED_RULES_MAX;
use adit_types::{Precedence, Qfi};

use super::ApplicationSettings;
use super::provisioning::read_flow_descriptions;
use super::section::ConfigSection;

/// The largest QFI: six bits. Spec: TS 23.501 §5.7.1.1.
const QFI_MAX: u8 = 63;

/// The `[[predefined_rule]]` sections.
pub(super) fn read(
    root: &mut ConfigSection<'_, '_>,
    applications: &[ApplicationSettings],
) -> Vec<PredefinedRule> {
    let mut sections = root.tables("predefined_rule");
    if sections.len() > PREDEFINED_RULES_MAX {
        root.problem("predefined_rule", format!("write at most {PREDEFINED_RULES_MAX} rules"));
    }
    let read = |section: &mut ConfigSection<'_, '_>| read_rule(section, applications);
    let rules: Vec<PredefinedRule> = sections.iter_mut().map(read).collect();
    for (at, (section, rule)) in sections.into_iter().zip(&rules).enumerate() {
        let is_name = rules.iter().take(at).any(|other| other.name == rule.name);
        if is_name || rules.iter().any(|other| other.group.as_ref() == Some(&rule.name)) {
            let what = format!(
                "\"{}\" is taken already; names of rules and groups must differ",
                rule.name
            );
            section.problem("name", what);
        }
        section.finish();
    }
    rules
}

fn read_rule(
    section: &mut ConfigSection<'_, '_>,
    applications: &[ApplicationSettings],
) -> PredefinedRule {
    let name: String = section.parsed("name", "a name").unwrap_or_default();
    let group: Option<String> = section.parsed_optional("group", "a name");
    let precedence = section.integer_optional("precedence", 0..=u32::MAX).map(Precedence);
    let detection = read_detection(section, applications);
    let actions = [("forward", PredefinedAction::Forward), ("drop", PredefinedAction::Drop)];
    let forward = PredefinedAction::Forward;
    let action = section.choice("action", &actions, Some(forward)).unwrap_or(forward);
    let qfi = section.integer_optional("qfi", 0..=QFI_MAX).and_then(Qfi::new);
    if qfi.is_some() && action == PredefinedAction::Drop {
        section.problem("qfi", "marks nothing, because the rule drops its packets");
    }
    if name.is_empty() {
        section.problem("name", "takes a name");
    }
    let group = group.map(String::into_boxed_str);
    PredefinedRule { name: name.into(), group, precedence, detection, action, qfi }
}

/// Reads `application` or `flow_descriptions`.
fn read_detection(
    section: &mut ConfigSection<'_, '_>,
    applications: &[ApplicationSettings],
) -> PredefinedDetection {
    let application: Option<String> =
        section.parsed_optional("application", "the id of an [[application]]");
    let Some(id) = application else {
        return PredefinedDetection::Filters(read_flow_descriptions(section).into());
    };
    if !applications.iter().any(|known| known.id == id) {
        section.problem("application", format!("there is no application \"{id}\""));
    }
    let texts: Vec<String> = section.parsed_list("flow_descriptions", false, "a flow description");
    if !texts.is_empty() {
        section.problem("application", "takes the place of flow_descriptions; write one of them");
    }
    PredefinedDetection::Application(id.into())
}
