//! The kernel's routes and Adit's announcements, in a namespace with two wires. Needs root; without
//! it the tests print `skipped: reason`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use adit_kernel::{
    KernelHop, KernelRoute, KernelRouteEvent, KernelRouteKey, KernelRouteTarget, RouteAnnouncement,
    RouteAnnouncer, RouteMonitor, RouteMonitorConfig, in_namespace,
};
use adit_types::IpPrefix;

use crate::host_addresses::{ip, with_devices};

const PATIENCE: Duration = Duration::from_secs(20);
const MAIN: u32 = 254;

/// A reader of the monitor: what it knows of the kernel.
struct Follower {
    monitor: RouteMonitor,
    /// By key: the route, and the dump that has last reported it.
    routes: BTreeMap<KernelRouteKey, (KernelRoute, u32)>,
    dump: u32,
    devices: BTreeMap<u32, String>,
    addresses: BTreeSet<String>,
}

impl Follower {
    fn new(receive_buffer_bytes: usize) -> Self {
        let config = RouteMonitorConfig { receive_buffer_bytes, ..RouteMonitorConfig::MAIN };
        let monitor = RouteMonitor::open(config).unwrap();
        let (routes, devices, addresses) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut follower = Self { monitor, routes, dump: 0, devices, addresses };
        follower.follow();
        follower
    }

    /// Handles everything that the kernel has reported until now.
    fn follow(&mut self) {
        let mut events = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.monitor.needs_dump() {
                self.monitor.begin_dump(&mut events).unwrap();
            }
            self.monitor.receive(4096, &mut events).unwrap();
            let is_idle = events.is_empty() && !self.monitor.needs_dump();
            std::mem::take(&mut events).into_iter().for_each(|event| self.take(event));
            if is_idle {
                return;
            }
            assert!(Instant::now() < deadline, "the monitor is never idle");
        }
    }

    fn take(&mut self, event: KernelRouteEvent) {
        match event {
            KernelRouteEvent::Route(route) => {
                self.routes.insert(route.key, (route, self.dump));
            }
            KernelRouteEvent::RouteGone { key, hops } => {
                let Some((route, _)) = self.routes.get_mut(&key) else { return };
                if let KernelRouteTarget::Hops(known) = &mut route.target {
                    let is_gone =
                        |hop: &KernelHop| hops.iter().any(|gone| gone.is_same_station(hop));
                    known.retain(|hop| !hops.is_empty() && !is_gone(hop));
                    if !known.is_empty() {
                        return;
                    }
                }
                self.routes.remove(&key);
            }
            KernelRouteEvent::Device(device) => {
                self.devices.insert(device.index, device.name);
            }
            KernelRouteEvent::DeviceGone(index) => {
                self.devices.remove(&index);
            }
            KernelRouteEvent::Address(_, network) => {
                self.addresses.insert(format!("{}/{}", network.addr, network.len));
            }
            KernelRouteEvent::AddressGone(_, network) => {
                self.addresses.remove(&format!("{}/{}", network.addr, network.len));
            }
            KernelRouteEvent::DumpBegins => self.dump += 1,
            KernelRouteEvent::DumpEnds => self.routes.retain(|_, (_, dump)| *dump == self.dump),
        }
    }

    fn target(&self, prefix: &str) -> Option<&KernelRouteTarget> {
        let prefix: IpPrefix = prefix.parse().unwrap();
        let mut found = self.routes.iter().filter(|(key, _)| key.prefix == prefix);
        found.next().map(|(_, (route, _))| &route.target)
    }

    /// The hops to a prefix as `gateway@device*weight`.
    fn hops(&self, prefix: &str) -> Vec<String> {
        let Some(KernelRouteTarget::Hops(hops)) = self.target(prefix) else { return Vec::new() };
        let text = |hop: &KernelHop| {
            let gateway = hop.gateway.map_or("link".to_owned(), |of| of.to_string());
            format!("{gateway}@{}*{}", self.devices[&hop.device], hop.weight)
        };
        let mut texts: Vec<String> = hops.iter().map(text).collect();
        texts.sort();
        texts
    }

    /// All prefixes, as texts.
    fn prefixes(&self) -> BTreeSet<String> {
        self.routes.keys().map(|key| key.prefix.to_string()).collect()
    }
}

