//! Options of the target, by kind of target.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, Command, FromArgMatches, Id};

use super::placement::{PlacementChoice, SiblingChoice, TargetPlacement};
use super::rules::TargetRules;
use super::{OuterFamily, PollChoice, TargetKind, TeidChoice};
use crate::traffic::span_ns;
use adit_lab_engine::frame::UePacketKind;
use adit_lab_process::adit_config::{ExcessAction, ExecutionModel};
use adit_lab_smf::SessionProfile;
use adit_lab_smf::instance::InstanceEncoding;

/// Default PFCP address of the tester. [`ADIT_N4`] is that of the `adit` that the tester starts.
const SMF: &str = "127.77.0.1:8805";
const ADIT_N4: &str = "127.77.0.2:8805";

/// Options of the target. They must come last in a structure of options, since their help headings
/// hold for all options that follow.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TargetArguments {
    #[command(flatten)]
    pub _fitting: FittingOptions,
    /// The target to measure.
    #[arg(long, value_enum, default_value_t = TargetKind::Adit)]
    pub target: TargetKind,
    /// CPU core of the target; default: the first one that the tester does not use.
    #[arg(long, value_name = "CPU")]
    pub target_core: Option<u16>,
    /// Measure even if tester and target share a core; the report contains a warning.
    #[arg(long)]
    pub allow_shared_core: bool,
    /// How long to wait for each part of the target: its memif sockets, its links, its PFCP
    /// association.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = span_ns)]
    pub target_timeout: u64,
    /// PFCP sessions.
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    pub sessions: u32,
    /// Let the started adit and testpmd share their packet memory with the tester (zero-copy=yes of
    /// DPDK's memif driver) instead of copying every frame.
    #[arg(long, group = "memif-client")]
    pub zero_copy: bool,
    /// Compare the rates that testpmd reports each second with the tester's. Each report takes
    /// about 100 µs of the tester's core.
    #[arg(long, group = "testpmd")]
    pub target_rates: bool,
    /// Shell command that starts the target; adit-lab stops it after the measurement. The tester
    /// opens its ports before, or after if one of them is the client of a memif.
    #[arg(long, value_name = "COMMAND", group = "startable")]
    pub start: Option<String>,
    /// Port of an L2 target: a DPDK device string, or memif:SOCKET for the tester's own memif
    /// server at this path (@NAME for an abstract socket).
    #[arg(long, value_name = "DEVICE", group = "l2")]
    pub port: Option<String>,
    #[command(flatten, next_help_heading = "Options of the adit that adit-lab starts")]
    pub adit: AditOptions,
    #[command(flatten, next_help_heading = "PFCP of adit, and of a UPF")]
    pub pfcp: PfcpOptions,
    #[command(flatten, next_help_heading = "Ports of a UPF")]
    pub upf: UpfPorts,
    #[command(flatten, next_help_heading = "Addresses and headers of the frames")]
    pub network: NetworkOptions,
    /// The plan of --placement, once there is one.
    #[arg(skip)]
    pub placed: Option<TargetPlacement>,
    /// Sessions at the start, for a measurement that adds the others.
    #[arg(skip)]
    pub first_sessions: Option<u32>,
    /// Rule profiles by number of consecutive sessions, for a measurement with several profiles.
    #[arg(skip)]
    pub profiles: Vec<(u32, SessionProfile)>,
}

/// Options of the adit that adit-lab starts.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AditOptions {
    /// The adit binary to start; default: the one in the directory of adit-lab.
    #[arg(id = "adit", long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
    /// Workers of the started adit, one per core; without enough cores there are fewer, and the
    /// report contains a warning.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// CPUs of the started adit as `adit host plan` proposes them, without the tester's: "numa";
    /// "uma", which ignores nodes; or the name of a rule that the plan then breaks, such as
    /// own-node. Default: the first ones in order.
    #[arg(long, value_name = "numa|uma|RULE")]
    pub placement: Option<PlacementChoice>,
    /// Use of the siblings of a core in that plan.
    #[arg(long, value_enum, requires = "placement")]
    pub siblings: Option<SiblingChoice>,
    /// How threads of the started adit behave without packets.
    #[arg(long, value_enum, default_value_t)]
    pub poll: PollChoice,
    /// Let the started adit lower the frequency of its workers' cores under small load (as root).
    #[arg(long)]
    pub scale_frequency: bool,
    /// Execution model of the started adit. A receiver takes a core that is left, or shares one
    /// with a worker; the report then contains a warning.
    #[arg(long, value_enum, default_value_t)]
    pub model: ExecutionModel,
    /// The action of the started adit for packets beyond a maximum bit rate; default: that of adit.
    #[arg(long, value_enum)]
    pub excess: Option<ExcessAction>,
    /// Packets that the started adit may queue for rates.
    #[arg(long, value_name = "N", requires = "excess",
        value_parser = clap::value_parser!(u32).range(0..=262_144))]
    pub queue_pkts: Option<u32>,
    /// Rate of all sessions of the started adit together, per direction, in Mb/s.
    #[arg(long, value_name = "MBPS", requires = "excess",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub shared_mbps: Option<u32>,
    /// Let the started adit keep its sessions in a journal, on the disk of the temporary folder.
    #[arg(long)]
    pub journal: bool,
}

