//! `cargo xtask perf instructions`: instructions of one packet, by part of the fast path.
//!
//! callgrind counts the instructions of `Worker::step` in `adit bench datapath`, with few and with many packets.
//! The difference is the cost of the further packets, without start and first packets. Each
//! instruction belongs to the innermost function around it that [`PARTS`] names, functions that the
//! compiler inlined included.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use comfy_table::{Table, presets};
use serde_json::{Value, json};

use super::callgrind::{Counts, InlinedFrame, counts, frames};
use super::interrupt::Interrupt;
use super::{read_json, release, write_json};

/// Packets of the shorter and of the longer run.
const PACKETS: [&str; 2] = ["20000", "60000"];

/// Options of `adit bench datapath`, with their subjects.
const MODES: [(&str, &str); 26] = [
    ("", "the usual packet"),
    ("--rates police", "two rates, policed"),
    ("--rates session", "the session's rate"),
    ("--rates shape", "two rates, shaped; none waits"),
    ("--rates wait", "most packets wait"),
    ("--rates shared", "a rate of all sessions"),
    ("--sdf=any", "filter \"any to assigned\""),
    ("--sdf=one", "one filter"),
    ("--sdf=dedicated", "a filter for half of the packets"),
    ("--sdf=several", "four filters and a PDR of all others"),
    ("--sdf=one --rates police", "one filter, two rates"),
    ("--sdf=several --rates police", "four filters, two rates"),
    ("--urrs 0", "no URR"),
    ("--urrs 2", "two URRs"),
    ("--urrs 2 --rates police", "two URRs, two rates"),
    ("--gnbs 256", "256 gNBs"),
    ("--verify-checksums", "checksums verified in software"),
    ("--given-keys", "the SMF's TEIDs and UE addresses"),
    ("--vlan", "VLAN tags"),
    ("--vlan --rates police", "VLAN tags, two rates"),
    ("--mixed", "half IPv6"),
    ("--sdf --mixed", "half IPv6, four filters"),
    ("--n9", "from tunnel to tunnel"),
    ("--n9 --rates police", "from tunnel to tunnel, two rates"),
    ("--n3-v6", "tunnels over IPv6"),
    ("--n3-v6 --rates police", "tunnels over IPv6, two rates"),
];

/// The modes of a quick run.
const QUICK: [&str; 4] = ["", "--rates police", "--sdf=one", "--sdf=one --rates police"];

/// A part of a packet's way: those functions of a file whose name begins with one of `functions`.
struct PacketPart {
    name: &'static str,
    file: &'static str,
    functions: &'static [&'static str],
}

const fn part(
    name: &'static str,
    file: &'static str,
    functions: &'static [&'static str],
) -> PacketPart {
    PacketPart { name, file, functions }
}

/// Every function of a file.
const ALL: &[&str] = &[""];

