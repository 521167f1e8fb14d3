use adit_datapath::EventQueues;
use adit_pktio::ScheduleType;
use adit_types::{DomainId, Nanos, Qfi};

use super::*;

const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

/// Parses the example with one line replaced, and returns the mistakes.
fn changed(from: &str, to: &str) -> Vec<ConfigProblem> {
    assert!(EXAMPLE.contains(from), "the example has no {from:?}");
    Config::parse(&EXAMPLE.replacen(from, to, 1)).expect_err("accepted a mistake")
}

fn paths(problems: &[ConfigProblem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.path.as_str()).collect()
}

#[test]
fn example_is_accepted_and_means_what_it_says() {
    let config = Config::parse(EXAMPLE).unwrap();
    assert_eq!(config.node.id.to_string(), "10.0.4.2");
    assert_eq!(config.ports[1].device.to_string(), "kernel:packet,iface=n6");
    assert_eq!(config.interfaces[1].v6, Some(("2001:db8:6::2".parse().unwrap(), 64)));
    assert_eq!(config.routes[0].prefix.to_string(), "0.0.0.0/0");
    assert_eq!(config.n3().0, 0);
}

#[test]
fn every_mistake_is_reported_with_line_and_path() {
    let text = EXAMPLE
        .replace("t1_ms = 3000", "t1_mss = 3000")
        .replace("workers = [1]", "workers = [1, 1]")
        .replace("port = \"core\"", "port = \"cor\"")
        .replace("next_hop = \"10.0.6.1\"", "next_hop = \"10.0.7.1\"");
    let problems = Config::parse(&text).unwrap_err();
    for path in ["n4.t1_mss", "datapath.workers", "interface[1].port", "route[0].next_hop"] {
        assert!(paths(&problems).contains(&path), "{path} is not among {problems:?}");
    }
    let line = |path: &str| problems.iter().find(|problem| problem.path == path).unwrap().line;
    let expected = 1 + text[..text.find("t1_mss").unwrap()].matches('\n').count();
    assert_eq!(line("n4.t1_mss"), expected);
    assert!(problems[0].what.contains("did you mean \"t1_ms\""), "{}", problems[0].what);
}

#[test]
fn missing_key_names_its_section() {
    assert_eq!(paths(&changed("id = \"10.0.4.2\"", "")), ["node.id"]);
    assert_eq!(paths(&changed("listen = \"10.0.4.2:8805\"", "")), ["n4.listen"]);
}

#[test]
fn out_of_range_and_wrong_type_say_what_to_write() {
    let problems = changed("burst_pkts = 32", "burst_pkts = 65");
    assert_eq!(problems[0].what, "takes a whole number from 1 to 64");
    let problems = changed("[n4]", "[n4]\nreceive_buffer_kib = 16");
    assert_eq!(problems[0].what, "takes a whole number from 64 to 1048576");
    let problems = changed("burst_pkts = 32", "burst_pkts = \"32\"");
    assert_eq!(problems[0].what, "takes a whole number from 1 to 64");
    let problems = changed("role = \"n3\"", "role = \"n2\"");
    let what = "takes \"n3\" or \"n9\" or \"n4u\" or \"n6\"";
    assert!(problems.iter().any(|p| p.what == what), "{problems:?}");
}

#[test]
fn realtime_priority_is_for_threads_that_sleep() {
    let poll = "poll = \"busy\"";
    let problems = changed(poll, "poll = \"busy\"\nrealtime_priority = 10");
    assert_eq!(paths(&problems), ["datapath.realtime_priority"]);
    assert_eq!(paths(&changed(poll, "realtime_priority = 100")), ["datapath.realtime_priority"]);
    let text = EXAMPLE.replacen(poll, "poll = \"adaptive\"\nrealtime_priority = 10", 1);
    assert_eq!(Config::parse(&text).unwrap().datapath.realtime_priority, 10);
    assert_eq!(Config::parse(EXAMPLE).unwrap().datapath.realtime_priority, 0);
}

#[test]
fn node_id_that_is_neither_address_nor_name_is_refused() {
    for bad in ["10.0.4.256", "0.0.0.0", "a..b", "-x.org", ""] {
        let problems = changed("id = \"10.0.4.2\"", &format!("id = \"{bad}\""));
        assert_eq!(paths(&problems), ["node.id"], "{bad}");
    }
    let text = EXAMPLE.replacen("id = \"10.0.4.2\"", "id = \"upf1.example.org\"", 1);
    assert_eq!(
        Config::parse(&text).unwrap().node.id,
        NodeIdSetting::Fqdn("upf1.example.org".to_owned())
    );
}

#[test]
fn sessions_outlive_a_silent_peer_for_an_hour_a_week_at_most_or_not_at_all() {
    let line = "sessions_outlive_peer_s = 3600\n";
    for (text, seconds) in [("", 3600), (line, 3600), ("sessions_outlive_peer_s = 0\n", 0)] {
        let n4 = Config::parse(&EXAMPLE.replacen(line, text, 1)).unwrap().file.n4;
        assert_eq!(n4.sessions_outlive_peer, Nanos::from_secs(seconds));
    }
    let problems = changed(line, "sessions_outlive_peer_s = 604801\n");
    assert_eq!(paths(&problems), ["n4.sessions_outlive_peer_s"]);
}

