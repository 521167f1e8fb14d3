//! `adit-bench memory`: the resident memory of the whole process with many PFCP sessions.
//!
//! The node establishes the sessions, and each receives a packet in both directions, so that all
//! its counters are in resident memory.

use adit_types::limits::BURST_DEFAULT;
use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::control_plane::{BenchControlPlane, bench_session};
use super::measure::{SHAPED_PKTS_FEW, WorkerBench};
use super::packet::BenchPacket;
use super::{report, smf};

/// Measures with `count` sessions and one worker.
///
/// # Errors
/// A session is refused or a packet is not forwarded.
pub(crate) fn run(count: u32) -> anyhow::Result<Value> {
    let at_start = resident_bytes()?;
    let mut control = BenchControlPlane::new(count, 1)?;
    let with_tables = resident_bytes()?;
    eprintln!("establishing {count} sessions");
    control.establish(0, count)?;
    let with_sessions = resident_bytes()?;
    eprintln!("sending a packet each way for each session");
    let reader = control.readers.pop().context("one worker")?;
    let mut bench = WorkerBench::new(reader, SHAPED_PKTS_FEW);
    for packet in [BenchPacket::UPLINK, BenchPacket::DOWNLINK] {
        for (first, ids) in (0..).step_by(BURST_DEFAULT).zip(control.sessions.chunks(BURST_DEFAULT))
        {
            let sessions = (first..).zip(ids).map(|(number, ids)| bench_session(number, *ids));
            bench.prepare_each(packet, &sessions.collect::<Vec<_>>())?;
            let (_, sent) = bench.run()?;
            ensure!(sent == ids.len(), "a packet was not forwarded");
        }
    }
    let with_traffic = resident_bytes()?;
    let per_session = |bytes: u64| bytes / u64::from(count.max(1));
    let row = json!({
        "sessions": count,
        "rules_per_session": smf::RULES_PER_SESSION,
        "workers": 1,
        "resident_bytes_at_start": at_start,
        "resident_bytes_with_tables": with_tables,
        "resident_bytes_with_sessions": with_sessions,
        "resident_bytes_after_traffic": with_traffic,
        "resident_bytes_per_session": per_session(with_sessions),
        "resident_bytes_per_session_after_traffic": per_session(with_traffic),
    });
    drop(bench);
    Ok(report::of("memory", &[row]))
}

/// Returns the resident set of this process. Unit: octets. Spec: proc_pid_statm(5).
pub(crate) fn resident_bytes() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages = statm.split_ascii_whitespace().nth(1).context("a second field")?;
    let pages: u64 = pages.parse().context("a number of pages")?;
    Ok(pages * u64::try_from(rustix::param::page_size())?)
}
