//! The configuration of an adit that the lab starts.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

/// What differs between the adits of the lab.
#[derive(Debug)]
pub struct AditConfig<'a> {
    /// Node ID and N4 address.
    pub n4: Ipv4Addr,
    /// N4 port.
    pub n4_port: u16,
    /// Heartbeats, T1, and N1. Units: ms, ms, requests.
    pub heartbeat_ms: u32,
    /// Time until a request is sent again. Unit: ms.
    pub t1_ms: u32,
    /// Requests are taken without limit: the SMF is the tester.
    pub unlimited_requests: bool,
    /// PFCP sessions.
    pub sessions_max: u32,
    /// Core of everything but the worker.
    pub main_core: usize,
    /// Core of the worker.
    pub worker: usize,
    /// Device strings of the access and the core side.
    pub devices: [String; 2],
    /// Largest IP packets on both. Unit: octets.
    pub mtu_bytes: [u16; 2],
    /// Addresses on N3, with their prefix lengths.
    pub n3: Vec<String>,
    /// Addresses on N6.
    pub n6: Vec<String>,
    /// Prefixes with their next hops on N6.
    pub routes: Vec<(&'a str, String)>,
    /// VLANs of N3 and N6; zero for none.
    pub vlans: [u16; 2],
    /// Admin socket.
    pub socket: &'a Path,
}

impl AditConfig<'_> {
    /// The file.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { n4, n4_port, heartbeat_ms, t1_ms, sessions_max, main_core, worker, .. } = self;
        let limit = if self.unlimited_requests { "peer_requests_per_s_max = 0\n" } else { "" };
        let [access, core] = &self.devices;
        let [access_mtu, core_mtu] = self.mtu_bytes;
        let [n3_vlan, n6_vlan] = self.vlans.map(|vlan| match vlan {
            0 => String::new(),
            vlan => format!("vlan = {vlan}\n"),
        });
        let (n3, n6) = (quoted(&self.n3), quoted(&self.n6));
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
workers = [{worker}]
main_core = {main_core}
burst_pkts = 32

[dpdk]
hugepages = "auto"
memory_mib = 256
mempool_mbufs = 16384
mbuf_bytes = 2048
rx_descriptors = 1024
tx_descriptors = 1024
eal_extra_args = []

[[port]]
name = "access"
device = "{access}"
mtu_bytes = {access_mtu}

[[port]]
name = "core"
device = "{core}"
mtu_bytes = {core_mtu}

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
{n6_vlan}"#
        );
        for (prefix, next_hop) in &self.routes {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[route]]\ninterface = \"n6\"\nprefix = \"{prefix}\"\nnext_hop = \"{next_hop}\"\n"
            );
        }
        let _ = write!(text, "\n[admin]\nsocket = \"{}\"\n", self.socket.display());
        text
    }
}

fn quoted(addresses: &[String]) -> String {
    let quoted: Vec<String> = addresses.iter().map(|text| format!("\"{text}\"")).collect();
    quoted.join(", ")
}
