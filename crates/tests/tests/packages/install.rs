//! The package in a clean root: what its installation makes, keeps and removes.

use std::fs;

use adit_tests::daemon;
use adit_tests::process::TestNamespace;

use crate::clean_root::CleanRoot;
use crate::package::{VERSION, packages, repacked};
use crate::service::{Service, pretend_systemd};

/// Only the operator writes it.
const CONFIGURATION: &str = "/etc/adit/adit.toml";

fn install(root: &CleanRoot, package: &std::path::Path) {
    let path = root.put(package);
    root.said(&["apt-get", "install", "--yes", "--allow-downgrades", "-qq", &path]);
}

#[test]
fn package_makes_its_user_starts_nothing_and_leaves_nothing_when_it_is_purged() {
    let _alone = crate::alone();
    let Some(packages) = packages() else { return };
    let Some(root) = CleanRoot::new(packages) else { return };
    pretend_systemd(&root);
    let (files, users) = (root.files(), root.text("/etc/passwd"));
    install(&root, &packages.adit);
    let shown = root.said(&["stat", "-c", "%a %U:%G %n", "/etc/adit", "/var/lib/adit"]);
    assert_eq!(shown, "750 root:adit /etc/adit\n700 adit:adit /var/lib/adit\n");
    let user = root.said(&["getent", "passwd", "adit"]);
    assert!(user.contains(":/var/lib/adit:") && user.contains("nologin"), "{user}");
    let example = "/usr/share/doc/adit/examples/adit.example.toml";
    let checked = root.said(&["adit", "check", example]);
    assert!(checked.contains("correct"), "{checked}");
    assert!(root.said(&["adit", "--version"]).starts_with("adit "));
    // Without a configuration nothing is enabled and nothing starts.
    assert_eq!(root.text("/run/systemctl.log"), "--system daemon-reload\n");
    let units = root.files();
    assert!(!units.iter().any(|line| line.contains("wants/adit")), "{units:?}");

    fs::write(root.path(CONFIGURATION), "# the operator's\n").unwrap();
    let drop_in = root.path("/etc/systemd/system/adit.service.d/xdp.conf");
    fs::create_dir_all(drop_in.parent().unwrap()).unwrap();
    fs::write(&drop_in, "[Service]\n").unwrap();
    install(&root, &repacked(&packages.adit, "99.3", None));
    assert_eq!(root.text(CONFIGURATION), "# the operator's\n");
    root.said(&["apt-get", "remove", "--yes", "-qq", "adit"]);
    assert_eq!(root.text(CONFIGURATION), "# the operator's\n");
    install(&root, &packages.adit);
    assert_eq!(root.text(CONFIGURATION), "# the operator's\n");

    root.said(&["apt-get", "purge", "--yes", "-qq", "adit"]);
    let (files_after, users_after) = (root.files(), root.text("/etc/passwd"));
    let own = ["./run/systemctl.log"];
    let left =
        files_after.difference(&files).filter(|line| !own.iter().any(|of| line.ends_with(of)));
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
    assert_eq!(files.difference(&files_after).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(users_after, users);
}

/// `systemctl status` has the reason, and systemd starts it again unless the file is refused.
#[test]
fn service_that_cannot_start_says_in_its_status_what_is_wrong() {
    let _alone = crate::alone();
    let Some(packages) = packages() else { return };
    let Some(root) = CleanRoot::new(packages) else { return };
    install(&root, &packages.adit);
    let namespace = TestNamespace::new("status");
    let mut service = Service::new(&root, &namespace);
    let said = service.start("STATUS=");
    assert!(said.contains("STATUS=cannot read /etc/adit/adit.toml: No such file"), "{said}");
    assert_eq!(service.ended().code(), Some(78));

    fs::write(root.path(CONFIGURATION), "[n4]\nlisten = 5\n").unwrap();
    let said = service.start("STATUS=");
    assert!(said.contains("STATUS=/etc/adit/adit.toml: ") && said.contains("n4.listen"), "{said}");
    assert_eq!(service.ended().code(), Some(78));

    // A device that may come later.
    let ports =
        daemon::interfaces(["kernel:packet,iface=up0", "kernel:packet,iface=core0"], daemon::N3);
    let text = daemon::node(256, &daemon::cores()[..1], &root.path("/")) + &ports;
    let socket = root.path("/admin.sock").display().to_string();
    fs::write(root.path(CONFIGURATION), text.replace(&socket, "/run/adit/admin.sock")).unwrap();
    let said = service.start("STATUS=");
    assert!(said.contains("up0"), "{said}");
    assert_eq!(service.ended().code(), Some(1));
    assert!(root.said(&["dpkg-query", "-W", "-f", "${Version}", "adit"]) == VERSION);
}