#[test]
fn limits_of_peers_are_read_and_have_defaults() {
    let n4 = Config::parse(EXAMPLE).unwrap().file.n4;
    assert_eq!(n4.allow[0].to_string(), "10.0.4.0/24");
    assert_eq!((n4.peer_requests_per_s_max, n4.peer_requests_burst), (50_000, 10_000));
    let text = EXAMPLE.replacen("allow = [\"10.0.4.0/24\"]", "sessions_per_association_max = 7", 1);
    let n4 = Config::parse(&text).unwrap().file.n4;
    assert!(n4.allow.is_empty());
    assert_eq!(n4.sessions_per_association_max, 7);
    let problems = changed("\"10.0.4.0/24\"", "\"10.0.4.0\"");
    assert_eq!(paths(&problems), ["n4.allow"]);
}

#[test]
fn smf_sets_are_read_with_their_members() {
    assert!(
        Config::parse(EXAMPLE).unwrap().file.n4.smf_sets.is_empty(),
        "the example believes all"
    );
    let table = "[[n4.smf_sets]]\nid = \"set1.example\"\nmembers = [\"10.0.4.10/32\"]\n\n[gtpu]\n";
    let with = |from: &str, to: &str| EXAMPLE.replacen("[gtpu]\n", &table.replacen(from, to, 1), 1);
    let sets = Config::parse(&with("", "")).unwrap().file.n4.smf_sets;
    assert_eq!(
        (&*sets[0].id, sets[0].members[0].to_string()),
        ("set1.example", "10.0.4.10/32".into())
    );
    let twice = format!("{table}{}", table.replacen("set1", "SET1", 1)).replacen("[gtpu]\n", "", 1);
    for (text, path) in [
        (with("set1.example", "set1..example"), "n4.smf_sets[0].id"),
        (with("id = \"set1.example\"\n", ""), "n4.smf_sets[0].id"),
        (with("10.0.4.10/32", "10.0.4.10"), "n4.smf_sets[0].members"),
        (with("\"10.0.4.10/32\"", ""), "n4.smf_sets[0].members"),
        (with("members", "member"), "n4.smf_sets[0].member"),
        (EXAMPLE.replacen("[gtpu]\n", &twice, 1), "n4.smf_sets[1].id"),
    ] {
        let problems = Config::parse(&text).unwrap_err();
        assert!(paths(&problems).contains(&path), "{path}: {problems:?}");
    }
}

#[test]
fn tolerances_are_read_and_an_unknown_one_lists_the_names() {
    assert_eq!(Config::parse(EXAMPLE).unwrap().file.n4.tolerances(), Tolerances::default());
    let on = EXAMPLE.replacen("# tolerate = ", "tolerate = ", 1);
    assert!(Config::parse(&on).unwrap().file.n4.tolerances().one_f_teid_per_session);
    let problems = changed("# tolerate = [\"one-f-teid-per-session\"]", "tolerate = [\"all\"]");
    assert_eq!(paths(&problems), ["n4.tolerate"]);
    let expected = "takes a list of names out of \"one-f-teid-per-session\"";
    assert_eq!(problems[0].what, expected);
    let problems = changed("# tolerate = [\"one-f-teid-per-session\"]", "tolerate = \"all\"");
    assert_eq!(problems[0].what, "takes a list, written [ ... ]");
}

#[test]
fn gtpu_path_management_is_read_and_has_limits() {
    let gtpu = Config::parse(EXAMPLE).unwrap().file.gtpu;
    assert_eq!((gtpu.echo_interval, gtpu.t3), (Nanos::from_secs(60), Nanos::from_secs(3)));
    assert_eq!((gtpu.n3_requests, gtpu.copies_ecn, gtpu.copies_dscp), (3, false, false));
    let off = EXAMPLE.replacen("echo_interval_ms = 60000", "echo_interval_ms = 0", 1);
    assert_eq!(Config::parse(&off).unwrap().file.gtpu.echo_interval, Nanos(0));
    let section = "[gtpu]\n";
    let left_out = EXAMPLE.replacen("echo_interval_ms = 60000\n", "", 1);
    assert_eq!(Config::parse(&left_out).unwrap().file.gtpu, gtpu, "the default of the example");
    for (from, to, path) in [
        ("echo_interval_ms = 60000", "echo_interval_ms = 999", "gtpu.echo_interval_ms"),
        ("echo_interval_ms = 60000", "echo_interval_ms = 3600001", "gtpu.echo_interval_ms"),
        ("echo_interval_ms = 60000", "echo_interval_ms = \"off\"", "gtpu.echo_interval_ms"),
        ("t3_ms = 3000", "t3_ms = 99", "gtpu.t3_ms"),
        ("n3_requests = 3", "n3_requests = 0", "gtpu.n3_requests"),
        ("n3_requests = 3", "n3_requests = 21", "gtpu.n3_requests"),
        ("ecn = \"compatibility\"", "ecn = \"limited\"", "gtpu.ecn"),
        ("teid_range_bits = 0", "teid_range_bits = 8", "gtpu.teid_range_bits"),
        ("teid_range_bits = 0", "teid_range_bits = 7", "gtpu.teid_range_bits"),
        ("teid_range = 0", "teid_range = 1", "gtpu.teid_range"),
        (section, "[gtpu]\nt4_ms = 1\n", "gtpu.t4_ms"),
        (section, "[[gtpu]]\n", "gtpu"),
    ] {
        let problems = changed(from, to);
        assert_eq!(paths(&problems), [path], "{to}");
    }
}