/// Options of a UPF, whose SMF the tester is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PfcpOptions {
    /// PFCP address of the UPF.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = ADIT_N4)]
    pub n4: SocketAddr,
    /// PFCP address of the tester, and its Node ID unless --node-id is given.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = SMF)]
    pub smf: SocketAddr,
    /// Network instance of the access side, if the UPF needs one.
    #[arg(long, value_name = "NAME")]
    pub access_instance: Option<String>,
    /// Network instance of the core side, if the UPF needs one.
    #[arg(long, value_name = "NAME")]
    pub core_instance: Option<String>,
    /// Encoding of the network instances: the name as text, or the labels of a domain name.
    #[arg(long, value_enum, default_value_t = InstanceEncoding::Text)]
    pub instance_encoding: InstanceEncoding,
    /// Who chooses uplink TEIDs; default: adit if it is the target, else the tester.
    #[arg(long, value_enum)]
    pub teids: Option<TeidChoice>,
    /// Rules of each session.
    #[arg(long, value_enum, default_value_t = TargetRules::Qos)]
    pub rules: TargetRules,
    /// File with the rules of each session, instead of --rules.
    #[arg(long, value_name = "FILE")]
    pub rule_profile: Option<PathBuf>,
    /// Node ID of the tester instead of its PFCP address: an address or a domain name.
    #[arg(long, value_name = "ADDRESS|NAME")]
    pub node_id: Option<String>,
    /// Maximum number of PFCP requests in flight.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub window: usize,
    /// PFCP requests per second; default: as many as --window allows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub request_rate: Option<u64>,
}

/// Ports of a UPF that adit-lab does not configure.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct UpfPorts {
    /// Port towards the UPF's N3: a DPDK device string or memif:SOCKET, as for --port.
    #[arg(long, value_name = "DEVICE")]
    pub n3: Option<String>,
    /// Port towards the UPF's N6: a DPDK device string or memif:SOCKET, as for --port.
    #[arg(long, value_name = "DEVICE")]
    pub n6: Option<String>,
}

/// Addresses and headers of the frames.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NetworkOptions {
    /// GTP-U address of the UPF.
    #[arg(long, value_name = "ADDRESS", default_value = "172.30.3.2")]
    pub upf_n3: Ipv4Addr,
    /// IP version of GTP-U on N3: selects --upf-n3 and --gnb, or --upf-n3-v6 and --gnb-v6.
    #[arg(long, value_enum, default_value_t = OuterFamily::Ipv4)]
    pub n3_family: OuterFamily,
    /// GTP-U address of the UPF over IPv6.
    #[arg(long, value_name = "ADDRESS", default_value = "2001:db8:3:f::2")]
    pub upf_n3_v6: Ipv6Addr,
    /// First gNB address over IPv6, in the UPF's N3 network.
    #[arg(long, value_name = "ADDRESS", default_value = "2001:db8:3:f::10")]
    pub gnb_v6: Ipv6Addr,
    /// Next hop of the downlink: the UPF's address on N6.
    #[arg(long, value_name = "ADDRESS", default_value = "172.30.6.2")]
    pub upf_n6: Ipv4Addr,
    /// First gNB address, in the UPF's N3 network.
    #[arg(long, value_name = "ADDRESS", default_value = "172.30.3.10")]
    pub gnb: Ipv4Addr,
    /// Number of gNBs, with consecutive addresses.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=200))]
    pub gnbs: u32,
    /// Source UDP ports of each gNB.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=60_000))]
    pub source_ports: u16,
    /// The data network's address on N6, the UPF's next hop.
    #[arg(long, value_name = "ADDRESS", default_value = "172.30.6.1")]
    pub dn: Ipv4Addr,
    /// The data network's IPv6 address on N6, the UPF's next hop for IPv6.
    #[arg(long, value_name = "ADDRESS", default_value = "2001:db8:6:f::1")]
    pub dn6: Ipv6Addr,
    /// IPv4 address of the server that exchanges packets with the UEs.
    #[arg(long, value_name = "ADDRESS", default_value = "198.18.0.1")]
    pub server: Ipv4Addr,
    /// UE address of the first session; the others have the next addresses.
    #[arg(long, value_name = "ADDRESS", default_value = "10.64.0.1")]
    pub ue: Ipv4Addr,
    /// UE prefix (/64) of the first session, for IPv6 packets.
    #[arg(long, value_name = "PREFIX", default_value = "2001:db8:64::")]
    pub ue6: Ipv6Addr,
    /// IPv6 address of the server.
    #[arg(long, value_name = "ADDRESS", default_value = "2001:db8:6::1")]
    pub server6: Ipv6Addr,
    /// VLAN of all frames on N3.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan_n3: Option<u16>,
    /// VLAN of all frames on N6.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan_n6: Option<u16>,
    /// QFI of QERs and uplink packets.
    #[arg(long, value_name = "QFI", default_value_t = 9,
        value_parser = clap::value_parser!(u8).range(0..=63))]
    pub qfi: u8,
    /// Send uplink packets without a PDU Session Container.
    #[arg(long)]
    pub no_psc: bool,
    /// Headers of the UEs' packets.
    #[arg(long, value_enum, default_value_t = UePacketKind::Udp4)]
    pub inner: UePacketKind,
}

