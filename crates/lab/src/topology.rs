//! The namespaces of the demo and the veth pairs between them.
//!
//! ```text
//!  adit-ran-PID                        adit-upf-PID                    adit-dn-PID
//!  SMF  10.0.4.1 n4 ───────────── n4 10.0.4.2  adit
//!  gNB  10.0.3.1 n3 ───────────── n3 (10.0.3.2, adit's)
//!  SMF's GTP-U  10.0.3.8
//!  (another UPF  10.0.3.9)
//!  UEs  ue1, ue2, … (TUN)              n6 (10.0.6.2, adit's) ───────── n6 10.0.6.1
//!                                                                    (second station 10.0.6.9)
//!                                                                 adit-corp-PID (optional)
//!                                     corp (10.0.6.2, adit's) ───── corp 10.0.6.1
//! ```
//!
//! The devices `n3` and `n6` of the UPF belong to adit: the kernel has no address on them and does
//! not answer ARP. The other ends send unsegmented packets with complete checksums, as on a wire.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::tun;
use adit_lab_process::netns::NetNamespace;
use adit_lab_process::stop::environment;

/// Prefixes of the namespaces' names; the process id of the lab follows.
pub(crate) const PREFIXES: [&str; 4] = ["adit-ran-", "adit-upf-", "adit-dn-", CORP_PREFIX];
const CORP_PREFIX: &str = "adit-corp-";
/// Name of the link to the second data network.
pub(crate) const CORP_LINK: &str = "corp";

/// The SMF's PFCP address.
pub(crate) const SMF: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 1);
/// adit's PFCP address.
pub(crate) const ADIT_N4: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 2);
/// The gNB's GTP-U address.
pub(crate) const GNB: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
/// adit's GTP-U address.
pub(crate) const ADIT_N3: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
/// The SMF's GTP-U address, on the link of N3: N4-u uses it too.
pub(crate) const SMF_GTPU: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 8);
/// The address of a second UPF on the link of the gNB.
pub(crate) const PEER_UPF: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 9);
/// The gNB's IPv6 address.
pub(crate) const GNB_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 1);
/// adit's IPv6 address on the link to the gNB.
pub(crate) const ADIT_N3_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 2);
/// The address of the server in the data network.
pub(crate) const DN: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);
/// The address of a second station on the link of the data network.
pub(crate) const STATION: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 9);
/// adit's address in the data network.
pub(crate) const ADIT_N6: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 2);
/// The server's IPv6 address.
pub(crate) const DN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 6, 0, 0, 0, 0, 1);
/// The address of adit's TUN device, if its ports are the kernel's.
pub(crate) const ADIT_TUN: Ipv4Addr = Ipv4Addr::new(10, 0, 7, 1);
/// The IPv6 address of adit's TUN device.
pub(crate) const ADIT_TUN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 1);
/// adit's IPv6 address in the data network.
pub(crate) const ADIT_N6_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 6, 0, 0, 0, 0, 2);

const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);

/// MTU of a UE, on links of 1500 octets. Subtracts the outer IPv4, UDP and GTP-U headers with a PDU
/// Session Container (20 + 8 + 16), and rounds down. Unit: octets.
pub(crate) const UE_MTU: u16 = 1400;

/// MTU of the links, unless [`Topology::set_link_mtu`] sets another. Unit: octets.
const LINK_MTU: u16 = 1500;

/// Maximum number of UEs: their addresses are the hosts of 10.45.0.0/24 from .2.
pub(crate) const UES_MAX: u8 = 250;

/// Routing table of UE number 0; UE number N has the table with this number plus N.
const ROUTING_TABLE_BASE: u32 = 1000;

/// A UE, by its number, which begins at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LabUe(pub u8);

impl LabUe {
    /// Returns the name of the TUN device.
    #[must_use]
    pub(crate) fn device(self) -> String {
        format!("ue{}", self.0)
    }

    /// Returns the IPv4 address of the UE's PDU session.
    #[must_use]
    pub(crate) const fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 45, 0, self.0.saturating_add(1))
    }

    /// Returns the IPv6 address of the UE's PDU session, the first host of its own /64.
    #[must_use]
    pub(crate) fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0x45, u16::from(self.0), 0, 0, 0, 1)
    }

    /// Returns the /64 prefix of the UE's PDU session.
    #[must_use]
    pub(crate) fn prefix(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.ipv6().to_bits() >> 64 << 64)
    }

    fn table(self) -> u32 {
        ROUTING_TABLE_BASE + u32::from(self.0)
    }
}

