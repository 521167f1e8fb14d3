use super::*;

const EXAMPLE: &str = include_str!("../../../../../adit.example.toml");

fn parsed(text: &str) -> Config {
    Config::parse(text).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// Parses the example with each pair's first text replaced by the second, and `added` at the end.
fn changed(changes: &[(&str, &str)], added: &str) -> Config {
    let mut text = EXAMPLE.to_owned();
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replacen(old, new, 1);
    }
    parsed(&format!("{text}\n{added}\n"))
}

fn between(old: &Config, new: &Config) -> Result<Vec<ConfigChange>, Vec<KeyRefusal>> {
    compare(old, new, RunningParts::default())
}

/// Returns the keys that change from the example to `new`, with the effect of each change.
fn changes(new: &Config) -> Vec<(String, ChangeEffect)> {
    let found = between(&parsed(EXAMPLE), new).unwrap_or_else(|refused| panic!("{refused:?}"));
    found.into_iter().map(|of| (of.key, of.effect)).collect()
}

/// Returns the keys whose change from the example to `new` is refused.
fn refused(new: &Config) -> Vec<String> {
    let refused = between(&parsed(EXAMPLE), new).unwrap_err();
    assert!(refused.iter().all(|of| of.why.contains("restart")), "{refused:?}");
    refused.into_iter().map(|of| of.key).collect()
}

#[test]
fn same_configuration_has_no_changes() {
    assert_eq!(between(&parsed(EXAMPLE), &parsed(EXAMPLE)), Ok(Vec::new()));
}

#[test]
fn plain_keys_change_by_themselves() {
    for (old, new, key) in [
        (
            "heartbeat_interval_ms = 10000",
            "heartbeat_interval_ms = 5000",
            "n4.heartbeat_interval_ms",
        ),
        (
            "sessions_outlive_peer_s = 3600",
            "sessions_outlive_peer_s = 0",
            "n4.sessions_outlive_peer_s",
        ),
        ("t1_ms = 3000", "t1_ms = 100", "n4.t1_ms"),
        ("n1_retries = 3", "n1_retries = 1", "n4.n1_retries"),
        ("allow = [\"10.0.4.0/24\"]", "allow = []", "n4.allow"),
        (
            "peer_requests_per_s_max = 50000",
            "peer_requests_per_s_max = 0",
            "n4.peer_requests_per_s_max",
        ),
        ("peer_requests_burst = 10000", "peer_requests_burst = 1", "n4.peer_requests_burst"),
        (
            "# sessions_per_association_max",
            "sessions_per_association_max",
            "n4.sessions_per_association_max",
        ),
        ("# tolerate", "tolerate", "n4.tolerate"),
        ("echo_interval_ms = 60000", "echo_interval_ms = 0", "gtpu.echo_interval_ms"),
        ("\nt3_ms = 3000", "\nt3_ms = 100", "gtpu.t3_ms"),
        ("n3_requests = 3", "n3_requests = 5", "gtpu.n3_requests"),
        ("teid_range_bits = 0", "teid_range_bits = 2", "gtpu.teid_range_bits"),
        ("# gbr_mbps_max = 5000", "gbr_mbps_max = 5000", "qos.uplink.gbr_mbps_max"),
        ("usage_interval_ms = 30000", "usage_interval_ms = 20000", "store.usage_interval_ms"),
        ("on_store_loss = \"refuse\"", "on_store_loss = \"continue\"", "store.on_store_loss"),
        ("on_stop = \"keep\"", "on_stop = \"release\"", "store.on_stop"),
        ("# [log]\n", "[log]\nlevels = \"debug\"\n", "log.levels"),
    ] {
        assert_eq!(changes(&changed(&[(old, new)], "")), [(key.to_owned(), ChangeEffect::Plain)]);
    }
}

