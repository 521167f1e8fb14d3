//! The bench suite.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::interrupt::Interrupt;
use super::wire::{self, WireForm};
use super::{captured_stdout, instructions, page, read_json, release, root, write_json};

/// One bench: its name in the document, its arguments, packets of each measurement in thousands (zero if
/// the bench has no such option), and true if `--quick` omits it.
struct SuiteBench {
    name: &'static str,
    arguments: &'static [&'static str],
    kilopackets: u32,
    long: bool,
}

const fn bench(
    name: &'static str,
    arguments: &'static [&'static str],
    kilopackets: u32,
    long: bool,
) -> SuiteBench {
    SuiteBench { name, arguments, kilopackets, long }
}

/// The cost of one kind of rules or frames.
const fn rules(name: &'static str, arguments: &'static [&'static str]) -> SuiteBench {
    bench(name, arguments, 1_000, false)
}

/// About five minutes on two cores.
const BENCHES: [SuiteBench; 22] = [
    bench("sessions", &["datapath", "--sessions", "1k,16k,100k"], 2_000, false),
    bench("active", &["datapath", "--sessions", "100k", "--active", "16k"], 2_000, false),
    bench("million", &["datapath", "--sessions", "1M"], 4_000, true),
    bench("bursts", &["datapath", "--sessions", "16k", "--burst", "1,8,32,64"], 1_000, false),
    bench("sdf", &["datapath", "--sessions", "100k", "--active", "16k", "--sdf"], 2_000, false),
    bench(
        "sdf_mixed",
        &["datapath", "--sessions", "100k", "--active", "16k", "--sdf", "--mixed"],
        2_000,
        false,
    ),
    bench("given_keys", &["datapath", "--sessions", "1k,16k,100k", "--given-keys"], 2_000, false),
    rules("rates_police", &["datapath", "--sessions", "1k,100k", "--rates", "police"]),
    rules("rates_session", &["datapath", "--sessions", "1k,100k", "--rates", "session"]),
    rules("rates_exceed", &["datapath", "--sessions", "1k,100k", "--rates", "exceed"]),
    rules("rates_wait", &["datapath", "--sessions", "1k,100k", "--rates", "wait"]),
    rules("sdf_one", &["datapath", "--sessions", "1k,100k", "--sdf=one"]),
    rules("sdf_several", &["datapath", "--sessions", "1k,100k", "--sdf=several"]),
    rules(
        "sdf_one_rates_police",
        &["datapath", "--sessions", "1k,100k", "--sdf=one", "--rates", "police"],
    ),
    rules("vlan", &["datapath", "--sessions", "1k,100k", "--vlan"]),
    rules("gnbs_256", &["datapath", "--sessions", "1k,100k", "--gnbs", "256"]),
    rules("verify_checksums", &["datapath", "--sessions", "1k,100k", "--verify-checksums"]),
    bench("kinds", &["kinds"], 1_000, false),
    bench("models", &["models"], 1_000, false),
    bench("publication", &["publication", "--sessions", "100k"], 500, false),
    bench("scrape", &["scrape"], 4_000, false),
    bench("n4", &["n4"], 0, true),
];

/// Runs everything and writes the document.
pub(super) fn run(quick: bool, out: Option<&Path>, form: WireForm) -> anyhow::Result<()> {
    let root = root()?;
    let release = release()?;
    let (adit, lab) = (release.join("adit"), release.join("adit-lab"));
    for binary in [&adit, &lab] {
        if !binary.exists() {
            bail!("{} is not there; run `make build`", binary.display());
        }
    }
    let before = machine(&lab)?;
    let interrupt = Interrupt::watch()?;
    let part = release.with_file_name("perf-part.json");
    let mut results = Map::new();
    for bench in BENCHES.iter().filter(|bench| !(quick && bench.long)) {
        let mut command = Command::new(&adit);
        command.arg("bench").args(bench.arguments);
        if bench.kilopackets > 0 {
            let kilopackets = if quick { bench.kilopackets / 10 } else { bench.kilopackets };
            command.args(["--packets", &format!("{kilopackets}k")]);
        }
        println!("== adit bench {}", bench.arguments.join(" "));
        interrupt.run(command.arg("--out").arg(&part))?;
        results.insert(bench.name.to_owned(), read_json(&part)?);
    }
    // Best effort: the file is in the build folder.
    let _ = std::fs::remove_file(&part);
    println!("== cargo xtask perf instructions");
    results.insert("instructions".to_owned(), count_instructions(&interrupt, quick)?);
    println!("== adit-lab run: the rules over memif");
    let folder = release.with_file_name("perf-lab");
    let wire = wire::measure(&interrupt, form, &lab, &root, &folder)?;
    let after = machine(&lab)?;
    let document = json!({
        "machine": before["machine"],
        "steal_ms": steal_ms_by_cpu(&before, &after),
        "quick": quick,
        "date": captured_stdout(Command::new("date").args(["-u", "+%F"]))?,
        "benches": results,
        "wire": wire,
    });
    let path = match out {
        Some(path) => path.to_owned(),
        None => default_path(&root, &document)?,
    };
    write_json(&path, &document)?;
    let page = path.with_extension("md");
    std::fs::write(&page, page::render(&document)).with_context(|| page.display().to_string())?;
    println!("written to {} and {}", path.display(), page.display());
    Ok(())
}

/// Instructions by part, or the reason why they are left out.
fn count_instructions(interrupt: &Interrupt, quick: bool) -> anyhow::Result<Value> {
    if let Some(missing) = instructions::missing() {
        println!("left out: {missing}");
        return Ok(json!({ "left_out": missing }));
    }
    let document = instructions::measure(interrupt, &instructions::modes(quick))?;
    println!("{}", instructions::table(&document));
    Ok(document)
}

fn machine(lab: &Path) -> anyhow::Result<Value> {
    let text = captured_stdout(Command::new(lab).arg("machine"))?;
    serde_json::from_str(&text).context("what adit-lab says of the machine")
}

/// Time stolen during the run, by processor. Unit: ms.
fn steal_ms_by_cpu(before: &Value, after: &Value) -> Value {
    let name = "steal_ms_since_boot";
    let since = |(cpu, now): (&String, &Value)| {
        let earlier = before[name][cpu].as_u64().unwrap_or(0);
        (cpu.clone(), now.as_u64().unwrap_or(0).saturating_sub(earlier).into())
    };
    Value::Object(after[name].as_object().into_iter().flatten().map(since).collect())
}

/// docs/benchmarks/DATE-MACHINE.json
fn default_path(root: &Path, document: &Value) -> anyhow::Result<PathBuf> {
    let folder = root.join("docs/benchmarks");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let machine = &document["machine"];
    let cpus = machine["cpus"].as_u64().unwrap_or(0);
    let name = format!("{}-{}-{cpus}", text(&document["date"]), slug(&text(&machine["cpu"])));
    Ok(folder.join(format!("{name}.json")))
}

/// Lower-case letters and digits, the rest as single hyphens.
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
