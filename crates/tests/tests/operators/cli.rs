//! `adit` as an operator sees it: its output, its status, and the files that it leaves behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use adit_tests::process::{ChildProcess, TestNamespace, binary, is_root, run};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

/// A configuration on two veth devices, and the folder of this file and of its socket.
struct CliSetup {
    dir: TempDir,
    text: String,
}

impl CliSetup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let core = first_core();
        let text = format!(
            r#"
[node]
id = "127.0.0.1"
[n4]
listen = "127.0.0.1:8805"
[sessions]
sessions_max = 1000
[datapath]
workers = [{core}]
main_core = {core}
[dpdk]
hugepages = "never"
memory_mib = 64
mempool_mbufs = 4096
rx_descriptors = 256
tx_descriptors = 256
[[port]]
name = "access"
device = "net_af_packet0,iface=n3"
[[port]]
name = "core"
device = "net_af_packet1,iface=n6"
[[interface]]
name = "n3"
role = "n3"
port = "access"
addresses = ["10.0.3.2/24"]
[[interface]]
name = "n6"
role = "n6"
port = "core"
addresses = ["10.0.6.2/24"]
[store]
kind = "none"
[admin]
socket = "{}"
"#,
            dir.path().join("run/admin.sock").display()
        );
        Self { dir, text }
    }

    fn replaced(mut self, from: &str, to: &str) -> Self {
        assert!(self.text.contains(from), "{from}");
        self.text = self.text.replace(from, to);
        self
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("run/admin.sock")
    }

    fn write(&self) -> PathBuf {
        let path = self.dir.path().join("adit.toml");
        fs::write(&path, &self.text).unwrap();
        path
    }
}

/// A CPU core that this process may use.
fn first_core() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first = list.trim().split([',', '-']).next().unwrap();
    first.parse().unwrap()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adit.example.toml")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A refusal: status 1, nothing on standard output, and one sentence with all `words`. Lines of
/// DPDK follow only a sentence that announces them.
#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    assert_refused_with(1, output, words);
}

/// As [`assert_refused`], with another status.
#[track_caller]
fn assert_refused_with(status: i32, output: &Output, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(said.starts_with("adit: "), "{said}");
    let (sentence, rest) = said.split_once('\n').unwrap_or((&said, ""));
    assert!(rest.is_empty() || sentence.ends_with("lines follow"), "one sentence: {said}");
    for word in words {
        assert!(sentence.contains(word), "{word:?} is not in: {sentence}");
    }
}

#[test]
fn check_of_the_example_succeeds_and_prints_what_follows() {
    let Some(adit) = binary("adit") else { return };
    let output = run(Command::new(&adit).arg("check").arg(example()), LIMIT);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for word in [
        "correct",
        "eal_arguments",
        "n4: 10.0.4.2:8805",
        "sessions_max: 100000",
        "capabilities: CAP_NET_ADMIN CAP_NET_RAW\n",
    ] {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    let output = run(Command::new(&adit).args(["check", "--json"]).arg(example()), LIMIT);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["sessions_max"], 100_000);
}

#[test]
fn check_of_a_broken_file_lists_every_mistake() {
    let Some(adit) = binary("adit") else { return };
    let setup = CliSetup::new()
        .replaced("listen = \"127.0.0.1:8805\"", "listen = \"localhost\"")
        .replaced("sessions_max = 1000", "sessions_max = 0\nsession_timeout = 3")
        .replaced("port = \"core\"", "port = \"cor\"")
        .replaced("role = \"n6\"", "role = \"n7\"")
        .replaced("addresses = [\"10.0.3.2/24\"]", "addresses = [\"10.0.3.2\"]")
        .replaced(
            "[datapath]",
            "buffer_pkts_max = 5000\n[gtpu]\necho_interval_ms = 10\nt3 = 3\nn3_requests = 0\n\
             [[ue_pool]]\nprefix = \"10.0.6.0/25\"\n[[application]]\nid = \"video\"\n\
             flow_descriptions = [\"deny out ip from any to any\"]\n[datapath]",
        );
    let path = setup.write();
    let output = run(Command::new(&adit).arg("check").arg(&path), LIMIT);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let mistakes = [
        ("n4.listen", "listen ="),
        ("sessions.sessions_max", "sessions_max ="),
        ("sessions.session_timeout", "session_timeout ="),
        ("sessions.buffer_pkts_max", "buffer_pkts_max ="),
        ("gtpu.echo_interval_ms", "echo_interval_ms ="),
        ("gtpu.t3", "t3 ="),
        ("gtpu.n3_requests", "n3_requests ="),
        ("ue_pool[0].prefix", "prefix ="),
        ("application[0].flow_descriptions", "flow_descriptions ="),
        ("interface[0].addresses", "addresses = [\"10.0.3.2\"]"),
        ("interface[1].port", "port = \"cor\""),
        ("interface[1].role", "role = \"n7\""),
    ];
    for (key, written) in mistakes {
        let line = 1 + setup.text.lines().position(|line| line.starts_with(written)).unwrap();
        let told = said.lines().find(|told| told.contains(key));
        let told = told.unwrap_or_else(|| panic!("{key} is not in: {said}"));
        assert!(told.contains(&format!("line {line}: ")), "line {line} of {key}: {told}");
    }
}

