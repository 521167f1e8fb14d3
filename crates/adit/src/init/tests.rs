//! Choices and files on made-up hosts.

use adit_kernel::{HostNetwork, HostRoute, IpNetwork, NetworkDevice};
use adit_topology::read_synthetic;
use clap::Parser;
use rustix::thread::CapabilitySet;

use super::plan::InitPlan;
use super::ports::{ChosenPort, PortChooser, Side};
use super::questions::AnswerSource;
use super::{file, plan};
use crate::cli::{AditCli, AditCommand, CoreKind, InitArguments, PortChoice};
use crate::config::{Config, ConfigProblem};
use crate::host_checks::{CheckedHost, DeviceFacts, findings};

fn network(text: &str) -> IpNetwork {
    let (addr, len) = text.split_once('/').unwrap();
    IpNetwork { addr: addr.parse().unwrap(), len: len.parse().unwrap() }
}

fn device(name: &str, addresses: &[&str]) -> NetworkDevice {
    NetworkDevice {
        index: i32::from(name.as_bytes()[name.len() - 1]),
        name: name.to_owned(),
        is_ethernet: true,
        is_up: true,
        mtu_bytes: 1500,
        addresses: addresses.iter().map(|text| network(text)).collect(),
        ..NetworkDevice::default()
    }
}

/// eth0 with the default route, eth1 and eth2 with addresses, eth3 and eth4 without; eth5 in a
/// bridge; two cards of DPDK, and one of the kernel.
fn host() -> CheckedHost {
    let mut devices = vec![
        device("eth0", &["10.0.4.2/24"]),
        device("eth1", &["10.0.3.2/24"]),
        device("eth2", &["10.0.6.2/24", "2001:db8:6::2/64"]),
        device("eth3", &[]),
        device("eth4", &[]),
        device("eth5", &[]),
    ];
    devices[5].has_master = true;
    let default = HostRoute {
        network: network("0.0.0.0/0"),
        device: devices[0].index,
        gateway: Some("10.0.4.254".parse().unwrap()),
    };
    let driver = |name: &str| DeviceFacts {
        driver: Some(name.to_owned()),
        rx_queues: 1,
        ..DeviceFacts::default()
    };
    let card = |address: &str, driver: &str| (address.to_owned(), Some(driver.to_owned()));
    CheckedHost {
        network: HostNetwork { devices, routes: vec![default] },
        devices: [("eth3", driver("ice")), ("eth4", driver("virtio_net"))]
            .map(|(name, facts)| (name.to_owned(), facts))
            .into(),
        cards: [
            card("0000:3b:00.0", "vfio-pci"),
            card("0000:3b:00.1", "vfio-pci"),
            card("0000:5e:00.0", "ice"),
        ]
        .into(),
        cpus: vec![0, 1],
        free_huge_mib: 1024,
        forwards: [true, true],
        capabilities: CapabilitySet::all(),
    }
}

