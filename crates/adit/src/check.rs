//! `adit check`: checks a configuration and prints the values derived from it.

mod config_documents;

use std::path::Path;

use adit_datapath::Spread;
use adit_kernel::{DeviceAddress, KernelDevice};
use adit_pktio::ScheduleType;
use adit_types::PortId;
use adit_types::Role;
use serde_json::{Value, json};

use crate::cli::KeyDocument;
use crate::config::{
    self, ApiSettings, Config, ModelSettings, PollMode, StoreKind, StoreSettings, ThreadSettings,
    WhenIsolated, XdpMode,
};
use crate::control_parts::core_frequencies;
use crate::host_checks::{CheckedHost, findings};
use crate::host_command::{PlacementNotice, placement_notice};
use crate::ports::steering;
use crate::threads::process_nodes::ProcessNodes;
use crate::{capabilities, wiring};

/// Prints `document` if there is one; else checks the file at `path` and prints derived values.
///
/// # Errors
/// The file has mistakes; the message lists all of them.
pub(crate) fn run(path: &Path, json: bool, document: Option<KeyDocument>) -> anyhow::Result<()> {
    match document {
        Some(document) => print!("{}", config_documents::text(document)),
        None => return check(path, json),
    }
    Ok(())
}

fn check(path: &Path, json: bool) -> anyhow::Result<()> {
    let config = Config::load(path)?;
    let mut derived = derived(&config);
    // Findings are no mistakes of the file, which may be meant for another host. There are none if
    // this host's facts cannot be read, as in some containers.
    let findings = CheckedHost::read().map(|host| findings(&config, &host)).unwrap_or_default();
    if json {
        derived["host"] = serde_json::to_value(&findings)?;
        println!("{}", serde_json::to_string_pretty(&derived)?);
        return Ok(());
    }
    println!("{}: correct", path.display());
    for (name, value) in derived.as_object().into_iter().flatten() {
        match value {
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => println!("  {name}: {text}"),
            other => println!("  {name}: {other}"),
        }
    }
    println!("on this host");
    for finding in findings {
        println!("  {finding}");
    }
    Ok(())
}

fn derived(config: &Config) -> Value {
    let memory_node = ProcessNodes::of_this_machine(config).memory();
    let eal = match wiring::eal(config, memory_node).arguments() {
        Ok(arguments) => arguments.join(" "),
        Err(error) => format!("cannot start now: {error}"),
    };
    let interfaces = config.interfaces.iter().map(|interface| {
        let role = interface.role.name();
        let port = &config.ports[usize::from(interface.port.0)];
        let mss = match interface.tcp_mss.is_on() {
            true => format!(", tcp_mss {}", config::tcp_mss_text(interface.tcp_mss)),
            false => String::new(),
        };
        format!("{} is {role} on {} ({}){mss}", interface.name, port.name, port.device)
    });
    let pool_mib =
        (u64::from(config.dpdk.mempool_mbufs) * (u64::from(config.dpdk.mbuf_bytes) + 384)) >> 20;
    let queues: Vec<_> = config.ports.iter().map(|port| describe_queues(config, port)).collect();
    let shared = config.datapath.shared_cores().into_iter();
    let shared = shared.map(|(core, names)| format!("core {core}: {}", names.join(", ")));
    json!({
        "eal_arguments": eal,
        "mempool_mib": pool_mib,
        "model": config.datapath.model.name(),
        "threads": describe_threads(config).join("; "),
        "shared_cores": shared.collect::<Vec<_>>().join("; "),
        "frequency": core_frequencies::describe(&config.datapath),
        "event_queues": describe_event_queues(config),
        "placement": describe_placement(config),
        "queues": queues.join("; "),
        "kernel_ports": describe_kernel_ports(config).join("; "),
        "kernel_twins": kernel_twins(config).join("; "),
        "capabilities": capabilities::needed(config).join(" "),
        "xdp": describe_xdp(config),
        "flow_offload": describe_flow_offload(config),
        "main_core": config.datapath.main_core,
        "n4": config.n4_listen.to_string(),
        "sessions_max": config.sessions.sessions_max,
        "interfaces": interfaces.collect::<Vec<_>>().join("; "),
        "store": describe_store(config),
        "standby": describe_standby(config),
        "admin_socket": config.admin.socket,
        "api": describe_api(config),
    })
}

