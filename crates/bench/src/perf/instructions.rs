//! `adit-bench perf instructions`: instructions of one packet, by part of the fast path.
//!
//! callgrind counts the instructions of `Worker::step` in `adit-bench datapath`, with few and with
//! many packets. The difference is the cost of the additional packets, without start and first
//! packets. Each instruction belongs to the innermost function around it that [`PARTS`] names;
//! functions that the compiler inlined count as well.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::{Value, json};

use super::callgrind::{Counts, InlinedFrame, counts, frames};
use super::{output, scratch_folder};
use crate::datapath::DatapathArguments;
use crate::report::{self, rounded};

/// Numbers of packets of the shorter and of the longer run.
const PACKETS: [&str; 2] = ["20000", "60000"];

/// Options of `adit-bench datapath`, and what each set measures.
const MODES: [(&str, &str); 29] = [
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
    ("--vlan --mixed", "VLAN tags, half IPv6"),
    ("--v6", "IPv6"),
    ("--mixed", "half IPv6"),
    ("--sdf --mixed", "half IPv6, four filters"),
    ("--n9", "from tunnel to tunnel"),
    ("--n9 --rates police", "from tunnel to tunnel, two rates"),
    ("--n9 --vlan", "from tunnel to tunnel, VLAN tags"),
    ("--n3-v6", "tunnels over IPv6"),
    ("--n3-v6 --rates police", "tunnels over IPv6, two rates"),
];

/// Options that a quick run measures.
const QUICK_MODES: [&str; 4] = ["", "--rates police", "--sdf=one", "--sdf=one --rates police"];

/// A part of the processing: the functions of a file whose names begin with one of `functions`.
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

/// Matches every function of a file.
const ALL: &[&str] = &[""];

/// All parts. An instruction belongs to the first part that matches its function.
const PARTS: [PacketPart; 33] = [
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
    part("rates", "/tables/src/charging.rs", ALL),
    part("rates", "/tables/src/aggregates", ALL),
    part("rule", "/fast_path/direction.rs", &["accepts_source"]),
    part("rule", "/rules/src/packed_fast_rule.rs", &["matches_", "is_only_ue"]),
    part("next_hop", "/fast_path/burst.rs", ALL),
    part("next_hop", "/tables/src/routes", ALL),
    part("usage", "/fast_path/depart.rs", &["is_unchecked", "count_packet"]),
    part("usage", "/tables/src/usage.rs", &["unchecked", "count"]),
    part("usage", "/tables/src/fast_rule.rs", &["count"]),
    part("headers", "/wire/src/usual/outer", ALL),
    part("headers", "/wire/src/usual/rewrite.rs", ALL),
    part("headers", "/pktio/src/mem.rs", &["replace_front"]),
    part("rewrite", "/fast_path/depart.rs", ALL),
    part("rewrite", "/fast_path/direction.rs", ALL),
    part("rewrite", "/fast_path/relay.rs", ALL),
    part("rewrite", "/fast_path/mod.rs", &["rewrite_all"]),
    part("send", "/fast_path/send.rs", ALL),
    part("queues", "/datapath/src/shaper/", ALL),
    part("queues", "/datapath/src/shaping", ALL),
    part("stages", "/datapath/src/stage/", ALL),
    part("stages", "/datapath/src/slow/", ALL),
];

/// Name of the part with all other instructions: of the step around the fast path, of functions
/// that the stages call, and of libraries.
const REST_PART: &str = "step";

#[derive(Debug, clap::Args)]
pub(crate) struct InstructionsArguments {
    /// Options of `adit-bench datapath` to measure; default: a list of all kinds. May be repeated.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    mode: Vec<String>,
    /// Measure the usual packet, one rate, one filter and both only.
    #[arg(long)]
    quick: bool,
}

/// Counts the instructions of the chosen modes.
///
/// # Errors
/// A program is missing, or fails.
pub(super) fn run(arguments: &InstructionsArguments) -> anyhow::Result<Value> {
    let modes = match arguments.mode.is_empty() {
        true => modes(arguments.quick),
        false => arguments.mode.iter().map(String::as_str).collect(),
    };
    measure(&modes)
}

/// Counts the instructions of the suite's modes, or reports which program for it is missing.
///
/// # Errors
/// A program fails.
pub(super) fn measure_or_leave_out(quick: bool) -> anyhow::Result<Value> {
    match missing_program() {
        Some(missing) => Ok(report::left_out("instructions", &missing)),
        None => measure(&modes(quick)),
    }
}

fn modes(quick: bool) -> Vec<&'static str> {
    if quick { QUICK_MODES.to_vec() } else { MODES.iter().map(|(mode, _)| *mode).collect() }
}

/// Returns the first missing program that counts instructions need, and its package.
fn missing_program() -> Option<String> {
    let programs = [("valgrind", "valgrind"), ("addr2line", "binutils")];
    let missing = programs
        .into_iter()
        .find(|(program, _)| output(Command::new(program).arg("--version")).is_err());
    missing.map(|(program, package)| {
        format!("{program} is missing; install {package} (scripts/install.sh bench)")
    })
}

