//! Advice to operators about a store that works.

use crate::config::StoreKind;
use crate::control_parts::ControlParts;
use crate::record_store::any_store::AnyStoreFigures;

/// Returns the warnings that apply now.
pub(crate) fn of(parts: &ControlParts) -> Vec<String> {
    let Some(store) = &parts.store else { return Vec::new() };
    let report = store.report();
    let upkeep = report.upkeep_failure.iter();
    let mut warnings: Vec<String> =
        upkeep.map(|failure| format!("upkeep of the store fails: {failure}")).collect();
    let StoreKind::Shared(settings) = &parts.config.store.kind else { return warnings };
    let shared = match &report.figures {
        AnyStoreFigures::Journal(_) => return warnings,
        AnyStoreFigures::Shared(shared) => shared,
        AnyStoreFigures::Replicated(replicated) => &replicated.store,
    };
    let server = shared.server.map_or_else(String::new, |server| server.to_string());
    let of_server = shared.warnings.iter().map(|warning| format!("{server}: {warning}"));
    let standby = parts.config.standby.is_some();
    let two =
        two_active_warning(shared.replicas, settings.acknowledge_replicas).filter(|_| standby);
    warnings.extend(two.into_iter().chain(of_server));
    warnings
}

/// Returns a warning if two adits can be active: if the primary and its replicas can be divided
/// into two sets of servers that each suffice to acknowledge a change.
fn two_active_warning(replicas: u32, acknowledge_replicas: u32) -> Option<String> {
    let servers = replicas.saturating_add(1);
    let suffice = acknowledge_replicas.saturating_add(1);
    (suffice.saturating_mul(2) <= servers).then(|| {
        let least = servers / 2;
        format!(
            "{suffice} of {servers} servers acknowledge a change: when a network failure divides them, and a replica is \
             promoted, both adits can be active; set store.acknowledge_replicas to {least} or more"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_fall_into_two_sufficient_parts_are_warned_about() {
        let warned = |replicas, acknowledge| two_active_warning(replicas, acknowledge).is_some();
        assert!(!warned(0, 0), "one server cannot be divided");
        assert!(warned(1, 0) && !warned(1, 1));
        assert!(!warned(2, 1), "any two of three servers share one");
        assert!(warned(3, 1) && !warned(3, 2));
        assert!(two_active_warning(3, 1).unwrap().contains("acknowledge_replicas to 2 or more"));
    }
}