/// Describes how the CPUs of the threads were chosen, and which placement rules they break on this
/// machine.
fn describe_placement(config: &Config) -> String {
    let PlacementNotice { chosen, broken } = placement_notice(config);
    let broken = match broken.is_empty() {
        true => "keeps the rules that `adit host plan` prints".to_owned(),
        false => format!("breaks {}", broken.join("; ")),
    };
    match chosen {
        Some(chosen) => format!("planned: {chosen}; {broken}"),
        None => broken,
    }
}

/// Describes the store of sessions.
fn describe_store(config: &Config) -> String {
    let StoreSettings { kind, usage_interval, keeps_at_stop, .. } = &config.store;
    let place = match kind {
        StoreKind::None => return "none: sessions end with the process".to_owned(),
        StoreKind::Journal(folder) => format!("journal in {}", folder.display()),
        StoreKind::Shared(shared) => {
            let servers: Vec<_> = shared.servers.iter().map(ToString::to_string).collect();
            let tls = if shared.tls.is_some() { " over TLS" } else { "" };
            let acknowledged = match shared.acknowledge_replicas {
                0 => "by the primary".to_owned(),
                1 => "by the primary and a replica".to_owned(),
                replicas => format!("by the primary and {replicas} replicas"),
            };
            let servers = servers.join(", ");
            let standby = shared.replication.as_ref().map_or_else(String::new, |settings| {
                let tls = if settings.tls.is_some() { " over TLS" } else { " without TLS" };
                format!(", and on the standby at {}{tls}, whose word suffices", settings.standby)
            });
            format!("\"{}\" at {servers}{tls}, acknowledged {acknowledged}{standby}", shared.name)
        }
    };
    let stop = if *keeps_at_stop { "kept" } else { "released" };
    format!(
        "{place}; sessions survive a crash, which loses at most {} ms of counted usage, and are {stop} at a stop",
        usage_interval.0 / 1_000_000
    )
}

