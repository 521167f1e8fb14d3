//! The configuration of the adit that the lab starts.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

use clap::ValueEnum;

/// How adit handles packets beyond a maximum bit rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExcessAction {
    /// Drop them (policing).
    Drop,
    /// Queue them (shaping).
    Wait,
}

/// Enforcement of rates, which is the same for both directions and every kind of QER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qos {
    /// How adit handles packets beyond a rate.
    pub excess: ExcessAction,
    /// Maximum number of queued packets; `None` for adit's default.
    pub queue_pkts: Option<u32>,
    /// Aggregate rate of all sessions, per direction; `None` for no limit. Unit: Mb/s.
    pub shared_mbps: Option<u32>,
}

impl Qos {
    /// Returns the `[qos]` sections of the configuration file.
    #[must_use]
    pub fn text(self) -> String {
        let excess = match self.excess {
            ExcessAction::Drop => "drop",
            ExcessAction::Wait => "wait",
        };
        let queue = self.queue_pkts.map(|count| format!("queue_pkts_max = {count}\n"));
        let mut text = format!("\n[qos]\n{}", queue.unwrap_or_default());
        for direction in ["uplink", "downlink"] {
            let _ = write!(text, "\n[qos.{direction}]\n");
            for class in ["gbr", "flow", "session", "shared"] {
                let _ = writeln!(text, "{class} = \"{excess}\"");
            }
            if let Some(mbps) = self.shared_mbps {
                let _ = writeln!(text, "mbps_max = {mbps}");
            }
        }
        text
    }
}

/// Number of packet buffers beyond those for queued packets.
const MBUFS: u32 = 16_384;
/// Number of packet buffers that DPDK's AF_XDP driver keeps for a queue pair.
const AF_XDP_QUEUE_MBUFS: u32 = 2048 + 1024 + 64;
/// Memory per packet buffer: twice its size, since the pool allocates in large pieces. Unit:
/// octets.
const MBUF_BYTES: u32 = 5120;

/// Execution model of the adit that the lab starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ExecutionModel {
    /// Workers receive, process and transmit.
    #[default]
    RunToCompletion,
    /// A receiver hands packets to the owners of their sessions.
    Pipeline,
    /// A receiver chooses workers by a hash of the UE's address.
    PipelineRss,
    /// A scheduler that is distributed over the threads passes packets to workers.
    EventdevDsw,
    /// A central scheduler passes packets to workers.
    EventdevSw,
    /// As `eventdev-sw`, with the stages behind two queues.
    #[value(name = "eventdev-sw-2")]
    EventdevSw2,
    /// As `eventdev-dsw`, with all seven queues: Rx, four of stages, timers, Tx.
    #[value(name = "eventdev-dsw-7")]
    EventdevDsw7,
    /// As `eventdev-sw`, with all seven queues.
    #[value(name = "eventdev-sw-7")]
    EventdevSw7,
}

/// Configuration of an event scheduler that uses all of its queues.
const SEVEN_QUEUES: &str = ", stages = 4, rx_queue = \"atomic\", timer_queue = true";

impl ExecutionModel {
    /// Returns how many threads need queue pairs of their own, in addition to the workers.
    #[must_use]
    pub const fn other_transmitter_count(self) -> usize {
        match self {
            // With a scheduler, one thread transmits for all workers.
            Self::RunToCompletion
            | Self::EventdevDsw
            | Self::EventdevSw
            | Self::EventdevSw2
            | Self::EventdevDsw7
            | Self::EventdevSw7 => 0,
            // One thread more: the signaling worker.
            Self::Pipeline | Self::PipelineRss => 1,
        }
    }

