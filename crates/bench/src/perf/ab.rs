//! Compares two builds in turns, so that changes of the machine's speed affect both alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::{output, root};
use crate::report::{self, median};

/// The figure that is compared.
const FIGURE: &str = "cycles_per_packet_median_burst";

/// Members of a row that identify its case.
const CASE_MEMBERS: [&str; 5] = ["direction", "sessions", "active_sessions", "burst_pkts", "keys"];

#[derive(Debug, clap::Args)]
pub(crate) struct AbArguments {
    /// The revision to compare with: a commit, branch or tag.
    revision: String,
    /// Options of `adit-bench datapath` that both revisions have.
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "--sessions 1k,16k,100k --packets 1M",
        allow_hyphen_values = true
    )]
    bench: String,
    /// Turns; each build is measured once in each.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// Measures both builds in turns.
///
/// # Errors
/// There is no such revision, a build or a bench fails, or they have no case in common.
pub(super) fn run(arguments: &AbArguments) -> anyhow::Result<Value> {
    let root = root()?;
    let mut command = Command::new("git");
    command.current_dir(&root).args(["rev-parse", "--verify", "--quiet"]);
    let commit = output(command.arg(format!("{}^{{commit}}", arguments.revision)))
        .with_context(|| format!("\"{}\" is no revision of this repository", arguments.revision))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let folder = target.join("perf");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let tree = folder.join("other");
    // Removes the tree of an earlier run.
    let _ = std::fs::remove_dir_all(&tree);
    output(Command::new("git").args(["clone", "--quiet", "--shared"]).args([&root, &tree]))?;
    output(Command::new("git").current_dir(&tree).args(["checkout", "--quiet", &commit]))?;
    eprintln!("building {commit}");
    let other = build(&tree, &folder.join("build"), &folder.join("other-bench"))
        .with_context(|| format!("build of {}", arguments.revision))?;
    eprintln!("building the working tree");
    let own =
        build(&root, &target, &folder.join("own-bench")).context("build of the working tree")?;
    let mut cases: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for round in 1..=arguments.rounds {
        for (index, binary) in [&other, &own].into_iter().enumerate() {
            eprintln!("turn {round}: {}", ["other", "own"][index]);
            for (name, figure) in measure(binary, &arguments.bench)? {
                cases.entry(name).or_default()[index].push(figure);
            }
        }
    }
    let rows: Vec<Value> = cases.iter().filter_map(|(name, runs)| row(name, runs)).collect();
    ensure!(!rows.is_empty(), "the two builds have no case in common");
    let mut document = report::of("ab", &rows);
    let AbArguments { bench, rounds, .. } = arguments;
    document["about"] = json!(format!(
        "{bench}, {rounds} turns; own: the working tree; other: {commit}; below 1: own is faster"
    ));
    Ok(document)
}

/// Builds the benches in `tree` and keeps a copy of the program as `copy`.
fn build(tree: &Path, target: &Path, copy: &Path) -> anyhow::Result<PathBuf> {
    let mut command = Command::new("cargo");
    command.current_dir(tree).args(["build", "--release", "--quiet", "--package", "adit-bench"]);
    output(command.env("CARGO_TARGET_DIR", target))?;
    std::fs::copy(target.join("release/adit-bench"), copy).context("keep the program")?;
    Ok(copy.to_owned())
}

/// Runs the bench once. Returns the worker's figures by case.
fn measure(binary: &Path, options: &str) -> anyhow::Result<Vec<(String, f64)>> {
    let mut command = Command::new(binary);
    let text = output(command.args(["datapath", "--json"]).args(options.split_whitespace()))?;
    let document: Value = serde_json::from_str(&text).context("the document of the bench")?;
    let rows = document["rows"].as_array().cloned().unwrap_or_default();
    let figure = |row: &Value| Some((name(row), row[FIGURE].as_f64()?));
    Ok(rows.iter().filter(|row| row["what"] == "worker").filter_map(figure).collect())
}

/// Returns the name of a row's case, without members that only one revision has.
fn name(row: &Value) -> String {
    let show = |name: &&str| match &row[*name] {
        Value::Null => None,
        Value::String(text) if text == "chosen" => None,
        Value::String(text) => Some(text.clone()),
        other => Some(format!("{} {other}", name.trim_end_matches("_pkts").replace('_', " "))),
    };
    CASE_MEMBERS.iter().filter_map(show).collect::<Vec<_>>().join(", ")
}

fn row(name: &str, [other, own]: &[Vec<f64>; 2]) -> Option<Value> {
    let mut ratios: Vec<f64> = own.iter().zip(other).map(|(own, other)| own / other).collect();
    ratios.sort_by(f64::total_cmp);
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    Some(json!({
        "case": name,
        "other_cycles_per_packet": median(other)?,
        "own_cycles_per_packet": median(own)?,
        "ratio_median": round(median(&ratios)?),
        "ratio_min": round(*ratios.first()?),
        "ratio_max": round(*ratios.last()?),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_the_median_over_turns_with_its_spread() {
        let row = row("x", &[vec![100.0, 200.0, 100.0], vec![90.0, 190.0, 110.0]]).unwrap();
        assert_eq!(row["ratio_median"], 0.95);
        assert_eq!((&row["ratio_min"], &row["ratio_max"]), (&json!(0.9), &json!(1.1)));
        assert_eq!(row["own_cycles_per_packet"], 110.0);
    }

    #[test]
    fn figures_of_a_run_are_those_of_the_worker() {
        let folder = std::env::temp_dir().join(format!("adit-bench-ab-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (text_file, script) = (folder.join("adit.sh"), folder.join("adit"));
        let rows = r#"{"rows":[
            {"what":"floor","direction":"uplink","cycles_per_packet_median_burst":5.0},
            {"what":"worker","direction":"uplink","cycles_per_packet_median_burst":60.5}]}"#;
        let text = format!("#!/bin/sh\n[ \"$*\" = 'datapath --json -x 1' ] && echo '{rows}'\n");
        std::fs::write(&text_file, text).unwrap();
        // Another process writes the program to execute: a program that other tests fork off would
        // inherit our descriptor of it, and executing a file open for writing fails (ETXTBSY).
        let mut install = Command::new("install");
        assert!(
            install.args(["-m", "755"]).args([&text_file, &script]).status().unwrap().success()
        );
        let found = measure(&script, "-x 1");
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap(), [("uplink".to_owned(), 60.5)]);
    }

    #[test]
    fn case_of_a_row_is_the_same_where_a_revision_lacks_a_member() {
        let old = json!({ "direction": "uplink", "sessions": 1000, "burst_pkts": 32 });
        let new = json!({ "direction": "uplink", "sessions": 1000, "burst_pkts": 32,
            "keys": "chosen", "what": "worker" });
        assert_eq!(name(&old), "uplink, sessions 1000, burst 32");
        assert_eq!(name(&old), name(&new));
    }
}