/// The prefixes of users' routes by `ip route`.
fn by_ip_route() -> BTreeSet<String> {
    let mut prefixes = BTreeSet::new();
    for family in ["-4", "-6"] {
        let out = Command::new("ip").args([family, "route"]).output().unwrap().stdout;
        for line in String::from_utf8(out).unwrap().lines().filter(|line| !line.starts_with('\t')) {
            let kinds = ["blackhole", "unreachable", "prohibit"];
            let word = line.split(' ').find(|word| !kinds.contains(word)).unwrap_or_default();
            let (any, len) = if family == "-4" { ("0.0.0.0/0", 32) } else { ("::/0", 128) };
            let prefix = match word {
                "default" => any.to_owned(),
                _ if word.contains('/') => word.to_owned(),
                _ => format!("{word}/{len}"),
            };
            if !prefix.starts_with("fe80") {
                prefixes.insert(prefix);
            }
        }
    }
    prefixes
}

/// Runs lines of `ip -batch`.
fn batch(lines: impl Iterator<Item = String>) {
    let mut child = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: Vec<String> = lines.collect();
    input.write_all(text.join("\n").as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// The namespace with addresses on both wires.
fn with_networks(test: impl FnOnce() + Send + 'static) {
    with_devices(|| {
        ip("addr add 10.7.0.2/24 dev one");
        ip("addr add 10.8.0.2/24 dev two");
        ip("addr add fd07::2/64 dev one nodad");
        ip("addr add fd08::2/64 dev two nodad");
        test();
    });
}

fn many(count: u32) -> impl Iterator<Item = String> {
    (0..count).map(|at| {
        let [_, a, b, c] = (at << 4).to_be_bytes();
        format!("route add {}.{b}.{c}.0/28 via 10.7.0.1", 100 + a).replace(".0/28", "/28")
    })
}

#[test]
fn hundred_thousand_routes_are_known_after_a_dump_and_after_changes() {
    with_networks(|| {
        batch(many(60_000));
        let begun = Instant::now();
        let mut follower = Follower::new(8 << 20);
        println!("dump of 60,000 routes: {} ms", begun.elapsed().as_millis());
        assert_eq!(follower.prefixes(), by_ip_route());
        batch(many(100_000).skip(60_000));
        let begun = Instant::now();
        follower.follow();
        println!("40,000 changes read in {} ms", begun.elapsed().as_millis());
        assert_eq!(follower.prefixes(), by_ip_route());
        assert_eq!(follower.routes.len(), 100_000 + 4);
        assert_eq!(follower.monitor.counters().undecoded, 0);
    });
}

#[test]
fn replaced_multipath_and_dropping_routes_are_as_the_kernel_has_them() {
    with_networks(|| {
        let mut follower = Follower::new(8 << 20);
        ip("route add default via 10.7.0.1");
        ip("-6 route add default via fd07::1");
        ip("route add 20.0.0.0/8 nexthop via 10.7.0.1 weight 3 nexthop via 10.8.0.1 weight 1");
        ip("route add 21.0.0.0/8 via inet6 fd07::1 dev one");
        ip("route add 22.0.0.0/8 dev two");
        ip("route add blackhole 23.0.0.0/8");
        ip("-6 route add unreachable 2001:db8:1::/48");
        ip("route add prohibit 24.0.0.0/8");
        ip("route add 25.0.0.0/8 via 10.7.0.9 table 77");
        follower.follow();
        assert_eq!(follower.hops("0.0.0.0/0"), ["10.7.0.1@one*1"]);
        assert_eq!(follower.hops("::/0"), ["fd07::1@one*1"]);
        assert_eq!(follower.hops("20.0.0.0/8"), ["10.7.0.1@one*3", "10.8.0.1@two*1"]);
        assert_eq!(follower.hops("21.0.0.0/8"), ["fd07::1@one*1"]);
        assert_eq!(follower.hops("22.0.0.0/8"), ["link@two*1"]);
        assert_eq!(follower.target("23.0.0.0/8"), Some(&KernelRouteTarget::Blackhole));
        assert_eq!(follower.target("2001:db8:1::/48"), Some(&KernelRouteTarget::Unreachable));
        assert_eq!(follower.target("24.0.0.0/8"), Some(&KernelRouteTarget::Prohibit));
        assert_eq!(follower.target("25.0.0.0/8"), None);
        ip("route replace 20.0.0.0/8 via 10.8.0.7");
        ip("route del default");
        follower.follow();
        assert_eq!(follower.hops("20.0.0.0/8"), ["10.8.0.7@two*1"]);
        assert_eq!(follower.target("0.0.0.0/0"), None);
        assert_eq!(follower.prefixes(), by_ip_route());
    });
}

#[test]
fn route_of_ipv6_loses_hops_one_by_one() {
    with_networks(|| {
        let mut follower = Follower::new(8 << 20);
        ip("-6 route add 2001:db8::/32 nexthop via fd07::1 weight 2 nexthop via fd08::1 weight 5");
        follower.follow();
        assert_eq!(follower.hops("2001:db8::/32"), ["fd07::1@one*2", "fd08::1@two*5"]);
        ip("-6 route append 2001:db8::/32 via fd08::9");
        follower.follow();
        assert_eq!(follower.hops("2001:db8::/32").len(), 3);
        ip("-6 route del 2001:db8::/32 via fd07::1");
        follower.follow();
        assert_eq!(follower.hops("2001:db8::/32"), ["fd08::1@two*5", "fd08::9@two*1"]);
        ip("-6 route del 2001:db8::/32");
        follower.follow();
        assert_eq!(follower.prefixes(), by_ip_route());
    });
}

#[test]
fn routes_of_a_link_that_goes_down_are_gone_and_come_back() {
    with_networks(|| {
        let mut follower = Follower::new(8 << 20);
        ip("route add 20.0.0.0/8 via 10.7.0.1");
        ip("-6 route add 2001:db8::/32 via fd07::1");
        ip("route add 21.0.0.0/8 via 10.8.0.1");
        follower.follow();
        ip("link set two addrgenmode none");
        ip("-6 addr flush dev two");
        follower.follow();
        // A device without IPv6: the kernel reports nothing but the device.
        ip("link set two down");
        follower.follow();
        assert_eq!(follower.target("21.0.0.0/8"), None);
        ip("link set one down");
        follower.follow();
        assert_eq!(follower.target("20.0.0.0/8"), None);
        assert_eq!(follower.target("2001:db8::/32"), None);
        assert_eq!(follower.prefixes(), by_ip_route());
        ip("link set one up");
        ip("route add 20.0.0.0/8 via 10.7.0.1");
        follower.follow();
        assert_eq!(follower.hops("20.0.0.0/8"), ["10.7.0.1@one*1"]);
        assert_eq!(follower.prefixes(), by_ip_route());
        ip("addr del 10.7.0.2/24 dev one");
        follower.follow();
        assert_eq!(follower.target("20.0.0.0/8"), None);
        assert!(!follower.addresses.contains("10.7.0.2/24"));
        assert_eq!(follower.prefixes(), by_ip_route());
    });
}

#[test]
fn routes_of_nexthop_objects_are_known_with_their_hops() {
    with_networks(|| {
        let mut follower = Follower::new(8 << 20);
        ip("nexthop add id 1 via 10.7.0.1 dev one");
        ip("nexthop add id 2 via 10.8.0.1 dev two");
        ip("nexthop add id 10 group 1/2,3");
        ip("route add 20.0.0.0/8 nhid 10");
        follower.follow();
        assert_eq!(follower.hops("20.0.0.0/8"), ["10.7.0.1@one*1", "10.8.0.1@two*3"]);
        ip("nexthop replace id 10 group 2");
        follower.follow();
        assert_eq!(follower.hops("20.0.0.0/8"), ["10.8.0.1@two*1"]);
    });
}

#[test]
fn lost_messages_are_noticed_and_repaired() {
    with_networks(|| {
        let mut follower = Follower::new(4096);
        batch(many(5_000));
        follower.follow();
        let counters = follower.monitor.counters();
        assert!(counters.overruns >= 1, "{counters:?}");
        assert!(counters.dumps >= 2, "{counters:?}");
        assert_eq!(follower.prefixes(), by_ip_route());
        batch(many(5_000).map(|line| line.replace("add", "del")));
        follower.follow();
        assert_eq!(follower.prefixes(), by_ip_route());
        assert_eq!(follower.routes.len(), 4);
    });
}

#[test]
fn route_behind_another_one_with_the_same_metric_takes_its_place() {
    with_networks(|| {
        let mut follower = Follower::new(8 << 20);
        ip("route add 20.0.0.0/8 via 10.7.0.1");
        ip("route append 20.0.0.0/8 via 10.8.0.1");
        follower.follow();
        let mut late = Follower::new(8 << 20);
        for of in [&follower, &late] {
            assert_eq!(of.hops("20.0.0.0/8"), ["10.7.0.1@one*1"]);
        }
        ip("route del 20.0.0.0/8 via 10.7.0.1");
        for of in [&mut follower, &mut late] {
            of.follow();
            assert_eq!(of.hops("20.0.0.0/8"), ["10.8.0.1@two*1"]);
        }
    });
}

#[test]
fn announced_prefixes_are_blackholes_of_adit_and_withdrawn_ones_are_gone() {
    with_networks(|| {
        let mut follower = Follower::new(8 << 20);
        let mut announcer = RouteAnnouncer::open(MAIN).unwrap();
        let prefixes: Vec<IpPrefix> =
            ["10.45.0.0/16", "2001:db8:45::/48"].iter().map(|text| text.parse().unwrap()).collect();
        let all: Vec<_> = prefixes.iter().copied().map(RouteAnnouncement::Announce).collect();
        assert!(announcer.change(&all).unwrap().is_empty());
        for (family, text) in
            [("-4", "blackhole 10.45.0.0/16"), ("-6", "blackhole 2001:db8:45::/48")]
        {
            let out = Command::new("ip").args([family, "route", "show", "proto", "97"]).output();
            let out = String::from_utf8(out.unwrap().stdout).unwrap();
            assert!(out.contains(text), "{out}");
        }
        // Adit does not follow its own routes.
        follower.follow();
        assert_eq!(follower.target("10.45.0.0/16"), None);
        drop(announcer);
        // Another process finds and removes them.
        let mut announcer = RouteAnnouncer::open(MAIN).unwrap();
        assert_eq!(announcer.announced().unwrap(), prefixes);
        let all: Vec<_> = prefixes.iter().copied().map(RouteAnnouncement::Withdraw).collect();
        assert!(announcer.change(&all).unwrap().is_empty());
        assert!(announcer.change(&all).unwrap().is_empty(), "gone already is no refusal");
        assert!(announcer.announced().unwrap().is_empty());
    });
}

#[test]
fn announcement_leaves_a_route_of_somebody_else_and_names_it() {
    with_networks(|| {
        ip("route add blackhole 10.45.0.0/16");
        let mut announcer = RouteAnnouncer::open(MAIN).unwrap();
        let taken: IpPrefix = "10.45.0.0/16".parse().unwrap();
        let free: IpPrefix = "10.46.0.0/16".parse().unwrap();
        let changes = [taken, free].map(RouteAnnouncement::Announce);
        let refused = announcer.change(&changes).unwrap();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].0, changes[0]);
        assert_eq!(refused[0].1.raw_os_error(), Some(libc::EEXIST));
        assert_eq!(announcer.announced().unwrap(), [free]);
        let refused = announcer.change(&[RouteAnnouncement::Withdraw(taken)]).unwrap();
        assert!(refused.is_empty());
        assert!(by_ip_route().contains("10.45.0.0/16"));
    });
}

