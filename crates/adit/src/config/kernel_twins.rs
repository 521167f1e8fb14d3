//! Kernel twins of interfaces: their names, namespaces and protocols.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use adit_datapath::KernelProtocol;

use super::fields::IpNet;
use super::ports::{PortDevice, PortSettings};
use super::section::ConfigDocument;
use super::standby::device_name;

/// The kernel twin of an interface: a TAP device with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwinSettings {
    /// The name of the device.
    pub name: String,
    /// The named network namespace that it is in. `None`: that of adit.
    pub netns: Option<String>,
    /// Protocols whose frames to groups the kernel gets.
    pub protocols: Vec<KernelProtocol>,
}

/// A protocol by its name in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TwinProtocol(pub KernelProtocol);

impl FromStr for TwinProtocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let found = KernelProtocol::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, protocol)| Self(protocol)).ok_or(())
    }
}

impl fmt::Display for TwinProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KernelProtocol::ALL.into_iter().find(|(_, protocol)| *protocol == self.0);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// Checks the name of a network namespace.
pub(super) fn netns_name(name: &str) -> Result<(), String> {
    let is_allowed = |octet: u8| octet.is_ascii_graphic() && octet != b'/';
    let is_name = !name.starts_with('.') && name.bytes().all(is_allowed);
    match is_name && (1..=255).contains(&name.len()) {
        true => Ok(()),
        false => Err("takes the name of a network namespace, as ip netns lists it".to_owned()),
    }
}

/// Checks the name of a twin's device.
pub(super) fn twin_name(name: &str) -> Result<(), String> {
    device_name(name)?;
    match ["lo", "all", "default", ".", ".."].contains(&name) || name.contains('%') {
        true => Err("takes the name of a new network device, which lo and all are not".to_owned()),
        false => Ok(()),
    }
}

/// The keys of an interface that its twin depends on.
pub(super) struct TwinKeys<'a> {
    pub name: Option<&'a String>,
    pub netns: Option<&'a String>,
    pub protocols: &'a [TwinProtocol],
    pub addresses: &'a [IpNet],
}

/// An interface with a twin.
pub(super) struct TwinOwner<'a> {
    pub interface: &'a str,
    pub twin: &'a TwinSettings,
    pub addresses: Vec<IpAddr>,
}