/// The namespaces. Drop removes them with all devices.
#[derive(Debug)]
pub(crate) struct Topology {
    /// The namespace of gNB, SMF and UEs.
    pub ran: NetNamespace,
    /// The namespace of adit.
    pub upf: NetNamespace,
    /// The namespace of the data network.
    pub dn: NetNamespace,
    /// The namespace of a second data network, with the same IPv4 addresses as the first.
    pub corp: Option<NetNamespace>,
    /// True if the kernel has IPv6.
    pub ipv6: bool,
    /// MTU of adit's links to the gNB and to data networks. Unit: octets.
    pub mtu_bytes: u16,
}

const IPV6_QUIET_SYSCTLS: [(&str, &str); 8] = [
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/default/disable_ipv6", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/all/router_solicitations", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
];

/// Disables the reverse path filter: a reply may arrive on another device than the route back uses.
const NO_RP_FILTER_SYSCTLS: [(&str, &str); 2] =
    [("ipv4/conf/all/rp_filter", "0"), ("ipv4/conf/default/rp_filter", "0")];

/// Makes the kernel route between N6 and adit's TUN device.
const UPF_ROUTER_SYSCTLS: [(&str, &str); 1] = [("ipv4/ip_forward", "1")];
const UPF_ROUTER_SYSCTLS_V6: [(&str, &str); 1] = [("ipv6/conf/all/forwarding", "1")];

/// Keeps the kernel from forwarding packets past adit, and new devices from having IPv6.
const UPF_QUIET_SYSCTLS: [(&str, &str); 4] = [
    ("ipv4/ip_forward", "0"),
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv4/conf/all/arp_ignore", "1"),
];

fn queues_option(queues: usize) -> String {
    format!("numrxqueues {queues} numtxqueues {queues}")
}

impl Topology {
    /// Creates namespaces, links, addresses and routes; with `corp`, also those of the second data
    /// network. adit's links have `queues` queues in each direction.
    ///
    /// # Errors
    /// The machine does not allow namespaces or veth devices.
    pub(crate) fn create(pid: u32, corp: bool, queues: usize) -> Result<Self> {
        let [ran, upf, dn, second] = PREFIXES;
        let create = |prefix: &str| NetNamespace::create(format!("{prefix}{pid}"));
        let ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let (ran, upf, dn) = (create(ran)?, create(upf)?, create(dn)?);
        let corp = if corp { Some(create(second)?) } else { None };
        let topology = Self { ran, upf, dn, corp, ipv6, mtu_bytes: LINK_MTU };
        for namespace in [&topology.ran, &topology.dn] {
            namespace.sysctl(&NO_RP_FILTER_SYSCTLS)?;
            namespace.sysctl(&IPV6_QUIET_SYSCTLS)?;
        }
        topology.upf.sysctl(&UPF_QUIET_SYSCTLS)?;
        topology.link_up(queues)?;
        if let Some(corp) = &topology.corp {
            topology.link_up_corp(corp, queues)?;
        }
        Ok(topology)
    }

    fn link_up_corp(&self, corp: &NetNamespace, queues: usize) -> Result<()> {
        corp.sysctl(&NO_RP_FILTER_SYSCTLS)?;
        corp.sysctl(&[("ipv6/conf/default/disable_ipv6", "1")])?;
        let (queues, other) = (queues_option(queues), corp.name());
        self.upf.ip_batch(
            &[],
            &format!(
                "link add {CORP_LINK} {queues} type veth peer name {CORP_LINK} {queues} netns {other}\n\
                 link set {CORP_LINK} up arp off\n"
            ),
        )?;
        corp.ip_batch(
            &[],
            &format!(
                "address add {DN}/24 dev {CORP_LINK}\nlink set {CORP_LINK} up\n\
                 route add 10.45.0.0/16 via {ADIT_N6}\n"
            ),
        )
    }