    /// Returns the lines of the section `[datapath]`. A receiver that shares the core of a worker
    /// sleeps while there are no packets.
    fn lines(self, workers: &[usize], receiver: usize, poll: WorkerPoll) -> String {
        let spread = match self {
            Self::RunToCompletion => return poll.lines(),
            Self::Pipeline => "owner",
            Self::PipelineRss => "rss",
            Self::EventdevDsw => return eventdev(receiver, false, ""),
            Self::EventdevSw => return eventdev(receiver, true, ""),
            Self::EventdevSw2 => return eventdev(receiver, true, ", stages = 2"),
            Self::EventdevDsw7 => return eventdev(receiver, false, SEVEN_QUEUES),
            Self::EventdevSw7 => return eventdev(receiver, true, SEVEN_QUEUES),
        };
        let of_receiver = match workers.contains(&receiver) {
            true => WorkerPoll::Adaptive,
            false => poll,
        };
        let poll = [vec![poll.name(); workers.len()], vec![of_receiver.name()]].concat();
        format!(
            "model = \"pipeline\"\nreceivers = [{receiver}]\nspread = \"{spread}\"\npoll = {poll:?}\n"
        )
    }
}

/// Returns the lines of an event-driven datapath. A central scheduler shares the core of the Rx/Tx
/// thread.
fn eventdev(rx_tx: usize, is_central: bool, queues: &str) -> String {
    let scheduler = match is_central {
        true => format!(", scheduler = \"sw\", scheduler_core = {rx_tx}"),
        false => String::new(),
    };
    format!("model = \"eventdev\"\neventdev = {{ rx_tx = [{rx_tx}]{scheduler}{queues} }}\n")
}

/// How a worker of the started adit waits for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkerPoll {
    /// The worker polls on.
    #[default]
    Busy,
    /// The worker sleeps, and leaves its core to others.
    Adaptive,
    /// As `Adaptive`, but while there are packets the worker has this real-time priority.
    AdaptiveFirst(u8),
}

impl WorkerPoll {
    const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Adaptive | Self::AdaptiveFirst(_) => "adaptive",
        }
    }

    fn lines(self) -> String {
        let poll = format!("poll = \"{}\"\n", self.name());
        match self {
            Self::AdaptiveFirst(priority) => poll + &format!("realtime_priority = {priority}\n"),
            Self::Busy | Self::Adaptive => poll,
        }
    }
}

/// The variable parts of adit's configuration.
#[derive(Debug)]
pub struct AditConfig<'a> {
    /// Node ID and N4 address.
    pub n4: Ipv4Addr,
    /// N4 port.
    pub n4_port: u16,
    /// Interval of heartbeats. Unit: ms.
    pub heartbeat_ms: u32,
    /// T1: time until adit retransmits a request. Unit: ms.
    pub t1_ms: u32,
    /// True to disable the limit of requests per second, which a tester's SMF exceeds.
    pub unlimited_requests: bool,
    /// Maximum number of PFCP sessions.
    pub sessions_max: u32,
    /// Core of all threads other than workers.
    pub main_core: usize,
    /// Cores of the workers.
    pub workers: Vec<usize>,
    /// Execution model.
    pub model: ExecutionModel,
    /// Core of the receiver, for models that have one.
    pub receiver: usize,
    /// How a worker waits for packets.
    pub poll: WorkerPoll,
    /// True if memory and rules of placement ignore NUMA nodes.
    pub ignores_nodes: bool,
    /// True to lower the frequencies of the workers' cores under small load.
    pub scales_frequency: bool,
    /// Enforcement of rates; `None` for adit's defaults.
    pub qos: Option<Qos>,
    /// Device strings of the access side and the core side.
    pub devices: [String; 2],
    /// True to attach adit's XDP program to the devices.
    pub xdp: bool,
    /// MTUs of the access side and the core side. Unit: octets.
    pub mtu_bytes: [u16; 2],
    /// Addresses on N3, with their prefix lengths.
    pub n3: Vec<String>,
    /// Addresses on N6, with their prefix lengths.
    pub n6: Vec<String>,
    /// Routes on N6: prefixes with their next hops.
    pub routes: Vec<(&'a str, String)>,
    /// Network instance of N6; `None` for an interface that serves every name.
    pub n6_instance: Option<&'a str>,
    /// VLANs of N3 and N6; zero for none.
    pub vlans: [u16; 2],
    /// Folder of the journal that keeps sessions; `None` for no store. Even with a store, adit
    /// releases the associations when it stops.
    pub store: Option<&'a Path>,
    /// Path of the admin socket.
    pub socket: &'a Path,
}

