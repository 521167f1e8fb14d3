//! The filter of the log, which an operator may change while adit runs.

use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::{Registry, reload};

use crate::log::audit;

/// The environment variable that sets the filter of the log.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// The filter of the log unless the environment variable sets another.
const FILTER_DEFAULT: &str = "info";

/// The filter in use.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Creates the filter that the log begins with: `wanted`, or the filter of the environment.
///
/// # Errors
/// `wanted` is no filter.
pub(crate) fn begin(wanted: Option<&str>) -> Result<reload::Layer<Targets, Registry>, String> {
    let filter = wanted.map_or_else(|| Ok(filter_of_environment()), parse)?;
    let (filter, handle) = reload::Layer::new(filter);
    // Cannot fail: a process begins its log once.
    let _ = FILTER.set(handle);
    Ok(filter)
}

/// Returns the filter of the environment, or the default one.
fn filter_of_environment() -> Targets {
    let wanted = std::env::var(FILTER_VARIABLE).ok();
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    let filter = with_audit(wanted.as_deref().unwrap_or(FILTER_DEFAULT));
    filter.or_else(|_| with_audit(FILTER_DEFAULT)).unwrap_or_default()
}

/// # Errors
/// `wanted` is no filter, with the reason.
pub(crate) fn check(wanted: &str) -> Result<(), String> {
    parse(wanted).map(drop)
}

/// Changes the filter of the log to that of the environment.
///
/// # Errors
/// The log has not begun yet.
pub(crate) fn reset() -> Result<(), String> {
    use_filter(filter_of_environment())
}

/// Changes the filter of the log: a level such as `debug`, or levels by room such as
/// `info,adit_n4=debug`.
///
/// # Errors
/// `wanted` is no filter, or the log has not begun yet.
pub(crate) fn set(wanted: &str) -> Result<(), String> {
    use_filter(parse(wanted)?)
}

fn use_filter(filter: Targets) -> Result<(), String> {
    let handle = FILTER.get().ok_or("the log has not begun")?;
    handle.reload(filter).map_err(|error| error.to_string())
}

/// Returns the filter in use, without its part for audit lines; `None` before the log begins.
pub(crate) fn current() -> Option<String> {
    let filter = FILTER.get()?.with_current(ToString::to_string).ok()?;
    let audit = format!("{}=info", audit::TARGET);
    Some(filter.split(',').filter(|word| *word != audit).collect::<Vec<_>>().join(","))
}

/// Parses a filter. Audit lines pass the result, whatever `wanted` says of them.
fn parse(wanted: &str) -> Result<Targets, String> {
    // The parser accepts an empty word as a level.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let words = wanted.split(',').map(str::trim);
    let is_of_room = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let is_room = |room: &str| !room.is_empty() && room.chars().all(is_of_room);
    let is_filter = |word: &str| match word.split_once('=') {
        Some((room, level)) => is_room(room) && is_level(level),
        None => is_level(word),
    };
    if let Some(wrong) = words.clone().find(|word| !is_filter(word)) {
        return Err(format!(
            "\"{wrong}\" is neither a level (error, warn, info, debug) nor ROOM=LEVEL such as adit_n4=debug"
        ));
    }
    with_audit(wanted)
}

fn with_audit(wanted: &str) -> Result<Targets, String> {
    // The parser reads an empty word as the name of every room.
    let words = wanted.split(',').map(str::trim).filter(|word| !word.is_empty());
    let wanted = words.map(|word| format!("{word},")).collect::<String>();
    format!("{wanted}{}=info", audit::TARGET).parse::<Targets>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_is_a_level_or_levels_by_room_and_always_has_audit_lines() {
        for wanted in ["debug", "warn,adit_n4=debug", "error, adit::control = info", "off"] {
            let known = parse(&wanted.replace(" ", "")).unwrap().to_string();
            assert!(known.contains("audit=info"), "{known}");
        }
        for wanted in ["", "loud", "adit_n4=", "=debug", "[span]=debug", "adit=debug,,info"] {
            assert!(parse(wanted).is_err(), "{wanted}");
        }
        assert!(set("debug").unwrap_err().contains("not begun"));
    }
}