#[test]
fn rates_that_sessions_share_are_read() {
    assert!(Config::parse(EXAMPLE).unwrap().qos.slices.is_empty());
    let slice = "[[qos.slice]]\ns_nssai = \"1-00a1b2\"\nuplink_mbps_max = 1000\n\n[datapath]\n";
    let with = EXAMPLE.replacen("# mbps_max = 9500\n", "mbps_max = 9500\n", 1).replacen(
        "[datapath]\n",
        slice,
        1,
    );
    let qos = Config::parse(&with).unwrap().qos;
    assert_eq!(qos.total.uplink.as_bps(), 9_500_000_000);
    assert_eq!(qos.total.downlink.as_bps(), u64::MAX);
    assert_eq!(qos.slices[0].s_nssai.map(|slice| slice.to_string()).as_deref(), Some("1-00a1b2"));
    assert_eq!(qos.slices[0].rates.uplink.as_bps(), 1_000_000_000);
    let twice = format!("{slice}{}", slice.replacen("1000", "7", 1));
    for (from, to, path) in [
        ("[datapath]\n", &*slice.replacen("1-00a1b2", "1-b2", 1), "qos.slice[0].s_nssai"),
        ("[datapath]\n", "[[qos.slice]]\n\n[datapath]\n", "qos.slice[0].s_nssai"),
        ("[datapath]\n", &*twice.replacen("[datapath]\n", "", 1), "qos.slice[1].s_nssai"),
        ("# mbps_max = 9500\n", "mbps_max = 0\n", "qos.uplink.mbps_max"),
        (
            "[datapath]\n",
            "[[qos.slice]]\nnetwork_instance = \"Internet\"\n\n\
             [[qos.slice]]\ns_nssai = \"1\"\nnetwork_instance = \"internet\"\n\n[datapath]\n",
            "qos.slice[1].s_nssai",
        ),
        ("shared = \"wait\"", "shared = \"hold\"", "qos.uplink.shared"),
    ] {
        assert_eq!(paths(&changed(from, to)), [path], "{to}");
    }
}

#[test]
fn buffered_packets_leave_half_of_the_mbufs_to_traffic() {
    assert_eq!(Config::parse(EXAMPLE).unwrap().sessions.buffer_pkts_max, 4096);
    let few = EXAMPLE
        .replacen("buffer_pkts_max = 4096\n", "", 1)
        .replacen("queue_pkts_max = 4096\n", "", 1)
        .replacen("mempool_mbufs = 16384", "mempool_mbufs = 1024", 1);
    let few = Config::parse(&few).unwrap();
    assert_eq!(
        (few.sessions.buffer_pkts_max, few.file.qos.queue_pkts_max),
        (256, 256),
        "they shrink with them"
    );
    let problems = changed("queue_pkts_max = 4096", "queue_pkts_max = 7937");
    assert_eq!(paths(&problems), ["qos.queue_pkts_max"]);
    let none = EXAMPLE.replacen("buffer_pkts_max = 4096", "buffer_pkts_max = 0", 1);
    assert_eq!(Config::parse(&none).unwrap().sessions.buffer_pkts_max, 0);
    for bad in ["7937", "-1", "16777217"] {
        let line = format!("buffer_pkts_max = {bad}");
        let problems = changed("buffer_pkts_max = 4096", &line);
        assert!(paths(&problems).iter().all(|path| *path == "sessions.buffer_pkts_max"), "{bad}");
    }
}

#[test]
fn tunnel_packets_in_fragments_of_all_workers_leave_half_of_the_mbufs_to_traffic() {
    let of = |workers: &str, mbufs: &str| {
        let text = EXAMPLE
            .replacen("workers = [1]", &format!("workers = {workers}"), 1)
            .replacen("buffer_pkts_max = 4096\n", "", 1)
            .replacen("queue_pkts_max = 4096\n", "", 1)
            .replacen("mempool_mbufs = 16384", &format!("mempool_mbufs = {mbufs}"), 1);
        Config::parse(&text).map(|config| config.sessions.buffer_pkts_max)
    };
    assert_eq!(of("[1, 2]", "2048"), Ok(512));
    let problems = of("[1, 2]", "2047").unwrap_err();
    assert_eq!(paths(&problems), ["dpdk.mempool_mbufs"]);
    assert!(problems[0].to_string().contains("at least 2048"), "{}", problems[0]);
}

#[test]
fn queues_of_af_xdp_devices_have_buffers_besides_those_of_traffic() {
    let of = |queues: usize, mbufs: usize| {
        let workers = if queues == 2 { "workers = [1, 2]" } else { "workers = [1]" };
        let text = on_dpdk("net_af_xdp", &format!(",queue_count={queues}"))
            .replacen("workers = [1]", workers, 1)
            .replacen("buffer_pkts_max = 4096\n", "", 1)
            .replacen("queue_pkts_max = 4096\n", "", 1)
            .replacen("mempool_mbufs = 16384", &format!("mempool_mbufs = {mbufs}"), 1);
        Config::parse(&text).map(|config| config.sessions.buffer_pkts_max)
    };
    // Two ports; per queue 2048 buffers of the kernel, 1024 descriptors to send, and a burst.
    for queues in [1, 2] {
        let needed = queues * (2 * 512 + 2 * (2048 + 1024 + 64));
        assert_eq!(of(queues, needed), Ok(queues * 256));
        let problems = of(queues, needed - 1).unwrap_err();
        assert_eq!(paths(&problems), ["dpdk.mempool_mbufs"]);
        let text = problems[0].to_string();
        assert!(text.contains(&format!("at least {needed}:")), "{text}");
        assert!(text.contains(&format!("devices keep {}", queues * 6272)), "{text}");
    }
}