    fn link_up(&self, queues: usize) -> Result<()> {
        let (ran, upf, dn) = (self.ran.name(), self.upf.name(), self.dn.name());
        let links = format!(
            "link add n3 {queues} type veth peer name n3 {queues} netns {ran}\n\
             link add n4 type veth peer name n4 netns {ran}\n\
             link add n6 {queues} type veth peer name n6 {queues} netns {dn}\n",
            queues = queues_option(queues),
        );
        self.upf.ip_batch(&[], &links).map_err(|error| {
            environment(format!(
                "cannot create veth devices in {upf} ({error}): run `modprobe veth`"
            ))
        })?;
        self.upf.ip_batch(
            &[],
            &format!(
                "link set n3 up arp off\nlink set n6 up arp off\n\
                 address add {ADIT_N4}/24 dev n4\nlink set n4 up\n"
            ),
        )?;
        self.ran.ip_batch(
            &[],
            &format!(
                "link set n3 addrgenmode none\nlink set n4 addrgenmode none\n\
                 address add {GNB}/24 dev n3\naddress add {PEER_UPF}/24 dev n3\n\
                 address add {SMF_GTPU}/24 dev n3\nlink set n3 up\n\
                 address add {SMF}/24 dev n4\nlink set n4 up\n"
            ),
        )?;
        if self.ipv6 {
            self.ran.ip_batch(&[], &format!("address add {GNB_V6}/64 dev n3 nodad\n"))?;
        }
        let mut lines = format!(
            "address add {DN}/24 dev n6\nlink set n6 up\nroute add 10.45.0.0/16 via {ADIT_N6}\n"
        );
        if self.ipv6 {
            lines.push_str(&format!(
                "address add {DN_V6}/64 dev n6 nodad\nroute add 2001:db8:45::/48 via {ADIT_N6_V6}\n"
            ));
        }
        self.dn.ip_batch(&[], &lines)
    }

    /// Sets the MTU of both ends of adit's links. Must be called before adit starts.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn set_link_mtu(&mut self, mtu_bytes: u16) -> Result<()> {
        self.mtu_bytes = mtu_bytes;
        let ends = [(&self.ran, "n3"), (&self.upf, "n3"), (&self.upf, "n6"), (&self.dn, "n6")];
        let corp = self.corp.as_ref().map(|corp| [(&self.upf, CORP_LINK), (corp, CORP_LINK)]);
        ends.iter().chain(corp.iter().flatten()).try_for_each(|(namespace, link)| {
            namespace.ip_batch(&[], &format!("link set {link} mtu {mtu_bytes}\n"))
        })
    }

    /// Makes the kernel in the UPF's namespace a router with the addresses of the links. With
    /// `has_captures` the links have no offloads; otherwise they have the kernel's defaults.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn give_links_to_kernel(&self, has_captures: bool) -> Result<()> {
        self.upf.sysctl(&UPF_ROUTER_SYSCTLS)?;
        self.upf.sysctl(&NO_RP_FILTER_SYSCTLS)?;
        let mut lines = format!(
            "link set n3 arp on\nlink set n6 arp on\n\
             address add {ADIT_N3}/24 dev n3\naddress add {ADIT_N6}/24 dev n6\n"
        );
        if self.ipv6 {
            self.upf.sysctl(&IPV6_QUIET_SYSCTLS)?;
            self.upf.sysctl(&UPF_ROUTER_SYSCTLS_V6)?;
            lines.push_str(&format!(
                "address add {ADIT_N3_V6}/64 dev n3 nodad\naddress add {ADIT_N6_V6}/64 dev n6 nodad\n"
            ));
        }
        self.upf.ip_batch(&[], &lines)?;
        if has_captures {
            disable_offloads(&self.upf, "n3")?;
            disable_offloads(&self.upf, "n6")?;
        }
        Ok(())
    }

    /// Enables the other ends of adit's links to receive the frames that an XDP program sends: a
    /// veth device receives them only with GRO.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn enable_gro_for_programs(&self) -> Result<()> {
        let links =
            [(Some(&self.ran), "n3"), (Some(&self.dn), "n6"), (self.corp.as_ref(), CORP_LINK)];
        let mut links = links.into_iter().filter_map(|(namespace, link)| Some((namespace?, link)));
        links.try_for_each(|(namespace, link)| namespace.set_features(link, &["gro", "on"]))
    }

    /// Makes the kernel poll all ends of adit's links (NAPI), as it polls network cards: veth
    /// devices are polled with GRO, unless the sending end passes large packets.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn poll_links(&self) -> Result<()> {
        let ends = [(&self.ran, "n3"), (&self.dn, "n6"), (&self.upf, "n3"), (&self.upf, "n6")];
        ends.iter().try_for_each(|(namespace, link)| {
            namespace.set_features(link, &["gro", "on", "tso", "off"])
        })
    }

    /// Creates the TUN devices of the UEs `1..=count`, each with addresses, MTU and its own routing
    /// table. Returns their files in the order of the UEs; a device lives as long as its file.
    ///
    /// # Errors
    /// The kernel has no TUN driver, or refuses a device.
    pub(crate) fn create_ues(&self, count: u8) -> Result<Vec<File>> {
        let devices =
            self.ran.enter(|| (1..=count).map(|n| tun::open(&LabUe(n).device())).collect())?;
        let mut lines = String::new();
        let mut lines_v6 = String::new();
        for ue in (1..=count).map(LabUe) {
            ue_lines(&mut lines, ue).context("format")?;
            ue_lines_v6(&mut lines_v6, ue).context("format")?;
        }
        self.ran.ip_batch(&[], &lines)?;
        if self.ipv6 {
            self.ran.ip_batch(&["-6"], &lines_v6)?;
        }
        Ok(devices)
    }
}

