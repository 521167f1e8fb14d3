//! The bench suite.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use super::wire::{self, WireForm};
use super::{instructions, output};
use crate::report;

/// Options of the suite.
#[derive(Debug, clap::Args)]
pub(crate) struct SuiteArguments {
    /// A tenth of the packets, and no case with a million sessions.
    #[arg(long)]
    quick: bool,
    /// Write DATE-MACHINE.json, and the same as a page in Markdown, into this folder.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The form of the experiments over memif.
    #[arg(long, value_enum, default_value = "quick")]
    wire: WireForm,
}

/// One bench: its name in the document, its command line, packets of each measurement in thousands
/// (zero if the bench has no such option), and true if `--quick` omits it.
type SuiteBench = (&'static str, &'static str, u32, bool);

/// The benches: about five minutes on two cores. `models` comes last, since it starts DPDK.
const BENCHES: [SuiteBench; 22] = [
    ("sessions", "datapath --sessions 1k,16k,100k", 2_000, false),
    ("active", "datapath --sessions 100k --active 16k", 2_000, false),
    ("million", "datapath --sessions 1M", 4_000, true),
    ("bursts", "datapath --sessions 16k --burst 1,8,32,64", 1_000, false),
    ("sdf", "datapath --sessions 100k --active 16k --sdf", 2_000, false),
    ("sdf_mixed", "datapath --sessions 100k --active 16k --sdf --mixed", 2_000, false),
    ("given_keys", "datapath --sessions 1k,16k,100k --given-keys", 2_000, false),
    ("rates_police", "datapath --sessions 1k,100k --rates police", 1_000, false),
    ("rates_session", "datapath --sessions 1k,100k --rates session", 1_000, false),
    ("rates_exceed", "datapath --sessions 1k,100k --rates exceed", 1_000, false),
    ("rates_wait", "datapath --sessions 1k,100k --rates wait", 1_000, false),
    ("sdf_one", "datapath --sessions 1k,100k --sdf=one", 1_000, false),
    ("sdf_several", "datapath --sessions 1k,100k --sdf=several", 1_000, false),
    ("sdf_one_rates_police", "datapath --sessions 1k,100k --sdf=one --rates police", 1_000, false),
    ("vlan", "datapath --sessions 1k,100k --vlan", 1_000, false),
    ("gnbs_256", "datapath --sessions 1k,100k --gnbs 256", 1_000, false),
    ("verify_checksums", "datapath --sessions 1k,100k --verify-checksums", 1_000, false),
    ("kinds", "kinds", 1_000, false),
    ("publication", "publication --sessions 100k", 500, false),
    ("scrape", "scrape", 4_000, false),
    ("n4", "n4", 0, true),
    ("models", "models", 1_000, false),
];

/// Returns the command lines of the benches.
#[cfg(test)]
pub(crate) fn command_lines() -> [&'static str; 22] {
    BENCHES.map(|(_, line, ..)| line)
}

/// Runs everything and returns the document. `run` runs the bench that a command line names.
///
/// # Errors
/// adit-lab is missing, a bench fails, or a file cannot be written.
pub(super) fn run(
    arguments: &SuiteArguments,
    run: impl Fn(&str) -> anyhow::Result<Value>,
) -> anyhow::Result<Value> {
    let &SuiteArguments { quick, ref folder, wire } = arguments;
    let lab = std::env::current_exe().context("find this program")?.with_file_name("adit-lab");
    ensure!(lab.exists(), "{} is not there; run `make build`", lab.display());
    let before = machine(&lab)?;
    let mut results = Map::new();
    for (name, line, kilopackets, is_long) in BENCHES {
        if quick && is_long {
            continue;
        }
        let kilopackets = if quick { kilopackets / 10 } else { kilopackets };
        let packets = (kilopackets > 0).then(|| format!(" --packets {kilopackets}k"));
        let line = format!("{line}{}", packets.unwrap_or_default());
        eprintln!("== adit-bench {line}");
        let mut document = run(&line)?;
        document["about"] = json!(format!("`adit-bench {line}`"));
        results.insert(name.to_owned(), document);
    }
    eprintln!("== adit-bench perf instructions");
    results.insert("instructions".to_owned(), instructions::measure_or_leave_out(quick)?);
    eprintln!("== adit-lab run: the rules over memif");
    results.insert("wire".to_owned(), wire::measure(wire, &lab)?);
    let after = machine(&lab)?;
    let document = json!({
        "machine": before["machine"],
        "steal_ms": steal_ms_by_cpu(&before, &after),
        "quick": quick,
        "date": output(Command::new("date").args(["-u", "+%F"]))?,
        "benches": results,
    });
    if let Some(folder) = folder {
        let path = folder.join(file_name(&document));
        report::write(&path, &format!("{document:#}\n"))?;
        report::write(&path.with_extension("md"), &report::page(&document))?;
        eprintln!("written to {} and beside it", path.display());
    }
    Ok(document)
}

fn machine(lab: &Path) -> anyhow::Result<Value> {
    let text = output(Command::new(lab).arg("machine"))?;
    serde_json::from_str(&text).context("what adit-lab says of the machine")
}

/// Returns the time stolen during the run, by processor. Unit: ms.
fn steal_ms_by_cpu(before: &Value, after: &Value) -> Value {
    let name = "steal_ms_since_boot";
    let since = |(cpu, now): (&String, &Value)| {
        let earlier = before[name][cpu].as_u64().unwrap_or(0);
        (cpu.clone(), now.as_u64().unwrap_or(0).saturating_sub(earlier).into())
    };
    Value::Object(after[name].as_object().into_iter().flatten().map(since).collect())
}

/// Returns the file name, DATE-MACHINE.json.
fn file_name(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let machine = &document["machine"];
    let cpus = machine["cpus"].as_u64().unwrap_or(0);
    format!("{}-{}-{cpus}.json", text(&document["date"]), slug(&text(&machine["cpu"])))
}

/// Converts to lower-case letters and digits, with single hyphens for the rest.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slug_has_single_hyphens_between_words() {
        assert_eq!(slug("Intel(R) Xeon(R) 6975P-C"), "intel-r-xeon-r-6975p-c");
        assert_eq!(slug("AMD EPYC "), "amd-epyc");
    }

    #[test]
    fn stolen_time_is_the_difference_by_processor() {
        let at = |a: u64, b: u64| json!({ "steal_ms_since_boot": { "0": a, "1": b } });
        assert_eq!(steal_ms_by_cpu(&at(10, 0), &at(30, 0)), json!({ "0": 20, "1": 0 }));
    }
}