#[test]
fn version_and_help_are_printed() {
    let Some(adit) = binary("adit") else { return };
    let output = run(Command::new(&adit).arg("--version"), LIMIT);
    assert!(output.status.success());
    let version = concat!("adit ", env!("CARGO_PKG_VERSION"), " (revision ");
    let revision = text(&output.stdout).trim().strip_prefix(version).map(str::to_owned);
    assert!(revision.is_some_and(|rest| rest.len() > 1 && rest.ends_with(')')));
    let output = run(Command::new(&adit).arg("--help"), LIMIT);
    for command in ["run", "check", "show", "host"] {
        assert!(text(&output.stdout).contains(command), "{command}");
    }
}

#[test]
fn show_without_a_daemon_says_what_to_do() {
    let Some(adit) = binary("adit") else { return };
    let setup = CliSetup::new();
    let mut show = Command::new(&adit);
    show.args(["show", "counters", "--socket"]).arg(setup.socket());
    assert_refused(&run(&mut show, LIMIT), &[&setup.socket().display().to_string(), "adit run"]);
}

#[test]
fn closed_pipe_ends_the_output_without_a_word() {
    let Some(adit) = binary("adit") else { return };
    let setup = CliSetup::new();
    let mut check = Command::new(&adit);
    check.arg("check").arg(setup.write()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = check.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(141));
}

#[test]
fn run_without_its_file_is_refused() {
    let Some(adit) = binary("adit") else { return };
    let output = run(Command::new(&adit).args(["run", "--config", "/nonexistent/a.toml"]), LIMIT);
    assert_refused_with(78, &output, &["/nonexistent/a.toml", "No such file"]);
}

/// Runs `adit run` in a namespace of its own and returns its output and its process identifier.
fn run_in(namespace: &TestNamespace, adit: &Path, setup: &CliSetup) -> (Output, u32) {
    let child = start(namespace, adit, setup, "error");
    let pid = child.id();
    (child.finish(LIMIT), pid)
}

fn start(namespace: &TestNamespace, adit: &Path, setup: &CliSetup, log: &str) -> ChildProcess {
    let mut command = namespace.command(adit);
    command.args(["run", "--config"]).arg(setup.write()).env("RUST_LOG", log);
    ChildProcess::start(&mut command)
}

fn links(namespace: &TestNamespace) {
    for (device, peer) in [("n3", "gnb"), ("n6", "dn")] {
        namespace.ip(&["link", "add", device, "type", "veth", "peer", "name", peer]);
        namespace.ip(&["link", "set", device, "up"]);
        namespace.ip(&["link", "set", peer, "up"]);
    }
}

/// Checks that neither a socket nor files of DPDK are left.
#[track_caller]
fn assert_nothing_left(setup: &CliSetup, pid: u32) {
    assert!(!setup.socket().exists(), "the admin socket is left");
    let runtime = format!("adit-{pid}");
    for dir in ["/var/run/dpdk", "/run/dpdk", "/dev/hugepages", "/tmp/dpdk"] {
        let Ok(entries) = fs::read_dir(dir) else { continue };
        for name in entries.flatten().map(|entry| entry.file_name().into_string().unwrap()) {
            // Other tests run other processes, whose numbers may begin with the same digits.
            let rest = name.strip_prefix(&runtime);
            let is_own = rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
            assert!(!is_own, "{dir}/{name} is left");
        }
    }
}

#[test]
fn run_with_a_device_that_does_not_exist_is_refused() {
    let (Some(adit), true) = (binary("adit"), is_root()) else { return };
    let namespace = TestNamespace::new("device");
    links(&namespace);
    let setup = CliSetup::new().replaced("net_af_packet1,iface=n6", "net_nonesuch0");
    let (output, pid) = run_in(&namespace, &adit, &setup);
    assert_refused(&output, &["core", "net_nonesuch0"]);
    assert_nothing_left(&setup, pid);
}