/// The seeds and findings of the fuzz target `config`, checked as the target does.
#[test]
fn inputs_of_fuzzing_are_accepted_or_refused_with_problems_that_have_a_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for folder in ["../../fuzz/seeds/config", "../tests/regressions/config"] {
        // The folder does not exist if there are no findings.
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        for entry in entries {
            let octets = std::fs::read(entry.unwrap().path()).unwrap();
            let Ok(text) = std::str::from_utf8(&octets) else { continue };
            if let Err(problems) = Config::parse(text) {
                assert!(!problems.is_empty());
                assert!(problems.iter().all(|problem| problem.line >= 1));
            }
            count += 1;
        }
    }
    assert!(count > 0, "the target has a seed");
}

#[test]
fn two_interfaces_in_one_place_are_refused() {
    let problems = changed("port = \"core\"", "port = \"access\"");
    assert!(paths(&problems).contains(&"interface[1].vlan"), "{problems:?}");
}

#[test]
fn network_instance_is_read_and_a_bad_name_is_refused() {
    let config = Config::parse(EXAMPLE).unwrap();
    assert_eq!(config.interfaces[1].network_instance.as_deref(), Some("internet"));
    assert_eq!(config.interfaces[0].network_instance, None);
    for bad in ["", "two words"] {
        let line = format!("network_instance = \"{bad}\"");
        let problems = changed("network_instance = \"internet\"", &line);
        assert_eq!(paths(&problems), ["interface[1].network_instance"]);
    }
}

#[test]
fn ue_pool_that_cannot_be_given_away_is_refused() {
    let config = Config::parse(EXAMPLE).unwrap();
    assert_eq!(config.ue_pools[0].network_instance.as_deref(), Some("internet"));
    assert_eq!(config.ue_pools[0].prefix.to_string(), "10.60.0.0/16");
    let v4 = "prefix = \"10.60.0.0/16\"";
    for bad in ["10.60.0.1/16", "0.0.0.0/0", "224.0.0.0/8", "10.0.0.0/8", "10.0.6.128/25"] {
        let problems = changed(v4, &format!("prefix = \"{bad}\""));
        assert!(paths(&problems).iter().all(|path| *path == "ue_pool[0].prefix"), "{problems:?}");
    }
    let v6 = "prefix = \"2001:db8:60::/48\"";
    assert_eq!(paths(&changed(v6, "prefix = \"2001:db8:60::/65\"")), ["ue_pool[1].prefix"]);
    assert_eq!(paths(&changed(v6, "prefix = \"10.60.7.0/24\"")), ["ue_pool[1].prefix"]);
    assert_eq!(paths(&changed(v6, "")), ["ue_pool[1].prefix"]);
}

#[test]
fn application_without_right_flow_descriptions_is_refused() {
    let config = Config::parse(EXAMPLE).unwrap();
    assert_eq!(
        (config.applications[0].id.as_str(), config.applications[0].filters.len()),
        ("video", 1)
    );
    let good = "[\"permit out ip from 203.0.113.0/24 to assigned\"]";
    for bad in ["[]", "[\"deny out ip from any to any\"]", "[1]"] {
        let problems = changed(good, bad);
        assert!(paths(&problems).contains(&"application[0].flow_descriptions"), "{problems:?}");
    }
    let again =
        "[[application]]\nid = \"video\"\nflow_descriptions = [\"permit out ip from any to any\"]";
    let problems = changed("[admin]", &format!("{again}\n\n[admin]"));
    assert_eq!(paths(&problems), ["application[1].id"]);
}

#[test]
fn predefined_rule_is_read_and_a_wrong_one_is_refused() {
    let rules = Config::parse(EXAMPLE).unwrap().predefined_rules;
    assert_eq!((&*rules[0].name, rules[0].group.as_deref()), ("no-mail", Some("family")));
    assert_eq!(rules[0].precedence, Some(adit_types::Precedence(50)));
    assert_eq!(rules[0].action, adit_session::PredefinedAction::Drop);
    assert_eq!((rules[1].application(), rules[1].qfi), (Some("video"), Qfi::new(5)));
    let wrong = [
        ("name = \"video-flow\"", "name = \"no-mail\"", "predefined_rule[1].name"),
        ("name = \"video-flow\"", "name = \"family\"", "predefined_rule[1].name"),
        ("name = \"video-flow\"", "", "predefined_rule[1].name"),
        ("group = \"family\"", "group = \"video-flow\"", "predefined_rule[1].name"),
        ("application = \"video\"", "application = \"radio\"", "predefined_rule[1].application"),
        ("application = \"video\"\n", "", "predefined_rule[1].flow_descriptions"),
        ("action = \"drop\"", "action = \"buffer\"", "predefined_rule[0].action"),
        ("action = \"drop\"", "action = \"drop\"\nqfi = 1", "predefined_rule[0].qfi"),
        ("qfi = 5", "qfi = 64", "predefined_rule[1].qfi"),
        ("precedence = 50", "precedence = -1", "predefined_rule[0].precedence"),
    ];
    for (from, to, path) in wrong {
        // The same text is also in a comment.
        let rules = EXAMPLE.find("[[predefined_rule]]").unwrap();
        let (before, behind) = EXAMPLE.split_at(rules);
        let at = behind.find(&format!("\n{from}")).unwrap() + 1;
        let behind = format!("{}{to}{}", &behind[..at], &behind[at + from.len()..]);
        let problems = Config::parse(&format!("{before}{behind}")).unwrap_err();
        assert!(paths(&problems).contains(&path), "{to:?}: {problems:?}");
    }
    let both = "flow_descriptions = [\"permit out ip from any to any\"]";
    let problems = changed("name = \"video-flow\"", &format!("name = \"video-flow\"\n{both}"));
    assert_eq!(paths(&problems), ["predefined_rule[1].application"]);
}