/// The first entry that fits counts.
const PARTS: [PacketPart; 32] = [
    part("recognize", "/fast_path/recognize.rs", ALL),
    part("lookup", "/fast_path/mod.rs", &["find_sessions", "hand_off_foreign"]),
    part("lookup", "/fast_path/direction.rs", &["find_other_tunnels", "session"]),
    part("lookup", "/tables/src/ues.rs", &["session_v4", "session_v6", "other_session_v4"]),
    part("prefetch", "/fast_path/mod.rs", &["prefetch_"]),
    part("filters", "/fast_path/select.rs", ALL),
    part("filters", "/rules/src/matcher", ALL),
    part("rule", "/fast_path/rates.rs", &["rule"]),
    part("rates", "/fast_path/rates.rs", ALL),
    part("rates", "/fast_path/ticket.rs", ALL),
    part("rates", "/fast_path/mod.rs", &["assign_ticket"]),
    part("rates", "/tables/src/meters", ALL),
    part("rates", "/tables/src/deferred_charge.rs", ALL),
    part("rates", "/tables/src/aggregates", ALL),
    part("rule", "/fast_path/direction.rs", &["accepts_source"]),
    part("rule", "/rules/src/packed_fast_rule.rs", &["matches_", "is_only_ue"]),
    part("next hop", "/fast_path/burst.rs", ALL),
    part("next hop", "/tables/src/routes", ALL),
    part("usage", "/fast_path/direction.rs", &["unchecked_usage", "count_packet"]),
    part("usage", "/tables/src/usage.rs", &["unchecked", "count"]),
    part("usage", "/tables/src/fast_rule.rs", &["count"]),
    part("headers", "/wire/src/usual/outer", ALL),
    part("headers", "/wire/src/usual/rewrite.rs", ALL),
    part("headers", "/pktio/src/mem.rs", &["replace_front"]),
    part("rewrite", "/fast_path/direction.rs", ALL),
    part("rewrite", "/fast_path/relay.rs", ALL),
    part("rewrite", "/fast_path/mod.rs", &["rewrite_all"]),
    part("send", "/fast_path/send.rs", ALL),
    part("queues", "/shaper/src/", ALL),
    part("queues", "/datapath/src/shaping", ALL),
    part("stages", "/datapath/src/stage/", ALL),
    part("stages", "/datapath/src/slow/", ALL),
];

/// Instructions that are in no part: the step around the fast path, functions that the stages call,
/// and functions of libraries.
const REST: &str = "step";

#[derive(Debug, clap::Args)]
pub(crate) struct InstructionsArguments {
    /// Options of `adit bench datapath` to measure; default: a list of all kinds. May be repeated.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    mode: Vec<String>,
    /// Measure the usual packet, one rate, one filter and both only.
    #[arg(long)]
    quick: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also write JSON to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &InstructionsArguments) -> anyhow::Result<()> {
    let modes = match arguments.mode.is_empty() {
        true => modes(arguments.quick),
        false => arguments.mode.iter().map(String::as_str).collect(),
    };
    let document = measure(&Interrupt::watch()?, &modes)?;
    if let Some(path) = &arguments.out {
        write_json(path, &document)?;
    }
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&document)?),
        false => println!("{}", table(&document)),
    }
    Ok(())
}

/// The modes of the suite.
pub(super) fn modes(quick: bool) -> Vec<&'static str> {
    if quick { QUICK.to_vec() } else { MODES.iter().map(|(mode, _)| *mode).collect() }
}

/// The programs that are missing to count instructions, with the packages to install.
pub(super) fn missing() -> Option<String> {
    let programs = [("valgrind", "valgrind"), ("addr2line", "binutils")];
    let missing = programs.into_iter().find(|(program, _)| {
        let mut command = Command::new(program);
        let command = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        !command.status().is_ok_and(|status| status.success())
    });
    missing.map(|(program, package)| {
        format!("{program} is missing; install {package} (scripts/install.sh bench)")
    })
}

/// Counts the instructions of each mode in both directions.
pub(super) fn measure(interrupt: &Interrupt, modes: &[&str]) -> anyhow::Result<Value> {
    if let Some(missing) = missing() {
        bail!(missing);
    }
    let release = release()?;
    let folder = release.with_file_name("perf");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let adit = release.join("adit");
    if !adit.exists() {
        bail!("{} is not there; run `make build`", adit.display());
    }
    let adit = adit.canonicalize()?;
    let mut rows = Vec::new();
    for (number, mode) in modes.iter().enumerate() {
        for direction in ["uplink", "downlink"] {
            eprintln!("instructions: mode {} of {}: {mode} {direction}", number + 1, modes.len());
            let case = Case { adit: &adit, folder: &folder, mode, direction };
            rows.push(case.measure(interrupt).with_context(|| format!("mode \"{mode}\""))?);
        }
    }
    let about = "instructions of Worker::step per packet, which 40,000 packets more add to 20,000; \
                 200 sessions at random, bursts of 32, inner packets of 64 octets";
    Ok(json!({ "bench": "instructions", "about": about, "rows": rows }))
}