#[test]
fn run_with_an_interface_that_does_not_exist_is_refused() {
    let (Some(adit), true) = (binary("adit"), is_root()) else { return };
    let namespace = TestNamespace::new("iface");
    links(&namespace);
    let setup = CliSetup::new().replaced("iface=n6", "iface=n66");
    let (output, pid) = run_in(&namespace, &adit, &setup);
    assert_refused(&output, &["core", "n66"]);
    assert_nothing_left(&setup, pid);
}

#[test]
fn run_without_privileges_is_refused() {
    let (Some(adit), true) = (binary("adit"), is_root()) else { return };
    let namespace = TestNamespace::new("nobody");
    links(&namespace);
    let setup = CliSetup::new();
    let path = setup.write();
    let run_dir = setup.dir.path().join("run");
    fs::create_dir(&run_dir).unwrap();
    for dir in [setup.dir.path(), &run_dir] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    }
    // Other users possibly cannot read the folders above the binary.
    let copy = setup.dir.path().join("adit");
    fs::copy(&adit, &copy).unwrap();
    let mut command = namespace.command(Path::new("setpriv"));
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    command.args(["run", "--config"]).arg(&path).env("RUST_LOG", "error");
    let output = run(&mut command, LIMIT);
    assert_refused(&output, &["root"]);
    assert!(!setup.socket().exists(), "the admin socket is left");
}

#[test]
fn run_with_an_address_that_nobody_has_is_refused() {
    let (Some(adit), true) = (binary("adit"), is_root()) else { return };
    let namespace = TestNamespace::new("addr");
    links(&namespace);
    let setup =
        CliSetup::new().replaced("listen = \"127.0.0.1:8805\"", "listen = \"192.0.2.7:8805\"");
    let (output, pid) = run_in(&namespace, &adit, &setup);
    assert_refused(&output, &["n4.listen", "192.0.2.7:8805"]);
    assert_nothing_left(&setup, pid);
}

#[test]
fn run_twice_is_refused_and_sigterm_ends_cleanly() {
    let (Some(adit), true) = (binary("adit"), is_root()) else { return };
    let namespace = TestNamespace::new("sigterm");
    links(&namespace);
    let setup = CliSetup::new();
    let mut first = start(&namespace, &adit, &setup, "info");
    let pid = first.id();
    first.wait_for("running");

    let mut show = Command::new(&adit);
    show.args(["show", "counters", "--json", "--socket"]).arg(setup.socket());
    let shown = run(&mut show, LIMIT);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let counters: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(counters["identity_holds"], true, "{counters}");

    for topic in ["associations", "sessions", "ports", "neighbours", "paths"] {
        let mut show = Command::new(&adit);
        show.args(["show", topic, "--json", "--socket"]).arg(setup.socket());
        let shown = run(&mut show, LIMIT);
        let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        let rows = document[topic].as_array().unwrap_or_else(|| panic!("{topic}: {document}"));
        let mut show = Command::new(&adit);
        show.args(["show", topic, "--socket"]).arg(setup.socket());
        let said = text(&run(&mut show, LIMIT).stdout);
        let count = format!("{} {topic}", rows.len());
        assert!(said.lines().any(|line| line == count), "{said}");
    }

    let same_socket = CliSetup::new();
    let (own, taken) = (same_socket.socket(), setup.socket());
    let same_socket =
        same_socket.replaced(&own.display().to_string(), &taken.display().to_string());
    let (output, _) = run_in(&namespace, &adit, &same_socket);
    assert_refused(&output, &["another adit", &setup.socket().display().to_string()]);
    let same_port = CliSetup::new();
    let (output, refused) = run_in(&namespace, &adit, &same_port);
    assert_refused(&output, &["n4.listen", "127.0.0.1:8805"]);
    assert_nothing_left(&same_port, refused);
    assert!(setup.socket().exists(), "the refused process took the socket of the running one away");

    first.signal(libc::SIGTERM);
    let output = first.finish(LIMIT);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let last = text(&output.stdout);
    for word in ["received pkts", "originated pkts", "identity holds"] {
        assert!(last.contains(word), "{word:?} is not in: {last}");
    }
    assert_nothing_left(&setup, pid);
}

/// Who builds without `make` needs the packages that `make` installs.
#[test]
fn document_of_installation_names_the_packages_of_the_build() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = fs::read_to_string(root.join("scripts/install.sh")).unwrap();
    let document = fs::read_to_string(root.join("docs/install.md")).unwrap();
    let packages = script.lines().find_map(|line| line.strip_prefix("build=\"")).unwrap();
    let packages = packages.strip_suffix('"').unwrap();
    assert!(packages.contains("clang libelf-dev zlib1g-dev"), "{packages}");
    assert!(document.contains(&format!("apt-get install {packages}\n")), "{packages}");
}
