//! The real programs of the demo: ping, iperf3, curl, and the servers in the data network.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use serde::Serialize;
use serde_json::Value;

use crate::topology::{DN, LabUe, Topology};
use adit_lab_process::netns::NetNamespace;
use adit_lab_process::process::{Process, ProgramOutput, TimedProgram, is_installed};
use adit_lab_process::stop::{Stop, environment};

/// Number of pings per UE.
pub(super) const PINGS_PER_UE: u32 = 5;
/// Size of the downloaded file. Unit: octets.
pub(super) const HTTP_BYTES: usize = 16 << 20;

const IPERF_PORT: u16 = 5201;
const HTTP_PORT: u16 = 80;
const START_TIMEOUT: Duration = Duration::from_secs(5);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(120);
const FILE: &str = "download.bin";

/// Programs that the demo needs, with their Debian packages.
const NEEDED_PROGRAMS: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("iperf3", "iperf3"),
    ("curl", "curl"),
];

/// Checks that all programs are installed.
///
/// # Errors
/// Programs are missing; the message names the packages to install.
pub(super) fn check_installed() -> Result<()> {
    let mut packages: Vec<&str> = NEEDED_PROGRAMS
        .iter()
        .filter(|(program, _)| !is_installed(program))
        .map(|&(_, package)| package)
        .collect();
    if http_server_kind().is_none() {
        packages.push("python3");
    }
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    Err(environment(format!("programs are missing: apt-get install {}", packages.join(" "))))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HttpServer {
    Busybox,
    Python,
}

fn http_server_kind() -> Option<HttpServer> {
    let applets = Command::new("busybox").arg("--list").output().ok();
    let has_httpd = applets.is_some_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|applet| applet == "httpd")
    });
    if has_httpd {
        return Some(HttpServer::Busybox);
    }
    is_installed("python3").then_some(HttpServer::Python)
}

/// The result of a run of ping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct PingResult {
    /// Echo requests sent.
    pub sent: u32,
    /// Echo replies received.
    pub received: u32,
    /// Mean round-trip time; not a number if there was no reply.
    pub rtt_ms_mean: f64,
}

impl PingResult {
    /// True if every request was answered.
    #[must_use]
    pub(super) fn is_complete(&self) -> bool {
        self.sent > 0 && self.sent == self.received
    }
}

/// Runs programs of UEs in the namespaces of the demo. Their output goes to files in `dir`.
#[derive(Debug, Clone, Copy)]
pub(super) struct UePrograms<'n> {
    pub topology: &'n Topology,
    pub dir: &'n Path,
}

impl UePrograms<'_> {
    /// Starts ping from `ue` to `target`, with `count` echo requests.
    ///
    /// # Errors
    /// ping cannot be started.
    pub(super) fn start_ping(
        self,
        ue: LabUe,
        target: IpAddr,
        count: u32,
        interval_s: f32,
    ) -> Result<TimedProgram> {
        let mut command = self.topology.ran.command("ping");
        command
            .args(["-n", "-q", "-W", "2", "-I", &ue.device()])
            .args(["-c", &count.to_string(), "-i", &interval_s.to_string()])
            .arg(target.to_string())
            .env("LC_ALL", "C");
        let family = if target.is_ipv4() { "4" } else { "6" };
        let timeout = Duration::from_secs_f32(interval_s * count as f32 + 10.0);
        TimedProgram::start(self.dir, &format!("ping{family}-{}", ue.0), command, timeout)
    }

    /// Runs iperf3 from `ue` for `seconds`.
    ///
    /// # Errors
    /// iperf3 fails; the message contains its error output.
    pub(super) fn iperf(
        self,
        ue: LabUe,
        kind: Iperf,
        seconds: u32,
        stop: &Stop,
    ) -> Result<IperfResult> {
        let _server = start_iperf_server(&self.topology.dn, self.dir, stop)?;
        let mut command = self.topology.ran.command("iperf3");
        command
            .args(["--json", "--client", &DN.to_string(), "-p", &IPERF_PORT.to_string()])
            .args(["--bind-dev", &ue.device(), "--connect-timeout", "5000"])
            .args(["--time", &seconds.to_string()]);
        match kind {
            Iperf::TcpUplink => {}
            Iperf::TcpDownlink => {
                command.arg("--reverse");
            }
            Iperf::UdpUplink { rate_bps } => {
                // The largest UDP payload in an IPv4 packet that fits in the UE's MTU.
                let payload = crate::topology::UE_MTU - 28;
                command.args(["--udp", "--bitrate", &rate_bps.to_string()]);
                command.args(["--length", &payload.to_string()]);
            }
        }
        let timeout = Duration::from_secs(u64::from(seconds) + 20);
        let output = TimedProgram::start(self.dir, "iperf3", command, timeout)?.wait(stop)?;
        let report: Value = serde_json::from_str(&output.stdout)
            .with_context(|| format!("iperf3 printed no report: {}", output.error_line))?;
        if let Some(error) = report["error"].as_str() {
            bail!("{error}");
        }
        iperf_result(&report["end"], kind).context("iperf3's report lacks a figure")
    }
}

