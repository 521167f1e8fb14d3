//! The steps of the demo. Each step ends with a check.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use adit_pfcp::ie::OuterHeaderCreation;
use adit_types::{BitRate, Qfi, Teid};
use anyhow::{Context, Result, bail};
use serde_json::json;

use super::bring_up::{Network, QFI};
use super::live::DemoView;
use super::programs::{
    DemoHttpServer, Iperf, IperfResult, PINGS_PER_UE, PingResult, UePrograms, ping_result,
};
use super::report::{AditCounters, DemoCheck, DemoReport, rate};
use crate::DemoArguments;
use crate::gnb::{Gnb, Leg, teid};
use crate::router::RouterLink;
use crate::topology::{DN, DN_V6, GNB, LabUe, SMF_GTPU, UE_MTU};
use adit_lab_process::stop::{Interrupted, Stop};
use adit_lab_smf::single::{LabSession, PduSession};

const UDP_RATE_BPS: u64 = 50_000_000;
const PING_INTERVAL_S: f32 = 0.2;
/// Number of pings during the path switch of a UE: two seconds.
const SWITCH_PINGS: u32 = 40;
const SWITCH_INTERVAL_S: f32 = 0.05;
/// Number of pings during a restart of adit, and the duration of the TCP connection: twelve
/// seconds.
const RESTART_PINGS: u32 = 240;
const RESTART_SECONDS: u32 = 12;
/// Timeout of address autoconfiguration. If a solicitation or its answer is lost, a UE solicits
/// again after four seconds.
const SLAAC_TIMEOUT: Duration = Duration::from_secs(15);
/// How long to wait for packets in flight before counters are compared.
const SETTLE_SPAN: Duration = Duration::from_millis(300);

/// How many packets the gNB has sent and received.
#[derive(Debug, Clone, Copy, Default)]
struct GnbPacketCounts {
    uplink: u64,
    downlink: u64,
}

impl GnbPacketCounts {
    fn of(gnb: &Gnb) -> Self {
        let counters = gnb.counters();
        Self { uplink: load(&counters.uplink.pkts), downlink: load(&counters.downlink.pkts) }
    }
}

/// A demo in progress.
#[derive(Debug)]
pub(super) struct DemoSteps<'a> {
    arguments: &'a DemoArguments,
    /// The network.
    pub network: &'a mut Network,
    /// The live view.
    pub live: &'a DemoView,
    stop: &'a Stop,
    sessions: Vec<LabSession>,
    checks: Vec<DemoCheck>,
    counters: Option<AditCounters>,
    /// The gNB's counts when the running adit started, with its counters at zero.
    uncounted: GnbPacketCounts,
    /// True once adit has ended: further steps are skipped.
    adit_ended: bool,
}

impl<'a> DemoSteps<'a> {
    /// Starts the list of checks with the GTP-U echo, which has succeeded already.
    pub(super) fn new(
        arguments: &'a DemoArguments,
        network: &'a mut Network,
        live: &'a DemoView,
        stop: &'a Stop,
    ) -> Self {
        let echo = DemoCheck::new(
            "GTP-U echo",
            true,
            format!("answered in {:.2} ms", network.echo.as_secs_f64() * 1e3),
        );
        let association = DemoCheck::new("PFCP association", true, "set up by the SMF");
        Self {
            arguments,
            network,
            live,
            stop,
            sessions: Vec::new(),
            checks: vec![association, echo],
            counters: None,
            uncounted: GnbPacketCounts::default(),
            adit_ended: false,
        }
    }

    fn ues(&self) -> impl Iterator<Item = LabUe> + use<> {
        (1..=self.arguments.ues).map(LabUe)
    }

    fn has_ipv6(&self) -> bool {
        self.network.topology.ipv6
    }

    /// Runs `step` and records its check. An error of the step becomes a failed check; only an
    /// interruption ends the demo. Skips the step if adit has ended.
    fn check(
        &mut self,
        name: &str,
        step: impl FnOnce(&mut Self) -> Result<DemoCheck>,
    ) -> Result<()> {
        if self.adit_ended {
            return Ok(());
        }
        self.live.phase(name);
        let check = match step(self) {
            Ok(check) => check,
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => DemoCheck::failed(name, &error),
        };
        let verdict = if check.ok { "ok  " } else { "FAIL" };
        self.live.print_line(&format!("{verdict} {}: {}", check.name, check.result));
        self.checks.push(check);
        if !self.adit_ended
            && let Err(error) = self.network.adit.check_running()
        {
            self.adit_ended = true;
            self.checks.push(DemoCheck::failed("adit keeps running", &error));
        }
        Ok(())
    }

