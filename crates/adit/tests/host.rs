//! `adit host` as an operator sees it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn host(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_adit")).arg("host").args(arguments).output().unwrap()
}

/// The output of a command that succeeds.
fn printed(arguments: &[&str]) -> String {
    let output = host(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json"]].concat())).unwrap()
}

/// The message of a command that fails.
fn refused(arguments: &[&str]) -> String {
    let output = host(arguments);
    assert!(!output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

const TWO_NODES: &str = "pack:2 [numa(memory=68719476736)] l3:1 core:8 pu:2";

#[test]
fn machine_is_shown_as_a_tree_and_as_json() {
    let tree = printed(&["show"]);
    assert!(tree.starts_with("this machine\n") && tree.contains("node 0"), "{tree}");
    assert!(json(&["show"])["cores"].as_array().is_some_and(|cores| !cores.is_empty()));
    let made_up = printed(&["show", "--synthetic", TWO_NODES]);
    assert!(made_up.contains("node 1: 64 GiB"), "{made_up}");
    assert!(made_up.contains("siblings 0-1"), "{made_up}");
}

#[test]
fn plan_names_each_rule_and_gives_the_configuration() {
    let plan = ["plan", "--synthetic", TWO_NODES, "--model", "pipeline", "--workers", "5"];
    let text = printed(&plan);
    for rule in ["usable-cpu", "own-node", "control-sibling", "cpu0-last", "quota"] {
        assert!(text.contains(&format!("kept    {rule}: ")), "{text}");
    }
    assert!(text.contains("main_core = 0\n"), "{text}");
    assert!(text.contains("workers = [4, 6, 8, 10, 12]\n"), "{text}");
    assert!(text.contains("receivers = [2]\n"), "{text}");
    let document = json(&plan);
    assert_eq!(document["plan"]["placement"]["groups"][0]["control_cpu"], 0);
    assert_eq!(document["rules"].as_array().map(Vec::len), Some(11));
    let this_machine = json(&["plan", "--workers", "1"]);
    assert!(this_machine["configuration"][0].as_str().unwrap().contains("workers = ["));
}

#[test]
fn hand_written_placement_is_compared_with_the_rules() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adit.example.toml");
    let example = example.to_str().unwrap();
    // The example has control on CPU 0 and its worker on CPU 1: siblings of this machine.
    let text = printed(&["plan", "--config", example, "--synthetic", TWO_NODES]);
    assert!(text.contains("break rules\n  control-sibling: "), "{text}");
    let apart = printed(&["plan", "--config", example, "--synthetic", "core:4 pu:1"]);
    assert!(apart.contains("the CPUs of the configuration keep all rules"), "{apart}");
}

#[test]
fn planned_configuration_starts_with_the_plan_that_is_printed() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adit.example.toml");
    let example = fs::read_to_string(example).unwrap().replace("main_core = 0\n", "");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adit.toml");
    for (workers, planned_workers, machine) in [
        ("\"auto\"", 7, TWO_NODES),
        ("\"auto\"\nplacement = \"uma\"", 15, TWO_NODES),
        ("{ count = 3 }\nsiblings = \"shared\"", 3, TWO_NODES),
        ("\"auto\"", 1, "core:1 pu:1"),
    ] {
        let text = example
            .replacen("workers = [1]", &format!("workers = {workers}"), 1)
            .replace("mempool_mbufs = 16384", "mempool_mbufs = 65536");
        fs::write(&path, text).unwrap();
        let config = path.to_str().unwrap();
        let document = json(&["plan", "--config", config, "--synthetic", machine]);
        let planned = &document["plan"]["placement"]["groups"][0];
        let configured = &document["configured"]["placement"]["groups"][0];
        assert_eq!(configured["threads"], planned["threads"], "{workers}: {document}");
        assert_eq!(configured["control_cpu"], planned["control_cpu"]);
        assert_eq!(document["configured"]["breaks"], document["plan"]["breaks"]);
        assert_eq!(planned["threads"].as_array().map(Vec::len), Some(planned_workers));
    }
}

#[test]
fn profile_is_checked_applied_and_reverted_below_a_root() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let files = [
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0\n"),
        ("proc/sys/kernel/numa_balancing", "1\n"),
    ];
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    let with = |command| {
        let profile = ["--profile", "ff-noidle-rt", "--cores", "0", "--root", root];
        [&[command], &profile[..]].concat()
    };
    let report = json(&with("check"));
    let differs = report["settings"].as_array().unwrap().iter();
    assert_eq!(differs.filter(|setting| setting["state"] == "differs").count(), 3, "{report}");
    assert!(printed(&with("check")).contains("missing isolcpus=managed_irq,domain,0"));
    assert!(printed(&with("apply")).starts_with("3 settings changed"));
    assert_eq!(read("sys/devices/system/cpu/cpufreq/boost"), "0\n");
    assert!(refused(&with("apply")).contains("take it back first"));
    assert!(printed(&["revert", "--root", root]).starts_with("3 settings taken back"));
    for (path, text) in files {
        assert_eq!(read(path), text);
    }
    assert!(refused(&["revert", "--root", root]).contains("nothing is applied"));
}