/// Groups of options, and the kinds of target that have them.
const KINDS_WITH: [(&str, &[TargetKind]); 7] = [
    ("AditOptions", &[TargetKind::Adit]),
    ("PfcpOptions", &[TargetKind::Adit, TargetKind::Upf]),
    ("UpfPorts", &[TargetKind::Upf]),
    ("memif-client", &[TargetKind::Adit, TargetKind::Testpmd]),
    ("testpmd", &[TargetKind::Testpmd]),
    ("startable", &[TargetKind::Upf, TargetKind::L2]),
    ("l2", &[TargetKind::L2]),
];

/// Refuses options that the kind of target does not have.
#[derive(Debug, Clone)]
pub(crate) struct FittingOptions;

impl Args for FittingOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for FittingOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let target = matches.get_one("target").copied().unwrap_or(TargetKind::Adit);
        for (group, kinds) in KINDS_WITH.iter().filter(|(_, kinds)| !kinds.contains(&target)) {
            let Some(id) = matches.get_many::<Id>(group).and_then(|mut given| given.next()) else {
                continue;
            };
            let option = format!("--{}", id.as_str().replace('_', "-"));
            let kinds: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
            let (name, kinds) = (target.name(), kinds.join(" or "));
            let text = format!("{option} is for --target {kinds}, not for {name}");
            let mut error = clap::Error::raw(ErrorKind::ArgumentConflict, text);
            error.insert(ContextKind::InvalidArg, ContextValue::String(option));
            return Err(error);
        }
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TargetCli {
        #[command(flatten)]
        target: TargetArguments,
    }

    fn parse(words: &str) -> Result<TargetArguments, clap::Error> {
        let words = std::iter::once("x").chain(words.split(' '));
        TargetCli::try_parse_from(words).map(|cli| cli.target)
    }

    #[test]
    fn options_of_another_kind_of_target_are_refused() {
        for (words, wanted) in [
            ("--target testpmd --model pipeline", "--model is for --target adit, not for testpmd"),
            ("--target upf --placement numa", "--placement is for --target adit, not for upf"),
            ("--n3 net_null0", "--n3 is for --target upf, not for adit"),
            ("--target l2 --rules real", "--rules is for --target adit or upf, not for l2"),
            ("--target upf --zero-copy", "--zero-copy is for --target adit or testpmd"),
            ("--start x", "--start is for --target upf or l2, not for adit"),
            ("--target upf --port x", "--port is for --target l2, not for upf"),
            ("--target l2 --target-rates", "--target-rates is for --target testpmd"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.to_string().contains(wanted), "{words}: {error}");
            assert_eq!((error.kind(), error.exit_code()), (ErrorKind::ArgumentConflict, 2));
        }
    }

    #[test]
    fn options_of_its_kind_fit_each_target() {
        let target = parse("--model eventdev-sw --workers 2 --zero-copy --rules real").unwrap();
        assert_eq!((target.adit.workers, target.sessions), (2, 1000));
        parse("--target upf --n3 a --n6 b --start c --n4 192.0.2.1:8805 --gnbs 4").unwrap();
        parse("--target l2 --port memif:/run/x.sock --start c --no-psc").unwrap();
        parse("--target testpmd --zero-copy --target-rates --sessions 7").unwrap();
    }
}