fn arguments(line: &str) -> InitArguments {
    let all = ["adit", "init"].into_iter().chain(line.split_whitespace());
    match AditCli::try_parse_from(all).unwrap().command {
        AditCommand::Init(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

fn planned(host: &CheckedHost, line: &str) -> Result<InitPlan, String> {
    plan(&arguments(line), host, AnswerSource::Proposed).map_err(|error| error.to_string())
}

/// Reads a configuration for a machine of four cores.
pub(super) fn parse(text: &str) -> Result<Config, Vec<ConfigProblem>> {
    Config::parse_for(text, &|| read_synthetic("core:4 pu:1"))
}

/// The plan of the configuration in `docs/interop.md` for a core, except its ports.
pub(super) fn plan_of_documents(core: CoreKind) -> InitPlan {
    let pools: &[&str] = match core {
        CoreKind::Open5gs => {
            &["10.45.0.0/16", "2001:db8:cafe::/48", "ims=10.47.0.0/16", "ims=2001:db8:face::/48"]
        }
        CoreKind::Free5gc => &["10.60.0.0/16"],
        CoreKind::SdCore => &["172.250.0.0/16"],
        CoreKind::Oai | CoreKind::Other => &["10.46.0.0/16"],
    };
    let port = |device: &str, address: &str| ChosenPort {
        kind: PortChoice::AfPacket,
        device: format!("kernel:packet,iface={device}"),
        addresses: vec![address.to_owned()],
        links: vec![address.parse().unwrap()],
        mtu_bytes: 1500,
        why: "a test".to_owned(),
    };
    InitPlan {
        core,
        n4: "10.0.4.2/24".parse().unwrap(),
        smf: Some("10.0.4.1".parse().unwrap()),
        n3: port("eth1", "10.0.3.2/24"),
        n6: port("eth2", "10.0.6.2/24"),
        n3_gateway: None,
        n6_gateways: vec!["10.0.6.1".parse().unwrap()],
        pools: pools.iter().map(|pool| pool.parse().unwrap()).collect(),
        cpus: vec![0],
    }
}

#[test]
fn kind_of_a_port_follows_from_the_device() {
    let host = host();
    let chosen = |text: &str| {
        let chooser = PortChooser { host: &host, io: PortChoice::Auto };
        let port = chooser.port(Side::N3, &text.parse().unwrap()).unwrap();
        (port.kind, port.device, port.why)
    };
    for (text, kind, device, reason) in [
        ("10.0.3.2", PortChoice::Kernel, "kernel:udp", "10.0.3.2/24 on eth1"),
        ("eth1", PortChoice::Kernel, "kernel:udp", "10.0.3.2/24 on eth1"),
        ("eth3=10.0.3.9/24", PortChoice::Xdp, "net_af_xdp0,iface=eth3", "ice, has native XDP"),
        ("eth4=10.0.3.9/24", PortChoice::AfPacket, "kernel:packet,iface=eth4", "virtio_net"),
        ("0000:3b:00.0=10.0.3.9/24", PortChoice::Dpdk, "0000:3b:00.0", "vfio-pci"),
    ] {
        let (found, of, why) = chosen(text);
        assert_eq!((found, of.as_str()), (kind, device), "{text}: {why}");
        assert!(why.contains(reason), "{text}: {why}");
    }
}

#[test]
fn wrong_endpoints_are_refused_in_one_sentence_with_what_to_do() {
    let (host, mut poor) = (host(), host());
    poor.free_huge_mib = 100;
    for (io, host, text, words) in [
        ("auto", &host, "eth9", ["no network device eth9", "this host has eth0, eth1"]),
        ("auto", &host, "10.9.9.9", ["no network device has 10.9.9.9", "DEVICE=10.9.9.9/24"]),
        ("auto", &host, "eth3", ["eth3 has no address", "--n3 eth3=ADDRESS/LENGTH"]),
        ("auto", &host, "eth3=10.0.3.9", ["length of its prefix", "10.0.3.9/24"]),
        ("auto", &host, "eth5=10.0.3.9/24", ["eth5 is in use", "bridge"]),
        ("auto", &host, "eth0=10.0.3.9/24", ["eth0 is in use", "default route"]),
        ("auto", &host, "eth2=10.0.3.9/24", ["eth2 is in use", "10.0.6.2/24 on it"]),
        ("af-packet", &host, "eth1", ["eth1 is in use", "ip address delete 10.0.3.2/24 dev eth1"]),
        ("kernel", &host, "eth3=10.0.3.9/24", ["--io kernel", "ip address add"]),
        ("dpdk", &host, "eth3=10.0.3.9/24", ["cannot share eth3", "dpdk-devbind.py"]),
        ("auto", &host, "0000:5e:00.0=10.0.3.9/24", ["driver ice", "dpdk-devbind.py"]),
        ("auto", &poor, "0000:3b:00.0=10.0.3.9/24", ["100 MiB are free", "vm.nr_hugepages=256"]),
    ] {
        let line = format!("--n4 eth0 --core other --io {io} --n3 {text} --n6 eth2");
        let said = planned(host, &line).unwrap_err();
        for word in words {
            assert!(said.contains(word) && !said.contains('\n'), "{line}: {said}");
        }
    }
}

#[test]
fn answers_that_contradict_each_other_are_refused() {
    let host = host();
    for (line, words) in [
        ("--ue-pool 10.45.0.0/16,ims=10.45.128.0/17", ["10.45.0.0/16", "overlap"]),
        ("--ue-pool 10.0.0.0/8", ["10.0.0.0/8", "10.0.3.2/24"]),
        ("--n3 eth4=10.1.1.1/24 --n6 eth4=10.1.2.1/24", ["both on eth4", "two devices"]),
        ("--core oai", ["--smf", "give these options"]),
    ] {
        let given = ["--n3 eth1", "--n6 eth2", "--core other"];
        let more = given.iter().filter(|option| !line.contains(&option[..6]));
        let line = more.fold(line.to_owned(), |line, option| format!("{line} {option}"));
        let said = planned(&host, &line).unwrap_err();
        assert!(words.iter().all(|word| said.contains(word)), "{line}: {said}");
    }
}

#[test]
fn proposed_answers_are_a_configuration_that_adit_accepts() {
    let plan = planned(&host(), "").unwrap();
    assert_eq!(
        (plan.n4.to_string(), plan.n3.device.as_str()),
        ("10.0.4.2/24".into(), "kernel:udp")
    );
    assert_eq!(plan.n6.addresses, ["10.0.6.2/32", "2001:db8:6::2/128"]);
    let text = file::text(&plan);
    let config = parse(&text).unwrap();
    assert_eq!(config.ue_pools[0].prefix.to_string(), "10.45.0.0/16");
    assert!(
        text.contains("# UDP socket of the PFCP node.\nlisten = \"10.0.4.2:8805\"\n"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.len() <= 100) && text.lines().count() < 80, "{text}");
}

#[test]
fn file_of_each_kind_and_core_is_accepted() {
    let host = host();
    for core in ["open5gs", "free5gc", "sd-core", "oai"] {
        for ports in [
            "--n3 eth1 --n6 eth2",
            "--n3 eth3=10.9.3.2/24 --n6 eth4=10.9.6.2/24,2001:db8:9::2/64 --n3-gateway 10.9.3.1",
            "--n3 eth3=10.9.3.2/24 --n6 eth4=10.9.6.1/24 --io xdp",
            "--n3 0000:3b:00.0=10.9.3.2/24 --n6 0000:3b:00.1=10.9.6.2/24 --n6-gateway 10.9.6.9",
        ] {
            let line = format!("--smf 10.0.8.1 --core {core} {ports} --ue-pool a=10.99.0.0/16");
            let text = file::text(&planned(&host, &line).unwrap());
            let config = parse(&text).unwrap_or_else(|all| panic!("{line}: {all:?}\n{text}"));
            let allowed: Vec<_> = config.n4.allow.iter().map(ToString::to_string).collect();
            assert_eq!(allowed, ["10.0.4.0/24", "10.0.8.1/32"], "{line}");
            assert_eq!(text.contains("one-f-teid-per-session"), core == "sd-core");
        }
    }
}

#[test]
fn findings_name_what_is_missing_and_what_to_do() {
    let told = |host: &CheckedHost, line: &str, change: &dyn Fn(&mut CheckedHost)| {
        let text = file::text(&planned(host, line).unwrap());
        let mut host = host.clone();
        change(&mut host);
        let all = findings(&parse(&text).unwrap(), &host);
        all.iter().map(|finding| format!("{finding}\n")).collect::<String>()
    };
    let host = host();
    let packets = "--n3 eth4=10.9.3.2/24 --n6 eth3=10.9.6.2/24 --io af-packet";
    let xdp = "--n3 eth3=10.9.3.2/24 --n6 eth4=10.9.6.2/24 --io xdp";
    let cards = "--n3 0000:3b:00.0=10.9.3.2/24 --n6 0000:3b:00.1=10.9.6.2/24";
    for line in ["", packets, xdp, cards] {
        let said = told(&host, line, &|_| {});
        for check in ["hugepages", "cores", "offloads", "routes", "mtu", "rights"] {
            assert!(said.contains(&format!("{check}: ok: ")), "{line}: {said}");
        }
    }
    let device = |host: &mut CheckedHost, name: &str, change: &dyn Fn(&mut NetworkDevice)| {
        host.network.devices.iter_mut().filter(|of| of.name == name).for_each(change);
    };
    for (line, change, words) in [
        (
            cards,
            &(|host: &mut CheckedHost| host.free_huge_mib = 2) as &dyn Fn(&mut CheckedHost),
            "hugepages: TO DO: 2 MiB",
        ),
        ("", &|host| host.forwards = [false, true], "routes: TO DO: the kernel does not forward"),
        ("", &|host| host.network.devices.clear(), "run ip address add 10.0.3.2/24"),
        (
            packets,
            &|host| host.capabilities = CapabilitySet::empty(),
            "rights: TO DO: this user lacks CAP_NET_ADMIN, CAP_NET_RAW",
        ),
        (packets, &|host| device(host, "eth4", &|of| of.is_up = false), "run ip link set eth4 up"),
        (
            packets,
            &|host| device(host, "eth4", &|of| of.addresses = vec![network("10.9.3.2/24")]),
            "run ip address delete 10.9.3.2/24 dev eth4",
        ),
        (
            packets,
            &|host| {
                host.capabilities.remove(CapabilitySet::NET_ADMIN);
                device(host, "eth4", &|of| of.mtu_bytes = 1400);
            },
            "mtu: TO DO: eth4 has an MTU of 1400, its port 1500; run ip link set eth4 mtu 1500",
        ),
        (
            xdp,
            &|host| host.devices.get_mut("eth3").unwrap().rx_queues = 8,
            "offloads: TO DO: eth3 spreads packets over 8 queues",
        ),
        (
            xdp,
            &|host| host.devices.get_mut("eth3").unwrap().offloads.lro = true,
            "ethtool -K eth3 lro off",
        ),
    ] {
        let said = told(&host, line, change);
        assert!(said.contains(words), "{words} is not in: {said}");
    }
}