impl AditConfig<'_> {
    /// Returns the text of the configuration file.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { n4, n4_port, heartbeat_ms, t1_ms, sessions_max, main_core, workers, .. } = self;
        let limit = if self.unlimited_requests { "peer_requests_per_s_max = 0\n" } else { "" };
        let [n3_vlan, n6_vlan] = self.vlans.map(|vlan| match vlan {
            0 => String::new(),
            vlan => format!("vlan = {vlan}\n"),
        });
        let (n3, n6) = (quoted(&self.n3), quoted(&self.n6));
        let n6_instance = self.n6_instance_text();
        let ports = self.ports_text();
        let model = self.model.lines(workers, self.receiver, self.poll);
        let cores = self.cores_text();
        let PacketMemory { memory, mbufs } = self.packet_memory();
        let mut text = format!(
            r#"[node]
id = "{n4}"

[n4]
listen = "{n4}:{n4_port}"
connect = []
heartbeat_interval_ms = {heartbeat_ms}
t1_ms = {t1_ms}
n1_retries = 3
{limit}
[sessions]
sessions_max = {sessions_max}

[datapath]
workers = {workers:?}
{model}{cores}main_core = {main_core}
burst_pkts = 32

[dpdk]
hugepages = "auto"
memory_mib = {memory}
mempool_mbufs = {mbufs}
rx_descriptors = 1024
tx_descriptors = 1024
eal_extra_args = []

{ports}
[[interface]]
name = "n3"
role = "n3"
port = "access"
addresses = [{n3}]
{n3_vlan}
[[interface]]
name = "n6"
role = "n6"
port = "core"
addresses = [{n6}]
{n6_instance}{n6_vlan}"#
        );
        text.extend(std::iter::once(self.routes_text()).chain(self.qos.map(Qos::text)));
        // Writing to a string cannot fail.
        let _ = match self.store {
            None => writeln!(text, "\n[store]\nkind = \"none\""),
            Some(folder) => {
                writeln!(
                    text,
                    "\n[store]\nfolder = \"{}\"\non_stop = \"release\"",
                    folder.display()
                )
            }
        };
        let _ = write!(text, "\n[admin]\nsocket = \"{}\"\n", self.socket.display());
        text
    }

    /// Returns further settings of the cores of the packet path.
    fn cores_text(&self) -> String {
        let placement = if self.ignores_nodes { "placement = \"uma\"\n" } else { "" };
        let frequency = if self.scales_frequency { "scale_frequency = true\n" } else { "" };
        format!("{placement}{frequency}")
    }

    fn ports_text(&self) -> String {
        // The tester's memif has only one queue pair.
        let has_one = self.workers.len() > 1 && self.model == ExecutionModel::RunToCompletion;
        let queues = if has_one { "rx_queues = 1\n" } else { "" };
        let xdp = if self.xdp { "xdp = \"on\"\n" } else { "" };
        let port = |(name, device, mtu): (&str, &String, u16)| {
            format!(
                "[[port]]\nname = \"{name}\"\ndevice = \"{device}\"\nmtu_bytes = {mtu}\n{queues}{xdp}"
            )
        };
        let [access, core] = &self.devices;
        let [access_mtu, core_mtu] = self.mtu_bytes;
        [port(("access", access, access_mtu)), port(("core", core, core_mtu))].join("\n")
    }

    fn n6_instance_text(&self) -> String {
        self.n6_instance.map_or_else(String::new, |name| format!("network_instance = \"{name}\"\n"))
    }

    fn routes_text(&self) -> String {
        let route = |(prefix, next_hop): &(&str, String)| {
            format!(
                "\n[[route]]\ninterface = \"n6\"\nprefix = \"{prefix}\"\nnext_hop = \"{next_hop}\"\n"
            )
        };
        self.routes.iter().map(route).collect()
    }

    /// Computes the packet memory. adit limits the queues of rates to half of the packet buffers
    /// that fragments and drivers leave, hence the factor of two.
    fn packet_memory(&self) -> PacketMemory {
        let queued = self.qos.and_then(|qos| qos.queue_pkts).unwrap_or(0);
        let workers = self.workers.len() + self.model.other_transmitter_count();
        let fragments = u32::try_from(workers * 512).unwrap_or(0);
        let af_xdp = self.devices.iter().filter(|device| device.starts_with("net_af_xdp")).count();
        let kept = u32::try_from(workers * af_xdp).unwrap_or(0) * AF_XDP_QUEUE_MBUFS;
        let mbufs = if queued > 0 { 2 * (queued + MBUFS) } else { MBUFS } + fragments + kept;
        let memory = if queued > 0 { 256 + mbufs / 1024 * MBUF_BYTES / 1024 } else { 256 };
        PacketMemory { memory, mbufs }
    }
}