#[test]
fn route_twice_in_one_network_instance_is_refused() {
    let again = "[[route]]\ninterface = \"n6\"\nprefix = \"0.0.0.0/0\"\nnext_hop = \"10.0.6.9\"\n";
    let problems = changed("[admin]", &format!("{again}\n[admin]"));
    assert_eq!(paths(&problems), ["route[2].prefix"]);
    let problems = changed("prefix = \"0.0.0.0/0\"", "prefix = \"10.0.6.0/24\"");
    assert_eq!(paths(&problems), ["route[0].prefix"]);
}

#[test]
fn device_named_twice_is_refused() {
    let problems = changed("packet,iface=n6", "packet,iface=n3");
    assert_eq!(paths(&problems), ["port[1].device"]);
}

#[test]
fn text_that_is_no_toml_is_reported_with_its_line() {
    let problems = Config::parse("[node\nid = 3\n").unwrap_err();
    assert_eq!(problems[0].line, 1);
}

#[test]
fn prefixes_of_any_text_never_panic() {
    for end in (0..EXAMPLE.len()).filter(|end| EXAMPLE.is_char_boundary(*end)) {
        let _ = Config::parse(&EXAMPLE[..end]);
    }
}

#[test]
fn forwarding_policy_is_read_and_must_lead_somewhere() {
    let policies = Config::parse(EXAMPLE).unwrap().file.forwarding_policies;
    assert_eq!((policies.len(), policies[0].id.as_str()), (1, "firewall"));
    assert_eq!((policies[0].dscp, policies[0].next_hop_v6), (Some(18), None));
    let without = Config::parse(&EXAMPLE.replace("dscp = 18", "")).unwrap();
    assert_eq!(without.forwarding_policies[0].dscp, None);
    for (from, to, key) in [
        ("dscp = 18", "dscp = 64", "dscp"),
        ("id = \"firewall\"", "id = \"\"", "id"),
        ("next_hop_v4 = \"10.0.6.9\"", "next_hop_v4 = \"10.0.7.9\"", "next_hop_v4"),
        ("next_hop_v4 = \"10.0.6.9\"", "next_hop_v4 = \"10.0.6.2\"", "next_hop_v4"),
        ("next_hop_v4 = \"10.0.6.9\"", "next_hop_v6 = \"2001:db8:7::9\"", "next_hop_v6"),
    ] {
        assert_eq!(paths(&changed(from, to)), [format!("forwarding_policy[0].{key}")], "{to}");
    }
}

#[test]
fn workers_poll_as_configured_one_by_one_or_all() {
    let poll = |text: &str| {
        let text = EXAMPLE
            .replacen("workers = [1]", &format!("workers = [1, 2]\npoll = {text}"), 1)
            .replacen("poll = \"busy\"", "", 1);
        Config::parse(&text).map(|config| config.datapath.poll)
    };
    assert_eq!(Config::parse(EXAMPLE).unwrap().datapath.poll, [PollMode::Busy]);
    assert_eq!(poll("\"adaptive\"").unwrap(), [PollMode::Adaptive; 2]);
    assert_eq!(poll("[\"busy\", \"adaptive\"]").unwrap(), [PollMode::Busy, PollMode::Adaptive]);
    for wrong in ["\"lazy\"", "[\"busy\"]", "[\"busy\", 1]", "1"] {
        assert_eq!(paths(&poll(wrong).unwrap_err()), ["datapath.poll"], "{wrong}");
    }
}

/// Returns the example on ports of DPDK.
fn on_dpdk(driver: &str, arguments: &str) -> String {
    let of = |number| format!("{driver}{number}{arguments},iface=n");
    EXAMPLE
        .replace("kernel:packet,iface=n3", &(of(0) + "3"))
        .replace("kernel:packet,iface=n6", &(of(1) + "6"))
}

#[test]
fn queues_that_do_not_fit_the_workers_say_what_to_write() {
    let two = on_dpdk("net_af_packet", "").replacen("workers = [1]", "workers = [1, 2]", 1);
    let problems = Config::parse(&two).unwrap_err();
    assert_eq!(paths(&problems), ["port[0].device", "port[1].device"]);
    assert!(problems[0].what.contains("write qpairs=2"), "{}", problems[0].what);
    let paired = two.replace(",iface=n", ",qpairs=2,iface=n");
    assert_eq!(Config::parse(&paired).unwrap().file.ports[0].rx_queues, None);
    let fewer = paired.replacen("name = \"core\"", "name = \"core\"\nrx_queues = 1", 1);
    assert_eq!(paths(&Config::parse(&fewer).unwrap_err()), ["port[1].rx_queues"]);
    let memif = fewer.replacen("net_af_packet1,qpairs=2,iface=n6", "net_memif0", 1);
    assert_eq!(Config::parse(&memif).unwrap().file.ports[1].rx_queues, Some(1));
    let more = memif.replacen("\nrx_queues = 1", "\nrx_queues = 3", 1);
    assert_eq!(paths(&Config::parse(&more).unwrap_err()), ["port[1].rx_queues"]);
}

