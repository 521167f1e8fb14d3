//! `adit bench datapath`: TSC cycles that one worker step costs per packet.
//!
//! A burst of packets for sessions drawn at random is written into buffers, then one
//! `Worker::step` receives, treats and sends it. Only the step is between the two readings of the
//! counter; they are part of the figure (about 25 cycles a burst). Packets are in the cache, having
//! just been written; session state is wherever the previous bursts left it.

use std::net::Ipv4Addr;

use adit_datapath::{Worker, WorkerConfig};
use adit_pktio::mem::MemBuf;
use adit_types::limits::{COMMAND_RING_LEN, EVENT_RING_LEN};
use adit_types::{Direction, MacAddr, Nanos, PortId, Qfi, VlanId, WorkerId};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::{OuterIpv4, PduSessionContainer, emit_gtpu_ipv4};
use anyhow::{Context, ensure};
use comfy_table::{Table, presets};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use zerocopy::IntoBytes;

use super::io::BenchIo;
use super::sessions::{self, BenchSession, Resident};

/// Hosts of the data network, behind its gateway: 20.0.0.0 to 99.255.255.255.
const NETWORK_START: u32 = 20 << 24;
const NETWORK_HOSTS: u32 = 80 << 24;

/// Length of the inner IP packet. Unit: octets.
const INNER_LEN: u16 = 64;

/// Steps before the measurement, so that caches and branch predictors have seen the traffic.
const WARM_UP_SHARE: usize = 10;

/// Measures every session count in both directions and prints the result.
///
/// # Errors
/// When sessions cannot be established, or not every packet was forwarded.
pub fn run(
    counts: &[usize],
    active: usize,
    packets: usize,
    burst: usize,
    json: bool,
) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for count in counts {
        eprintln!("establishing {count} sessions");
        let directions = [Direction::Uplink, Direction::Downlink];
        let mut resident = sessions::establish(*count, directions.len())?;
        for direction in directions {
            let figures = measure(&mut resident, active, direction, packets, burst)?;
            rows.push(row(*count, active.min(*count), direction, packets, burst, &figures));
        }
    }
    if json {
        println!(
            "{}",
            serde_json::to_string_pretty(&json!({ "bench": "datapath", "rows": rows }))?
        );
    } else {
        print_table(&rows);
    }
    Ok(())
}

/// Cycles per packet over all bursts of one run.
struct Figures {
    mean: f64,
    median: f64,
    p99: f64,
}

fn measure(
    resident: &mut Resident,
    active: usize,
    direction: Direction,
    packets: usize,
    burst: usize,
) -> anyhow::Result<Figures> {
    let Resident { publisher, readers, sessions } = resident;
    let reader = readers.pop().context("one reader for each measurement")?;
    let (events, _event_sink) = rtrb::RingBuffer::new(EVENT_RING_LEN);
    let (_command_source, commands) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
    let rx_port = PortId(u16::from(direction == Direction::Downlink));
    let config = WorkerConfig {
        id: WorkerId(0),
        ports: vec![rx_port],
        burst,
        buffer_pkts_max: 512,
        recovery_time_stamp: None,
    };
    let mut worker = Worker::new(config, reader, events, commands);
    let spare: Vec<MemBuf> = (0..burst).map(|_| MemBuf::new()).collect();
    let mut io =
        BenchIo { rx_port, ready: Vec::with_capacity(burst), sent: spare, macs: sessions::MACS };
    let mut random = SmallRng::seed_from_u64(1);
    let steps = packets.div_ceil(burst);
    let mut cycles = Vec::with_capacity(steps);
    let before = publisher.snapshot();
    for step in 0..steps + steps / WARM_UP_SHARE {
        while let Some(mut buf) = io.sent.pop() {
            let session = sessions[random.random_range(0..active.min(sessions.len()))];
            let host = Ipv4Addr::from_bits(NETWORK_START + random.random_range(0..NETWORK_HOSTS));
            write_packet(&mut buf, direction, session, host)?;
            io.ready.push(buf);
        }
        let now = Nanos(u64::try_from(step)?);
        let start = adit_dpdk::tsc();
        let report = worker.step(now, &mut io);
        let end = adit_dpdk::tsc();
        ensure!(report.received == burst, "a step received {} packets", report.received);
        ensure!(io.sent.len() == burst, "a step forwarded {} of {burst} packets", io.sent.len());
        if step >= steps / WARM_UP_SHARE {
            cycles.push(end.wrapping_sub(start));
        }
    }
    let after = publisher.snapshot();
    let forwarded = after.transmitted_pkts() - before.transmitted_pkts();
    ensure!(
        usize::try_from(forwarded)? == (steps + steps / WARM_UP_SHARE) * burst,
        "the counters say that {forwarded} packets were forwarded"
    );
    worker.drain(&mut io);
    Ok(figures(&mut cycles, burst))
}