/// DPDK's memory in MiB, and the number of packet buffers.
struct PacketMemory {
    memory: u32,
    mbufs: u32,
}

fn quoted(addresses: &[String]) -> String {
    let quoted: Vec<String> = addresses.iter().map(|text| format!("\"{text}\"")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_enforced_as_asked_and_packets_that_wait_have_their_buffers() {
        let config = |workers: Vec<usize>, qos| AditConfig {
            n4: Ipv4Addr::LOCALHOST,
            n4_port: 8805,
            heartbeat_ms: 1000,
            t1_ms: 1000,
            unlimited_requests: true,
            sessions_max: 10,
            main_core: 0,
            workers,
            model: ExecutionModel::RunToCompletion,
            receiver: 0,
            poll: WorkerPoll::Busy,
            ignores_nodes: false,
            scales_frequency: false,
            qos,
            devices: ["net_memif0", "net_memif1"].map(str::to_owned),
            xdp: false,
            mtu_bytes: [1600, 1500],
            n3: vec!["10.0.3.2/24".to_owned()],
            n6: vec!["10.0.6.2/24".to_owned()],
            routes: Vec::new(),
            n6_instance: None,
            vlans: [0; 2],
            store: None,
            socket: Path::new("/run/x/admin.sock"),
        };
        let read = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
        let text = config(vec![1], None).text();
        assert!(!text.contains("qos") && !text.contains("rx_queues"), "{text}");
        let qos =
            Qos { excess: ExcessAction::Wait, queue_pkts: Some(100_000), shared_mbps: Some(40) };
        let table = read(&config(vec![1, 2, 3], Some(qos)).text());
        assert_eq!(table["qos"]["queue_pkts_max"].as_integer(), Some(100_000));
        for direction in ["uplink", "downlink"] {
            assert_eq!(table["qos"][direction]["mbps_max"].as_integer(), Some(40));
            for class in ["gbr", "flow", "session", "shared"] {
                assert_eq!(table["qos"][direction][class].as_str(), Some("wait"));
            }
        }
        assert_eq!(table["datapath"]["workers"].as_array().map(Vec::len), Some(3));
        assert_eq!(table["port"][0]["rx_queues"].as_integer(), Some(1));
        let (mbufs, mib) = (&table["dpdk"]["mempool_mbufs"], &table["dpdk"]["memory_mib"]);
        let (mbufs, mib) = (mbufs.as_integer().unwrap(), mib.as_integer().unwrap());
        assert!(mbufs >= 2 * 100_000 && mib * 1024 * 1024 > mbufs * 2400, "{mbufs} {mib}");
    }

    #[test]
    fn receiver_sleeps_only_on_the_core_of_a_worker() {
        let lines = |receiver| ExecutionModel::Pipeline.lines(&[1, 2], receiver, WorkerPoll::Busy);
        assert!(lines(3).contains(r#"poll = ["busy", "busy", "busy"]"#), "{}", lines(3));
        assert!(lines(2).contains(r#"poll = ["busy", "busy", "adaptive"]"#), "{}", lines(2));
    }
}