/// Returns the example with a second N3, an N9 and an N4-u interface.
fn with_gtpu_interfaces(addresses: [&str; 3]) -> String {
    let interface = |name: &str, role: &str, vlan: u16, address: &str| {
        format!(
            "[[interface]]\nname = \"{name}\"\nrole = \"{role}\"\nport = \"access\"\n\
             vlan = {vlan}\naddresses = [\"{address}\"]\n\n"
        )
    };
    let [n3, n9, n4u] = addresses;
    let further = interface("n3b", "n3", 31, n3)
        + &interface("n9", "n9", 9, n9)
        + &interface("n4u", "n4u", 4, n4u);
    EXAMPLE.replacen("# Routes beyond", &(further + "# Routes beyond"), 1)
}

#[test]
fn several_interfaces_of_each_role_are_read() {
    let text = with_gtpu_interfaces(["10.0.31.2/24", "10.0.9.2/24", "10.0.44.2/24"]);
    let config = Config::parse(&text).unwrap();
    let roles: Vec<_> = config.interfaces.iter().map(|known| known.role.name()).collect();
    assert_eq!(roles, ["N3", "N6", "N3", "N9", "N4-u"]);
}

#[test]
fn address_of_two_gtpu_interfaces_is_refused() {
    let text = with_gtpu_interfaces(["10.0.31.2/24", "10.0.3.2/16", "10.0.31.2/24"]);
    let problems = Config::parse(&text).unwrap_err();
    assert_eq!(paths(&problems), ["interface[3].addresses", "interface[4].addresses"]);
}

/// Returns the example with a second data network on a VLAN, with its own network instance or none.
fn with_second_network(name: &str) -> String {
    let section = format!(
        "[[interface]]\nname = \"n6b\"\nrole = \"n6\"\nport = \"core\"\nvlan = 7\n\
         addresses = [\"10.0.7.2/24\"]\n{name}\n\n# Routes beyond"
    );
    EXAMPLE.replacen("# Routes beyond", &section, 1)
}

#[test]
fn network_instances_are_domains_if_every_n6_interface_names_one() {
    let domains = |name: &str| {
        let config = Config::parse(&with_second_network(name)).unwrap();
        domains(&config.interfaces).iter().map(|domain| domain.0).collect::<Vec<_>>()
    };
    assert_eq!(domains("network_instance = \"corp\""), [0, 0, 1]);
    assert_eq!(domains("network_instance = \"Internet\""), [0, 0, 0]);
    assert_eq!(domains(""), [0, 0, 0]);
}

#[test]
fn pools_overlap_only_between_routing_domains() {
    let pool = |name: &str, pool: &str| {
        let section = format!("[[ue_pool]]\n{pool}\nprefix = \"10.60.0.0/24\"\n\n[[application]]");
        Config::parse(&with_second_network(name).replacen("[[application]]", &section, 1))
    };
    let corp = "network_instance = \"corp\"";
    assert!(pool(corp, corp).is_ok());
    for (name, of_pool) in [("", corp), (corp, ""), (corp, "network_instance = \"internet\"")] {
        let problems = pool(name, of_pool).unwrap_err();
        assert_eq!(paths(&problems), ["ue_pool[2].prefix"], "{name} {of_pool}");
    }
}

#[test]
fn local_switching_is_on_unless_the_interfaces_or_a_policy_say_otherwise() {
    let config = Config::parse(EXAMPLE).unwrap();
    assert!(config.interfaces.iter().all(|known| known.local_switching));
    assert_eq!(config.forwarding_policies[0].local_switching, None);
    assert_eq!(switched_domains(&config), [DomainId(0)]);
    let off = EXAMPLE.replacen("role = \"n6\"", "role = \"n6\"\nlocal_switching = false", 1);
    let config = Config::parse(&off).unwrap();
    assert!(!config.interfaces[1].local_switching);
    assert_eq!(switched_domains(&config), []);
    let policy = off.replacen("dscp = 18", "dscp = 18\nlocal_switching = true", 1);
    let config = Config::parse(&policy).unwrap();
    assert_eq!(config.forwarding_policies[0].local_switching, Some(true));
    assert_eq!(switched_domains(&config), [DomainId(0)]);
}

#[test]
fn wrong_local_switching_is_refused() {
    let n3 = EXAMPLE.replacen("role = \"n3\"", "role = \"n3\"\nlocal_switching = true", 1);
    assert_eq!(paths(&Config::parse(&n3).unwrap_err()), ["interface[0].local_switching"]);
    let text = EXAMPLE.replacen("role = \"n6\"", "role = \"n6\"\nlocal_switching = \"no\"", 1);
    assert_eq!(paths(&Config::parse(&text).unwrap_err()), ["interface[1].local_switching"]);
    let policy = EXAMPLE.replacen("dscp = 18", "dscp = 18\nlocal_switching = 1", 1);
    let problems = Config::parse(&policy).unwrap_err();
    assert_eq!(paths(&problems), ["forwarding_policy[0].local_switching"]);
}

#[test]
fn n6_interfaces_of_one_domain_agree_on_local_switching() {
    let second = |name: &str| with_second_network(&format!("{name}\nlocal_switching = false"));
    assert!(Config::parse(&second("network_instance = \"corp\"")).is_ok());
    for name in ["network_instance = \"internet\"", ""] {
        let problems = Config::parse(&second(name)).unwrap_err();
        assert_eq!(paths(&problems), ["interface"], "{problems:?}");
        assert!(problems[0].to_string().contains("\"n6\" and \"n6b\""), "{problems:?}");
    }
}