pub(super) fn write_packet(
    buf: &mut MemBuf,
    direction: Direction,
    session: BenchSession,
    host: Ipv4Addr,
) -> anyhow::Result<()> {
    let mut frame = [0_u8; 256];
    let (link, inner) = match direction {
        Direction::Uplink => {
            let psc = PduSessionContainer::uplink(Qfi::new(9).context("six bits")?);
            let outer = OuterIpv4 {
                src_mac: sessions::GNB_MAC,
                dst_mac: sessions::MACS[0],
                vlan: VlanId::UNTAGGED,
                src: sessions::GNB_ADDR,
                dst: sessions::N3_ADDR,
                tos: 0,
                identification: 0,
                src_port: 2152,
                teid: session.teid,
                psc: Some(psc),
                inner_len: INNER_LEN,
            };
            let len = outer.len();
            emit_gtpu_ipv4(&mut frame[..len], &outer).map_err(|e| anyhow::anyhow!("{e:?}"))?;
            (len, (session.ue, host))
        }
        Direction::Downlink => {
            let [dst, src] = [sessions::MACS[1], sessions::DN_MAC];
            write_ethernet(&mut frame, dst, src);
            (14, (host, session.ue))
        }
    };
    let end = link + usize::from(INNER_LEN);
    write_inner(&mut frame[link..end], inner.0, inner.1);
    buf.reset(&frame[..end]);
    buf.set_rx_checksum(adit_pktio::RxChecksum::Good);
    Ok(())
}

fn write_ethernet(frame: &mut [u8], dst: MacAddr, src: MacAddr) {
    frame[..6].copy_from_slice(&dst.0);
    frame[6..12].copy_from_slice(&src.0);
    frame[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
}

fn write_inner(packet: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr) {
    let fields = Ipv4Fields {
        tos: 0,
        total_len: INNER_LEN,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        src,
        dst,
    };
    let header = Ipv4Header::new(&fields);
    packet[..20].copy_from_slice(header.as_bytes());
}

fn figures(cycles: &mut [u64], burst: usize) -> Figures {
    cycles.sort_unstable();
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let per_packet = |cycles: u64| cycles as f64 / burst as f64;
    let at = |share: usize| cycles[(cycles.len() * share / 100).min(cycles.len() - 1)];
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let mean = cycles.iter().sum::<u64>() as f64 / (cycles.len() * burst) as f64;
    Figures { mean, median: per_packet(at(50)), p99: per_packet(at(99)) }
}

fn row(
    count: usize,
    active: usize,
    direction: Direction,
    packets: usize,
    burst: usize,
    figures: &Figures,
) -> Value {
    let round = |figure: f64| (figure * 10.0).round() / 10.0;
    let (frame_in, name) = match direction {
        Direction::Uplink => (14 + 20 + 8 + 16 + INNER_LEN, "uplink"),
        Direction::Downlink => (14 + INNER_LEN, "downlink"),
    };
    json!({
        "direction": name,
        "sessions": count,
        "active_sessions": active,
        "order": "random",
        "rules_per_session": sessions::RULES_PER_SESSION,
        "frame_len_in_bytes": frame_in,
        "burst_pkts": burst,
        "window_pkts": packets,
        "warm_up_pkts": packets / WARM_UP_SHARE,
        "cycles_per_packet": round(figures.mean),
        "cycles_per_packet_median_burst": round(figures.median),
        "cycles_per_packet_p99_burst": round(figures.p99),
    })
}

fn print_table(rows: &[Value]) {
    let columns = [
        "direction",
        "sessions",
        "active_sessions",
        "frame_len_in_bytes",
        "burst_pkts",
        "rules_per_session",
        "cycles_per_packet",
        "cycles_per_packet_median_burst",
        "cycles_per_packet_p99_burst",
    ];
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(columns.map(|column| column.replace('_', " ")));
    for row in rows {
        table.add_row(columns.map(|column| match &row[column] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }));
    }
    println!("{table}");
}