/// One measurement.
struct Case<'c> {
    adit: &'c Path,
    folder: &'c Path,
    mode: &'c str,
    direction: &'c str,
}

/// One run under callgrind.
struct CallgrindRun {
    counts: Counts,
    packets: u64,
}

impl Case<'_> {
    fn measure(&self, interrupt: &Interrupt) -> anyhow::Result<Value> {
        let [few, many] = PACKETS;
        // On two cores both runs take as long as one.
        let [few, many] = std::thread::scope(|scope| {
            let runs = [few, many].map(|packets| scope.spawn(|| self.run(interrupt, packets)));
            runs.map(|run| run.join().unwrap_or_else(|_| bail!("the run panicked")))
        });
        let (few, many) = (few?, many?);
        let packets = many.packets.saturating_sub(few.packets);
        let mut more = many.counts;
        for (address, count) in few.counts {
            *more.entry(address).or_default() -= count;
        }
        let addresses = more.keys().flatten().copied();
        let frames = frames(self.adit, addresses)?;
        let parts =
            by_part(&more, |address| frames.get(&address).map(Vec::as_slice).unwrap_or_default());
        let per_packet = |count: i64| {
            #[allow(clippy::cast_precision_loss, reason = "shown to people, not computed with")]
            let exact = count as f64 / packets.max(1) as f64;
            (exact * 10.0).round() / 10.0
        };
        let about = MODES.iter().find(|(mode, _)| *mode == self.mode).map(|(_, about)| about);
        let parts: BTreeMap<&str, f64> =
            parts.into_iter().map(|(part, count)| (part, per_packet(count))).collect();
        Ok(json!({
            "mode": self.mode,
            "about": about,
            "direction": self.direction,
            "instructions_per_packet": per_packet(more.values().sum()),
            "parts": parts,
        }))
    }

    fn run(&self, interrupt: &Interrupt, packets: &str) -> anyhow::Result<CallgrindRun> {
        let file = |kind| self.folder.join(format!("callgrind-{packets}.{kind}"));
        let (profile, figures) = (file("out"), file("json"));
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--dump-instr=yes", "--toggle-collect=*Worker*step*"])
            .arg(format!("--callgrind-out-file={}", profile.display()))
            .arg(self.adit)
            .args(["bench", "datapath", "--sessions", "200", "--burst", "32"])
            .args(["--packets", packets, "--direction", self.direction])
            .args(self.mode.split_whitespace())
            .arg("--out")
            .arg(&figures);
        interrupt.run(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        let text = std::fs::read_to_string(&profile).context("what callgrind wrote")?;
        let counts = counts(&text, &self.adit.display().to_string())?;
        let packets = processed_pkts(&read_json(&figures)?);
        // Best effort: the files are in the build folder.
        let _ = [profile, figures].map(std::fs::remove_file);
        Ok(CallgrindRun { counts, packets })
    }
}

/// Packets that the worker processed, those of the warm-up included.
fn processed_pkts(figures: &Value) -> u64 {
    let rows = figures["rows"].as_array().into_iter().flatten();
    let of_row = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap_or(0);
        let burst = number("burst_pkts").max(1);
        let bursts = ["window_pkts", "warm_up_pkts"].map(|name| number(name).div_ceil(burst));
        bursts.iter().sum::<u64>() * burst
    };
    rows.filter(|row| row["what"] == "worker").map(of_row).sum()
}

/// Sums of the counts by part.
fn by_part<'f>(
    counts: &Counts,
    frames: impl Fn(u64) -> &'f [InlinedFrame],
) -> BTreeMap<&'static str, i64> {
    let mut parts = BTreeMap::new();
    for (address, count) in counts.iter().filter(|(_, count)| **count != 0) {
        let frames = address.map(&frames).unwrap_or_default();
        *parts.entry(part_of(frames)).or_default() += count;
    }
    parts
}

