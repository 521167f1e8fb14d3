//! The scripted control planes of `interop/control-planes` against a running `adit`, with traffic.
//!
//! ```text
//!  adit-test-NAME-world                            adit-test-NAME-upf
//!  control planes  n4 10.0.4.1, .3 ─────────────── n4 10.0.4.2       adit
//!  RAN             n3 10.0.3.1, .3, .9 ─────────── n3 (10.0.3.2, adit's)
//!  data network    n6 10.0.6.1 ─────────────────── n6 (10.0.6.2, adit's)
//!  another one     n7 10.0.7.1 ─────────────────── n7 (10.0.7.2, adit's)
//! ```
//!
//! Two UPFs in a row, each with an `adit`:
//!
//! ```text
//!  adit-test-NAME-world           adit-test-NAME-upf              adit-test-NAME-anchor
//!  n4   10.0.4.1, .3 ──────────── n4 10.0.4.2
//!  n4b  ───────────────────────────────────────────────────────── n4 10.0.4.5
//!  n3, n6 as above ────────────── n3, n6
//!                                 n9 (10.0.9.2) ───────────────── n9 (10.0.9.3)
//!  n7   10.0.7.1 ──────────────────────────────────────────────── n6 (10.0.7.2)
//! ```

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use toml::Table;

use crate::daemon::{Daemon, cores};
use crate::process::{TestNamespace, is_root, run};

const LIMIT: Duration = Duration::from_secs(10);

/// The devices of the ports, by the names that the configurations give them.
const DEVICES: [(&str, &str); 4] =
    [("access", "n3"), ("core", "n6"), ("ims", "n7"), ("upfs", "n9")];

/// The devices between a UPF that is alone and the world.
const LINKS: [&str; 3] = ["n3", "n6", "n7"];

/// The documents with the configurations that operators read and these tests run.
const DOCUMENTS: [&str; 2] =
    [include_str!("../../../docs/interop.md"), include_str!("../../../docs/interop-n9.md")];

/// The configurations of the documents. The first line of each names its control plane, or its
/// gateway.
///
/// # Panics
/// When a block is not a configuration.
#[must_use]
pub fn configurations() -> Vec<(String, String)> {
    let blocks = DOCUMENTS.iter().flat_map(|text| text.split("```toml\n").skip(1));
    let texts = blocks.map(|block| block.split("```").next().unwrap());
    let named = texts.filter_map(|text| {
        let name = text.lines().next()?.strip_prefix("# adit.toml for ")?;
        Some((name.to_owned(), text.to_owned()))
    });
    named.collect()
}

/// The configuration for a control plane, with the devices, cores and paths of the tests and with
/// short timers.
fn configuration(control_plane: &str, dir: &Path) -> String {
    let all = configurations();
    let (_, text) = all.iter().find(|(name, _)| name == control_plane).unwrap();
    let mut table: Table = text.parse().unwrap();
    let mut set = |section: &str, text: &str| {
        let more: Table = text.parse().unwrap();
        let section = table.entry(section).or_insert_with(|| Table::new().into());
        section.as_table_mut().unwrap().extend(more);
    };
    set("n4", "heartbeat_interval_ms = 1000\nt1_ms = 500\nn1_retries = 3");
    set("sessions", "sessions_max = 1000");
    let cores = cores();
    let worker = cores.get(1).unwrap_or(&cores[0]);
    let main = cores[0];
    set("datapath", &format!("workers = [{worker}]\nmain_core = {main}\npoll = \"adaptive\""));
    let dpdk = "hugepages = \"never\"\nmemory_mib = 64\nmempool_mbufs = 4096\n\
                rx_descriptors = 256\ntx_descriptors = 256";
    set("dpdk", dpdk);
    set("store", "kind = \"none\"");
    set("admin", &format!("socket = \"{}\"", dir.join("admin.sock").display()));
    for port in table["port"].as_array_mut().unwrap() {
        let port = port.as_table_mut().unwrap();
        let (_, device) =
            DEVICES.iter().find(|(name, _)| port["name"].as_str() == Some(*name)).unwrap();
        port.insert("device".to_owned(), format!("kernel:packet,iface={device}").into());
        // The MTU of the veth devices.
        port.insert("mtu_bytes".to_owned(), 1500.into());
    }
    if control_plane == "SD-Core" {
        // With a pool, the control plane requests addresses; the tests run both.
        let pool = "[[ue_pool]]\nnetwork_instance = \"internet\"\nprefix = \"172.251.0.0/16\"";
        table.extend(pool.parse::<Table>().unwrap());
    }
    table.to_string()
}