    /// Establishes a PFCP session per UE and opens its tunnel at the gNB.
    ///
    /// # Errors
    /// A session is refused: the rest of the demo would test nothing.
    pub(super) fn attach(&mut self) -> Result<()> {
        self.live.phase("PFCP sessions");
        for ue in self.ues() {
            let index = ue.0 - 1;
            let session = PduSession {
                cp_seid: u64::from(ue.0),
                ipv4: ue.ipv4(),
                ipv6: self.has_ipv6().then(|| ue.ipv6()),
                gnb: GNB,
                gnb_teid: teid(index, Leg::First),
                qfi: Qfi::new(QFI).context("the QFI has six bits")?,
                router: self.has_ipv6().then_some((SMF_GTPU, smf_teid(ue))),
            };
            let established = self
                .network
                .smf
                .establish_pdu_session(&session, || self.stop.check())
                .with_context(|| format!("PFCP session of ue{}", ue.0))?;
            self.network.gnb.connect(usize::from(index), established.uplink_teid);
            if let Some(teid) = established.second_teid {
                let link = RouterLink { teid, prefix: ue.prefix(), mtu: UE_MTU.into() };
                self.network.router.serve(smf_teid(ue), link);
            }
            self.sessions.push(established);
            self.live.sessions(self.sessions.len());
        }
        let result = format!("{} established", self.sessions.len());
        self.checks.push(DemoCheck::new("PFCP sessions", true, result));
        Ok(())
    }

    /// Runs the programs of the UEs, and checks the results.
    ///
    /// # Errors
    /// Interrupted.
    pub(super) fn traffic(&mut self, server: &DemoHttpServer) -> Result<()> {
        if self.has_ipv6() {
            self.check("IPv6 prefix by SLAAC", Self::autoconfigure)?;
        }
        self.check("ping from every UE", |s| s.ping_all("ping from every UE", DN.into()))?;
        if self.has_ipv6() {
            let name = "IPv6 ping from every UE";
            self.check(name, |s| s.ping_all(name, DN_V6.into()))?;
        }
        self.check("path switch of ue1", Self::switch_path)?;
        self.check("TCP uplink", |s| s.tcp("TCP uplink", Iperf::TcpUplink))?;
        self.check("TCP downlink", |s| s.tcp("TCP downlink", Iperf::TcpDownlink))?;
        self.check("UDP uplink", Self::udp)?;
        self.check("HTTP download", |s| s.http(server))?;
        self.restart()?;
        for &mbr_bps in &self.arguments.mbr {
            for (name, kind) in
                [("TCP uplink", Iperf::TcpUplink), ("TCP downlink", Iperf::TcpDownlink)]
            {
                let name = format!("{name} through {}", rate(mbr_bps as f64));
                self.check(&name, |s| s.limited_tcp(&name, kind, mbr_bps))?;
            }
        }
        Ok(())
    }

    /// Makes every UE solicit a router. The SMF answers through adit with the prefix of the UE's
    /// PDU session, and the UE's kernel configures its address.
    fn autoconfigure(&mut self) -> Result<DemoCheck> {
        let network = &*self.network;
        for ue in self.ues() {
            network.topology.autoconfigure(ue)?;
        }
        let start = Instant::now();
        let mut left: Vec<LabUe> = self.ues().collect();
        while !left.is_empty() && start.elapsed() < SLAAC_TIMEOUT {
            self.stop.sleep(Duration::from_millis(20))?;
            let mut still = Vec::new();
            for ue in left {
                if !network.topology.is_autoconfigured(ue)? {
                    still.push(ue);
                }
            }
            left = still;
        }
        let (answered, unexpected) = (network.router.answered(), network.router.unexpected());
        let done = usize::from(self.arguments.ues) - left.len();
        let text = format!(
            "{done} of {} UEs have an address of the prefix that the SMF advertised; {answered} \
             router solicitations answered, {unexpected} other packets at the SMF",
            self.arguments.ues
        );
        let figures = json!({
            "autoconfigured_ues": done,
            "router_solicitations_answered": answered,
            "unexpected_at_smf_pkts": unexpected,
        });
        let ok = left.is_empty() && unexpected == 0;
        Ok(DemoCheck::new("IPv6 prefix by SLAAC", ok, text).with(&figures))
    }