/// Counts the instructions of each mode in both directions.
fn measure(modes: &[&str]) -> anyhow::Result<Value> {
    if let Some(missing) = missing_program() {
        bail!(missing);
    }
    let (program, folder) = (std::env::current_exe()?.canonicalize()?, scratch_folder()?);
    let mut rows = Vec::new();
    for (number, mode) in modes.iter().enumerate() {
        for direction in ["uplink", "downlink"] {
            eprintln!("instructions: mode {} of {}: {mode} {direction}", number + 1, modes.len());
            let case = InstructionsCase { program: &program, folder: &folder, mode, direction };
            rows.push(case.measure().with_context(|| format!("mode \"{mode}\""))?);
        }
    }
    let mut document = report::of("instructions", &rows);
    document["about"] = json!(
        "instructions of Worker::step per packet, which 40,000 packets more add to 20,000; \
         200 sessions at random, bursts of 32, inner packets of 64 octets"
    );
    Ok(document)
}

/// One measurement.
struct InstructionsCase<'c> {
    program: &'c Path,
    folder: &'c Path,
    mode: &'c str,
    direction: &'c str,
}

/// One run under callgrind.
struct CallgrindRun {
    counts: Counts,
    packets: usize,
}

impl InstructionsCase<'_> {
    fn measure(&self) -> anyhow::Result<Value> {
        // On two cores both runs take as long as one.
        let [few, many] = std::thread::scope(|scope| {
            let runs = PACKETS.map(|packets| scope.spawn(|| self.run(packets)));
            runs.map(|run| run.join().unwrap_or_else(|_| bail!("the run panicked")))
        });
        let (few, many) = (few?, many?);
        let packets = many.packets.saturating_sub(few.packets);
        let mut more = many.counts;
        for (address, count) in few.counts {
            *more.entry(address).or_default() -= count;
        }
        let frames = frames(self.program, more.keys().flatten().copied())?;
        let parts =
            by_part(&more, |address| frames.get(&address).map(Vec::as_slice).unwrap_or_default());
        let per_packet = |count: i64| json!(rounded(count as f64 / packets.max(1) as f64));
        let about = MODES.iter().find(|(mode, _)| *mode == self.mode).map(|(_, about)| about);
        let mut row = json!({
            "mode": self.mode,
            "about": about,
            "direction": self.direction,
            "instructions_per_packet": per_packet(more.values().sum()),
        });
        for (part, count) in parts {
            row[part] = per_packet(count);
        }
        Ok(row)
    }

    fn run(&self, packets: &str) -> anyhow::Result<CallgrindRun> {
        let line = format!(
            "datapath --sessions 200 --burst 32 --packets {packets} --direction {} {}",
            self.direction, self.mode
        );
        let arguments = || line.split_whitespace();
        let options = DatapathArguments::try_parse_from(arguments())?;
        let profile = self.folder.join(format!("callgrind-{packets}.out"));
        let mut command = Command::new("valgrind");
        // Each matching function turns the count on or off: no function of the bench may match.
        command
            .args(["--tool=callgrind", "--dump-instr=yes", "--toggle-collect=*Worker*step*"])
            .arg(format!("--callgrind-out-file={}", profile.display()))
            .arg(self.program)
            .args(arguments());
        output(&mut command)?;
        let text = std::fs::read_to_string(&profile).context("what callgrind wrote")?;
        let counts = counts(&text, &self.program.display().to_string())?;
        // Best effort: the file is in the build folder.
        let _ = std::fs::remove_file(profile);
        Ok(CallgrindRun { counts, packets: options.processed_pkts() })
    }
}

/// Returns the sums of the counts by part.
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

/// Returns the part of an instruction: that of the innermost function that belongs to a part.
fn part_of(frames: &[InlinedFrame]) -> &'static str {
    let of_frame = |frame: &InlinedFrame| {
        let fits = |part: &&PacketPart| {
            frame.file.contains(part.file)
                && part.functions.iter().any(|name| frame.function.starts_with(name))
        };
        PARTS.iter().find(fits).map(|part| part.name)
    };
    frames.iter().find_map(of_frame).unwrap_or(REST_PART)
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
        let usage = frame("count_packet", "/x/crates/datapath/src/fast_path/depart.rs");
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
    fn modes_are_options_of_the_datapath() {
        let packets = |mode: &str| {
            let line = format!("datapath --sessions 200 --packets 20000 {mode}");
            DatapathArguments::try_parse_from(line.split_whitespace()).unwrap().processed_pkts()
        };
        // Whole bursts of 32.
        assert!(MODES.iter().all(|(mode, _)| packets(mode) == 20_000 + 2_016));
        assert!(QUICK_MODES.iter().all(|quick| MODES.iter().any(|(mode, _)| mode == quick)));
    }
}