#[test]
fn what_rules_are_made_of_changes_with_the_rules_of_sessions() {
    let rules = |key: &str| (key.to_owned(), ChangeEffect::Rules);
    for (old, new, key) in [
        ("burst_ms = 20", "burst_ms = 200", "qos.burst_ms"),
        ("shaping_burst_us = 10000", "shaping_burst_us = 500", "qos.shaping_burst_us"),
        ("gbr = \"drop\"", "gbr = \"wait\"", "qos.uplink.gbr"),
        ("203.0.113.0/24 to assigned", "203.0.114.0/24 to assigned", "application"),
        ("dscp = 18", "dscp = 20", "forwarding_policy"),
        ("ecn = \"compatibility\"", "ecn = \"normal\"", "gtpu.ecn"),
        ("dscp = \"none\"", "dscp = \"copy\"", "gtpu.dscp"),
        ("next_hop_v4 = \"10.0.6.9\"", "next_hop_v4 = \"10.0.6.8\"", "forwarding_policy"),
        ("precedence = 50", "precedence = 51", "predefined_rule"),
        ("name = \"no-mail\"", "name = \"mail\"", "predefined_rule"),
    ] {
        let found = changes(&changed(&[(old, new)], ""));
        assert!(!found.is_empty() && found.iter().all(|of| *of == rules(key)), "{key}: {found:?}");
    }
    let added = "[[application]]\nid = \"web\"\nflow_descriptions = [\"permit out 6 from any 443 to assigned\"]\n\
                 [[forwarding_policy]]\nid = \"plain\"\n";
    let found = changes(&changed(&[], added));
    assert_eq!(found, [rules("application"), rules("forwarding_policy")]);
}

#[test]
fn routes_change_with_their_gateways() {
    let other = changed(&[("next_hop = \"10.0.6.1\"", "next_hop = \"10.0.6.3\"")], "");
    assert_eq!(changes(&other), [("route".to_owned(), ChangeEffect::Routes)]);
    let running = RunningParts { has_offload: true };
    let found = compare(&parsed(EXAMPLE), &other, running).unwrap();
    assert_eq!(found[0].effect, ChangeEffect::Routes);
    let gtpu =
        "[[route]]\ninterface = \"n3\"\nprefix = \"192.0.2.0/24\"\nnext_hop = \"10.0.3.9\"\n";
    let found = between(&parsed(EXAMPLE), &changed(&[], gtpu)).unwrap();
    assert_eq!(found[0].effect, ChangeEffect::GtpuRoutes);
    assert_eq!(found[0].change, "192.0.2.0/24 through n3: added, next hop 10.0.3.9");
}

#[test]
fn interfaces_are_added_after_the_others_on_their_ports() {
    let network = |name: &str, rest: &str| {
        format!(
            "[[interface]]\nname = \"{name}\"\nrole = \"n6\"\nport = \"core\"\nvlan = 7\naddresses = [\"10.0.7.2/24\"]\n{rest}\n"
        )
    };
    let old = parsed(EXAMPLE);
    let with = |added: &str| changed(&[], added);
    let ims = network("ims", "network_instance = \"ims\"");
    let route = "[[route]]\ninterface = \"ims\"\nprefix = \"0.0.0.0/0\"\nnext_hop = \"10.0.7.1\"\n";
    let found = between(&old, &with(&format!("{ims}{route}"))).unwrap();
    assert_eq!((&*found[0].key, found[0].effect), ("interface", ChangeEffect::Interfaces));
    let change =
        "\"ims\": added, N6 on port \"core\", VLAN 7, 10.0.7.2/24, network instance \"ims\"";
    assert_eq!(found[0].change, change);
    assert_eq!(found[1].change, "0.0.0.0/0 through ims: added, next hop 10.0.7.1");
    let running = RunningParts { has_offload: true };
    let refused = |old: &Config, new: &Config, running| -> Vec<(String, String)> {
        let refused = compare(old, new, running).unwrap_err();
        refused.into_iter().map(|of| (of.key, of.why)).collect()
    };
    let cases = [
        (&old, with(&ims), running, "interface \"ims\"", "XDP programs"),
        (
            &with(&ims),
            with(&(ims.clone() + &network("all", "").replace("7", "8"))),
            RunningParts::default(),
            "interface \"all\"",
            "serves all",
        ),
        (
            &with(&ims),
            with(""),
            RunningParts::default(),
            "interface \"ims\"",
            "restart adit to remove",
        ),
        (
            &with(
                &(ims.clone()
                    + &network("later", "network_instance = \"later\"").replace("7", "8")),
            ),
            with(&(network("later", "network_instance = \"later\"").replace("7", "8") + &ims)),
            RunningParts::default(),
            "interface",
            "after the others",
        ),
        (
            &old,
            with(&network("more", "network_instance = \"internet\"")),
            RunningParts::default(),
            "interface \"more\"",
            "local switching",
        ),
    ];
    for (old, new, running, key, words) in cases {
        let found = refused(old, &new, running);
        assert!(found.len() == 1 && found[0].0 == key && found[0].1.contains(words), "{found:?}");
        assert!(found[0].1.contains("restart adit"), "{found:?}");
    }
}

