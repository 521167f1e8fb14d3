//! `adit explain`: what a Cause, a reason, a counter or a metric means, and what to look at.

mod causes;
mod drops;

use std::fmt::Write as _;
use std::io::Write as _;

use adit_n4::ScalarCounters;
use adit_rules::{DropReason, PuntReason};
use adit_tables::Snapshot;
use anyhow::bail;

use crate::snapshot::all_families;

/// Maximum of similar names offered for an unknown one.
const SIMILAR_MAX: usize = 8;

/// Prefixes of metrics' names that a search for similar names ignores.
const METRIC_PREFIXES: [&str; 2] = ["adit_datapath_", "adit_n4_"];

/// The explanation of a Cause, a drop reason, a counter or a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Explanation {
    /// The name as adit shows it.
    name: String,
    kind: &'static str,
    meaning: String,
    /// Where to look next; `None` if it is no problem.
    advice: Option<&'static str>,
}

/// Prints the explanation of `name`, or all names if it is `None`.
///
/// # Errors
/// Nothing has this name; the message offers similar ones.
pub(crate) fn explain(name: Option<&str>) -> anyhow::Result<()> {
    let all = all();
    let text = match name {
        None => names(&all),
        Some(name) => {
            let found = find(&all, name);
            if found.is_empty() {
                bail!("{}", unknown_name_message(&all, name));
            }
            found.into_iter().map(render).collect::<Vec<_>>().join("\n")
        }
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

fn all() -> Vec<Explanation> {
    let drop = |reason: &DropReason| Explanation {
        name: reason.name().to_owned(),
        kind: "drop reason",
        meaning: reason.text().to_owned(),
        advice: drops::advice(*reason),
    };
    let punt = |reason: &PuntReason| Explanation {
        name: reason.name().to_owned(),
        kind: "punt reason",
        meaning: reason.text().to_owned(),
        advice: None,
    };
    let counter = |(name, _, text): (&'static str, u64, &'static str)| Explanation {
        name: name.to_owned(),
        kind: "counter",
        meaning: text.to_owned(),
        advice: None,
    };
    let mut all: Vec<Explanation> = causes::all();
    all.extend(DropReason::ALL.iter().map(drop));
    all.extend(PuntReason::ALL.iter().map(punt));
    all.extend(Snapshot::default().scalars().into_iter().map(counter));
    all.extend(ScalarCounters::default().described().into_iter().map(counter));
    all.extend(metrics());
    all
}

/// The `kind` of metrics' explanations.
const METRIC_KIND: &str = "metric";

/// Returns an explanation of every metric: its help text.
fn metrics() -> impl Iterator<Item = Explanation> {
    all_families().into_iter().map(|family| Explanation {
        name: family.full_name(),
        kind: METRIC_KIND,
        meaning: family.help.into_owned(),
        advice: None,
    })
}

/// Suffixes that the text format adds to a histogram's name.
const HISTOGRAM_SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Returns everything that has this name. A Cause is also found by its number or by the counter of
/// refusals with it, a histogram also by the names of its series.
fn find<'a>(all: &'a [Explanation], wanted: &str) -> Vec<&'a Explanation> {
    let wanted = wanted.to_lowercase();
    let wanted = wanted.trim_start_matches("refused_cause_").trim_start_matches("cause ");
    let is_it = |known: &&Explanation| {
        let name = known.name.to_lowercase();
        let mut words = name.split(' ');
        let by_number = known.kind == causes::KIND && words.next() == Some(wanted);
        let text = name.split_once(' ').map(|(_, text)| text);
        let mut parts = HISTOGRAM_SUFFIXES.iter().filter_map(|part| wanted.strip_suffix(part));
        if known.kind == METRIC_KIND && parts.any(|of| of == name) {
            return true;
        }
        by_number || name == wanted || known.kind == causes::KIND && text == Some(wanted)
    };
    all.iter().filter(is_it).collect()
}

fn render(explanation: &Explanation) -> String {
    let Explanation { name, kind, meaning, advice } = explanation;
    let mut text = format!("{kind} {name}\n  {meaning}\n");
    if let Some(advice) = advice {
        let _ = writeln!(text, "  Look at: {advice}");
    }
    text
}