impl Topology {
    /// Removes a UE's IPv6 address and starts autoconfiguration: a link-local address with the same
    /// interface identifier makes the kernel solicit routers. Spec: RFC 4862 §5; TS 23.501
    /// §5.8.2.2.3.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn autoconfigure(&self, ue: LabUe) -> Result<()> {
        let (device, addr) = (ue.device(), ue.ipv6());
        let [accept, solicit, default_route] =
            ["accept_ra", "router_solicitations", "accept_ra_defrtr"]
                .map(|key| format!("ipv6/conf/{device}/{key}"));
        // The UE's routing table has a default route already.
        self.ran.sysctl(&[(&*accept, "1"), (&*solicit, "3"), (&*default_route, "0")])?;
        let identifier =
            Ipv6Addr::from_bits(LINK_LOCAL.to_bits() | (addr.to_bits() & u128::from(u64::MAX)));
        let lines = format!(
            "address del {addr}/128 dev {device}\naddress add {identifier}/64 dev {device} nodad\n"
        );
        self.ran.ip_batch(&["-6"], &lines)
    }

    /// True if the kernel has assigned the UE's address in the advertised prefix.
    ///
    /// # Errors
    /// `ip` cannot run.
    pub(crate) fn is_autoconfigured(&self, ue: LabUe) -> Result<bool> {
        let device = ue.device();
        let mut command: Command = self.ran.command("ip");
        let output = command
            .args(["-6", "-o", "address", "show", "dev", &device, "scope", "global"])
            .output()
            .context("run ip")?;
        let wanted = format!(" {}/64 ", ue.ipv6());
        Ok(String::from_utf8_lossy(&output.stdout).contains(&wanted))
    }

    /// Adds an IPv4 address to a UE.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn give_address(&self, ue: LabUe, addr: Ipv4Addr) -> Result<()> {
        let (device, table) = (ue.device(), ue.table());
        self.ran.ip_batch(
            &[],
            &format!("address add {addr}/32 dev {device}\nrule add from {addr} lookup {table}\n"),
        )
    }

    /// Sets the MTU of a UE's device.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn set_mtu(&self, ue: LabUe, mtu_bytes: u16) -> Result<()> {
        self.ran.ip_batch(&[], &format!("link set {} mtu {mtu_bytes}\n", ue.device()))
    }

    /// Adds a station with the address [`STATION`] and its own MAC address to the link of the data
    /// network. Returns the name of its device. Packets to the station reach the server.
    ///
    /// # Errors
    /// The kernel has no macvlan devices, or refuses.
    pub(crate) fn add_station(&self) -> Result<&'static str> {
        const DEVICE: &str = "station";
        let add = format!("link add {DEVICE} link n6 type macvlan mode bridge\n");
        self.dn.ip_batch(&[], &add).map_err(|error| {
            environment(format!("cannot create a macvlan device ({error}): run `modprobe macvlan`"))
        })?;
        // Makes each device answer ARP only for its own address.
        self.dn.sysctl(&[("ipv4/conf/all/arp_ignore", "1")])?;
        let lines = format!(
            "link set {DEVICE} multicast off addrgenmode none\n\
             address add {STATION}/32 dev {DEVICE}\nlink set {DEVICE} up\n"
        );
        self.dn.ip_batch(&[], &lines)?;
        Ok(DEVICE)
    }
}

