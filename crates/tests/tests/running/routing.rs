//! Routing daemons beside a running `adit`, with the files of `deploy/routing` as they are printed:
//! a router's routes are followed, and the pools of UEs reach the router while adit serves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, TestNamespace, is_root, run, skip};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
const BIRD: &str = "/usr/sbin/bird";
const FRR: &str = "/usr/lib/frr";

/// The router of the data network: it has a default route and one network, and takes everything.
pub(crate) const ROUTER: &str = r#"
router id 10.0.6.1;
protocol device { scan time 10; }
protocol kernel { ipv4 { export where source = RTS_BGP; }; }
protocol kernel { ipv6 { export where source = RTS_BGP; }; }
protocol static { ipv4; route 198.51.100.0/24 blackhole; route 0.0.0.0/0 blackhole; }
protocol bfd { interface "rtr" { min rx interval 300 ms; min tx interval 300 ms; multiplier 3; }; }
protocol bgp upf {
    local 10.0.6.1 as 65001;
    neighbor 10.0.6.2 as 65010;
    bfd on;
    connect delay time 1;
    error wait time 1, 2;
    ipv4 { import all; export where source = RTS_STATIC; };
    ipv6 { import all; export where source = RTS_STATIC; };
}
"#;

/// A routing daemon beside adit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoutingDaemon {
    Frr,
    Bird,
}

#[test]
fn frr_exports_pools_and_its_routes_are_followed() {
    routes_and_pools(RoutingDaemon::Frr);
}

#[test]
fn bird_exports_pools_and_its_routes_are_followed() {
    routes_and_pools(RoutingDaemon::Bird);
}

fn routes_and_pools(kind: RoutingDaemon) {
    let _alone = crate::alone();
    if !is_root() || !is_installed(kind) {
        return;
    }
    let router = TestNamespace::new("router");
    let namespace = namespace(&router);
    let Some(daemon) = Daemon::start_in(namespace, configuration) else { return };
    let folder = open_folder();
    let _beside = start(kind, daemon.namespace(), folder.path());
    let bird = start_router(&router, folder.path());

    wait("the route of the router", || learned(&daemon).as_deref() == Some("active"));
    wait("the pools at the router", || pools_at(&router) == [true, true]);
    let routes = daemon.show("routes");
    let default = row(&routes, "kernel", "0.0.0.0/0").unwrap();
    assert_eq!(default["state"], "not used", "the file's has the lower metric: {routes:#}");
    assert_eq!(row(&routes, "static", "0.0.0.0/0").unwrap()["state"], "active");
    assert_eq!(row(&routes, "kernel", "198.51.100.0/24").unwrap()["next_hop"], "10.0.6.1");

    drop(bird);
    wait("the end of the dead router's route", || learned(&daemon).is_none());
    let _bird = start_router(&router, folder.path());
    wait("the route of the router again", || learned(&daemon).is_some());

    assert!(daemon.run(&["drain", "on"]).status.success());
    wait("the withdrawal while draining", || pools_at(&router) == [false, false]);
    assert!(daemon.run(&["drain", "off"]).status.success());
    wait("the pools after the drain", || pools_at(&router) == [true, true]);

    // A killed process leaves its announcements to the next one.
    let daemon = daemon.restart_after(|namespace| assert_eq!(announced(namespace), 2));
    wait("the route after a fault", || learned(&daemon).is_some());
    assert_eq!(daemon.show("routes")["announcements"]["announced"], 2);
    let (_output, ended) = {
        daemon.terminate();
        daemon.wait_for_end()
    };
    assert_eq!(announced(ended.namespace()), 0);
    wait("the withdrawal at the end", || pools_at(&router) == [false, false]);
}

/// A namespace for adit with `n6` to a router, and `up0` to nobody. The kernel has adit's addresses
/// on `n6`, too: a routing daemon speaks from them.
fn namespace(router: &TestNamespace) -> TestNamespace {
    let namespace = TestNamespace::new("routing");
    let name = router.name();
    namespace.ip(&["link", "add", "n6", "type", "veth", "peer", "name", "rtr", "netns", name]);
    namespace.ip(&["link", "add", "up0", "type", "veth", "peer", "name", "gnb0"]);
    for device in ["n6", "up0", "gnb0"] {
        namespace.ip(&["link", "set", device, "up"]);
    }
    router.ip(&["link", "set", "rtr", "up"]);
    namespace.ip(&["addr", "add", "10.0.6.2/24", "dev", "n6"]);
    namespace.ip(&["addr", "add", "2001:db8:6::2/64", "dev", "n6", "nodad"]);
    router.ip(&["addr", "add", "10.0.6.1/24", "dev", "rtr"]);
    router.ip(&["addr", "add", "2001:db8:6::1/64", "dev", "rtr", "nodad"]);
    namespace
}