/// Describes the HTTP interface.
fn describe_api(config: &Config) -> String {
    let Some(ApiSettings { listen, tls, tokens_file }) = &config.api else {
        return "none: add [api] for the HTTP interface and the dashboard".to_owned();
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let who = match tokens_file {
        Some(path) => format!("for holders of the tokens in {}", path.display()),
        None => "read by everybody who reaches it, and without acts: api.tokens_file is not set"
            .to_owned(),
    };
    format!("{scheme}://{listen}/, {who}")
}

/// Describes the pair of adits that share the records: which of this host's addresses the active
/// one has, and how it behaves when isolated. Empty without `[standby]`.
fn describe_standby(config: &Config) -> String {
    let (Some(standby), StoreKind::Shared(shared)) = (&config.standby, &config.store.kind) else {
        return String::new();
    };
    let addresses = standby.addresses.iter().map(|DeviceAddress { device, network }| {
        format!("{}/{} on {device}", network.addr, network.len)
    });
    let addresses: Vec<_> = addresses.collect();
    let has = match addresses.is_empty() {
        true => "no address of the host".to_owned(),
        false => addresses.join(", "),
    };
    let n4 = config.n4_listen.ip();
    let has_n4 = n4.is_unspecified() || standby.addresses.iter().any(|of| of.network.addr == n4);
    let without = match has_n4 {
        true => String::new(),
        false => format!("; {n4} of n4.listen has to reach the active adit in another way"),
    };
    let two = match standby.accepts_two_active {
        true => {
            "; two adits may be active, and both acknowledge, after a replica was promoted without the last changes"
        }
        false => "",
    };
    let isolated = match standby.when_isolated {
        WhenIsolated::Stop => {
            "; pauses when neither the store nor the standby can say that it still is active"
        }
        WhenIsolated::Forward => {
            "; serves on when neither the store nor the standby can say that it still is active: both adits may answer for \
             the same addresses, and count the same volume twice"
        }
    };
    format!(
        "active, or waits until the lease of another adit ends, at most {} ms after it died; has {has} while it is \
         active{without}{isolated}{two}",
        shared.lease.as_millis()
    )
}

/// Describes each thread: its core, and what it does.
fn describe_threads(config: &Config) -> Vec<String> {
    let main = format!("core {}: control (N4, sessions, publication)", config.datapath.main_core);
    let does = |role| match (role, &config.datapath.model) {
        (Role::Worker, ModelSettings::RunToCompletion) => "receives, processes and transmits",
        (Role::Worker, ModelSettings::Pipeline { .. }) => {
            "processes and transmits what receivers hand over"
        }
        (Role::Worker, ModelSettings::EventDriven(_)) => {
            "processes what the event scheduler gives it"
        }
        (Role::Signaling, _) => "answers ARP, neighbor discovery, ICMP and GTP-U path management",
        (Role::Receiver, ModelSettings::Pipeline { spread: Spread::Rss, .. }) => {
            "receives and chooses workers by a hash of the UE's address"
        }
        (Role::Receiver, _) => "receives and hands packets to the owners of their sessions",
        (Role::RxTx, _) => "receives for the event scheduler, and transmits",
    };
    let threads = config.datapath.threads().into_iter().enumerate();
    let priority = match config.datapath.realtime_priority {
        0 => String::new(),
        priority => format!(", real-time priority {priority}"),
    };
    let of_packet_path = threads.map(|(id, ThreadSettings { role, core, poll })| {
        let poll = match poll {
            PollMode::Busy => "polls on without packets",
            PollMode::Adaptive => "sleeps without packets",
        };
        format!("core {core}: {} {id} {}, {poll}{priority}", role.name(), does(role))
    });
    let scheduler = |core| format!("core {core}: scheduler, gives packets to workers");
    let scheduler = config.datapath.scheduler_core().map(scheduler);
    std::iter::once(main).chain(of_packet_path).chain(scheduler).collect()
}

/// Describes the queues of an event scheduler, in the order in which packets pass them.
fn describe_event_queues(config: &Config) -> String {
    let ModelSettings::EventDriven(settings) = &config.datapath.model else {
        return String::new();
    };
    let queues = &settings.queues;
    let of_packets: Vec<_> =
        queues.of_packets().map(|queue| schedule_name(queue.schedule)).collect();
    let (rx, stages) = of_packets.split_at(of_packets.len() - queues.stage_queues());
    let mut parts: Vec<String> = rx.iter().map(|rx| format!("Rx ({rx})")).collect();
    parts.push(format!("{} of stages ({})", stages.len(), stages.join(", ")));
    parts.push(format!("{} Tx", settings.rx_tx.len()));
    match queues.count() - of_packets.len() - settings.rx_tx.len() {
        0 => {}
        timers => parts.push(format!("{timers} of timers")),
    }
    let (driver, flows) = (settings.driver.name(), settings.flows);
    format!("{driver} with {flows} flows in each: {}", parts.join(", "))
}

const fn schedule_name(schedule: ScheduleType) -> &'static str {
    match schedule {
        ScheduleType::Atomic => "atomic",
        ScheduleType::Ordered => "ordered",
        ScheduleType::Parallel => "parallel",
    }
}

/// Describes which ports run the XDP program.
fn describe_xdp(config: &Config) -> String {
    let ports = || config.ports.iter().filter(|port| port.xdp != XdpMode::Off);
    let names: Vec<_> = ports().map(|port| port.name.as_str()).collect();
    let otherwise = match ports().any(|port| port.xdp == XdpMode::On) {
        true => "adit does not start",
        false => "workers process all packets",
    };
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "{}: drivers forward usual packets before workers receive them; if that does not work, {otherwise}",
            names.join(", ")
        ),
    }
}

