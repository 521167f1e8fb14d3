//! `adit-lab saturate`: overloads adit and testpmd in turns over memif, in one run, and compares
//! their rates.
//!
//! Both targets run on the same core; while one is measured, the other is paused. The tester has
//! its own core and writes frames straight into the target's memory ([`adit_lab_engine::memif`]),
//! so that the target is the bottleneck. testpmd swaps MAC addresses (macswap) on one memif; adit
//! forwards between two, N3 and N6. Both receive frames of the same length.

use adit_pktio::mem::MemBuf;
use adit_types::{MacAddr, PortId};
use anyhow::{Context, Result, bail};

use super::any_engine::{TESTER_MACS, resolve};
use super::measurement::{LabMeasurement, Prepared};
use super::progress::mpps;
use super::quantity::{Quantity, higher, lower, plain};
use super::report::{OutputArguments, Report};
use super::rig::{ARP_TIMEOUT, GNB_TEID, on_tester_quietly, record_cores, serve_while};
use super::target::rules::possible_value;
use super::target::{OuterFamily, RunningTarget, TargetArguments, TargetKind};
use super::testbed::{Testbed, TestbedArguments, memif_address};
use super::traffic::span_ns;
use adit_lab_engine::clock::{NS_PER_S, TscClock, scaled};
use adit_lab_engine::frame::Template;
use adit_lab_engine::inspect::probe;
use adit_lab_engine::memif::{Listener, Memif, PACKET_LEN_MAX, Ports};
use adit_lab_engine::neighbor::Neighbors;
use adit_lab_engine::plan::{PlanConfig, PlannedPacket, SessionOrder, draw_plan};
use adit_lab_engine::stamp::Stamp;
use adit_lab_engine::trial::Engine;
use adit_lab_process::stop::{Stop, environment};
use adit_lab_smf::LabSmf;
use adit_lab_smf::bulk::SessionsConfig;
use adit_lab_smf::exchange::ProcedureReport;

/// Packets per burst.
const BURST: u16 = 32;
/// Iterations of the tester's loop between two reads of the clock.
const CLOCK_TURNS: u32 = 64;
/// Minimum duration of traffic before each measurement, which warms up the core. The warm-up goes
/// on until every session has had a packet. Unit: ns.
const WARM_UP_NS: u64 = 100_000_000;
/// Maximum duration of the warm-up, if the target does not accept all packets. Unit: ns.
const WARM_UP_NS_MAX: u64 = 10_000_000_000;
/// Maximum number of the target's requests that the tester answers per [`CLOCK_TURNS`] iterations.
const REQUESTS_MAX: usize = 64;
/// How often the tester looks for room in the target's full receive ring before it drops an answer.
const ROOM_CHECKS: u32 = 100_000;
/// Forwarded packets of a target in a direction.
const FORWARDED: Quantity<'_> = higher("forwarded", "pps");
/// Share of the tester's iterations that found the target's receive ring full.
const RING_FULL: Quantity<'_> = plain("receive ring full", "permille");
/// Frames that came back with another length than expected.
const OTHERS: Quantity<'_> = plain("other frames", "packets");
/// TSC cycles per packet.
const CYCLES: Quantity<'_> = lower("cycles per packet", "millicycles");
const RATIO: &str = "adit / testpmd";
const DIRECTIONS: [&str; 2] = ["uplink", "downlink"];
/// Length of the outer IPv4, UDP and GTP-U headers with a PDU Session Container. Unit: octets.
const TUNNEL_LEN: usize = 20 + 8 + 16;
const TUNNEL_LEN_PLAIN: usize = 20 + 8 + 8;
/// The tester must find the target's receive ring full in this share of its iterations: otherwise
/// the target was not saturated.
const FULL_PERMILLE_MIN: u64 = 500;