/// The twin of an interface on `port`, if it has one; `before`: those of interfaces before it.
pub(super) fn check_twin(
    document: &ConfigDocument<'_>,
    path: &str,
    keys: &TwinKeys<'_>,
    port: Option<&PortSettings>,
    before: &[TwinOwner<'_>],
) -> Option<TwinSettings> {
    let problem = |what: String| document.problem(&format!("{path}.kernel"), what);
    let Some(name) = keys.name.cloned() else {
        let what = "is for interfaces with kernel, the name of the twin's device";
        document.refuse(path, &["kernel_netns", "kernel_protocols"], what);
        return None;
    };
    let device = port.map(|port| &port.device);
    if device.and_then(PortDevice::kernel).is_some_and(|kernel| kernel.is_routed()) {
        let what = "is for interfaces of other ports: this one is the kernel's already; remove it";
        document.refuse(path, &["kernel"], what);
        return None;
    }
    let netns = keys.netns.cloned();
    if let Some(shared) = device.filter(|_| netns.is_none()).and_then(device_with_the_kernel) {
        problem(format!(
            "needs kernel_netns: the kernel has {shared} as well, and would get every packet twice and answer ARP beside \
             adit; write the name of a network namespace (ip netns add NAME)"
        ));
    }
    let mut neighbors = before.iter().filter(|of| of.twin.netns == netns);
    if let Some(known) = neighbors.clone().find(|of| of.twin.name == name) {
        problem(format!(
            "interface \"{}\" has a twin of this name; choose another",
            known.interface
        ));
    }
    let has_same =
        |of: &&TwinOwner<'_>| keys.addresses.iter().any(|net| of.addresses.contains(&net.addr));
    if let Some(known) = neighbors.find(has_same) {
        problem(format!(
            "interface \"{}\" has an address of this one, and both twins are in one network namespace; \
             give one of them kernel_netns",
            known.interface
        ));
    }
    let mut protocols: Vec<KernelProtocol> = Vec::new();
    for TwinProtocol(protocol) in keys.protocols {
        if !protocols.contains(protocol) {
            protocols.push(*protocol);
        }
    }
    Some(TwinSettings { name, netns, protocols })
}

/// The network device of a port whose frames the kernel of adit's namespace gets as well.
fn device_with_the_kernel(device: &PortDevice) -> Option<&str> {
    let has_copies = device.dpdk().is_none_or(|dpdk| dpdk.is_driver("net_af_packet"));
    device.network_device().filter(|_| has_copies)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    /// The example with changes, or its first problem.
    fn parsed(changes: &[(&str, &str)]) -> Result<Config, String> {
        let mut text = EXAMPLE.to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        Config::parse(&text).map_err(|problems| problems[0].to_string())
    }

    /// A port that adit has alone.
    const ALONE: (&str, &str) = ("kernel:packet,iface=n6", "net_memif0,role=client");

    #[test]
    fn twin_has_name_namespace_and_protocols() {
        let config = parsed(&[(
            "# kernel = \"n6\"",
            "kernel = \"n6twin\"\nkernel_netns = \"routing\"\nkernel_protocols = [\"ospf\", \"lldp\", \"ospf\"]",
        )])
        .unwrap();
        let twin = config.interfaces[1].twin.as_ref().unwrap();
        assert_eq!((twin.name.as_str(), twin.netns.as_deref()), ("n6twin", Some("routing")));
        assert_eq!(twin.protocols, [KernelProtocol::Ospf, KernelProtocol::Lldp]);
        assert_eq!(config.interfaces[0].twin, None);
    }

    #[test]
    fn twin_that_cannot_be_is_refused_by_its_key() {
        let twin = |to: &'static str| parsed(&[ALONE, ("# kernel = \"n6\"", to)]).unwrap_err();
        for (text, words) in [
            ("kernel = \"a-name-that-is-too-long\"", "1 to 15 characters"),
            ("kernel = \"a/b\"", "1 to 15 characters"),
            ("kernel = \"lo\"", "a new network device"),
            ("kernel = \"n%d\"", "a new network device"),
            ("kernel_netns = \"x\"", "is for interfaces with kernel"),
            ("kernel = \"n6\"\nkernel_netns = \"a/b\"", "the name of a network namespace"),
            ("kernel = \"n6\"\nkernel_protocols = [\"rip\"]", "ospf"),
        ] {
            let error = twin(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        let error = parsed(&[("# kernel = \"n6\"", "kernel = \"twin\"")]).unwrap_err();
        assert!(error.contains("needs kernel_netns: the kernel has n6 as well"), "{error}");
    }

    #[test]
    fn n4_at_an_address_that_only_a_port_of_adit_has_is_refused() {
        let n4 = ("listen = \"10.0.4.2:8805\"", "listen = \"10.0.6.2:8805\"");
        let twin = ("# kernel = \"n6\"", "kernel = \"twin\"");
        let error = parsed(&[ALONE, n4]).unwrap_err();
        assert!(error.contains("write kernel = \"NAME\" under this interface"), "{error}");
        let config = parsed(&[ALONE, n4, twin]).unwrap();
        assert_eq!(config.n4_listen.to_string(), "10.0.6.2:8805");
        assert_eq!(config.n4_netns(), None);
        let by_name = ("listen = \"10.0.4.2:8805\"", "listen = \"twin:8805\"");
        let config = parsed(&[ALONE, by_name, twin]).unwrap();
        assert_eq!(config.n4_listen.to_string(), "10.0.6.2:8805");
        let netns = ("# kernel = \"n6\"", "kernel = \"twin\"\nkernel_netns = \"routing\"");
        assert_eq!(parsed(&[n4, netns]).unwrap().n4_netns(), Some("routing"));
    }
}