/// Returns the example with another line for its workers, and `qpairs` queue pairs on each port.
fn with_datapath(lines: &str, qpairs: u16) -> String {
    let one = on_dpdk("net_af_packet", &format!(",qpairs={qpairs}"));
    one.replacen("model = \"run-to-completion\"\n", "", 1).replacen("workers = [1]", lines, 1)
}

#[test]
fn pipeline_has_workers_then_the_signaling_worker_then_receivers() {
    let lines = "model = \"pipeline\"\nworkers = [1, 2]\nreceivers = [3]\npoll = [\"busy\", \
                 \"adaptive\", \"busy\"]\nspread = \"rss\"\n#";
    let config = Config::parse(&with_datapath(lines, 3).replace("\npoll = \"busy\"\n", "\n"));
    let datapath = config.unwrap().datapath;
    let threads: Vec<_> = datapath
        .threads()
        .iter()
        .map(|thread| (thread.role.name(), thread.core, thread.poll.name()))
        .collect();
    let expected = [
        ("worker", 1, "busy"),
        ("worker", 2, "adaptive"),
        ("signaling", 0, "adaptive"),
        ("receiver", 3, "busy"),
    ];
    assert_eq!(threads, expected);
    assert_eq!(datapath.shared_cores(), []);
    assert!(datapath.shares_core(0) && !datapath.shares_core(3));
}

