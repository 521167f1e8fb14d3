//! `adit bench memory`: the resident memory of the whole process with many PFCP sessions.
//!
//! The node establishes the sessions, and each receives a packet in both directions, so that all its
//! counters are in resident memory.

use adit_datapath::Worker;
use adit_types::limits::BURST_DEFAULT;
use adit_types::{Direction, Nanos, PortId};
use anyhow::{Context, ensure};
use serde_json::json;

use super::control_plane::BenchControlPlane;
use super::io::{BenchBuf, BenchIo};
use super::packet::write_packet;
use super::{measure, report, smf};
use crate::report::BenchOutput;

/// Measures with `count` sessions and one worker.
///
/// # Errors
/// A session is refused or a packet is not forwarded.
pub(crate) fn run(count: u32, output: &BenchOutput) -> anyhow::Result<()> {
    let at_start = resident_bytes()?;
    let mut control = BenchControlPlane::new(count, 1)?;
    let with_tables = resident_bytes()?;
    eprintln!("establishing {count} sessions");
    control.establish(0, count)?;
    let with_sessions = resident_bytes()?;
    eprintln!("sending a packet each way for each session");
    let reader = control.readers.pop().context("one worker")?;
    let mut worker = measure::worker(reader, BURST_DEFAULT, measure::SHAPED_PKTS_FEW);
    for direction in [Direction::Uplink, Direction::Downlink] {
        send_to_all(&mut worker, &control, direction)?;
    }
    let with_traffic = resident_bytes()?;
    let per_session = |bytes: u64| bytes / u64::from(count.max(1));
    let document = json!({
        "bench": "memory",
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
    report::flat(&document, output)?;
    drop(worker);
    Ok(())
}

/// Forwards one packet for each session.
fn send_to_all(
    worker: &mut Worker<BenchIo>,
    control: &BenchControlPlane,
    direction: Direction,
) -> anyhow::Result<()> {
    let rx_port = PortId(u16::from(direction == Direction::Downlink));
    let spare = (0..BURST_DEFAULT).map(|_| BenchBuf::take()).collect();
    let mut io = BenchIo { sent: spare, ..BenchIo::new(rx_port) };
    let mut numbers = 0..u32::try_from(control.sessions.len())?;
    let mut forwarded = 0;
    while forwarded < control.sessions.len() {
        for number in numbers.by_ref().take(BURST_DEFAULT) {
            let mut buf = io.sent.pop().context("a spare buffer")?;
            let session = crate::control_plane::bench_session(
                number,
                control.sessions[usize::try_from(number)?],
            );
            write_packet(&mut buf, direction, session, crate::network::DN_ADDR)?;
            io.ready.push(buf);
        }
        let offered = io.ready.len();
        let report = worker.step(Nanos(u64::from(numbers.start)), &mut io);
        forwarded += report.received;
        ensure!(report.received == offered, "{} of {offered} were received", report.received);
        io.gather();
        ensure!(io.sent.len() == BURST_DEFAULT, "a packet was not forwarded");
    }
    Ok(())
}

/// The resident set of this process. Spec: proc_pid_statm(5).
fn resident_bytes() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages = statm.split_ascii_whitespace().nth(1).context("a second field")?;
    let pages: u64 = pages.parse().context("a number of pages")?;
    Ok(pages * u64::try_from(rustix::param::page_size())?)
}