#[test]
fn host_routes_of_sessions_are_announced_at_twenty_thousand_a_second() {
    with_networks(|| {
        let mut announcer = RouteAnnouncer::open(MAIN).unwrap();
        let host = |at: u32| -> IpPrefix {
            let [_, b, c, d] = at.to_be_bytes();
            format!("10.{}.{c}.{d}/32", 45 + b).parse().unwrap()
        };
        let all: Vec<_> = (0..100_000).map(host).map(RouteAnnouncement::Announce).collect();
        let begun = Instant::now();
        assert!(announcer.change(&all).unwrap().is_empty());
        let took = begun.elapsed();
        println!("100,000 announcements: {} ms", took.as_millis());
        assert_eq!(announcer.announced().unwrap().len(), all.len());
        assert!(took < Duration::from_secs(5), "{took:?}");
        let all: Vec<_> = (0..100_000).map(host).map(RouteAnnouncement::Withdraw).collect();
        let begun = Instant::now();
        assert!(announcer.change(&all).unwrap().is_empty());
        println!("100,000 withdrawals: {} ms", begun.elapsed().as_millis());
        assert!(announcer.announced().unwrap().is_empty());
    });
}

#[test]
fn namespace_is_entered_for_a_socket_and_a_missing_one_is_named() {
    with_networks(|| {
        let name = format!("adit-kernel-{}", std::process::id());
        ip(&format!("netns add {name}"));
        ip(&format!("-n {name} link set lo up"));
        ip(&format!("-n {name} route add blackhole 20.0.0.0/8"));
        let open = || Follower::new(8 << 20);
        let inside = in_namespace(Some(&name), open).unwrap();
        let outside = in_namespace(None, open).unwrap();
        ip(&format!("netns del {name}"));
        assert_eq!(inside.target("20.0.0.0/8"), Some(&KernelRouteTarget::Blackhole));
        assert_eq!(outside.target("20.0.0.0/8"), None);
        let missing = in_namespace(Some("no-such-namespace"), || ()).unwrap_err().to_string();
        assert!(missing.contains("no-such-namespace"), "{missing}");
    });
}