#[test]
fn models_say_what_does_not_fit_them() {
    let of = |lines: &str, qpairs| {
        let problems = Config::parse(&with_datapath(lines, qpairs)).unwrap_err();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let missing = of("model = \"pipeline\"\nworkers = [1]", 2);
    assert!(missing.iter().any(|text| text.contains("datapath.receivers")), "{missing:?}");
    let twice = of("model = \"pipeline\"\nworkers = [1]\nreceivers = [2, 2]", 2);
    assert!(twice[0].contains("names a CPU core twice"), "{twice:?}");
    let elsewhere =
        of("workers = [1]\nreceivers = [2]\nspread = \"rss\"\nrss_key = \"symmetric\"", 1);
    assert_eq!(elsewhere.len(), 3, "{elsewhere:?}");
    assert!(elsewhere.iter().all(|text| text.contains("is for model = \"pipeline\"")));
    let unhashed = "model = \"pipeline\"\nworkers = [1]\nreceivers = [2]\nrss_key = \"microsoft\"";
    let unhashed = of(unhashed, 2);
    assert!(unhashed[0].contains("is for spread = \"rss\""), "{unhashed:?}");
    let pairs = of("model = \"pipeline\"\nworkers = [1]\nreceivers = [2]", 1);
    assert!(pairs.iter().all(|text| text.contains("write qpairs=2 into it")), "{pairs:?}");
    let unknown = of("model = \"magic\"\nworkers = [1]", 1);
    assert!(unknown[0].contains("\"run-to-completion\""), "{unknown:?}");
}

#[test]
fn cores_that_threads_share_are_named() {
    let lines = "model = \"pipeline\"\nworkers = [1]\nreceivers = [0]";
    let datapath = Config::parse(&with_datapath(lines, 2)).unwrap().datapath;
    let names = vec!["control".to_owned(), "receiver 2".to_owned()];
    assert_eq!(datapath.shared_cores(), [(0, names)]);
}

/// Returns the example with an event scheduler: `workers`, and the lines of its table.
fn with_eventdev(workers: &str, lines: &str, qpairs: u16) -> String {
    let datapath = format!("model = \"eventdev\"\nworkers = {workers}");
    let text = with_datapath(&datapath, qpairs);
    text.replacen("\n[dpdk]\n", &format!("\n[datapath.eventdev]\n{lines}\n[dpdk]\n"), 1)
}

#[test]
fn eventdev_has_workers_then_rx_tx_threads_and_perhaps_a_scheduler() {
    let lines = "scheduler = \"sw\"\nscheduler_core = 4\nrx_tx = [3]\nsched_quanta = 64\n\
                 credit_quanta = 32\nflows = 1024\nstages = 4\n\
                 schedule = [\"parallel\", \"atomic\", \"ordered\", \"atomic\"]\n\
                 dummy_cycles = [0, 100, 0, 0]";
    let schedules = ["parallel", "atomic", "ordered", "atomic"].map(|name| match name {
        "parallel" => ScheduleType::Parallel,
        "ordered" => ScheduleType::Ordered,
        _ => ScheduleType::Atomic,
    });
    let datapath = Config::parse(&with_eventdev("[1, 2]", lines, 1)).unwrap().datapath;
    let threads: Vec<_> =
        datapath.threads().iter().map(|thread| (thread.role.name(), thread.core)).collect();
    assert_eq!(threads, [("worker", 1), ("worker", 2), ("rx-tx", 3)]);
    assert_eq!(datapath.scheduler_core(), Some(4));
    assert!(datapath.shared_cores().is_empty() && !datapath.shares_core(4));
    let ModelSettings::EventDriven(events) = datapath.model else { panic!("another model") };
    assert_eq!(events.arguments, "sched_quanta=64,credit_quanta=32");
    assert_eq!(events.queues, EventQueues::new(&schedules, [0, 100, 0, 0]).unwrap());
    assert_eq!((events.flows, events.events_max, events.new_event_threshold), (1024, 4096, 2048));
}

#[test]
fn eventdev_says_what_does_not_fit() {
    let of = |lines: &str| {
        let problems = Config::parse(&with_eventdev("[1]", lines, 1)).unwrap_err();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let cases = [
        ("rx_tx = []", "takes 1 to"),
        ("rx_tx = [2, 2]", "names a CPU core twice"),
        ("rx_tx = [2]\nscheduler = \"sw\"", "scheduler_core: is required"),
        ("rx_tx = [2]\nscheduler_core = 3", "is for scheduler = \"sw\""),
        ("rx_tx = [2]\nsched_quanta = 3", "\"dsw\" has no quanta"),
        ("rx_tx = [2]\nflows = 500", "takes a power of two"),
        ("rx_tx = [2]\nnew_event_threshold = 4000", "at most half of events_max"),
        ("rx_tx = [2]\nscheduler = \"sw\"\nscheduler_core = 3\nevents_max = 8192", "256 to 4096"),
        ("rx_tx = [2]\nevents_max = 65536", "mempool_mbufs"),
        ("rx_tx = [2]\nstages = 3", "takes 1, 2 or 4"),
        ("rx_tx = [2]\nstages = 2\nschedule = [\"atomic\"]", "or a list of 2 of them"),
        ("rx_tx = [2]\nschedule = \"parallel\"", "it has the state of sessions"),
        ("rx_tx = [2]\nstages = 2\nschedule = [\"atomic\", \"ordered\"]", "\"dsw\" has no ordered"),
        ("rx_tx = [2]\nrx_queue = \"ordered\"", "rx_queue: takes \"ordered\" only with"),
        ("rx_tx = [2]\ndummy_cycles = [1, 2]", "takes a list of 4 numbers"),
    ];
    for (lines, expected) in cases {
        let problems = of(lines);
        assert!(problems.contains(expected), "{lines}: {problems}");
    }
    let queues = "rx_tx = [20]\nstages = 4\nrx_queue = \"atomic\"\ntimer_queue = true";
    let with_timers = |workers: &str| Config::parse(&with_eventdev(workers, queues, 1));
    assert!(with_timers("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]").is_ok());
    let problems = with_timers("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]").unwrap_err();
    assert_eq!(paths(&problems), ["datapath.eventdev.scheduler"]);
    assert!(problems[0].to_string().contains("take 17"), "{problems:?}");
    let missing = Config::parse(&with_eventdev("[1]", "", 1)).unwrap_err();
    assert_eq!(paths(&missing), ["datapath.eventdev.rx_tx"]);
    let all = of("rx_tx = [2]\nstages = 3\nschedule = \"atomic\"\ndummy_cycles = [1]");
    assert_eq!(all.lines().count(), 2, "{all}");
    let adaptive =
        with_eventdev("[1]", "rx_tx = [2]", 1).replace("poll = \"busy\"", "poll = \"adaptive\"");
    let problems = Config::parse(&adaptive).unwrap_err();
    assert!(
        problems.iter().any(|known| known.to_string().contains("wakes nobody")),
        "{problems:?}"
    );
    let elsewhere = with_datapath("workers = [1]", 1).replacen(
        "\n[dpdk]\n",
        "\n[datapath.eventdev]\nrx_tx = [2]\n[dpdk]\n",
        1,
    );
    let problems = Config::parse(&elsewhere).unwrap_err();
    assert!(problems[0].to_string().contains("is for model = \"eventdev\""), "{problems:?}");
}

#[test]
fn flow_offload_is_for_ports_of_dpdk_without_xdp() {
    let with = |keys: [&str; 2], text: &str| {
        let mut changed = on_dpdk("net_af_packet", "") + text;
        for (key, device) in keys.into_iter().zip(["net_af_packet0", "net_af_packet1"]) {
            let line = format!("device = \"{device}");
            changed = changed.replacen(&line, &format!("{key}\n{line}"), 1);
        }
        Config::parse(&changed)
    };
    let flows = "flow_offload = true";
    let config = with([flows; 2], "\n[flow_offload]\nfrom_pps = 5\n").unwrap();
    assert!(config.ports[0].flow_offload && config.ports[1].flow_offload);
    assert_eq!((config.flow_offload.from_pps, config.flow_offload.downlink), (5, false));
    let problems = with(["flow_offload = true\nxdp = \"auto\"", ""], "").unwrap_err();
    assert!(paths(&problems).contains(&"port[0].flow_offload"), "{problems:?}");
    let problems = with([flows; 2], "\n[flow_offload]\nread_interval_ms = 0\n").unwrap_err();
    assert_eq!(paths(&problems), ["flow_offload.read_interval_ms"]);
    let problems = with([flows, ""], "").unwrap_err();
    assert!(problems[0].what.contains("none of them has an n6 interface"), "{problems:?}");
    let problems = with([""; 2], "\n[flow_offload]\nfrom_pps = 5\n").unwrap_err();
    assert!(problems[0].what.contains("no port has it"), "{problems:?}");
}

#[test]
fn routes_of_the_kernel_need_a_device_that_the_kernel_has() {
    let wanted = "role = \"n6\"\nroutes = \"kernel\"\nannounce = \"session\"";
    let config = Config::parse(&EXAMPLE.replacen("role = \"n6\"", wanted, 1)).unwrap();
    let n6 = &config.interfaces[1];
    assert_eq!((n6.routes, n6.announce), (RouteOrigin::Kernel, AnnounceMode::Session));
    assert_eq!(n6.kernel_device(), Some(("n6", None)));
    // Packet sockets have the frames of all VLANs; the kernel's device has those without a tag.
    let problems = changed("role = \"n6\"", &format!("{wanted}\nvlan = 6"));
    assert_eq!(paths(&problems), ["interface[1].routes", "interface[1].announce"]);
    assert!(problems[0].what.contains("kernel twin"), "{}", problems[0].what);
}