#[test]
fn wrong_input_gets_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.xml");
    fs::write(&foreign, "<svg/>").unwrap();
    for (arguments, sentence) in [
        (vec!["show", "--xml", foreign.to_str().unwrap()], "is not an XML description"),
        (vec!["show", "--xml", "/nowhere.xml"], "cannot be read"),
        (vec!["show", "--synthetic", "core"], "is not a synthetic description"),
        (vec!["plan", "--synthetic", "core:2 pu:1", "--workers", "3"], "may use 2"),
        (vec!["plan", "--port", "no-such-device"], "has no device no-such-device"),
        (vec!["check", "--profile", "core", "--cores", "4000"], "CPU 4000 is not online"),
        (vec!["check", "--profile", "core"], "--cores"),
    ] {
        let message = refused(&arguments);
        assert!(message.contains(sentence), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert!(refused(&["check", "--profile", "fast"]).contains("is not a profile"));
}

#[test]
fn noise_of_a_core_is_sampled_and_a_core_that_is_not_there_refused() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let core = allowed.trim().split([',', '-']).next().unwrap();
    let document = json(&["noise", "--core", core, "--duration", "1"]);
    assert_eq!(document["core"].as_u64(), core.parse().ok(), "{document}");
    assert!(printed(&["noise", "--core", core, "--duration", "1"]).contains("gap"));
    assert!(refused(&["noise", "--core", "65535"]).contains("core 65535"));
    assert!(refused(&["noise", "--core", core, "--threshold-ns", "1"]).contains("threshold"));
}

#[test]
fn plan_breaks_a_rule_on_request() {
    let with = |rule: &str, machine: &str| {
        let model = ["--model", "pipeline", "--workers", "2"].map(str::to_owned).to_vec();
        let plan = ["plan", "--synthetic", machine, "--breaking", rule].map(str::to_owned).to_vec();
        [plan, model].concat()
    };
    let words = with("own-node", TWO_NODES);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let text = printed(&words);
    assert!(
        text.contains("  broken  own-node: ") && text.contains("workers = [16, 18]\n"),
        "{text}"
    );
    assert_eq!(json(&words)["plan"]["breaks"][0]["rule"], "own-node");
    let words = with("own-node", "core:4 pu:1");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let why = refused(&words);
    assert!(
        why.starts_with("adit: no plan for this machine breaks own-node: no other node"),
        "{why}"
    );
    let unknown = refused(&["plan", "--breaking", "own-core"]);
    assert!(unknown.contains("\"own-core\" is not a rule; the rules are usable-cpu"), "{unknown}");
    assert!(refused(&["plan", "--breaking", "own-cpu", "--per-node"]).contains("cannot be used"));
    let uma = printed(&["plan", "--synthetic", TWO_NODES, "--uma", "--workers", "1"]);
    assert!(uma.contains("placement = \"uma\"\n"), "{uma}");
}

/// `adit-lab` passes these words on.
#[test]
fn placements_of_the_experiments_are_known_to_the_plan() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("placement-") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let placements = text.lines().filter_map(|line| line.strip_prefix("placement = "));
        for placement in placements.map(|word| word.trim_matches('"')) {
            count += 1;
            if ["numa", "uma"].contains(&placement) {
                continue;
            }
            let plan =
                ["plan", "--synthetic", TWO_NODES, "--workers", "2", "--breaking", placement];
            let output = host(&plan);
            let errors = String::from_utf8(output.stderr).unwrap();
            let sentence = format!("adit: no plan for this machine breaks {placement}: ");
            assert!(output.status.success() || errors.starts_with(&sentence), "{name}: {errors}");
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn frequencies_that_a_crashed_adit_left_low_are_reverted() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let limit = "sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq";
    let journal = format!(
        "adit host tuning 1\nprofile\tfrequency\nfile\ttext\t{limit}\t3600000\t800000\nend\n"
    );
    for (path, text) in [(limit, "800000\n"), ("run/adit/frequency-77.journal", &*journal)] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    assert!(printed(&["revert", "--root", root]).contains("1 setting taken back"));
    assert_eq!(fs::read_to_string(folder.path().join(limit)).unwrap(), "3600000\n");
    assert!(refused(&["revert", "--root", root]).contains("nothing is applied"));
}