/// Options of `adit-lab saturate`.
#[derive(Debug, clap::Args)]
pub struct SaturateArguments {
    #[command(flatten)]
    bench: TestbedArguments,
    /// Length of the UEs' IP packets.
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,
    /// Duration of each measurement.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span_ns)]
    span: u64,
    /// Rounds; each measures both targets, uplink and downlink.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Fail if the ratio of a direction is below N thousandths.
    #[arg(long, value_name = "N")]
    permille_min: Option<u64>,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    target: TargetArguments,
}

impl SaturateArguments {
    /// Returns the options for a target of this kind.
    fn target_options(&self, target: TargetKind) -> TargetArguments {
        TargetArguments { target, ..self.target.clone() }
    }
}

/// Both targets. Fields drop in order: ports close before DPDK ends.
pub(crate) struct SaturationRig {
    /// testpmd and adit.
    sides: [SaturatedTarget; 2],
    bench: Testbed,
}

/// One direction of one target.
pub(crate) struct SaturationTurn {
    side: usize,
    stream: usize,
}

impl LabMeasurement for SaturateArguments {
    const NAME: &'static str = "saturate";
    type Rig = SaturationRig;
    type Case = SaturationTurn;

    fn output(&self) -> &OutputArguments {
        &self.output
    }

    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>> {
        // Report mistakes in rules and names before anything starts.
        let config = self.target_options(TargetKind::Adit).sessions_config(GNB_TEID)?;
        let bench = Testbed::start(&self.bench, &[])?;
        report.record_tester(&bench);
        let core = self.target.core(&bench)?;
        record_cores(&self.target, &bench, core, report);
        report.condition("sessions", self.target.sessions);
        report.condition("rules", possible_value(&self.target.pfcp.rules));
        if let Some(excess) = &self.target.adit.excess {
            report.condition("excess", possible_value(excess));
        }
        let testpmd = SaturatedTarget::testpmd(self, &config, &bench, core, stop)?;
        let adit = SaturatedTarget::adit(self, &config, &bench, core, stop)?;
        let established = adit.established.clone().map(|of| ("establishment".to_owned(), of));
        report.procedures.extend(established);
        let turns = (0..self.rounds).flat_map(|_| [(0, 0), (0, 1), (1, 0), (1, 1)]);
        let turns = turns.map(|(side, stream)| SaturationTurn { side, stream }).collect();
        Ok(Some((SaturationRig { sides: [testpmd, adit], bench }, turns)))
    }

    fn measure(
        &self,
        rig: &mut SaturationRig,
        turn: &SaturationTurn,
        report: &mut Report,
        _: &Stop,
    ) -> Result<()> {
        let bench = &rig.bench;
        let side = rig.sides.get_mut(turn.side).context("a side")?;
        side.target.resume();
        side.target.check()?;
        let SaturatedTarget { name, engine, streams, .. } = side;
        let stream = streams.get(turn.stream).context("a stream")?;
        let hz = bench.eal().tsc_hz();
        let ticks = |ns| scaled(ns, hz, NS_PER_S);
        let timing = FloodTiming {
            warm_up: ticks(WARM_UP_NS),
            warm_up_max: ticks(WARM_UP_NS_MAX),
            span: ticks(self.span),
        };
        let Engine { io, neighbors, .. } = engine;
        let found = on_tester_quietly(bench, || flood(io, neighbors, stream, timing))?;
        if found.wrong > 0 {
            bail!("{name} sent {} wrong frames back", found.wrong);
        }
        let case = format!("{name}, {}", stream.direction);
        let forwarded_pps = scaled(found.forwarded, hz, found.ticks.max(1));
        let full_permille = scaled(found.full, 1000, found.turns.max(1));
        let rate = mpps(forwarded_pps);
        eprintln!("{case}: {rate}, receive ring full in {full_permille} ‰ of the turns");
        if full_permille < FULL_PERMILLE_MIN {
            report.warn(format!(
                "{case}: its receive ring was full in only {full_permille} ‰ of the tester's turns; it may be faster"
            ));
        }
        report.condition(&format!("frame, {}", stream.direction), stream.template.frame_len());
        report.add(FORWARDED, &case, [forwarded_pps]);
        report.add(CYCLES, &case, [scaled(found.ticks, 1000, found.forwarded.max(1))]);
        report.add(RING_FULL, &case, [full_permille]);
        report.add(OTHERS, &case, [found.others]);
        side.target.pause();
        Ok(())
    }

