//! `adit init`: what it writes passes `adit check` and forwards; wrong input changes nothing.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use adit_pfcp::Message;
use adit_testkit::packet::PacketBuilder;
use adit_tests::daemon::Daemon;
use adit_tests::process::{TestNamespace, binary, is_root, run, skip_on_this_machine};
use serde_json::Value;
use tempfile::TempDir;

use crate::associated_smf::TestSmf;
use crate::smf::{self, SessionScript};
use crate::terminal::{pseudo_terminal, screen, wait_until};

/// Environment variable of the run in the namespace around adit.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const PATIENCE: Duration = Duration::from_secs(30);

const SMF: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 1);
const N4: &str = "10.0.4.2";

/// A namespace for adit with the devices n3, n4 and n6, and one around it: the SMF 10.0.4.1, the
/// gNB of [`smf`], and a host 10.0.6.1 with a route to UEs.
struct InitSetup {
    world: TestNamespace,
    upf: TestNamespace,
    adit: PathBuf,
    dir: TempDir,
}

impl InitSetup {
    fn new(purpose: &str) -> Option<Self> {
        let adit = binary("adit")?;
        if !is_root() {
            return None;
        }
        let world = TestNamespace::new(&format!("{purpose}-world"));
        let upf = TestNamespace::new(&format!("{purpose}-upf"));
        let gnb = smf::GNB.to_string() + "/24";
        for (device, address) in
            [("n3", gnb.as_str()), ("n4", "10.0.4.1/24"), ("n6", "10.0.6.1/24")]
        {
            let peer = ["peer", "name", device, "netns", world.name()];
            upf.ip(&[&["link", "add", device, "type", "veth"][..], &peer].concat());
            world.ip(&["address", "add", address, "dev", device]);
            [&upf, &world].iter().for_each(|end| end.ip(&["link", "set", device, "up"]));
        }
        upf.ip(&["address", "add", &format!("{N4}/24"), "dev", "n4"]);
        world.ip(&["route", "add", "10.45.0.0/16", "via", "10.0.6.2"]);
        Some(Self { world, upf, adit, dir: tempfile::tempdir().unwrap() })
    }

    /// The kernel has the addresses of adit, and forwards.
    fn with_addresses(self) -> Self {
        self.upf.ip(&["address", "add", &format!("{}/24", smf::N3), "dev", "n3"]);
        self.upf.ip(&["address", "add", "10.0.6.2/24", "dev", "n6"]);
        let forward = ["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"];
        let output = run(self.upf.command("sh".as_ref()).args(forward), PATIENCE);
        assert!(output.status.success(), "{output:?}");
        self
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("adit.toml")
    }

    fn adit(&self, line: &str) -> Output {
        let mut command = self.upf.command(&self.adit);
        run(command.args(line.split_whitespace()), PATIENCE)
    }

    fn init(&self, line: &str) -> Output {
        self.adit(&format!("init --output {} {line}", self.file().display()))
    }