#[test]
fn pools_grow_and_are_added_and_do_nothing_else() {
    let grown = changed(&[("prefix = \"10.60.0.0/16\"", "prefix = \"10.56.0.0/13\"")], "");
    let found = between(&parsed(EXAMPLE), &grown).unwrap();
    assert_eq!((&*found[0].key, &*found[0].change), ("ue_pool", "10.56.0.0/13: was 10.60.0.0/16"));
    let added = "[[ue_pool]]\nnetwork_instance = \"internet\"\nprefix = \"10.70.0.0/16\"\n";
    assert_eq!(changes(&changed(&[], added)), [("ue_pool".to_owned(), ChangeEffect::Plain)]);
    for other in ["10.60.0.0/17", "10.61.0.0/16"] {
        let change = ("prefix = \"10.60.0.0/16\"", &*format!("prefix = \"{other}\""));
        assert_eq!(refused(&changed(&[change], "")), ["ue_pool"]);
    }
    let named = changed(&[("# identity = \"pool1\"", "identity = \"pool1\"")], "");
    assert_eq!(refused(&named), ["ue_pool"]);
}

#[test]
fn shared_rates_change_in_their_places() {
    let limit = |mbps: u32| ("# mbps_max = 9500", format!("mbps_max = {mbps}"));
    let with = |mbps| {
        let (old, new) = limit(mbps);
        changed(&[(old, &new)], "")
    };
    let found = between(&with(9500), &with(5000)).unwrap();
    assert_eq!(found[0].change, "5000 Mb/s, was 9500 Mb/s");
    assert_eq!(refused(&with(9500)), ["qos.uplink.mbps_max"]);
    let slice = |mbps: u32| {
        let text = format!("[[qos.slice]]\ns_nssai = \"1\"\nuplink_mbps_max = {mbps}\n[datapath]");
        changed(&[("[datapath]", &text)], "")
    };
    let found = between(&slice(10), &slice(20)).unwrap();
    assert_eq!(found[0].key, "qos.slice[0].uplink_mbps_max");
    assert_eq!(refused(&slice(10)), ["qos.slice"]);
}

