//! `[log]`: the filter of the log.

use super::section::ConfigSection;
use crate::log_filter;

/// The levels, if the section has them.
pub(super) fn read(mut log: ConfigSection<'_, '_>) -> Option<String> {
    let expects = "a level, or levels by room such as \"info,adit_n4=debug\"";
    let levels: Option<String> = log.parsed_optional("levels", expects);
    if let Some(Err(what)) = levels.as_deref().map(log_filter::check) {
        log.problem("levels", what);
    }
    log.finish();
    levels
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    #[test]
    fn levels_are_those_of_the_log_and_others_are_mistakes() {
        let parsed = |levels: &str| Config::parse(&format!("{EXAMPLE}\n[log]\n{levels}\n"));
        assert_eq!(parsed("").unwrap().log_levels, None);
        let levels = parsed("levels = \"warn,adit_n4=debug\"").unwrap().log_levels;
        assert_eq!(levels.as_deref(), Some("warn,adit_n4=debug"));
        let problems = parsed("levels = \"loud\"").unwrap_err();
        assert_eq!(problems[0].path, "log.levels");
        assert!(problems[0].what.contains("neither a level"), "{}", problems[0]);
    }
}
