//! The files of `/deploy` for containers: the Helm chart, rendered and checked against the schemas
//! of Kubernetes and by `adit check`, its scripts with a running `adit`, and the files of compose.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::associated_smf::{self, TestSmf};
use crate::metrics::deployed;
use crate::smf::{self, SessionScript};
use adit_pfcp::ie::{Cause, NodeId};
use adit_pfcp::message::AssociationUpdateResponse;
use adit_pfcp::{Message, MessageType};
use adit_tests::process::{ChildProcess, TestNamespace, binary, is_root, run, skip};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Environment variable of the run inside the namespace of the adit.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const SCRIPTS_TEST: &str = "deploy::scripts_of_the_chart_start_and_drain_a_replica";
const LIMIT: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);
/// Reads manifests, validates all of which Kubernetes has a schema, and prints them as JSON.
const VALIDATE: &str = r#"
import json, sys, yaml, kubernetes_validate
manifests = [one for one in yaml.safe_load_all(sys.stdin) if one]
for one in manifests:
    try:
        kubernetes_validate.validate(one, "1.33", strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        assert one["kind"] in ("NetworkAttachmentDefinition", "ServiceMonitor", "PrometheusRule"), one["kind"]
print(json.dumps(manifests))
"#;

/// Values beside those of the chart.
const DPDK: &str = r#"{"ports": "dpdk", "hugepages": {"pageSize": "1Gi", "totalMi": 2048}, "interfaces": [
    {"name": "n3", "role": "n3", "addresses": ["10.0.3.10/24", "2001:db8:3::fffe/64"], "attachment": "sriov/n3", "resource": "intel.com/n3"},
    {"name": "n6", "role": "n6", "networkInstance": "internet", "addresses": ["10.0.6.10/24"], "config": {"type": "sriov"}, "resource": "intel.com/n6"}]}"#;
const STANDBY: &str = r#"{"standby": {"enabled": true}, "store": {"kind": "redis", "redis": {
    "servers": ["10.96.0.20:6379", "10.96.0.21:6379"], "acknowledgeReplicas": 1, "passwordSecret": "store", "tlsSecret": "store-tls", "clientCertificate": true}}}"#;
const POD_NETWORK: &str = r#"{"n4": {"addresses": [], "connect": ["smf:8805"]}, "stop": {"sessions": "end"},
    "pools": [{"networkInstance": "internet", "prefix": "2001:db8:60::/44", "replicaLength": 48}],
    "nrf": {"servers": ["http://10.0.4.20:7777"], "s_nssais": ["1", "1-00a1b2"], "capacity": 100},
    "serviceMonitor": {"enabled": true}, "dashboards": {"enabled": true}}"#;
/// A replica that a test runs: its gNB is on the link of N3.
const SCRIPTED: &str = r#"{"workers": 1, "stop": {"sessions": "end", "drainSeconds": 2}, "n4": {"allow": []}, "interfaces": [
    {"name": "n3", "role": "n3", "addresses": ["198.51.100.10/24"], "config": {"type": "bridge"}},
    {"name": "n6", "role": "n6", "networkInstance": "internet", "addresses": ["10.0.6.10/24"], "config": {"type": "bridge"},
     "routes": [{"prefix": "0.0.0.0/0", "nextHop": "10.0.6.1"}]}],
    "config": {"dpdk": {"memory_mib": 128, "mempool_mbufs": 12288, "rx_descriptors": 256, "tx_descriptors": 256}}}"#;

/// The tools that `scripts/install.sh test` puts into `target/kubernetes`.
struct KubernetesTools {
    helm: PathBuf,
    python: PathBuf,
}

impl KubernetesTools {
    /// `None`, with the reason printed, if they are not there.
    fn find() -> Option<Self> {
        let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kubernetes/bin");
        let tools = Self { helm: bin.join("helm"), python: bin.join("python3") };
        // The last step of the installation.
        if !tools.helm.exists() {
            skip("Helm is not in target/kubernetes: scripts/install.sh test puts it there");
            return None;
        }
        Some(tools)
    }