#[test]
fn keys_of_the_start_are_refused_each_by_its_name() {
    for (old, new, key) in [
        ("id = \"10.0.4.2\"", "id = \"10.0.4.3\"", "node.id"),
        ("listen = \"10.0.4.2:8805\"", "listen = \"10.0.4.2:8806\"", "n4.listen"),
        ("connect = []", "connect = [\"10.0.4.9:8805\"]", "n4.connect"),
        ("# receive_buffer_kib = 16384", "receive_buffer_kib = 64", "n4.receive_buffer_kib"),
        ("sessions_max = 100000", "sessions_max = 1000", "sessions.sessions_max"),
        ("buffer_pkts_max = 4096", "buffer_pkts_max = 1", "sessions.buffer_pkts_max"),
        ("queue_pkts_max = 4096", "queue_pkts_max = 1", "qos.queue_pkts_max"),
        ("workers = [1]", "workers = [2]", "datapath.workers"),
        ("poll = \"busy\"", "poll = \"adaptive\"", "datapath.poll"),
        ("main_core = 0", "main_core = 1", "datapath.main_core"),
        ("burst_pkts = 32", "burst_pkts = 16", "datapath.burst_pkts"),
        ("hugepages = \"auto\"", "hugepages = \"never\"", "dpdk.hugepages"),
        ("memory_mib = 512", "memory_mib = 256", "dpdk.memory_mib"),
        ("mempool_mbufs = 16384", "mempool_mbufs = 32768", "dpdk.mempool_mbufs"),
        ("# mbuf_bytes = 2048", "mbuf_bytes = 4096", "dpdk.mbuf_bytes"),
        ("rx_descriptors = 1024", "rx_descriptors = 512", "dpdk.rx_descriptors"),
        ("tx_descriptors = 1024", "tx_descriptors = 512", "dpdk.tx_descriptors"),
        ("eal_extra_args = []", "eal_extra_args = [\"-v\"]", "dpdk.eal_extra_args"),
        ("iface=n3", "iface=n4", "port \"access\".device"),
        ("mtu_bytes = 1500", "mtu_bytes = 1900", "port \"access\".mtu_bytes"),
        (
            "addresses = [\"10.0.3.2/24\"]",
            "addresses = [\"10.0.3.4/24\"]",
            "interface \"n3\".addresses",
        ),
        ("# vlan = 6", "vlan = 6", "interface \"n6\".vlan"),
        ("# local_switching = true", "local_switching = false", "interface \"n6\".local_switching"),
        ("# tcp_mss = \"clamp\"", "tcp_mss = \"clamp\"", "interface \"n6\".tcp_mss"),
        ("folder = \"/var/lib/adit/journal\"", "folder = \"/var/lib/adit/other\"", "store.folder"),
        ("socket = \"/run/adit/admin.sock\"", "socket = \"/run/adit/other.sock\"", "admin.socket"),
        (
            "id = \"firewall\"",
            "id = \"firewall\"\nnetwork_instance = \"internet\"",
            "forwarding_policy \"firewall\".network_instance",
        ),
        ("id = \"firewall\"", "id = \"other\"", "forwarding_policy"),
    ] {
        let new = changed(&[(old, new)], "");
        let found = between(&parsed(EXAMPLE), &new).unwrap_err();
        assert_eq!(found.iter().map(|of| &*of.key).collect::<Vec<_>>(), [key]);
        assert!(found[0].why.contains("restart adit"), "{found:?}");
    }
    let api = changed(&[], "[api]\nlisten = \"127.0.0.1:8080\"");
    assert_eq!(refused(&api), ["api"]);
    let queues = [
        ("kernel:packet,iface=n3", "net_af_packet0,iface=n3,qpairs=2"),
        ("kernel:packet,iface=n6", "net_af_packet1,iface=n6,qpairs=2"),
    ];
    let model = ("model = \"run-to-completion\"", "model = \"pipeline\"\nreceivers = [2]");
    let keys = [
        "datapath.model",
        "port \"access\".device",
        "port \"access\".rx_queues",
        "port \"core\".device",
        "port \"core\".rx_queues",
    ];
    assert_eq!(refused(&changed(&[queues[0], queues[1], model], "")), keys);
}

#[test]
fn all_refused_keys_are_named_at_once_and_nothing_else_changes() {
    let new = [
        ("t1_ms = 3000", "t1_ms = 100"),
        ("main_core = 0", "main_core = 1"),
        ("burst_pkts = 32", "burst_pkts = 8"),
    ];
    assert_eq!(refused(&changed(&new, "")), ["datapath.burst_pkts", "datapath.main_core"]);
}

#[test]
fn files_of_the_interface_change_with_their_paths() {
    let api = |listen: &str, tokens: &str| {
        changed(&[], &format!("[api]\nlisten = \"{listen}\"\ntokens_file = \"{tokens}\""))
    };
    let old = api("127.0.0.1:8080", "a");
    let found = between(&old, &api("127.0.0.1:8080", "b")).unwrap();
    assert_eq!((&*found[0].key, &*found[0].change), ("api.tokens_file", "b, was a"));
    let refused = between(&old, &api("127.0.0.1:8081", "b")).unwrap_err();
    assert_eq!(refused[0].key, "api.listen");
}

#[test]
fn profile_at_the_nrf_changes_and_the_way_to_it_does_not() {
    let nrf = |lines: &str| changed(&[], &format!("[nrf]\nservers = [\"http://nrf\"]\n{lines}"));
    let old = nrf("priority = 1");
    assert_eq!(refused(&old), ["nrf"]);
    let found = between(&old, &nrf("priority = 2\ndnns = [\"ims\"]")).unwrap();
    let found: Vec<_> = found.iter().map(|of| (&*of.key, of.effect)).collect();
    assert_eq!(found, [("nrf.dnns", ChangeEffect::Plain), ("nrf.priority", ChangeEffect::Plain)]);
    let refused = between(&old, &nrf("priority = 1\noauth2 = true\nheartbeat_s = 5")).unwrap_err();
    let keys: Vec<_> = refused.iter().map(|of| &*of.key).collect();
    assert_eq!(keys, ["nrf.heartbeat_s", "nrf.oauth2"]);
}