/// Describes which sessions get flow rules in network cards.
fn describe_flow_offload(config: &Config) -> String {
    let ports = config.ports.iter().filter(|port| port.flow_offload);
    let ports: Vec<_> = ports.map(|port| port.name.as_str()).collect();
    let config::FlowOffloadSettings { downlink, sessions_max, from_pps, .. } = config.flow_offload;
    let what = if downlink { "packets of both directions" } else { "uplink packets" };
    match ports.is_empty() {
        true => String::new(),
        false => format!(
            "{}: {what} of up to {sessions_max} sessions with {from_pps} packets per second and more",
            ports.join(", ")
        ),
    }
}

/// Describes, for each kernel port, the network device that it requires or creates.
fn describe_kernel_ports(config: &Config) -> Vec<String> {
    let ports = (0..).map(PortId).zip(&config.ports);
    let kernel = ports.filter_map(|(id, port)| Some((id, port, port.device.kernel()?)));
    let text = |(id, port, device): (PortId, &config::PortSettings, &KernelDevice)| {
        let interfaces = || config.interfaces.iter().filter(|known| known.port == id);
        let addresses: Vec<String> = interfaces()
            .flat_map(|known| {
                let v4 = known.v4.map(|(addr, len)| format!("{addr}/{len}"));
                v4.into_iter().chain(known.v6.map(|(addr, len)| format!("{addr}/{len}")))
            })
            .collect();
        let (name, addresses) = (&port.name, addresses.join(" and "));
        let pools: Vec<String> = interfaces()
            .flat_map(|known| steering::pools(config, known))
            .map(|pool| pool.to_string())
            .collect();
        match device {
            KernelDevice::Packet { iface } => {
                format!("{name} takes all frames of {iface}, whose offloads may stay on")
            }
            KernelDevice::Udp => {
                format!("{name} needs a network device with {addresses}")
            }
            KernelDevice::Tun { name: device } if pools.is_empty() => {
                format!(
                    "{name} creates {device} with {addresses} and no routes: there is no UE pool"
                )
            }
            KernelDevice::Tun { name: device } => format!(
                "{name} creates {device} with {addresses} and routes to {}",
                pools.join(" and ")
            ),
        }
    };
    kernel.map(text).collect()
}

/// Describes the kernel twins of interfaces.
fn kernel_twins(config: &Config) -> Vec<String> {
    let text = |interface: &config::InterfaceSettings| {
        let twin = interface.twin.as_ref()?;
        let addresses: Vec<_> = interface.links().map(|link| link.to_string()).collect();
        let place = twin.netns.as_ref().map(|name| format!(" in network namespace {name}"));
        let (device, place) = (&twin.name, place.unwrap_or_default());
        let n4 = interface.owns(config.n4_listen.ip());
        let n4 = if n4 { ", which N4 listens at" } else { "" };
        let (name, addresses) = (&interface.name, addresses.join(" and "));
        Some(format!("{name} creates {device}{place} with {addresses}{n4}"))
    };
    config.interfaces.iter().filter_map(text).collect()
}

/// Describes the receive queues of a port.
fn describe_queues(config: &Config, port: &config::PortSettings) -> String {
    let roles = config.datapath.roles();
    let receiving = roles.receiving();
    let who = roles.of(receiving.start).name();
    let receiving = receiving.len();
    let name = &port.name;
    match port.rx_queues.map(usize::from) {
        None if receiving == 1 => format!("{name} has 1 for its {who}"),
        None => format!("{name} has up to {receiving}, one for each {who}"),
        Some(queues) if queues == receiving => format!("{name} has {queues}, one for each {who}"),
        Some(queues) if queues > receiving => {
            format!("{name} has {queues}, which {receiving} {who}s poll in turns")
        }
        Some(queues) => {
            format!("{name} has {queues}; packets of other workers' sessions are handed over")
        }
    }
}