    fn python(&self, program: &str, input: &str) -> Output {
        let mut python = Command::new(&self.python);
        python.args(["-c", program]).stdin(Stdio::piped());
        let mut child = python.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// `helm template` with these values, as JSON.
    fn helm(&self, replicas: usize, values: &str) -> Output {
        let mut helm = Command::new(&self.helm);
        helm.args(["template", "adit"]).arg(deployed("helm/adit"));
        helm.args(["--namespace", "core", "--set", &format!("replicas={replicas}")]);
        for (key, value) in serde_json::from_str::<BTreeMap<String, Value>>(values).unwrap() {
            helm.args(["--set-json", &format!("{key}={value}")]);
        }
        run(&mut helm, LIMIT)
    }

    /// The manifests, which are valid.
    fn manifests(&self, replicas: usize, values: &str) -> Vec<Value> {
        let output = self.helm(replicas, values);
        assert!(output.status.success(), "{}", said(&output.stderr));
        let valid = self.python(VALIDATE, &said(&output.stdout));
        assert!(valid.status.success(), "{}", said(&valid.stderr));
        serde_json::from_slice(&valid.stdout).unwrap()
    }

    fn yaml(&self, file: &Path) -> Value {
        let read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))";
        let output = self.python(read, &fs::read_to_string(file).unwrap());
        assert!(output.status.success(), "{}: {}", file.display(), said(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn said(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// The manifest of this kind and name.
fn of_kind<'a>(manifests: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
    manifests.iter().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The files of the chart's ConfigMap.
fn files(manifests: &[Value]) -> BTreeMap<String, String> {
    serde_json::from_value(of_kind(manifests, "ConfigMap", "adit")["data"].clone()).unwrap()
}

fn checked(configuration: &str) -> toml::Table {
    let file = tempfile::NamedTempFile::new().unwrap();
    // As the start script of the pod replaces them.
    let text = configuration
        .replace("@POD_HOST@", "10.1.2.3")
        .replace("@PCI_n3@", "0000:3b:02.0")
        .replace("@PCI_n6@", "0000:3b:03.0");
    fs::write(file.path(), &text).unwrap();
    let output = run(Command::new(binary("adit").unwrap()).arg("check").arg(file.path()), LIMIT);
    assert!(output.status.success(), "{}\n{text}", said(&output.stderr));
    text.parse().unwrap()
}

#[test]
fn chart_passes_the_linter() {
    let Some(tools) = KubernetesTools::find() else { return };
    let output =
        run(Command::new(&tools.helm).args(["lint", "--strict"]).arg(deployed("helm/adit")), LIMIT);
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
}

/// Otherwise the next test shows nothing.
#[test]
fn manifest_with_an_unknown_field_is_refused() {
    let Some(tools) = KubernetesTools::find() else { return };
    let service = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {port: 1}}";
    let refused = tools.python(VALIDATE, service);
    assert!(said(&refused.stderr).contains("port"), "{}", said(&refused.stderr));
}

/// Every replica has a correct configuration, and nothing that another one has.
#[test]
fn replicas_of_the_chart_are_correct_and_disjoint() {
    let Some(tools) = KubernetesTools::find() else { return };
    if binary("adit").is_none() {
        return;
    }
    let xdp = json!({"ports": "af_xdp", "xdp": "auto"}).to_string();
    let ranges = json!({ "teidRangeBits": 4 }).to_string();
    for values in ["{}", &xdp, DPDK, STANDBY, POD_NETWORK, &ranges] {
        for replicas in [1, 3, 10] {
            let manifests = tools.manifests(replicas, values);
            let files = files(&manifests);
            let mut values_seen = std::collections::BTreeSet::new();
            for ordinal in 0..replicas {
                let table = checked(&files[&format!("adit-{ordinal}.toml")]);
                for own in of_replica(&table) {
                    assert!(values_seen.insert(own.clone()), "{own} is there twice: {values}");
                }
            }
            assert!(!files.contains_key(&format!("adit-{replicas}.toml")));
            let set = of_kind(&manifests, "StatefulSet", "adit");
            assert_eq!(set["spec"]["replicas"], replicas);
        }
    }
}

/// The values that no two replicas may share. A TEID counts at its address only, so ranges of them
/// are optional.
fn of_replica(configuration: &toml::Table) -> Vec<String> {
    let list = |key: &str| {
        configuration.get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default()
    };
    let addresses =
        list("interface").into_iter().flat_map(|one| one["addresses"].as_array().unwrap().clone());
    let pools = list("ue_pool").into_iter().map(|one| one["prefix"].clone());
    let name = configuration["store"].get("name").cloned();
    let id = configuration["node"]["id"].clone();
    let own = addresses.chain(pools).chain(name).chain([id]);
    let own = own.map(|value| value.as_str().unwrap().to_owned());
    let range = configuration.get("gtpu").map(|gtpu| {
        assert_eq!(gtpu["teid_range_bits"].as_integer(), Some(4));
        format!("TEID range {}", gtpu["teid_range"])
    });
    own.chain(range).collect()
}

/// Otherwise scaling would restart all pods.
#[test]
fn number_of_replicas_changes_no_pod_of_the_chart() {
    let Some(tools) = KubernetesTools::find() else { return };
    for values in ["{}", STANDBY, POD_NETWORK] {
        let [few, many] = [3, 10].map(|replicas| {
            let manifests = tools.manifests(replicas, values);
            let own = files(&manifests)["adit-2.toml"].clone();
            (of_kind(&manifests, "StatefulSet", "adit")["spec"]["template"].clone(), own)
        });
        assert_eq!(few, many);
    }
}

#[test]
fn chart_refuses_values_that_do_not_go_together_in_one_sentence() {
    let Some(tools) = KubernetesTools::find() else { return };
    let pools = |pools: Value| json!({ "pools": pools }).to_string();
    let cases = [
        (
            pools(json!([{"prefixes": ["10.60.0.0/16", "10.61.0.0/16", "10.60.128.0/17"]}])),
            "pools[0] and pools[0] overlap: 10.60.0.0/16 and 10.60.128.0/17 have addresses in common, so two UEs could get the same \
             one; take other prefixes",
        ),
        (
            pools(
                json!([{"prefix": "10.64.0.0/12", "replicaLength": 16}, {"prefix": "10.0.0.0/8", "replicaLength": 12}]),
            ),
            "pools[0] and pools[1] overlap: 10.64.0.0/12 and 10.0.0.0/8 have addresses in common, so two UEs could get the same \
             one; take other prefixes",
        ),
        (
            pools(json!([{"prefix": "10.64.0.0/15", "replicaLength": 16}])),
            "pools[0]: 10.64.0.0/15 holds 2 prefixes of length 16, and none is left for replica 2: take a shorter prefix or a \
             longer replicaLength",
        ),
        (
            pools(json!([{"prefix": "2001:db8:60::/47", "replicaLength": 48}])),
            "pools[0]: 2001:db8:60::/47 holds 2 prefixes of length 48, and none is left for replica 2: take a shorter prefix or a \
             longer replicaLength",
        ),
        (
            json!({"n4": {"addresses": ["10.0.4.254/24"]}}).to_string(),
            "n4.addresses: \"10.0.4.254/24\" leaves no address on its link for replica 2: take a lower first address or a \
             shorter prefix",
        ),
        (
            json!({"teidRangeBits": 1}).to_string(),
            "teidRangeBits: 1 bits have 2 ranges, and none is left for replica 2: take more bits, or 0",
        ),
        (
            json!({"teidRangeBits": 7}).to_string(),
            "teidRangeBits: 7 bits leave the TEIDs of sessionsMax = 100000 sessions too few: take fewer bits, or 0",
        ),
        (
            json!({"ports": "dpdk"}).to_string(),
            "interfaces.n3.resource is missing: ports: dpdk takes a device of an SR-IOV device plugin, such as intel.com/n3",
        ),
        (
            json!({"standby": {"enabled": true}}).to_string(),
            "standby needs a store that both pods reach: set store.kind to redis",
        ),
    ];
    for (values, expected) in cases {
        let output = tools.helm(3, &values);
        assert!(!output.status.success(), "{values}");
        let told = said(&output.stderr);
        assert!(told.contains(expected), "{told}");
    }
    let told = said(&tools.helm(3, r#"{"replica": 2}"#).stderr);
    assert!(told.contains("replica"), "{told}");
}

/// The container of the pod adit-1: a namespace and the volumes, with the scripts, the program and
/// the capabilities of the chart.
struct Pod {
    process: ChildProcess,
    namespace: TestNamespace,
    dir: TempDir,
    bin: PathBuf,
}

impl Pod {
    /// Starts it, and waits until it is ready.
    fn start(tools: &KubernetesTools, values: &str) -> Self {
        let manifests = tools.manifests(3, values);
        let namespace = TestNamespace::new("chart");
        for device in ["n3", "n4", "n6"] {
            let behind = format!("{device}b");
            namespace.ip(&["link", "add", device, "type", "veth", "peer", "name", &behind]);
            namespace.ip(&["link", "set", &behind, "up"]);
        }
        let dir = tempfile::tempdir().unwrap();
        write_volumes(&manifests, dir.path());
        let adit = binary("adit").unwrap();
        let bin = wrapper(dir.path(), &adit);
        run_script(&namespace, &bin, &dir.path().join("configure.sh"));
        let container = &of_kind(&manifests, "StatefulSet", "adit")["spec"]["template"]["spec"]["containers"]
            [0];
        let capabilities = container["securityContext"]["capabilities"]["add"].as_array().unwrap();
        let names = capabilities.iter().map(|one| one.as_str().unwrap().to_lowercase());
        let bounded = names.fold("-all".to_owned(), |all, one| format!("{all},+{one}"));
        let mut command = namespace.command(Path::new("setpriv"));
        command
            .arg(format!("--bounding-set={bounded}"))
            .args(["--inh-caps=-all", "--no-new-privs"]);
        command.arg(&adit).args(["run", "--config"]).arg(dir.path().join("run/adit.toml"));
        let pod = Self { process: ChildProcess::start(&mut command), namespace, dir, bin };
        let end = Instant::now() + PATIENCE;
        while pod.probe("/readyz") != "200" {
            if Instant::now() > end {
                pod.process.signal(libc::SIGTERM);
                panic!("not ready: {}", said(&pod.process.finish(PATIENCE).stderr));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        pod
    }

    /// The status of a probe, as the kubelet gets it.
    fn probe(&self, path: &str) -> String {
        let mut curl = self.namespace.command(Path::new("curl"));
        curl.args(["-sk", "-o", "/dev/null", "-w", "%{http_code}"]);
        said(&run(curl.arg(format!("https://127.0.0.1:8443{path}")), LIMIT).stdout)
    }

    fn node(&self) -> Value {
        let mut command = Command::new(self.bin.join("adit"));
        serde_json::from_slice(&run(command.args(["show", "node", "--json"]), LIMIT).stdout)
            .unwrap()
    }

    fn stop(self) {
        self.process.signal(libc::SIGTERM);
        let output = self.process.finish(PATIENCE);
        assert!(output.status.success(), "{}", said(&output.stderr));
    }
}

fn run_script(namespace: &TestNamespace, bin: &Path, script: &Path) {
    let mut command = namespace.command(Path::new("/bin/sh"));
    command.arg(script).env("POD_NAME", "adit-1").env("POD_IP", "10.1.2.3");
    command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()));
    let output = run(&mut command, LIMIT);
    assert!(output.status.success(), "{}: {}", script.display(), said(&output.stderr));
}

/// The start script, the probes, and the drain before the end: the SMF of a session that does not
/// end by itself is requested to release the association.
#[test]
fn scripts_of_the_chart_start_and_drain_a_replica() {
    if std::env::var_os(INSIDE).is_some() {
        return smf_that_is_released();
    }
    let Some(tools) = KubernetesTools::find() else { return };
    if !is_root() || binary("adit").is_none() {
        return;
    }
    let pod = Pod::start(&tools, SCRIPTED);
    assert_eq!(pod.probe("/healthz"), "200");
    let child = ChildProcess::start(pod.namespace.this_test(SCRIPTS_TEST).env(INSIDE, "1"));
    let end = Instant::now() + PATIENCE;
    while pod.node()["sessions"] != 1 {
        assert!(Instant::now() < end, "{}", pod.node());
        std::thread::sleep(Duration::from_millis(100));
    }
    let began = Instant::now();
    run_script(&pod.namespace, &pod.bin, &pod.dir.path().join("stop.sh"));
    // The script waits for the session first, and then only until the association is released.
    assert!((2..30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let released = child.finish(PATIENCE);
    assert!(released.status.success(), "{}", said(&released.stdout));
    let node = pod.node();
    assert_eq!((&node["state"], &node["sessions"]), (&"draining".into(), &0.into()));
    assert_eq!((&node["n4"], &node["associations"]), (&"10.0.4.11:8805".into(), &0.into()));
    pod.stop();
}

#[test]
fn replica_with_ports_of_af_xdp_has_the_capabilities_that_it_needs() {
    let Some(tools) = KubernetesTools::find() else { return };
    if !is_root() || binary("adit").is_none() {
        return;
    }
    let mut values: Value = serde_json::from_str(SCRIPTED).unwrap();
    values["ports"] = "af_xdp".into();
    Pod::start(&tools, &values.to_string()).stop();
}

/// Devices of a plugin and the address of a pod are known when it starts.
#[test]
fn script_of_the_chart_fills_in_devices_and_the_address_of_the_pod() {
    let Some(tools) = KubernetesTools::find() else { return };
    let mut values: Value = serde_json::from_str(DPDK).unwrap();
    values["n4"] = json!({"addresses": [], "allow": []});
    let dir = tempfile::tempdir().unwrap();
    write_volumes(&tools.manifests(3, &values.to_string()), dir.path());
    let mut script = Command::new("/bin/sh");
    script.arg(dir.path().join("configure.sh"));
    script.env("POD_NAME", "adit-1").env("POD_IP", "2001:db8::7");
    script.env("PCIDEVICE_INTEL_COM_N3", "0000:3b:02.3,0000:3b:02.4");
    let incomplete = run(&mut script, LIMIT);
    assert!(said(&incomplete.stderr).contains("PCIDEVICE_INTEL_COM_N6"), "{incomplete:?}");
    let output = run(script.env("PCIDEVICE_INTEL_COM_N6", "0000:3b:03.1"), LIMIT);
    assert!(output.status.success(), "{}", said(&output.stderr));
    let text = fs::read_to_string(dir.path().join("run/adit.toml")).unwrap();
    let table = if binary("adit").is_some() { checked(&text) } else { text.parse().unwrap() };
    assert_eq!(table["n4"]["listen"].as_str(), Some("[2001:db8::7]:8805"));
    let ports = table["port"].as_array().unwrap().iter();
    let devices: Vec<_> = ports.map(|port| port["device"].as_str().unwrap()).collect();
    assert_eq!(devices, ["0000:3b:02.3", "0000:3b:03.1"]);
}

/// Establishes a session, and releases the association when adit requests that.
fn smf_that_is_released() {
    let mut smf = TestSmf::talking_to(Ipv4Addr::new(10, 0, 4, 11));
    smf.set_up();
    let answer = smf.answer(|sequence| smf::establish(sequence, &SessionScript::new(1, 1)));
    let Message::SessionEstablishmentResponse(body) = smf::decode(&answer) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    let request = smf.request(MessageType::ASSOCIATION_UPDATE_REQUEST);
    let node_id = NodeId::Ipv4(associated_smf::SMF);
    let accepted = AssociationUpdateResponse::new(node_id, Cause::RequestAccepted);
    smf.send(&smf::encode(None, smf::raw(&request).header.sequence, &accepted));
    let answer = smf.answer(|sequence| smf::release(sequence, associated_smf::SMF));
    let Message::AssociationReleaseResponse(body) = smf::decode(&answer) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
}

/// Writes the volumes of the pod into a folder, whose path replaces those of the pod.
fn write_volumes(manifests: &[Value], dir: &Path) {
    let text = dir.display().to_string();
    let write = |name: &str, content: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    for (name, content) in files(manifests) {
        let own = content
            .replace("/run/adit", &format!("{text}/run"))
            .replace("/var/lib/adit", &text)
            .replace("/etc/adit-api", &text)
            .replace("/etc/adit-tokens", &text)
            .replace("/etc/adit/", &format!("{text}/"));
        write(&name, own.as_bytes());
    }
    let secret = &of_kind(manifests, "Secret", "adit-api")["data"];
    let encoded = dir.join("encoded");
    for name in ["tls.crt", "tls.key", "tokens"] {
        fs::write(&encoded, secret[name].as_str().unwrap()).unwrap();
        let decoded = run(Command::new("base64").args(["-d", "-i"]).arg(&encoded), LIMIT);
        write(name, &decoded.stdout);
    }
}

/// A folder with an `adit` that finds the socket of the replica without an option.
fn wrapper(dir: &Path, adit: &Path) -> PathBuf {
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\nexec {} \"$@\" --socket {}/run/admin.sock\n",
        adit.display(),
        dir.display()
    );
    fs::write(bin.join("adit"), script).unwrap();
    fs::set_permissions(bin.join("adit"), fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

/// The files of `deploy/compose` are correct, and agree on addresses and keys.
#[test]
fn compose_files_are_correct_and_agree() {
    let Some(tools) = KubernetesTools::find() else { return };
    let (Ok(version), Some(_)) =
        (Command::new("docker-compose").arg("version").output(), binary("adit"))
    else {
        return skip("docker-compose is not installed: scripts/install.sh test");
    };
    assert!(version.status.success());
    let file = |name: &str| deployed("compose").join(name);
    let output = run(
        Command::new("docker-compose").arg("-f").arg(file("compose.yaml")).args(["config", "-q"]),
        LIMIT,
    );
    assert!(output.status.success(), "{}", said(&output.stderr));

    let services = &tools.yaml(&file("compose.yaml"))["services"];
    let address = |service: &str, network: &str| {
        services[service]["networks"][network]["ipv4_address"].as_str().unwrap().to_owned()
    };
    let adit = checked(&fs::read_to_string(file("adit.toml")).unwrap());
    assert_eq!(adit["node"]["id"].as_str(), Some(&*address("adit", "n4")));
    let n3 = &adit["interface"].as_array().unwrap()[0]["addresses"].as_array().unwrap()[0];
    assert_eq!(n3.as_str(), Some(&*format!("{}/24", address("adit", "n3"))));
    let smf = &tools.yaml(&file("smf.yaml"))["smf"];
    assert_eq!(smf["pfcp"]["server"][0]["address"], address("smf", "n4"));
    assert_eq!(smf["pfcp"]["client"]["upf"][0]["address"], address("adit", "n4"));
    assert_eq!(smf["gtpu"]["server"][0]["address"], address("smf", "n3"));
    assert_eq!(smf["sbi"]["server"][0]["address"], address("smf", "core"));
    assert_eq!(
        smf["session"][0]["subnet"],
        *adit["ue_pool"].as_array().unwrap()[0]["prefix"].as_str().unwrap()
    );
    let gnb = tools.yaml(&file("gnb.yaml"));
    assert_eq!(
        (&gnb["ngapIp"], &gnb["gtpIp"]),
        (&address("gnb", "core").into(), &address("gnb", "n3").into())
    );
    assert_eq!(gnb["amfConfigs"][0]["address"], address("amf", "core"));
    assert_eq!(
        tools.yaml(&file("amf.yaml"))["amf"]["ngap"]["server"][0]["address"],
        address("amf", "core")
    );
    let ue = tools.yaml(&file("ue.yaml"));
    assert_eq!(ue["gnbSearchList"][0], address("gnb", "core"));
    let subscriber = services["subscriber"]["entrypoint"][2].as_str().unwrap();
    let imsi = ue["supi"].as_str().unwrap().strip_prefix("imsi-").unwrap();
    for key in [imsi, ue["key"].as_str().unwrap(), ue["op"].as_str().unwrap()] {
        assert!(subscriber.contains(key), "{subscriber}");
    }
}

/// Podman's unit starts adit again when the package's unit does: a pair needs both adits to come
/// back.
#[test]
fn container_of_podman_restarts_as_the_service_does() {
    let lines = |path: &str| fs::read_to_string(deployed(path)).unwrap();
    let (container, service) = (lines("compose/adit.container"), lines("systemd/adit.service"));
    let prefixes = ["Restart", "StartLimit", "TimeoutSt"];
    let restarts = |text: &str| {
        let kept = text.lines().filter(|line| prefixes.iter().any(|one| line.starts_with(one)));
        kept.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    assert_eq!(restarts(&container), restarts(&service));
    assert!(restarts(&service).contains("Restart=always"), "{service}");
}