    fn conclude(&self, rig: SaturationRig, report: &mut Report) -> Result<()> {
        let [_, mut adit] = rig.sides;
        adit.target.resume();
        report.target_counters = adit.target.counters(&Stop::default());
        for direction in DIRECTIONS {
            let [testpmd, adit] = ["testpmd", "adit"].map(|of| format!("{of}, {direction}"));
            report.ratio(RATIO, FORWARDED, [&adit, &testpmd]);
            let ratio = report.figures.iter().find(|of| of.quantity == RATIO && of.case == adit);
            let low = ratio.zip(self.permille_min).filter(|(ratio, min)| ratio.median < *min);
            if let Some((ratio, min)) = low {
                let text = format!("{direction}: {} ‰ of testpmd, expected {min}", ratio.median);
                report.findings.push(text);
            }
        }
        drop(adit);
        drop(rig.bench);
        Ok(())
    }
}

/// One target with its ports and frames.
struct SaturatedTarget {
    name: &'static str,
    engine: Engine<Ports, TscClock>,
    target: RunningTarget,
    streams: Vec<SaturationStream>,
    established: Option<ProcedureReport>,
    _smf: Option<LabSmf>,
}

/// The traffic of one direction: sent and expected frames.
struct SaturationStream {
    direction: &'static str,
    /// Index of the sending port.
    tx: usize,
    template: Template,
    plan: std::sync::Arc<[PlannedPacket]>,
    /// Length of a frame that comes back correctly. Unit: octets.
    len_back: usize,
    /// TEID of session 0 in returned frames; `None` without a tunnel.
    teid_back: Option<u32>,
}

impl SaturatedTarget {
    fn testpmd(
        arguments: &SaturateArguments,
        config: &SessionsConfig,
        bench: &Testbed,
        core: u16,
        stop: &Stop,
    ) -> Result<Self> {
        let options = arguments.target_options(TargetKind::Testpmd);
        let listener = Listener::bind(&memif_address("l2"))?;
        let mut target = RunningTarget::start(&options, bench, core)?;
        let memif = target.accept(&listener, stop)?;
        target.pause();
        let ports = Ports::new(vec![memif], TESTER_MACS.to_vec());
        let engine = Engine::new(ports, bench.clock(), Neighbors::default(), 1);
        let teids = vec![1; usize::try_from(options.sessions)?];
        let swap = |uplink| -> Result<SaturationStream> {
            let stream = stream(arguments, config, uplink, TESTER_MACS[1], &teids)?;
            let len_back = stream.template.frame_len();
            Ok(SaturationStream { tx: 0, len_back, teid_back: None, ..stream })
        };
        let streams = vec![swap(true)?, swap(false)?];
        Ok(Self { name: "testpmd", engine, target, streams, established: None, _smf: None })
    }

