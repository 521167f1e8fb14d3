//! The rules of each session, by name.

use clap::ValueEnum;

use adit_lab_smf::SessionProfile;

/// Rules of each session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetRules {
    /// Two PDRs with a FAR each.
    Plain,
    /// The same, and a QER with the QFI.
    Qos,
    /// The same, and a URR that measures volume.
    Usage,
    /// The rules of `usage`, and a QER with the session AMBR, which drops no packet.
    Rate,
    /// The rules of `usage`, and a filter "any to assigned" in both PDRs.
    Any,
    /// The rules of `usage`, and per direction a PDR with a filter that all packets match.
    Filter,
    /// The rules of `rate` and of `filter`.
    RateFilter,
    /// The rules of `rate` and of `any`, as control planes put them into every session.
    Real,
}

impl TargetRules {
    /// Returns the rules of a session with a QER of this QFI, except for `plain`.
    pub(crate) fn profile(self, qfi: u8) -> SessionProfile {
        let qos = SessionProfile { qfi: Some(qfi), ..SessionProfile::default() };
        let usage = SessionProfile { urrs: 1, ..qos.clone() };
        match self {
            Self::Plain => SessionProfile::default(),
            Self::Qos => qos,
            Self::Usage => usage,
            Self::Rate => usage.with_ambr(),
            Self::Any => usage.with_any_filter(),
            Self::Filter => usage.with_filter(),
            Self::RateFilter => usage.with_ambr().with_filter(),
            Self::Real => usage.with_ambr().with_any_filter(),
        }
    }
}

/// Returns the name of an option's value, as on the command line.
#[must_use]
pub(crate) fn possible_value(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_alone_differ_from_usage_by_one_rule() {
        let profile = |rules: TargetRules| rules.profile(9);
        let usage = profile(TargetRules::Usage);
        let rate = profile(TargetRules::Rate);
        assert_eq!(SessionProfile { rate_qers: 0, mbr_kbps: None, ..rate }, usage);
        let any = profile(TargetRules::Any);
        assert_eq!(SessionProfile { all_traffic_sdf: None, ..any }, usage);
        let filter = profile(TargetRules::Filter);
        assert_eq!(SessionProfile { flows: 0, match_flow: false, ..filter }, usage);
        for rules in TargetRules::value_variants() {
            assert_eq!(profile(*rules).check(), Ok(()), "{}", possible_value(rules));
        }
        assert_eq!(possible_value(&TargetRules::RateFilter), "rate-filter");
    }
}