/// Parses the output of ping.
///
/// # Errors
/// ping printed no statistics; the message contains its error output.
pub(super) fn ping_result(output: &ProgramOutput) -> Result<PingResult> {
    let parse = || {
        let line = output.stdout.lines().find(|line| line.contains("packets transmitted"))?;
        let mut numbers = line.split(", ").map(|part| part.split(' ').next());
        let sent = numbers.next()??.parse().ok()?;
        let received = numbers.next()??.parse().ok()?;
        let rtt = output.stdout.lines().find_map(|line| line.strip_prefix("rtt "));
        let mean = rtt.and_then(|line| line.split(" = ").nth(1)?.split('/').nth(1)?.parse().ok());
        Some(PingResult { sent, received, rtt_ms_mean: mean.unwrap_or(f64::NAN) })
    };
    parse().with_context(|| format!("ping: {}", output.error_line))
}

/// The HTTP server in the data network. Drop ends the server.
#[derive(Debug)]
pub(super) struct DemoHttpServer {
    _http: Process,
    content: Vec<u8>,
}

impl DemoHttpServer {
    /// Starts an HTTP server with a file of random octets, and waits until it accepts connections.
    ///
    /// # Errors
    /// The server cannot be started, or does not listen in time.
    pub(super) fn start(dn: &NetNamespace, dir: &Path, stop: &Stop) -> Result<Self> {
        let root = dir.join("www");
        fs::create_dir(&root).context("create the directory of the HTTP server")?;
        let mut content = vec![0; HTTP_BYTES];
        StdRng::from_os_rng().fill_bytes(&mut content);
        fs::write(root.join(FILE), &content).context("write the file to download")?;

        let log = dir.join("http-server.log");
        let http = Process::start("the HTTP server", http_command(dn, &root)?, &log, &log)?;
        let server = Self { _http: http, content };
        wait_until_listening(dn, HTTP_PORT, stop)?;
        Ok(server)
    }

    /// Downloads the file through `ue`, and compares every octet.
    ///
    /// # Errors
    /// curl fails, or the content differs.
    pub(super) fn download(
        &self,
        topology: &Topology,
        dir: &Path,
        ue: LabUe,
        stop: &Stop,
    ) -> Result<HttpResult> {
        let target = dir.join("downloaded.bin");
        let mut command = topology.ran.command("curl");
        command
            .args(["--silent", "--show-error", "--fail", "--interface", &ue.device()])
            .args(["--noproxy", "*", "--write-out", "%{speed_download}", "--output"])
            .arg(&target)
            .arg(format!("http://{DN}:{HTTP_PORT}/{FILE}"));
        let output = TimedProgram::start(dir, "curl", command, DOWNLOAD_TIMEOUT)?.wait(stop)?;
        if !output.success {
            bail!("{}", output.error_line);
        }
        let received = fs::read(&target).context("read the downloaded file")?;
        if received != self.content {
            bail!("received {} octets that differ from the original", received.len());
        }
        let rate: f64 = output.stdout.trim().parse().context("curl's rate")?;
        Ok(HttpResult { bytes: received.len(), rate_bps: rate * 8.0 })
    }
}

/// Starts `iperf3 -s` in the data network, and waits until it accepts connections. Each run needs
/// its own server: between two runs a server reopens its socket, and would reset clients that
/// connect early.
///
/// # Errors
/// The server cannot be started, or does not listen in time.
pub(super) fn start_iperf_server(dn: &NetNamespace, dir: &Path, stop: &Stop) -> Result<Process> {
    let mut command = dn.command("iperf3");
    command.args(["-s", "-B", &DN.to_string(), "-p", &IPERF_PORT.to_string()]);
    let log = dir.join("iperf3-server.log");
    let server = Process::start("iperf3 -s", command, &log, &log)?;
    wait_until_listening(dn, IPERF_PORT, stop)?;
    Ok(server)
}

/// The result of a verified download.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct HttpResult {
    /// Octets received and verified.
    pub bytes: usize,
    /// Mean rate of the content.
    pub rate_bps: f64,
}

fn http_command(dn: &NetNamespace, root: &Path) -> Result<Command> {
    match http_server_kind() {
        Some(HttpServer::Busybox) => {
            let mut command = dn.command("busybox");
            command.args(["httpd", "-f", "-p", &format!("{DN}:{HTTP_PORT}"), "-h"]).arg(root);
            Ok(command)
        }
        Some(HttpServer::Python) => {
            let mut command = dn.command("python3");
            command
                .args(["-m", "http.server", "--bind", &DN.to_string(), "--directory"])
                .arg(root)
                .arg(HTTP_PORT.to_string());
            Ok(command)
        }
        None => Err(environment("no HTTP server is installed: apt-get install python3")),
    }
}

