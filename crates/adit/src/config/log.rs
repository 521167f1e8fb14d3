//! `[log]`: the filter of the log.

use super::comparison::NOW;
use super::declare::section;
use super::keys::IntoKey as _;
use super::kinds::text;
use crate::log::log_filter;

section! {
    /// The log.
    LogSettings(NOW) {
        /// A level (error, warn, info, debug), or levels by room. `adit run --log-levels` takes
        /// precedence.
        levels: Option<String>, text("a level, or levels by room such as \"info,adit_n4=debug\"")
            .check(log_filter::check).optional("RUST_LOG, or info") => ["\"info,adit_n4=debug\""];
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    #[test]
    fn levels_are_those_of_the_log_and_others_are_mistakes() {
        let parsed = |levels: &str| Config::parse(&format!("{EXAMPLE}\n[log]\n{levels}\n"));
        assert_eq!(parsed("").unwrap().log.levels, None);
        let levels = parsed("levels = \"warn,adit_n4=debug\"").unwrap().log.levels.clone();
        assert_eq!(levels.as_deref(), Some("warn,adit_n4=debug"));
        let problems = parsed("levels = \"loud\"").unwrap_err();
        assert_eq!(problems[0].path, "log.levels");
        assert!(problems[0].what.contains("neither a level"), "{}", problems[0]);
    }
}