    fn adit(
        arguments: &SaturateArguments,
        config: &SessionsConfig,
        bench: &Testbed,
        core: u16,
        stop: &Stop,
    ) -> Result<Self> {
        let options = arguments.target_options(TargetKind::Adit);
        let n3 = Listener::bind(&memif_address("n3"))?;
        let n6 = Listener::bind(&memif_address("n6"))?;
        let mut target = RunningTarget::start(&options, bench, core)?;
        let memifs = vec![target.accept(&n3, stop)?, target.accept(&n6, stop)?];
        let ports = Ports::new(memifs, TESTER_MACS.to_vec());
        let mut smf = options.lab_smf()?;
        eprintln!("establishing {} sessions", options.sessions);
        let neighbors = Neighbors::new(options.network.port_addresses(TESTER_MACS));
        let mut engine = Engine::new(ports, bench.clock(), neighbors, 2);
        let established = serve_while(
            bench,
            || engine.serve(),
            || {
                let mut watch = || stop.check().and_then(|()| target.check());
                smf.associate(options.timeout(), &mut watch)?;
                smf.establish_all(config, &mut watch)
            },
        )?;
        let (sessions, established) = established;
        smf.answer_in_background()?;
        let mut macs = Vec::new();
        for (port, address) in options.network.next_hops() {
            let found = resolve(&mut engine, port, address, ARP_TIMEOUT, stop);
            stop.check()?;
            macs.push(found.with_context(|| {
                format!("no answer to ARP for {address} within {ARP_TIMEOUT:?}")
            })?);
        }
        target.pause();
        let streams = vec![
            stream(arguments, config, true, macs[0], &sessions.uplink_teids)?,
            stream(arguments, config, false, macs[1], &sessions.uplink_teids)?,
        ];
        let (established, smf) = (Some(established), Some(smf));
        Ok(Self { name: "adit", engine, target, streams, established, _smf: smf })
    }
}

/// Makes a stream towards a UPF.
fn stream(
    arguments: &SaturateArguments,
    config: &SessionsConfig,
    uplink: bool,
    dst_mac: MacAddr,
    teids: &[u32],
) -> Result<SaturationStream> {
    let options = &arguments.target;
    let tx = usize::from(!uplink);
    let form = options.network.form(uplink, TESTER_MACS[tx], dst_mac);
    let template = Template::new(&form, arguments.size)
        .map_err(|error| environment(format!("--size {}: {error}", arguments.size)))?;
    let plan = draw_plan(&PlanConfig {
        teids,
        first: 0,
        gnbs: &options.network.gnb_addresses(),
        source_ports: options.network.source_ports,
        weights: &[1],
        order: SessionOrder::Random,
        seed: if uplink { 1 } else { 2 },
    });
    let len = template.frame_len();
    // The outer IPv6 header is 20 octets longer than the IPv4 header.
    let more = if options.network.n3_family == OuterFamily::Ipv6 { 20 } else { 0 };
    let len_back = match (uplink, config.profile.qfi.is_some()) {
        (true, _) => len - form.tunnel.map_or(0, |tunnel| more + tunnel_len(tunnel.psc.is_some())),
        (false, qfi) => len + more + tunnel_len(qfi),
    };
    Ok(SaturationStream {
        direction: if uplink { "uplink" } else { "downlink" },
        tx,
        template,
        plan: plan.into(),
        len_back,
        teid_back: (!uplink).then_some(GNB_TEID),
    })
}

const fn tunnel_len(with_container: bool) -> usize {
    if with_container { TUNNEL_LEN } else { TUNNEL_LEN_PLAIN }
}

/// Result of a flood.
#[derive(Default)]
struct FloodResult {
    ticks: u64,
    forwarded: u64,
    others: u64,
    wrong: u64,
    turns: u64,
    full: u64,
}

/// Durations of a flood, in ticks.
#[derive(Clone, Copy)]
struct FloodTiming {
    warm_up: u64,
    warm_up_max: u64,
    span: u64,
}

/// The target's requests that wait for an answer: ARP, neighbor discovery, echoes.
type Requests = Vec<(PortId, MemBuf)>;