    /// Measures TCP of UE 1 while a QER limits its bit rate. The limit counts IP packets, the
    /// goodput only their payloads.
    fn limited_tcp(&mut self, name: &str, kind: Iperf, mbr_bps: u64) -> Result<DemoCheck> {
        let session = self.sessions.first().context("ue1 has no session")?;
        let limit = BitRate::from_bps(mbr_bps);
        self.network.smf.limit_rate(session, limit, || self.stop.check())?;
        let result = self.run_iperf(kind)?;
        // The conversion to `f64` is exact below 2^53.
        let share = result.rate_bps / mbr_bps as f64 * 100.0;
        let retransmits = result.retransmits.unwrap_or_default();
        let text = format!(
            "goodput {}, {share:.1} % of the limit, {retransmits} segments retransmitted",
            rate(result.rate_bps)
        );
        let figures = json!({ "mbr_bps": mbr_bps, "iperf": result });
        Ok(DemoCheck::new(name, result.bytes > 0, text).with(&figures))
    }

    fn ping_all(&mut self, name: &str, target: IpAddr) -> Result<DemoCheck> {
        let programs = self.programs();
        let started: Vec<_> = self
            .ues()
            .map(|ue| programs.start_ping(ue, target, PINGS_PER_UE, PING_INTERVAL_S))
            .collect();
        let mut results = Vec::new();
        for ping in started {
            results.push(ping_result(&ping?.wait(self.stop)?)?);
        }
        Ok(ping_check(name, &results))
    }

    /// Moves UE 1 to another gNB tunnel while pings run. No ping may be lost, and after the SMF has
    /// the answer, downlink packets may only use the new tunnel.
    fn switch_path(&mut self) -> Result<DemoCheck> {
        let programs = self.programs();
        let ping = programs.start_ping(LabUe(1), DN.into(), SWITCH_PINGS, SWITCH_INTERVAL_S)?;
        self.stop.sleep(Duration::from_millis(700))?;
        let session = self.sessions.first().context("ue1 has no session")?;
        let new = teid(0, Leg::Second);
        let tunnel = OuterHeaderCreation::gtpu_ipv4(new, GNB);
        self.network.smf.switch_path(session, tunnel, || self.stop.check())?;
        // After the answer workers use the new rule. This waits for packets that were sent before
        // it.
        self.stop.sleep(Duration::from_millis(20))?;
        let (old_at_switch, _) = self.network.gnb.leg_pkts(0);
        let result = ping_result(&ping.wait(self.stop)?)?;
        let (old, new) = self.network.gnb.leg_pkts(0);
        let moved = old == old_at_switch && new > 0;
        let text = format!(
            "{} of {} pings answered; then {new} packets through the new tunnel, {} through the old one",
            result.received,
            result.sent,
            old - old_at_switch
        );
        Ok(DemoCheck::new("path switch of ue1", moved && result.is_complete(), text).with(&result))
    }