fn wait_until_listening(namespace: &NetNamespace, port: u16, stop: &Stop) -> Result<()> {
    let end = Instant::now() + START_TIMEOUT;
    loop {
        let table = namespace.enter(|| {
            fs::read_to_string("/proc/thread-self/net/tcp").context("read the socket table")
        })?;
        if is_listening(&table, port) {
            return Ok(());
        }
        if Instant::now() >= end {
            bail!("no server listens on port {port} after {START_TIMEOUT:?}");
        }
        stop.sleep(Duration::from_millis(20))?;
    }
}

/// True if `/proc/net/tcp` shows `port` in state LISTEN (0A).
fn is_listening(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut columns = line.split_whitespace();
        columns.nth(1).is_some_and(|local| local.ends_with(&port)) && columns.nth(1) == Some("0A")
    })
}

/// The kind of an iperf3 run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Iperf {
    /// TCP from the UE to the data network.
    TcpUplink,
    /// TCP from the data network to the UE.
    TcpDownlink,
    /// UDP from the UE at a fixed rate.
    UdpUplink {
        /// Offered rate. Unit: b/s.
        rate_bps: u64,
    },
}

/// The result of an iperf3 run, as its receiver measured it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct IperfResult {
    /// Payload octets received.
    pub bytes: u64,
    /// Rate at the receiver. Unit: b/s.
    pub rate_bps: f64,
    /// Number of retransmitted TCP segments; `None` for UDP.
    pub retransmits: Option<u64>,
    /// Numbers of UDP datagrams lost and sent; `None` for TCP.
    pub lost_of_sent: Option<(u64, u64)>,
}

fn iperf_result(end: &Value, kind: Iperf) -> Option<IperfResult> {
    if let Iperf::UdpUplink { .. } = kind {
        let sum = &end["sum"];
        let (lost, sent) = (sum["lost_packets"].as_u64()?, sum["packets"].as_u64()?);
        let payload = sum["bytes"].as_u64()?;
        let bytes = payload.saturating_mul(sent.saturating_sub(lost)).checked_div(sent)?;
        let seconds = sum["seconds"].as_f64()?;
        let rate_bps = bytes as f64 * 8.0 / seconds;
        return Some(IperfResult {
            bytes,
            rate_bps,
            retransmits: None,
            lost_of_sent: Some((lost, sent)),
        });
    }
    let received = &end["sum_received"];
    Some(IperfResult {
        bytes: received["bytes"].as_u64()?,
        rate_bps: received["bits_per_second"].as_f64()?,
        retransmits: end["sum_sent"]["retransmits"].as_u64(),
        lost_of_sent: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(stdout: &str) -> ProgramOutput {
        ProgramOutput {
            success: true,
            stdout: stdout.to_owned(),
            error_line: "an error".to_owned(),
        }
    }

    #[test]
    fn ping_statistics_are_read_with_and_without_loss() {
        let text = "--- 10.0.6.1 ping statistics ---\n\
                    5 packets transmitted, 5 received, 0% packet loss, time 811ms\n\
                    rtt min/avg/max/mdev = 0.060/0.125/0.301/0.090 ms\n";
        let result = ping_result(&output(text)).unwrap();
        assert_eq!(result, PingResult { sent: 5, received: 5, rtt_ms_mean: 0.125 });
        assert!(result.is_complete());
        let text = "5 packets transmitted, 3 received, +1 duplicates, 40% packet loss, time 4ms\n";
        let result = ping_result(&output(text)).unwrap();
        assert_eq!((result.sent, result.received), (5, 3));
        assert!(!result.is_complete());
    }

    #[test]
    fn ping_without_statistics_gives_its_error_output() {
        let error = ping_result(&output("")).unwrap_err();
        assert_eq!(error.to_string(), "ping: an error");
    }

    #[test]
    fn iperf_udp_rate_counts_what_arrived() {
        let end = json!({"sum": {"bytes": 1_000_000, "seconds": 1.0, "packets": 100,
            "lost_packets": 25, "bits_per_second": 8_000_000.0}});
        let result = iperf_result(&end, Iperf::UdpUplink { rate_bps: 1 }).unwrap();
        assert_eq!(result.bytes, 750_000);
        assert_eq!(result.lost_of_sent, Some((25, 100)));
        assert!((result.rate_bps - 6_000_000.0).abs() < 1.0);
    }

    #[test]
    fn iperf_report_without_figures_gives_no_result() {
        assert_eq!(iperf_result(&json!({}), Iperf::TcpUplink), None);
        let silent = json!({"sum": {"bytes": 0, "seconds": 1.0, "packets": 0, "lost_packets": 0}});
        assert_eq!(iperf_result(&silent, Iperf::UdpUplink { rate_bps: 1 }), None);
    }

    #[test]
    fn listening_port_is_found_in_the_socket_table() {
        let table = "  sl  local_address rem_address   st\n   \
                     0: 0106000A:1451 00000000:0000 0A 00000000:00000000\n   \
                     1: 0106000A:0050 00000000:0000 01 00000000:00000000\n";
        assert!(is_listening(table, 5201));
        assert!(!is_listening(table, 80), "an established connection is no server");
    }
}