    /// The files in its folder.
    fn written(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// Runs `adit init` and `adit run`, and a ping of a UE through a session.
#[track_caller]
fn forwards(setup: InitSetup, test: &str, options: &str, devices: [&str; 2]) {
    let output = setup.init(&format!("--yes --json {options}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let chosen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |side: &str| chosen[side]["device"].as_str().unwrap().to_owned();
    assert_eq!([of("n3"), of("n6")], devices.map(str::to_owned), "{chosen}");
    let todo = chosen["host"].as_array().unwrap().iter();
    let todo: Vec<_> = todo.filter(|finding| !finding["remedy"].is_null()).collect();
    assert!(todo.is_empty(), "{todo:?}");
    let check = setup.adit(&format!("check {}", setup.file().display()));
    assert!(check.status.success(), "{}", text(&check.stderr));
    assert!(
        text(&check.stdout).contains("on this host\n  hugepages: ok"),
        "{}",
        text(&check.stdout)
    );
    let written = fs::read_to_string(setup.file()).unwrap();
    let InitSetup { world, upf, dir, .. } = setup;
    let Some(daemon) = Daemon::start_in(upf, |dir| {
        let socket = dir.join("admin.sock");
        let (socket, store) = (socket.display(), "[store]\nkind = \"none\"");
        format!("{written}\n{store}\n[admin]\nsocket = \"{socket}\"\n")
    }) else {
        return;
    };
    let ping = run(world.this_test(test).env(INSIDE, ""), 2 * PATIENCE);
    let drops = daemon.show("counters")["drops"].to_string();
    assert!(ping.status.success(), "{}\n{}\n{drops}", text(&ping.stdout), text(&ping.stderr));
    assert!(daemon.stop().status.success());
    drop(dir);
}

/// Establishes a session, and sends echo requests of its UE until one is answered.
fn ping() {
    let mut core = TestSmf::between(SMF, N4.parse().unwrap());
    core.set_up();
    let script = SessionScript::new(1, 5);
    let bytes = core.answer(|sequence| smf::establish(sequence, &script));
    let Message::SessionEstablishmentResponse(body) = smf::decode(&bytes) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    let created = body.created_pdrs.iter().next().unwrap();
    let Some(adit_pfcp::ie::FTeid::Given { teid, .. }) = created.local_f_teids.iter().next() else {
        panic!("{created:?}")
    };
    let gnb = UdpSocket::bind((smf::GNB, 2152)).unwrap();
    gnb.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mark = b"an echo request of a UE";
    let end = Instant::now() + PATIENCE;
    for number in 1.. {
        assert!(Instant::now() < end, "no ping is answered");
        let request = PacketBuilder::new()
            .gtpu(teid.0)
            .psc_ul(9)
            .ipv4(script.ue, "10.0.6.1")
            .icmp_echo(1, number)
            .payload(mark)
            .build();
        gnb.send_to(&request, (smf::N3, 2152)).unwrap();
        let mut answer = [0; 2048];
        let Ok(len) = gnb.recv(&mut answer) else { continue };
        if answer[..len].ends_with(mark) {
            assert_eq!(answer[4..8], script.gnb_teid.0.to_be_bytes());
            return;
        }
    }
}

#[test]
fn addresses_of_the_kernel_become_ports_of_the_kernel_that_forward() {
    if std::env::var_os(INSIDE).is_some() {
        return ping();
    }
    let Some(setup) = InitSetup::new("init-kernel") else { return };
    let options = format!("--n4 {N4} --n3 n3 --n6 10.0.6.2 --core other");
    let test = "init::addresses_of_the_kernel_become_ports_of_the_kernel_that_forward";
    let devices = ["kernel:udp", "kernel:tun,name=adit0"];
    forwards(setup.with_addresses(), test, &options, devices);
}

fn on_devices() -> String {
    format!("--n4 n4 --n3 n3={}/24 --n6 n6=10.0.6.2/24 --core other", smf::N3)
}

#[test]
fn devices_without_addresses_become_packet_sockets_that_forward() {
    if std::env::var_os(INSIDE).is_some() {
        return ping();
    }
    let Some(setup) = InitSetup::new("init-packet") else { return };
    let test = "init::devices_without_addresses_become_packet_sockets_that_forward";
    let devices = ["kernel:packet,iface=n3", "kernel:packet,iface=n6"];
    forwards(setup, test, &on_devices(), devices);
}

#[test]
fn devices_become_xdp_ports_that_forward() {
    if std::env::var_os(INSIDE).is_some() {
        return ping();
    }
    let Some(setup) = InitSetup::new("init-xdp") else { return };
    for device in ["n3", "n6"] {
        // Else the kernel drops frames that a program sends to it.
        let mut ethtool = setup.world.command(Path::new("ethtool"));
        if !run(ethtool.args(["-K", device, "gro", "on"]), PATIENCE).status.success() {
            return skip_on_this_machine("no ethtool");
        }
    }
    let test = "init::devices_become_xdp_ports_that_forward";
    let devices = ["net_af_xdp0,iface=n3", "net_af_xdp1,iface=n6"];
    forwards(setup, test, &format!("--io xdp {}", on_devices()), devices);
}

#[test]
fn file_of_each_core_passes_the_check_beside_the_part_of_its_smf() {
    let Some(setup) = InitSetup::new("init-cores") else { return };
    for (core, files) in [
        ("open5gs", &["open5gs-smf.yaml"][..]),
        ("free5gc", &["free5gc-smfcfg.yaml"]),
        ("sd-core", &["sd-core-device-group.json", "sd-core-network-slice.json"]),
        ("oai", &["oai-smf.yaml"]),
    ] {
        let options = on_devices().replace("other", core);
        let output = setup.init(&format!("--yes --smf {SMF} {options}"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let check = setup.adit(&format!("check {}", setup.file().display()));
        assert!(check.status.success(), "{core}: {}", text(&check.stderr));
        assert_eq!(setup.written(), [&["adit.toml"], files].concat());
        let read = |file: &str| fs::read_to_string(setup.dir.path().join(file)).unwrap();
        assert!(read(files[files.len() - 1]).contains(N4), "{core}");
        for file in setup.written() {
            fs::remove_file(setup.dir.path().join(file)).unwrap();
        }
    }
}

#[test]
fn wrong_input_is_refused_in_one_sentence_and_nothing_is_written() {
    let Some(setup) = InitSetup::new("init-wrong") else { return };
    setup.upf.ip(&["link", "add", "br0", "type", "bridge"]);
    setup.upf.ip(&["link", "set", "n6", "master", "br0"]);
    let good = on_devices();
    for (options, words) in [
        (good.replace("n3=", "n9="), ["no network device n9", "this host has"]),
        (good.clone(), ["n6 is in use", "bridge"]),
        (good.replace("--n4 n4", "--n4 10.0.9.9"), ["does not have 10.0.9.9", "ip address add"]),
        (good.replace("--n3", "--io dpdk --n3"), ["DPDK cannot share n3", "dpdk-devbind.py"]),
        (good.replace("--n6 n6=", "--n6 n3="), ["N3 and N6", "two devices"]),
    ] {
        let output = setup.init(&format!("--yes {options}"));
        assert_refused(&output, &words);
    }
    setup.upf.ip(&["link", "set", "n6", "nomaster"]);
    let pools = "--ue-pool 10.45.0.0/16 --ue-pool ims=10.45.1.0/24";
    assert_refused(&setup.init(&format!("--yes {good} {pools}")), &["10.45.1.0/24", "overlap"]);
    let output = setup.init(&format!("--yes {}", good.replace("other", "oai")));
    assert_refused(&output, &["--smf", "give these options"]);
    let output = setup.init("--n4 n4");
    assert_refused(&output, &["no terminal", "--core, --n3, --n6, --ue-pool", "--yes"]);
    assert!(setup.written().is_empty());
    let dry = setup.init(&format!("--yes --dry-run {good}"));
    assert!(text(&dry.stdout).contains("kernel:packet,iface=n3"), "{}", text(&dry.stderr));
    assert!(setup.written().is_empty());
    fs::write(setup.file(), "mine").unwrap();
    assert_refused(&setup.init(&format!("--yes {good}")), &["exists", "--force"]);
    assert_eq!(fs::read_to_string(setup.file()).unwrap(), "mine");
    assert!(setup.init(&format!("--yes --force {good}")).status.success());
    assert!(fs::read_to_string(setup.file()).unwrap().contains("[n4]"));
}

#[test]
fn user_without_rights_is_refused_before_any_question() {
    let Some(setup) = InitSetup::new("init-nobody") else { return };
    let folder = setup.dir.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.join("adit");
    fs::copy(&setup.adit, &copy).unwrap();
    let mut command = setup.upf.command(Path::new("setpriv"));
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    command.args(["init", "--output"]).arg(setup.file());
    assert_refused(&run(&mut command, PATIENCE), &["may not write", "root", "--output"]);
    assert_eq!(setup.written(), ["adit"]);
}

/// `adit init` with questions at a pseudo terminal of its own.
struct Dialogue {
    adit: Child,
    keys: File,
    seen: Arc<Mutex<String>>,
}

impl Dialogue {
    fn start(setup: &InitSetup, file: &Path, options: &str) -> Self {
        let (near, far) = pseudo_terminal();
        let seen = screen(&near);
        let mut command = setup.upf.command(Path::new("setsid"));
        command.arg("--ctty").arg(&setup.adit).arg("init").arg("--output").arg(file);
        command.args(options.split_whitespace());
        command.stdin(far.try_clone().unwrap()).stdout(far.try_clone().unwrap()).stderr(far);
        Self { adit: command.spawn().unwrap(), keys: File::from(near), seen }
    }

    /// Types an answer to a question, or a key.
    #[track_caller]
    fn answer(&mut self, question: &str, keys: &str) {
        wait_until(question, &self.seen, || self.seen.lock().unwrap().ends_with(": "));
        assert!(self.seen.lock().unwrap().lines().last().unwrap().contains(question));
        self.seen.lock().unwrap().push('\n');
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Its status, and the last line on the terminal.
    #[track_caller]
    fn end(mut self) -> (ExitStatus, String) {
        wait_until("its end", &self.seen, || self.adit.try_wait().unwrap().is_some());
        let status = self.adit.wait().unwrap();
        drop(self.keys);
        wait_until("all output", &self.seen, || Arc::strong_count(&self.seen) == 1);
        let seen = self.seen.lock().unwrap();
        (status, seen.trim_end().lines().last().unwrap().to_owned())
    }
}

#[test]
fn dialogue_writes_at_its_end_and_nothing_if_it_is_interrupted() {
    let Some(setup) = InitSetup::new("init-dialogue") else { return };
    let setup = setup.with_addresses();
    let file = setup.dir.path().join("made/by/init/adit.toml");
    let interrupted = "adit: interrupted; nothing was written";
    for (key, status, line) in [
        ("\u{3}", 130, interrupted),
        ("\u{4}", 1, "adit: the answers ended before --n3; nothing was written"),
    ] {
        let mut dialogue = Dialogue::start(&setup, &file, "--core other");
        dialogue.answer("N4", "nobody\n");
        dialogue.answer("N4", &format!("{N4}\n"));
        dialogue.answer("N3", key);
        let (ended, last) = dialogue.end();
        assert_eq!((ended.code(), last.as_str()), (Some(status), line));
        assert!(setup.written().is_empty(), "{:?}", setup.written());
    }
    for (signal, status) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let mut dialogue = Dialogue::start(&setup, &file, "");
        dialogue.answer("Core", "");
        // setsid and ip become adit.
        let pid = i32::try_from(dialogue.adit.id()).unwrap();
        // SAFETY: the child was not waited for, so the pid is its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        let (ended, last) = dialogue.end();
        assert_eq!((ended.code(), last.as_str()), (Some(status), interrupted));
        assert!(setup.written().is_empty());
    }

    let mut dialogue = Dialogue::start(&setup, &file, "--n6 10.0.6.2");
    for question in ["Core", "N4", "N3", "UE addresses"] {
        dialogue.answer(question, "\n");
    }
    let (ended, last) = dialogue.end();
    assert!(ended.success() && last.contains("adit run"), "{ended}: {last}");
    let check = setup.adit(&format!("check {}", file.display()));
    assert!(check.status.success(), "{}", text(&check.stderr));
}

#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty() && said.trim_end().lines().count() == 1, "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}
