//! The hosts of a run, each with a namespace, and the switch between them.
//!
//! ```text
//!  world: SMF 10.0.4.1, gNB 10.0.3.1, data network 10.0.6.1, observer 10.0.9.1
//!  a, b:  n3 10.0.3.2, n4 10.0.4.2, n6 10.0.6.2 of the active one; n9 10.0.9.2 and 10.0.9.3
//!  s1 …:  n9 10.0.9.11 …, a server of the store each
//! ```

use std::net::Ipv4Addr;

use adit_lab_process::netns::{NetNamespace, remove_stale};
use adit_types::MacAddr;
use anyhow::Result;

use crate::faults::addresses::{
    DATA_NETWORK, GNB, N3, N4, N6, SMF, STORE_NETWORK, UPF_DEVICE, UPFS, WORLD, port,
    server_address, upf_address,
};
use crate::faults::switch::{PortName, ProberTarget, Switch};
use crate::faults::timeline::Timeline;

/// Prefixes of the names of namespaces; the process id follows.
const PREFIXES: [&str; 10] = [
    "adit-fsw-",
    "adit-fwo-",
    "adit-fup0-",
    "adit-fup1-",
    "adit-fst0-",
    "adit-fst1-",
    "adit-fst2-",
    "adit-fst3-",
    "adit-fst4-",
    "adit-fst5-",
];
/// All hosts. Drop removes their namespaces.
#[derive(Debug)]
pub(crate) struct Hosts {
    // Must be dropped before the namespaces.
    pub switch: Switch,
    pub world: NetNamespace,
    pub upfs: Vec<NetNamespace>,
    pub servers: Vec<NetNamespace>,
    _switch_namespace: NetNamespace,
}

impl Hosts {
    /// Creates the hosts of `upfs` adits and `servers` servers.
    ///
    /// # Errors
    /// The machine does not support network namespaces, or lacks `ip` or `ethtool`.
    pub(crate) fn make(upfs: usize, servers: usize, timeline: &Timeline) -> Result<Self> {
        remove_stale(&PREFIXES, &std::env::temp_dir(), "adit-faults-")?;
        let pid = std::process::id();
        let create = |prefix: &str| NetNamespace::create(format!("{prefix}{pid}"));
        let switch_namespace = create("adit-fsw-")?;
        without_ipv6(&switch_namespace)?;
        let world = create("adit-fwo-")?;
        let mut ports = Vec::new();
        let addresses = [(3, GNB), (4, SMF), (6, DATA_NETWORK), (9, Ipv4Addr::new(10, 0, 9, 1))];
        let mut links = Links { switch: &switch_namespace, ports: &mut ports };
        for (network, address) in addresses {
            let mac = MacAddr([2, 0, 0, 2, 1, network]);
            links.add(&world, WORLD, HostLink { network, mac, address: Some(address) })?;
        }
        world.ip_batch(
            &[],
            "route add 10.45.0.0/16 via 10.0.6.2\nroute add 10.46.0.0/16 via 10.0.6.2\n",
        )?;
        let mut upf_namespaces = Vec::new();
        for (at, name) in UPFS.iter().enumerate().take(upfs) {
            let namespace = create(&format!("adit-fup{at}-"))?;
            let number = u8::try_from(at + 1).unwrap_or(0);
            for network in [3, 4, 6, STORE_NETWORK] {
                let mac = MacAddr([2, 0, 0, UPF_DEVICE, number, network]);
                let address = match network {
                    STORE_NETWORK => Some(upf_address(at)),
                    // Without a standby, the N4 address belongs to the host. Otherwise the active
                    // adit adds it.
                    4 if upfs == 1 => Some(N4),
                    _ => None,
                };
                links.add(&namespace, name, HostLink { network, mac, address })?;
            }
            upf_namespaces.push(namespace);
        }
        let mut server_namespaces = Vec::new();
        for at in 0..servers {
            let namespace = create(&format!("adit-fst{at}-"))?;
            let mac = MacAddr([2, 0, 0, 3, u8::try_from(at).unwrap_or(0), STORE_NETWORK]);
            let name = format!("s{}", at + 1);
            let address = Some(server_address(at));
            links.add(&namespace, &name, HostLink { network: STORE_NETWORK, mac, address })?;
            server_namespaces.push(namespace);
        }
        let probed = [(3, N3), (4, N4), (6, N6)].map(|(network, address)| ProberTarget {
            network,
            address,
            prober: Ipv4Addr::new(10, 0, network, 250),
        });
        let switch = Switch::start(&switch_namespace, &ports, probed.to_vec(), timeline)?;
        Ok(Self {
            switch,
            world,
            upfs: upf_namespaces,
            servers: server_namespaces,
            _switch_namespace: switch_namespace,
        })
    }
}

/// Adds devices to hosts.
struct Links<'l> {
    switch: &'l NetNamespace,
    ports: &'l mut Vec<PortName>,
}

/// A host's device in one network.
struct HostLink {
    network: u8,
    mac: MacAddr,
    address: Option<Ipv4Addr>,
}

impl Links<'_> {
    fn add(
        &mut self,
        host: &NetNamespace,
        name: &str,
        HostLink { network, mac, address }: HostLink,
    ) -> Result<()> {
        without_ipv6(host)?;
        let (own, device) = (format!("n{network}"), port(name, network));
        let mut lines = format!(
            "link add {own} address {mac} type veth peer name {device} netns {}\nlink set {own} up\n",
            self.switch.name()
        );
        if let Some(address) = address {
            lines += &format!("address add {address}/24 dev {own}\n");
        }
        host.ip_batch(&[], &lines)?;
        self.switch.ip_batch(&[], &format!("link set {device} up\n"))?;
        // A packet socket must receive frames as a card would send them: unsegmented, with
        // checksums.
        host.set_features(&own, &["tx", "off", "tso", "off", "gso", "off", "gro", "off"])?;
        self.ports.push(PortName { device, network });
        Ok(())
    }
}

fn without_ipv6(namespace: &NetNamespace) -> Result<()> {
    namespace.sysctl(&[
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        ("ipv4/ip_forward", "0"),
    ])
}