    /// Kills adit while a ping and a TCP connection run, and starts it again.
    ///
    /// # Errors
    /// Interrupted.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.check("restart after kill -9", Self::kill_and_restart)
    }

    /// Kills and restarts adit while a ping and a TCP connection run. Both must survive without any
    /// message from the SMF, because adit has stored the sessions.
    fn kill_and_restart(&mut self) -> Result<DemoCheck> {
        let ue = LabUe(1);
        let stop = self.stop;
        let Network { adit, topology, gnb, affinity, dir, .. } = &mut *self.network;
        let topology = &*topology;
        let programs = UePrograms { topology, dir: dir.path() };
        let ping = programs.start_ping(ue, DN.into(), RESTART_PINGS, SWITCH_INTERVAL_S)?;
        let mut before = GnbPacketCounts::default();
        let (connection, killed) = std::thread::scope(|scope| {
            let run = || programs.iperf(ue, Iperf::TcpUplink, RESTART_SECONDS, stop);
            let connection = scope.spawn(run);
            let killed = stop.sleep(Duration::from_secs(2)).and_then(|()| {
                affinity.allow_all()?;
                let restarted = adit.kill_and_restart(topology, || {
                    // All packets that adit has sent must arrive first, because the counters of the
                    // next adit start at zero.
                    stop.sleep(SETTLE_SPAN)?;
                    before = GnbPacketCounts::of(gnb);
                    Ok(())
                });
                affinity.leave_worker_alone()?;
                restarted
            });
            (connection.join(), killed)
        });
        killed?;
        let Ok(connection) = connection else { bail!("a thread of the lab ended by a fault") };
        let connection = connection.context("the TCP connection")?;
        let pings = ping_result(&ping.wait(stop)?)?;
        let counters = adit.admin().show("counters", stop)?;
        let n4 = counters["n4"].as_object().context("adit's counters lack n4")?;
        let heard = n4.iter().filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0));
        let heard = heard.filter_map(|(name, _)| name.strip_prefix("received_"));
        let (heartbeats, words): (Vec<&str>, Vec<&str>) =
            heard.partition(|name| name.starts_with("heartbeat"));
        self.uncounted = before;
        let lost = pings.sent - pings.received;
        let outage_s = f64::from(lost) * f64::from(SWITCH_INTERVAL_S);
        let told = if words.is_empty() { "heartbeats only".to_owned() } else { words.join(", ") };
        let text = format!(
            "{lost} of {} pings lost ({outage_s:.2} s), TCP went on to {}; the SMF sent {told}",
            pings.sent,
            rate(connection.rate_bps)
        );
        let figures = json!({
            "pings": pings, "outage_s": outage_s, "tcp": connection, "n4_messages": words,
        });
        let is_alone = words.is_empty() && !heartbeats.is_empty();
        let ok = is_alone && pings.received > pings.sent / 2 && connection.bytes > 0;
        Ok(DemoCheck::new("restart after kill -9", ok, text).with(&figures))
    }

    fn programs(&self) -> UePrograms<'_> {
        UePrograms { topology: &self.network.topology, dir: self.network.dir() }
    }

    fn run_iperf(&mut self, kind: Iperf) -> Result<IperfResult> {
        self.programs().iperf(LabUe(1), kind, self.arguments.duration, self.stop)
    }

    fn tcp(&mut self, name: &str, kind: Iperf) -> Result<DemoCheck> {
        let result = self.run_iperf(kind)?;
        let retransmits =
            result.retransmits.map_or(String::new(), |n| format!(", {n} segments retransmitted"));
        let text = format!("{}{retransmits}", rate(result.rate_bps));
        Ok(DemoCheck::new(name, result.bytes > 0, text).with(&result))
    }

    fn udp(&mut self) -> Result<DemoCheck> {
        let result = self.run_iperf(Iperf::UdpUplink { rate_bps: UDP_RATE_BPS })?;
        let (lost, sent) = result.lost_of_sent.unwrap_or_default();
        let text = format!("{}, {lost} of {sent} datagrams lost", rate(result.rate_bps));
        Ok(DemoCheck::new("UDP uplink", result.bytes > 0, text).with(&result))
    }

    fn http(&mut self, server: &DemoHttpServer) -> Result<DemoCheck> {
        // Uses the second UE, if there is one, to test another session.
        let ue = LabUe(self.arguments.ues.min(2));
        let network = &*self.network;
        let result = server.download(&network.topology, network.dir(), ue, self.stop)?;
        let text = format!(
            "{} MiB to {} at {}, every octet compared",
            result.bytes >> 20,
            ue.device(),
            rate(result.rate_bps)
        );
        Ok(DemoCheck::new("HTTP download", true, text).with(&result))
    }

    /// Compares counters, deletes the sessions, and ends adit.
    ///
    /// # Errors
    /// Interrupted.
    pub(super) fn detach(&mut self, stop: &'a Stop) -> Result<()> {
        self.stop = stop;
        self.check("downlink QFI", |s| Ok(s.qfi()))?;
        self.check("gNB's view of GTP-U", |s| Ok(s.gtpu()))?;
        self.check("PFCP heartbeats", Self::heartbeats)?;
        self.check("deletion of the sessions", Self::delete_sessions)?;
        self.check("packet identity", Self::identity)?;
        self.check("adit and gNB agree", |s| Ok(s.agreement()))?;
        self.check("end of adit", Self::end)
    }

    fn qfi(&self) -> DemoCheck {
        let counters = self.network.gnb.counters();
        let (pkts, wrong) = (load(&counters.downlink.pkts), load(&counters.qfi_mismatches));
        let text = format!("{pkts} packets checked, {wrong} with a wrong or missing QFI");
        DemoCheck::new("downlink QFI", pkts > 0 && wrong == 0, text)
    }

    fn gtpu(&self) -> DemoCheck {
        let counters = self.network.gnb.counters();
        let (malformed, unknown) = (load(&counters.malformed), load(&counters.unknown_teids));
        let errors = load(&counters.error_indications);
        let text = format!(
            "{malformed} malformed, {unknown} with an unknown TEID, {errors} Error Indications"
        );
        let figures = json!({
            "uplink_pkts": load(&counters.uplink.pkts),
            "uplink_bytes": load(&counters.uplink.bytes),
            "uplink_lost_pkts": load(&counters.uplink_lost),
            "downlink_pkts": load(&counters.downlink.pkts),
            "downlink_bytes": load(&counters.downlink.bytes),
            "tun_refused_pkts": load(&counters.tun_refused),
            "echo_requests_answered": load(&counters.echo_answered),
        });
        let ok = malformed + unknown + errors == 0;
        DemoCheck::new("gNB's view of GTP-U", ok, text).with(&figures)
    }

    fn heartbeats(&mut self) -> Result<DemoCheck> {
        self.network.smf.heartbeat(|| self.stop.check())?;
        let answered = self.network.smf.heartbeats_answered();
        let text = format!("answered by adit; {answered} of adit's answered by the SMF");
        Ok(DemoCheck::new("PFCP heartbeats", answered > 0, text))
    }

    fn delete_sessions(&mut self) -> Result<DemoCheck> {
        let mut deleted = 0;
        for session in &self.sessions {
            self.network.smf.delete_session(session, || self.stop.check())?;
            deleted += 1;
            self.live.sessions(self.sessions.len() - deleted);
        }
        for index in 0..deleted {
            self.network.gnb.connect(index, Teid(0));
        }
        let shown = self.network.adit.admin().show("sessions", self.stop)?;
        let left = shown["sessions"].as_array().context("adit's sessions are no list")?.len();
        let text = format!("{deleted} deleted, adit shows {left}");
        Ok(DemoCheck::new("deletion of the sessions", left == 0, text))
    }

    fn identity(&mut self) -> Result<DemoCheck> {
        self.stop.sleep(SETTLE_SPAN)?;
        let document = self.network.adit.admin().show("counters", self.stop)?;
        let counters = AditCounters::read(&document)?;
        let check = counters.identity().with(&counters);
        self.counters = Some(counters);
        Ok(check)
    }

    /// Checks that neither side received more packets than the other sent. Fewer are possible,
    /// because full kernel queues between them drop packets.
    fn agreement(&self) -> DemoCheck {
        let name = "adit and gNB agree";
        let Some(counters) = &self.counters else {
            return DemoCheck::new(name, false, "adit's counters are unknown");
        };
        let gnb = self.network.gnb.counters();
        let GnbPacketCounts { uplink, downlink } = self.uncounted;
        let (sent, received) =
            (load(&gnb.uplink.pkts) - uplink, load(&gnb.downlink.pkts) - downlink);
        let text = format!(
            "uplink: gNB sent {sent}, adit forwarded {}; downlink: adit forwarded {}, gNB received \
             {received}",
            counters.uplink_pkts, counters.downlink_pkts
        );
        let ok = counters.uplink_pkts <= sent && received <= counters.downlink_pkts;
        DemoCheck::new(name, ok, text)
    }

    fn end(&mut self) -> Result<DemoCheck> {
        let status = self.network.adit.terminate()?;
        self.adit_ended = true;
        Ok(DemoCheck::new("end of adit", status.success(), format!("{status} after SIGTERM")))
    }

    /// Returns the report of the demo.
    #[must_use]
    pub(super) fn finish(self) -> DemoReport {
        DemoReport {
            ok: self.checks.iter().all(|check| check.ok),
            datapath: self.network.device.name().to_owned(),
            af_xdp_refused: self.network.af_xdp_refused.clone(),
            ues: self.arguments.ues,
            iperf_s: self.arguments.duration,
            checks: self.checks,
            counters: self.counters,
        }
    }
}