/// Writes settings below `/proc/sys/net`.
fn sysctl(namespace: &TestNamespace, settings: &[&str]) {
    for setting in settings {
        let (key, value) = setting.split_once('=').unwrap();
        let mut command = namespace.command(Path::new("sh"));
        let script = format!("echo {value} > /proc/sys/net/{key}");
        let output = run(command.args(["-c", &script]), LIMIT);
        assert!(output.status.success(), "{script}: {output:?}");
    }
}

/// A namespace for a UPF, whose kernel has no IPv6.
fn upf_namespace(name: &str) -> TestNamespace {
    let upf = TestNamespace::new(name);
    sysctl(&upf, &["ipv6/conf/all/disable_ipv6=1", "ipv6/conf/default/disable_ipv6=1"]);
    upf
}

/// Links a device of a UPF's packet path to one of another namespace.
fn link(upf: &TestNamespace, device: &str, peer: &TestNamespace, peer_device: &str) {
    let link = ["link", "add", device, "type", "veth", "peer", "name", peer_device];
    upf.ip(&[&link[..], &["netns", peer.name()]].concat());
    upf.ip(&["link", "set", device, "up", "arp", "off"]);
}

/// Links N4 of a UPF to the device of the control planes.
fn link_n4(upf: &TestNamespace, address: &str, world: &TestNamespace, device: &str) {
    upf.ip(&["link", "add", "n4", "type", "veth", "peer", "name", device, "netns", world.name()]);
    upf.ip(&["address", "add", address, "dev", "n4"]);
    upf.ip(&["link", "set", "n4", "up"]);
}

/// Namespaces and links. The daemon removes the namespace of the UPF.
fn network(purpose: &str) -> (TestNamespace, TestNamespace) {
    let world = TestNamespace::new(&format!("{purpose}-world"));
    let upf = upf_namespace(&format!("{purpose}-upf"));
    let quiet = ["accept_dad=0", "accept_ra=0", "router_solicitations=0"];
    for key in quiet {
        for device in ["all", "default"] {
            sysctl(&world, &[&format!("ipv6/conf/{device}/{key}")]);
        }
    }
    sysctl(&world, &["ipv4/conf/all/rp_filter=0", "ipv4/conf/default/rp_filter=0"]);
    for device in LINKS {
        link(&upf, device, &world, device);
    }
    link_n4(&upf, "10.0.4.2/24", &world, "n4");
    for (device, address) in [
        ("n3", "10.0.3.1/24"),
        ("n3", "10.0.3.3/24"),
        ("n3", "10.0.3.9/24"),
        ("n3", "10.0.3.254/24"),
        ("n3", "2001:db8:3::1/64"),
        ("n3", "2001:db8:3::3/64"),
        ("n4", "10.0.4.1/24"),
        ("n4", "10.0.4.3/24"),
        ("n6", "10.0.6.1/24"),
        ("n6", "2001:db8:6::1/64"),
        ("n7", "10.0.7.1/24"),
        ("n7", "2001:db8:7::1/64"),
    ] {
        world.ip(&["address", "add", address, "dev", device]);
    }
    for device in LINKS.iter().chain(&["n4"]) {
        world.ip(&["link", "set", device, "up"]);
    }
    for (prefix, hop) in [
        ("10.45.0.0/16", "10.0.6.2"),
        ("10.46.0.0/16", "10.0.6.2"),
        ("10.47.0.0/16", "10.0.7.2"),
        ("10.60.0.0/16", "10.0.6.2"),
        ("172.250.0.0/16", "10.0.6.2"),
        ("172.251.0.0/16", "10.0.6.2"),
        ("2001:db8:cafe::/48", "2001:db8:6::2"),
        ("2001:db8:face::/48", "2001:db8:7::2"),
    ] {
        world.ip(&["route", "add", prefix, "via", hop]);
    }
    (world, upf)
}

