//! The image, unpacked as a container's runtime does.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_tests::daemon;
use adit_tests::process::{
    ChildProcess, TestNamespace, binary, is_refused_by_the_machine, is_root, run, skip,
};
use tempfile::TempDir;

use crate::clean_root::ENTER;
use crate::package::{VERSION, has, packages, root, said};

const LIMIT: Duration = Duration::from_secs(180);
/// The user of the image.
const USER: &str = "65532";

/// Dropping it removes the folder.
struct UnpackedImage {
    folder: TempDir,
    /// The configuration of the image.
    config: serde_json::Value,
}

impl UnpackedImage {
    /// `None`, with the reason printed, without what makes it.
    fn new() -> Option<Self> {
        let packages =
            packages().filter(|_| is_root() && has(&["mmdebstrap", "umoci", "setcap"]))?;
        let folder = tempfile::tempdir().unwrap();
        let layout = folder.path().join("layout");
        let mut make = Command::new(root().join("scripts/image.sh"));
        make.arg(&layout).arg(&packages.adit).env("ADIT_REVISION", "of-a-test");
        let output = run(&mut make, LIMIT);
        let told = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && told.contains("E: ") {
            skip(format_args!("mmdebstrap: {}", told.lines().last().unwrap_or_default()));
            return None;
        }
        assert!(output.status.success(), "{told}");
        let name = String::from_utf8(output.stdout).unwrap();
        let mut unpack = Command::new("umoci");
        said(unpack.args(["unpack", "--image", name.trim()]).arg(folder.path().join("bundle")));
        let blobs = std::fs::read_dir(layout.join("blobs/sha256")).unwrap();
        let documents = blobs.filter_map(|blob| {
            serde_json::from_slice(&std::fs::read(blob.unwrap().path()).unwrap()).ok()
        });
        let is_config = |document: &serde_json::Value| document["rootfs"].is_object();
        let config = documents.into_iter().find(is_config).unwrap();
        Some(Self { folder, config })
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("bundle/rootfs")
    }

    /// The program of the image in a container with `capabilities`, as the image's user.
    fn run_as_user(
        &self,
        namespace: &TestNamespace,
        capabilities: &str,
        words: &[&str],
    ) -> Command {
        // chroot itself needs the last three.
        let bound = format!("--bounding-set=-all{capabilities},+sys_chroot,+setuid,+setgid");
        let enter = format!(
            "{ENTER} exec setpriv {bound} chroot --userspec={USER}:{USER} \"$0\" /usr/bin/adit \"$@\""
        );
        let mut command = namespace.command(Path::new("unshare"));
        command.args(["--mount", "sh", "-c", &enter]).arg(self.root()).args(words);
        command
    }
}

#[test]
fn image_runs_adit_as_its_own_user_and_in_the_demo() {
    let _alone = crate::alone();
    let Some(image) = UnpackedImage::new() else { return };
    has_labels_and_no_shell(&image);
    runs_with_the_capabilities_of_its_container(&image);
    passes_the_demo(&image);
}

fn has_labels_and_no_shell(image: &UnpackedImage) {
    let config = &image.config["config"];
    assert_eq!(config["User"], format!("{USER}:{USER}"));
    let labels = &config["Labels"];
    assert_eq!(labels["org.opencontainers.image.version"], VERSION);
    assert_eq!(labels["org.opencontainers.image.revision"], "of-a-test");
    for absent in ["bin/sh", "usr/bin/perl", "usr/bin/apt", "etc/resolv.conf"] {
        assert!(!image.root().join(absent).exists(), "{absent}");
    }
    let status = std::fs::read_to_string(image.root().join("var/lib/dpkg/status")).unwrap();
    assert!(status.contains("Package: libc6\nStatus: install ok installed\n"), "{status}");
}

fn runs_with_the_capabilities_of_its_container(image: &UnpackedImage) {
    let namespace = daemon::veth_namespace("image");
    let ports =
        daemon::interfaces(["kernel:packet,iface=up0", "kernel:packet,iface=core0"], daemon::N3);
    let text = daemon::node(256, &daemon::cores()[..1], Path::new("/run/adit"))
        .replace("kind = \"none\"", "kind = \"journal\"")
        + &ports;
    std::fs::write(image.root().join("etc/adit/adit.toml"), text).unwrap();
    let start = ["run", "--config", "/etc/adit/adit.toml"];
    let output = run(&mut image.run_as_user(&namespace, "", &start), LIMIT);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("CAP_NET_RAW"), "{told}");

    let granted = ",+net_admin,+net_raw";
    let mut command = image.run_as_user(&namespace, granted, &start);
    let mut adit = ChildProcess::start(&mut command);
    adit.wait_for("running");
    let mut show = image.run_as_user(&namespace, "", &["show", "health", "--json"]);
    let health: serde_json::Value = serde_json::from_str(&said(&mut show)).unwrap();
    assert_eq!(health["ready"], true, "{health}");
    adit.signal(libc::SIGTERM);
    assert!(adit.finish(LIMIT).status.success());
    assert!(image.root().join("var/lib/adit/journal").is_dir());
}

/// With another root than that of the lab.
fn passes_the_demo(image: &UnpackedImage) {
    let Some(lab) = binary("adit-lab") else { return };
    let wrapper = image.folder.path().join("adit");
    let enter =
        format!("{ENTER} mount --rbind /run \"$0/run\" && exec chroot \"$0\" /usr/bin/adit \"$@\"");
    let script = format!(
        "#!/bin/sh\nexec unshare --mount sh -c '{enter}' {} \"$@\"\n",
        image.root().display()
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).unwrap();
    let mut demo = Command::new(lab);
    demo.args(["demo", "--ues", "1", "--duration", "1", "--io", "af-packet", "--json", "--adit"]);
    let output = run(demo.arg(&wrapper), LIMIT);
    if is_refused_by_the_machine(&output) {
        return;
    }
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
}