fn configuration(dir: &Path) -> String {
    let devices = ["kernel:packet,iface=up0", "kernel:packet,iface=n6"];
    let ports = daemon::interfaces(devices, daemon::N3);
    let ports =
        ports.replace("role = \"n6\"", "role = \"n6\"\nroutes = \"kernel\"\nannounce = \"pool\"");
    let ports = ports.replace("\"10.0.6.2/24\"", "\"10.0.6.2/24\", \"2001:db8:6::2/64\"");
    let pools = ["10.45.0.0/16", "2001:db8:45::/48"];
    let pools = pools.map(|prefix| format!("[[ue_pool]]\nprefix = \"{prefix}\"\n"));
    daemon::node(100, &daemon::cores()[..1], dir) + &ports + &pools.concat()
}

pub(crate) fn is_installed(kind: RoutingDaemon) -> bool {
    let programs = match kind {
        RoutingDaemon::Frr => [BIRD, "/usr/lib/frr/bgpd"].as_slice(),
        RoutingDaemon::Bird => [BIRD].as_slice(),
    };
    let missing = programs.iter().find(|program| !Path::new(program).exists());
    if let Some(missing) = missing {
        skip(format_args!("{missing} is not installed (apt-get install frr bird2)"));
    }
    missing.is_none()
}

/// A folder that the user of FRR may write to.
pub(crate) fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    folder
}

/// A file of `deploy/routing`.
pub(crate) fn printed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/routing").join(name)
}

/// Starts the routing daemon beside adit.
fn start(kind: RoutingDaemon, namespace: &TestNamespace, folder: &Path) -> Vec<ChildProcess> {
    match kind {
        RoutingDaemon::Bird => vec![start_bird(namespace, &printed("bird.conf"), folder, "upf")],
        RoutingDaemon::Frr => {
            let config = folder.join("frr.conf");
            fs::copy(printed("frr.conf"), &config).unwrap();
            let mut started = Vec::new();
            for program in ["zebra", "bfdd", "bgpd"] {
                let mut command = namespace.command(&Path::new(FRR).join(program));
                command.arg("-f").arg(&config).arg("-i").arg(folder.join(format!("{program}.pid")));
                command.arg("--vty_socket").arg(folder).args(["-P", "0"]);
                command.arg("-z").arg(folder.join("zserv.api"));
                if program == "bfdd" {
                    command.arg("--bfdctl").arg(folder.join("bfdd.sock"));
                }
                started.push(ChildProcess::start(&mut command));
                let socket = folder.join(format!("{program}.vty"));
                adit_tests::process::wait_for_file(&socket, PATIENCE);
            }
            started
        }
    }
}

fn start_router(router: &TestNamespace, folder: &Path) -> ChildProcess {
    let config = folder.join("router.conf");
    fs::write(&config, ROUTER).unwrap();
    start_bird(router, &config, folder, "router")
}

pub(crate) fn start_bird(
    namespace: &TestNamespace,
    config: &Path,
    folder: &Path,
    name: &str,
) -> ChildProcess {
    let mut command = namespace.command(Path::new(BIRD));
    command.arg("-f").arg("-c").arg(config).arg("-s").arg(folder.join(format!("{name}.ctl")));
    ChildProcess::start(&mut command)
}

/// The state of the route that the router announces, if adit has it.
fn learned(daemon: &Daemon) -> Option<String> {
    let routes = daemon.show("routes");
    let row = row(&routes, "kernel", "198.51.100.0/24")?;
    Some(row["state"].as_str().unwrap().to_owned())
}

pub(crate) fn row<'a>(routes: &'a Value, origin: &str, prefix: &str) -> Option<&'a Value> {
    let mut rows = routes["routes"].as_array().unwrap().iter();
    rows.find(|row| row["origin"] == origin && row["prefix"] == prefix)
}

/// Whether the router has the pools of both families.
fn pools_at(router: &TestNamespace) -> [bool; 2] {
    let to = [("-4", "10.45.0.0/16 via 10.0.6.2"), ("-6", "2001:db8:45::/48 via 2001:db8:6::2")];
    to.map(|(family, text)| ip(router, &[family, "route"]).contains(text))
}

/// The routes of adit in the kernel's main table.
fn announced(namespace: &TestNamespace) -> usize {
    let routes = |family| ip(namespace, &[family, "route", "show", "proto", "97"]);
    ["-4", "-6"].map(|family| routes(family).lines().count()).iter().sum()
}

pub(crate) fn ip(namespace: &TestNamespace, arguments: &[&str]) -> String {
    let mut command: Command = namespace.command(Path::new("ip"));
    let output = run(command.args(arguments), PATIENCE);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn wait(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{what}: {} ms", begun.elapsed().as_millis());
}