fn ue_lines(lines: &mut String, ue: LabUe) -> std::fmt::Result {
    let (device, addr, table) = (ue.device(), ue.ipv4(), ue.table());
    // Without link-local addresses and multicast, the kernel sends nothing by itself. The queue can
    // hold a whole TCP window, so that this device does not drop packets.
    writeln!(lines, "link set {device} mtu {UE_MTU} txqueuelen 4000")?;
    writeln!(lines, "link set {device} multicast off addrgenmode none")?;
    writeln!(lines, "link set {device} up")?;
    writeln!(lines, "address add {addr}/32 dev {device}")?;
    writeln!(lines, "route add default dev {device} src {addr} table {table}")?;
    writeln!(lines, "rule add from {addr} lookup {table}")?;
    writeln!(lines, "rule add oif {device} lookup {table}")
}

fn ue_lines_v6(lines: &mut String, ue: LabUe) -> std::fmt::Result {
    let (device, addr, table) = (ue.device(), ue.ipv6(), ue.table());
    writeln!(lines, "address add {addr}/128 dev {device} nodad")?;
    writeln!(lines, "route add default dev {device} table {table}")?;
    writeln!(lines, "rule add from {addr} lookup {table}")?;
    writeln!(lines, "rule add oif {device} lookup {table}")
}

/// Disables offloads by which adit would receive packets with partial checksums or above the MTU.
fn disable_offloads(namespace: &NetNamespace, device: &str) -> Result<()> {
    namespace.set_features(device, &["tx", "off", "tso", "off", "gso", "off", "gro", "off"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_ue_has_a_host_address() {
        assert_eq!(LabUe(1).ipv4(), Ipv4Addr::new(10, 45, 0, 2));
        assert_eq!(LabUe(UES_MAX).ipv4(), Ipv4Addr::new(10, 45, 0, 251));
        assert_eq!(LabUe(UES_MAX).ipv6().to_string(), "2001:db8:45:fa::1");
    }

    #[test]
    fn ue_device_sends_what_a_program_sends_and_nothing_else() {
        use std::io::Read;
        if !rustix::process::geteuid().is_root() {
            adit_testkit::skip("not root");
            return;
        }
        let topology = Topology::create(std::process::id(), false, 1).unwrap();
        let mut devices = topology.create_ues(2).unwrap();
        let mut packet = [0; 2048];
        let silent = devices[0].read(&mut packet).unwrap_err();
        assert_eq!(silent.kind(), std::io::ErrorKind::WouldBlock);
        let mut ping = topology.ran.command("ping");
        let ping = ping.args(["-I", "ue2", "-c", "1", "-W", "1", "10.0.6.1"]).output().unwrap();
        assert!(!ping.status.success(), "nobody answers");
        let len = devices[1].read(&mut packet).unwrap();
        assert_eq!(len, 84, "an echo request of 56 octets");
        assert_eq!(packet[12..20], [10, 45, 0, 3, 10, 0, 6, 1], "from the UE to the server");
        if topology.ipv6 {
            let mut ping = topology.ran.command("ping");
            let target = DN_V6.to_string();
            ping.args(["-6", "-I", "ue1", "-c", "1", "-W", "1", &target]).output().unwrap();
            let len = devices[0].read(&mut packet).unwrap();
            assert_eq!(len, 104, "an IPv6 echo request of 56 octets");
            assert_eq!(packet[8..24], LabUe(1).ipv6().octets());
        }
        assert!(devices[0].read(&mut packet).is_err(), "nothing else was sent");
    }
}
