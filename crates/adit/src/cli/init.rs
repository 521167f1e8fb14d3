//! The arguments of `adit init`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::CONFIG_DEFAULT;
use crate::ip_net::IpNet;

/// The answers that `adit init` needs. It asks for those that are missing.
#[derive(Debug, Clone, Args)]
pub(crate) struct InitArguments {
    /// N4: an address of this host, or the network device that has it.
    #[arg(long, value_name = "DEVICE|ADDRESS")]
    pub n4: Option<EndpointText>,
    /// N3: an address of this host, the network device that has it, or a device that adit takes for
    /// itself, with adit's addresses there: eth1=10.0.3.2/24 or 0000:3b:00.0=10.0.3.2/24.
    #[arg(long, value_name = "DEVICE|ADDRESS|DEVICE=ADDRESS/LENGTH,…")]
    pub n3: Option<EndpointText>,
    /// N6, in the same form.
    #[arg(long, value_name = "DEVICE|ADDRESS|DEVICE=ADDRESS/LENGTH,…")]
    pub n6: Option<EndpointText>,
    /// The router on N3, if gNBs are behind one. Not for ports of the kernel, which routes itself.
    #[arg(long, value_name = "ADDRESS")]
    pub n3_gateway: Option<IpAddr>,
    /// The routers on N6, at most one of each family. Not for ports of the kernel.
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    pub n6_gateway: Vec<IpAddr>,
    /// Addresses of UEs, with the DNN ("internet" without one). May be repeated.
    #[arg(long = "ue-pool", value_name = "DNN=PREFIX,…", value_delimiter = ',')]
    pub ue_pools: Vec<PoolText>,
    /// The 5G core. A part for its SMF's configuration is written beside adit's file.
    #[arg(long)]
    pub core: Option<CoreKind>,
    /// N4 address of the SMF.
    #[arg(long, value_name = "ADDRESS")]
    pub smf: Option<IpAddr>,
    /// Kind of both ports.
    #[arg(long, value_enum, default_value_t = PortChoice::Auto)]
    pub io: PortChoice,
    /// The file to write.
    #[arg(long, short, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    pub output: PathBuf,
    /// Replace files that exist.
    #[arg(long)]
    pub force: bool,
    /// Take the proposed answer for each question, and ask nothing.
    #[arg(long, short)]
    pub yes: bool,
    /// Print what was chosen, and why, as JSON. Asks nothing.
    #[arg(long)]
    pub json: bool,
    /// Print the files, and write none.
    #[arg(long)]
    pub dry_run: bool,
}

/// Cores whose SMF `adit init` writes the configuration for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CoreKind {
    #[value(name = "open5gs", alias = "Open5GS")]
    Open5gs,
    #[value(name = "free5gc", alias = "free5GC")]
    Free5gc,
    #[value(name = "sd-core", alias = "SD-Core")]
    SdCore,
    #[value(name = "oai", alias = "OAI")]
    Oai,
    Other,
}

/// The kind of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PortChoice {
    /// The fastest that works with the device and leaves the kernel what is the kernel's.
    Auto,
    /// A card with a driver of DPDK.
    Dpdk,
    /// AF_XDP with the XDP program in the driver.
    Xdp,
    /// Packet sockets.
    AfPacket,
    /// UDP sockets on N3, a TUN device on N6.
    Kernel,
}

impl PortChoice {
    /// Returns the kind's name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// N4, N3 or N6 as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointText {
    pub device: Option<String>,
    /// At most one address of each family. Without a written length, the prefix is the address.
    pub addresses: Vec<IpNet>,
}

impl FromStr for EndpointText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, addresses) = match text.split_once('=') {
            Some((name, addresses)) => (Some(name), addresses),
            None if text.split(',').all(|part| address(part).is_ok()) => (None, text),
            None => (Some(text), ""),
        };
        let parts = addresses.split(',').filter(|part| !part.is_empty());
        let addresses = parts.map(address).collect::<Result<Vec<_>, _>>()?;
        let families = |is_v4| addresses.iter().filter(move |of| of.addr.is_ipv4() == is_v4);
        if families(true).count() > 1 || families(false).count() > 1 {
            return Err(format!("\"{text}\" has more than one address of a family"));
        }
        Ok(Self { device: name.map(device).transpose()?, addresses })
    }
}

fn address(text: &str) -> Result<IpNet, String> {
    let read = text.parse().map(IpNet::host).ok().or_else(|| text.parse().ok());
    read.ok_or_else(|| format!("\"{text}\" is no address such as 10.0.3.2/24"))
}

fn device(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_graphic() && !b"/=,".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err(format!("\"{text}\" is neither a network device nor an address")),
    }
}

/// A DNN with a prefix of its UEs' addresses.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct PoolText {
    pub dnn: String,
    #[serde(serialize_with = "displayed")]
    pub prefix: IpNet,
}

fn displayed<S: serde::Serializer>(net: &IpNet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(net)
}

impl FromStr for PoolText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (dnn, prefix) = text.split_once('=').unwrap_or(("internet", text));
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_name = (1..=100).contains(&dnn.len()) && dnn.bytes().all(is_part);
        let prefix: Option<IpNet> = prefix.parse().ok().filter(IpNet::is_prefix);
        match prefix.filter(|_| is_name) {
            Some(prefix) => Ok(Self { dnn: dnn.to_owned(), prefix }),
            None => Err(format!("\"{text}\" is no prefix such as internet=10.45.0.0/16")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_devices_addresses_or_both() {
        let parse = |text: &str| text.parse::<EndpointText>();
        let address = |text: &str, len| IpNet { addr: text.parse().unwrap(), len };
        let is = |text: &str, device: Option<&str>, addresses: &[IpNet]| {
            let device = device.map(str::to_owned);
            assert_eq!(parse(text), Ok(EndpointText { device, addresses: addresses.to_vec() }));
        };
        is("eth1", Some("eth1"), &[]);
        is("10.0.3.2", None, &[address("10.0.3.2", 32)]);
        is("eth1=10.0.3.2/24", Some("eth1"), &[address("10.0.3.2", 24)]);
        let both = [address("10.0.3.2", 24), address("2001:db8::2", 64)];
        is("0000:3b:00.0=10.0.3.2/24,2001:db8::2/64", Some("0000:3b:00.0"), &both);
        for text in ["", "eth 1", "eth1=", "eth1=x", "eth1=10.0.3.2/33", "10.0.0.1,10.0.0.2"] {
            assert!(parse(text).is_err() || text == "eth1=", "{text}");
        }
    }

    #[test]
    fn pools_have_a_data_network_and_no_host_bits() {
        let parse = |text: &str| text.parse::<PoolText>().map(|pool| (pool.dnn, pool.prefix.len));
        assert_eq!(parse("10.45.0.0/16"), Ok(("internet".to_owned(), 16)));
        assert_eq!(parse("ims=2001:db8:face::/48"), Ok(("ims".to_owned(), 48)));
        for text in ["10.45.0.1/16", "10.45.0.0", "=10.45.0.0/16", "i ms=10.45.0.0/16", "internet"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