fn names(all: &[Explanation]) -> String {
    let mut text = String::new();
    let mut kind = "";
    for known in all {
        if known.kind != kind {
            kind = known.kind;
            let _ = writeln!(text, "{}{kind}s", if text.is_empty() { "" } else { "\n" });
        }
        let _ = writeln!(text, "  {}", known.name);
    }
    text
}

/// Returns the message for an unknown name, with similar names.
fn unknown_name_message(all: &[Explanation], wanted: &str) -> String {
    let lower = wanted.to_lowercase();
    let plane = METRIC_PREFIXES.iter().find_map(|plane| lower.strip_prefix(plane));
    let stem = plane.unwrap_or(&lower).trim_end_matches("_total");
    let words: Vec<&str> = stem.split(['_', ' ', '-']).filter(|word| word.len() > 2).collect();
    let shared = |name: &str| words.iter().filter(|word| name.contains(**word)).count();
    let mut similar: Vec<(usize, &str)> = all
        .iter()
        .map(|known| (shared(&known.name.to_lowercase()), known.name.as_str()))
        .filter(|(shared, _)| *shared > 0)
        .collect();
    similar.sort_by_key(|(shared, _)| core::cmp::Reverse(*shared));
    similar.truncate(SIMILAR_MAX);
    let hint = match similar.is_empty() {
        true => "`adit explain` lists all names".to_owned(),
        false => {
            let names: Vec<&str> = similar.into_iter().map(|(_, name)| name).collect();
            format!("similar names: {}", names.join(", "))
        }
    };
    format!("nothing is named \"{wanted}\"; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(name: &str) -> Vec<String> {
        let all = all();
        find(&all, name)
            .into_iter()
            .map(|known| format!("{}: {}", known.kind, known.name))
            .collect()
    }

    #[test]
    fn cause_is_found_by_number_and_by_name_and_counter() {
        let expected = ["Cause: 72 No established PFCP Association"];
        for name in ["72", "no established pfcp association", "refused_cause_72", "Cause 72"] {
            assert_eq!(explained(name), expected, "{name}");
        }
    }

    #[test]
    fn each_drop_reason_is_explained_with_what_to_look_at() {
        for reason in DropReason::ALL {
            let all = all();
            let [found] = find(&all, reason.name())[..] else { panic!("{}", reason.name()) };
            let text = render(found);
            assert!(text.contains(reason.text()) && text.contains("Look at: "), "{text}");
        }
    }

    #[test]
    fn counters_and_metrics_are_found_by_their_names() {
        assert_eq!(explained("refused_pending_full"), ["counter: refused_pending_full"]);
        assert_eq!(explained("received_pkts"), ["counter: received_pkts"]);
        let name = "adit_datapath_received_packets_total";
        assert_eq!(explained(name), [format!("metric: {name}")]);
        assert_eq!(explained("arp"), ["punt reason: arp"]);
        let name = "adit_publication_duration_seconds";
        for of in [name, &format!("{name}_bucket"), &format!("{name}_count")] {
            assert_eq!(explained(of), [format!("metric: {name}")]);
        }
    }

    #[test]
    fn each_metric_has_one_explanation() {
        for family in all_families() {
            assert_eq!(explained(&family.full_name()).len(), 1, "{}", family.full_name());
            assert!(family.help.ends_with('.') && family.help.len() > 5, "{family:?}");
        }
    }

    #[test]
    fn unknown_name_gets_similar_ones_or_the_way_to_all() {
        let all = all();
        assert!(unknown_name_message(&all, "teid_missing").contains("teid_unknown"));
        assert!(unknown_name_message(&all, "xyzzy").contains("lists all names"));
        assert!(
            unknown_name_message(&all, "adit_port_errors_total")
                .contains("adit_port_receive_errors_total")
        );
    }

    #[test]
    fn names_are_listed_by_kind() {
        let text = names(&all());
        assert!(text.starts_with("Causes\n  1 Request accepted\n"), "{text}");
        assert!(text.contains("\ndrop reasons\n  frame_malformed\n"), "{text}");
    }
}