/// As [`network`], with a second UPF behind the first one. The data network of n7 is the second
/// one's.
fn network_of_two(purpose: &str) -> (TestNamespace, TestNamespace, TestNamespace) {
    let (world, upf) = network(purpose);
    let anchor = upf_namespace(&format!("{purpose}-anchor"));
    upf.ip(&["link", "delete", "n7"]);
    link(&anchor, "n6", &world, "n7");
    link(&anchor, "n9", &upf, "n9");
    upf.ip(&["link", "set", "n9", "up", "arp", "off"]);
    link_n4(&anchor, "10.0.4.5/24", &world, "n4b");
    world.ip(&["address", "add", "10.0.7.1/24", "dev", "n7"]);
    for device in ["n7", "n4b"] {
        world.ip(&["link", "set", device, "up"]);
    }
    world.ip(&["route", "add", "10.0.4.5/32", "dev", "n4b"]);
    // Each data network has its own route to the UEs.
    world.ip(&["rule", "add", "from", "10.0.7.1", "lookup", "107"]);
    for prefix in ["10.45.0.0/16", "10.60.0.0/16"] {
        world.ip(&["route", "add", prefix, "via", "10.0.7.2", "table", "107"]);
    }
    (world, upf, anchor)
}

/// A running `adit`, or two in a row, with a network around it.
#[derive(Debug)]
pub struct AttachedDaemon {
    daemon: Option<Daemon>,
    /// The one behind the first.
    anchor: Option<Daemon>,
    world: TestNamespace,
}

impl AttachedDaemon {
    /// Starts `adit` with the configuration of `docs/interop.md` for the control plane. `None`,
    /// with the reason printed, if the machine cannot run it.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(control_plane: &str) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let (world, upf) = network(&control_plane.to_lowercase());
        let daemon = Daemon::start_in(upf, |dir| configuration(control_plane, dir))?;
        Some(Self { daemon: Some(daemon), anchor: None, world })
    }

    /// As [`Self::start`], with two in a row, by the names of their configurations in
    /// `docs/interop-n9.md`: the one with the access network, and the one behind it.
    ///
    /// # Panics
    /// When one does not start.
    #[must_use]
    pub fn start_two(purpose: &str, first: &str, second: &str) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let (world, upf, anchor) = network_of_two(purpose);
        let daemon = Daemon::start_in(upf, |dir| configuration(first, dir))?;
        let anchor = Daemon::start_in(anchor, |dir| configuration(second, dir))?;
        Some(Self { daemon: Some(daemon), anchor: Some(anchor), world })
    }

    /// Runs a profile of `program` and returns its cases.
    ///
    /// # Panics
    /// When it ends with an error or prints anything but cases.
    #[must_use]
    pub fn run(&mut self, program: &Path, profile: &str) -> Vec<Value> {
        let mut command = self.world.command(program);
        let mut script = ScriptProcess::start(command.arg(profile));
        let mut cases = Vec::new();
        while let Some(line) = script.next() {
            if line["request"] == "restart" {
                self.daemon = self.daemon.take().map(Daemon::restart);
                script.answer();
            } else {
                cases.push(line);
            }
        }
        cases
    }

    /// The daemons.
    pub fn daemons(&self) -> impl Iterator<Item = &Daemon> {
        self.daemon.iter().chain(&self.anchor)
    }

    /// Ends the daemons.
    ///
    /// # Panics
    /// When one ends with an error.
    pub fn end(mut self) {
        for daemon in self.daemon.take().into_iter().chain(self.anchor.take()) {
            let output = daemon.stop();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// A running script: it writes lines of JSON and reads lines of text. Dropping it ends the process.
struct ScriptProcess {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl ScriptProcess {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line, or `None` after the script has ended with success.
    fn next(&mut self) -> Option<Value> {
        let Some(line) = self.lines.next() else {
            let status = self.child.wait().unwrap();
            assert!(status.success(), "the script ended with {status}");
            return None;
        };
        Some(serde_json::from_str(&line.unwrap()).unwrap())
    }

    fn answer(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"done\n").unwrap();
    }
}

impl Drop for ScriptProcess {
    fn drop(&mut self) {
        // The process can have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