/// The part of an instruction: that of the innermost function that is in one.
fn part_of(frames: &[InlinedFrame]) -> &'static str {
    let of_frame = |frame: &InlinedFrame| {
        let fits = |part: &&PacketPart| {
            frame.file.contains(part.file)
                && part.functions.iter().any(|name| frame.function.starts_with(name))
        };
        PARTS.iter().find(fits).map(|part| part.name)
    };
    frames.iter().find_map(of_frame).unwrap_or(REST)
}

/// The parts in the order of their columns, that of their first entries.
fn columns() -> Vec<&'static str> {
    let mut columns = Vec::new();
    for part in &PARTS {
        if !columns.contains(&part.name) {
            columns.push(part.name);
        }
    }
    columns
}

/// The parts that any row has, in the order of their columns.
pub(super) fn used_parts(document: &Value) -> Vec<&'static str> {
    let rows = document["rows"].as_array().into_iter().flatten();
    let is_used = |part: &&str| rows.clone().any(|row| !row["parts"][*part].is_null());
    columns().into_iter().chain([REST]).filter(is_used).collect()
}

/// The rows as a table.
pub(super) fn table(document: &Value) -> Table {
    let rows = document["rows"].as_array().into_iter().flatten();
    let parts = used_parts(document);
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["mode", "direction", "all"].into_iter().chain(parts.iter().copied()));
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let mode = if text("mode").is_empty() { "usual packet".to_owned() } else { text("mode") };
        let all = row["instructions_per_packet"].to_string();
        let cells = parts.iter().map(|part| match &row["parts"][*part] {
            Value::Null => String::new(),
            count => count.to_string(),
        });
        table.add_row([mode, text("direction"), all].into_iter().chain(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> InlinedFrame {
        InlinedFrame { function: function.to_owned(), file: file.to_owned() }
    }

    #[test]
    fn instruction_belongs_to_the_innermost_part() {
        let rewrite = frame("rewrite", "/x/crates/datapath/src/fast_path/direction.rs");
        let map = frame("map", "/rustc/library/core/src/option.rs");
        let emit = frame("emit", "/x/crates/wire/src/usual/outer.rs");
        let usage = frame("unchecked_usage", "/x/crates/datapath/src/fast_path/direction.rs");
        assert_eq!(part_of(&[map.clone(), rewrite.clone()]), "rewrite");
        assert_eq!(part_of(&[emit, rewrite.clone()]), "headers");
        assert_eq!(part_of(&[map.clone(), usage, rewrite]), "usage");
        assert_eq!(part_of(&[map]), "step");
        assert_eq!(part_of(&[]), "step");
    }

    #[test]
    fn parts_add_up_to_all_instructions() {
        let counts = Counts::from([(None, 2), (Some(1), 5), (Some(2), 7)]);
        let send = [frame("send_all", "/datapath/src/fast_path/send.rs")];
        let parts = by_part(&counts, |address| if address == 1 { &send } else { &[] });
        assert_eq!(parts, BTreeMap::from([("send", 5), ("step", 9)]));
    }

    #[test]
    fn every_part_has_a_column() {
        assert!(PARTS.iter().all(|part| columns().contains(&part.name)));
        assert!(QUICK.iter().all(|quick| MODES.iter().any(|(mode, _)| mode == quick)));
    }

    #[test]
    fn packets_are_whole_bursts_of_the_worker() {
        let row = |what: &str| json!({ "what": what, "burst_pkts": 32, "window_pkts": 20_000, "warm_up_pkts": 2_000 });
        let figures = json!({ "rows": [row("floor"), row("worker")] });
        assert_eq!(processed_pkts(&figures), 20_000 + 2_016);
    }

    #[test]
    fn table_leaves_out_parts_without_instructions() {
        let row = json!({ "mode": "", "direction": "uplink", "instructions_per_packet": 12.5,
            "parts": { "send": 2.5, "step": 10.0 } });
        let text = table(&json!({ "rows": [row] })).to_string();
        assert!(text.contains("usual packet") && text.contains("12.5"), "{text}");
        assert!(text.contains("send") && !text.contains("filters"), "{text}");
    }
}