fn ping_check(name: &str, results: &[PingResult]) -> DemoCheck {
    let sent: u32 = results.iter().map(|result| result.sent).sum();
    let received: u32 = results.iter().map(|result| result.received).sum();
    let sum: f64 = results.iter().map(|result| result.rtt_ms_mean).sum();
    let mean = sum / results.len() as f64;
    let lossy: Vec<String> = (1..)
        .zip(results)
        .filter(|(_, result)| !result.is_complete())
        .map(|(number, result)| format!("ue{number} {}/{}", result.received, result.sent))
        .collect();
    let mut text = format!("{received} of {sent} answered, mean {mean:.3} ms");
    if !lossy.is_empty() {
        text.push_str(&format!("; losses: {}", lossy.join(", ")));
    }
    let ok = lossy.is_empty() && !results.is_empty();
    DemoCheck::new(name, ok, text).with(&results)
}

/// Returns the SMF's TEID for packets of a UE.
fn smf_teid(ue: LabUe) -> Teid {
    Teid(u32::from(ue.0))
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lost_ping_fails_the_check_and_names_the_ue() {
        let good = PingResult { sent: 5, received: 5, rtt_ms_mean: 0.2 };
        assert!(ping_check("ping", &[good, good]).ok);
        let check = ping_check("ping", &[good, PingResult { received: 4, ..good }]);
        assert!(!check.ok);
        assert!(check.result.ends_with("losses: ue2 4/5"), "{}", check.result);
        assert!(!ping_check("ping", &[]).ok, "no ping at all proves nothing");
    }
}