/// Sends as much as the target's ring accepts, counts the returned frames, and answers the target's
/// requests.
fn flood(
    ports: &mut Ports,
    neighbors: &mut Neighbors,
    stream: &SaturationStream,
    timing: FloodTiming,
) -> FloodResult {
    let FloodTiming { warm_up, warm_up_max, span } = timing;
    let mut cursor = PlanCursor::default();
    let mut found = FloodResult::default();
    let mut requests = Requests::new();
    let start = adit_dpdk::tsc();
    let mut counting = None;
    loop {
        for _ in 0..CLOCK_TURNS {
            let sent = send(&mut ports.memifs[stream.tx], stream, &mut cursor);
            found.turns += 1;
            found.full += u64::from(sent == 0);
            for (port, memif) in (0..).map(PortId).zip(&mut ports.memifs) {
                count_returned(memif, port, stream, &mut found, &mut requests);
            }
        }
        for (port, request) in requests.drain(..) {
            answer(ports, neighbors, port, request);
        }
        let now = adit_dpdk::tsc();
        match counting {
            None if now - start >= warm_up
                && (cursor.is_complete || now - start >= warm_up_max) =>
            {
                found = FloodResult { wrong: found.wrong, ..FloodResult::default() };
                counting = Some(now);
            }
            Some(since) if now - since >= span => {
                found.ticks = now - since;
                break;
            }
            _ => {}
        }
    }
    found
}

/// Answers a request of the target, as soon as its receive ring has room.
#[cold]
fn answer(ports: &mut Ports, neighbors: &mut Neighbors, port: PortId, request: MemBuf) {
    let memif = &ports.memifs[usize::from(port.0)];
    (0..ROOM_CHECKS).take_while(|_| memif.room() == 0).for_each(|_| std::hint::spin_loop());
    neighbors.receive(ports, port, request);
}

/// Position in a stream's plan.
#[derive(Default)]
struct PlanCursor {
    next: usize,
    /// True once every packet of the plan was sent.
    is_complete: bool,
}

impl PlanCursor {
    /// Advances by one packet in a plan of `len` packets.
    #[inline]
    fn advance(&mut self, len: usize) {
        self.next += 1;
        if self.next == len {
            *self = Self { next: 0, is_complete: true };
        }
    }
}

/// Sends up to one burst. Returns the number of packets that fit.
#[inline]
fn send(memif: &mut Memif, stream: &SaturationStream, cursor: &mut PlanCursor) -> u16 {
    let len = stream.template.frame_len();
    let count = memif.room().min(BURST);
    for index in 0..count {
        let Some(entry) = stream.plan.get(cursor.next) else { return 0 };
        cursor.advance(stream.plan.len());
        let stamp = Stamp { tag: 0, session: entry.session, sequence: 0, intended: 0 };
        if let Some(out) = memif.fill(index, len) {
            stream.template.write(out, entry, stamp);
        }
    }
    memif.send(count);
    count
}

/// Counts returned frames by length, checks the content of the first frame of the burst, and keeps
/// frames of another length as requests.
#[inline]
fn count_returned(
    memif: &mut Memif,
    port: PortId,
    stream: &SaturationStream,
    found: &mut FloodResult,
    requests: &mut Requests,
) {
    let count = memif.waiting();
    if count == 0 {
        return;
    }
    for index in 0..count {
        if memif.packet_len(index) == stream.len_back {
            found.forwarded += 1;
        } else {
            found.others += 1;
            keep_request(memif.packet(index), port, requests);
        }
    }
    let first = memif.packet(0).filter(|frame| frame.len() == stream.len_back);
    if first.is_some_and(|frame| !is_in_session_tunnel(frame, stream)) {
        found.wrong += 1;
    }
    memif.release(count);
}

/// Keeps a frame that may be a request, while there is room; targets repeat unanswered requests.
#[cold]
fn keep_request(frame: Option<&[u8]>, port: PortId, requests: &mut Requests) {
    if let Some(frame) = frame.filter(|frame| frame.len() <= PACKET_LEN_MAX)
        && requests.len() < REQUESTS_MAX
    {
        requests.push((port, MemBuf::from_packet(frame)));
    }
}

/// True if the frame is a probe packet in the tunnel of its session.
fn is_in_session_tunnel(frame: &[u8], stream: &SaturationStream) -> bool {
    probe(frame).is_some_and(|probe| match stream.teid_back {
        Some(first) => probe.teid.map(|t| t.0) == Some(first.wrapping_add(probe.stamp.session)),
        None => true,
    })
}
