//! Runs the unit of the package as systemd does, which itself does not run in a root that is no
//! machine.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{ExitStatus, Output};
use std::time::{Duration, Instant};

use adit_tests::process::{ChildProcess, TestNamespace};

use crate::clean_root::CleanRoot;

/// The unit, in the root.
const UNIT: &str = "/lib/systemd/system/adit.service";
const LIMIT: Duration = Duration::from_secs(60);
/// Exists while the stand-in of `systemctl` waits for a restart.
const REQUEST: &str = "/run/restart-requested";

/// Takes the requests of maintainer scripts. `try-restart` does nothing unless there is a service.
const SYSTEMCTL: &str = "#!/bin/sh
echo \"$*\" >> /run/systemctl.log
case \"$*\" in
    *try-restart*)
        [ -e /run/notify ] || exit 0
        touch /run/restart-requested
        while [ -e /run/restart-requested ]; do sleep 0.01; done ;;
esac
";

/// The service in a root, perhaps running.
#[derive(Debug)]
pub(crate) struct Service<'a> {
    root: &'a CleanRoot,
    namespace: &'a TestNamespace,
    notifications: UnixDatagram,
    process: Option<ChildProcess>,
}

/// Gives `root` a `systemctl` of which [`CleanRoot::text`] of `/run/systemctl.log` has the calls.
pub(crate) fn pretend_systemd(root: &CleanRoot) {
    std::fs::create_dir_all(root.path("/run/systemd/system")).unwrap();
    let program = root.path("/usr/bin/systemctl");
    std::fs::write(&program, SYSTEMCTL).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
}

impl<'a> Service<'a> {
    pub(crate) fn new(root: &'a CleanRoot, namespace: &'a TestNamespace) -> Self {
        let notifications = UnixDatagram::bind(root.path("/run/notify")).unwrap();
        notifications.set_read_timeout(Some(LIMIT)).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(root.path("/run/notify"), mode).unwrap();
        Self { root, namespace, notifications, process: None }
    }

    /// Starts the service as its unit says, and waits for what it notifies. Returns the lines up to
    /// the first one that begins with `word`.
    pub(crate) fn start(&mut self, word: &str) -> String {
        let unit = self.root.text(UNIT);
        let value = |key: &str| {
            let lines = unit.lines();
            let value = lines.filter_map(|line| line.strip_prefix(key)).next_back();
            value.unwrap_or_else(|| panic!("{key} is not in the unit")).to_owned()
        };
        let user = value("User=");
        for (folder, at) in [("RuntimeDirectory=", "/run"), ("StateDirectory=", "/var/lib")] {
            let mode = value(&folder.replace('=', "Mode="));
            let folder = format!("{at}/{}", value(folder));
            self.root.said(&["install", "-d", "-m", &mode, "-o", &user, "-g", &user, &folder]);
        }
        let capabilities = value("AmbientCapabilities=").to_lowercase();
        let set = capabilities.split(' ').map(|one| one.replace("cap_", ",+")).collect::<String>();
        let start = value("ExecStart=");
        let mut words = vec!["env".to_owned(), "NOTIFY_SOCKET=/run/notify".to_owned()];
        words.push("RUNTIME_DIRECTORY=/run/adit".to_owned());
        words.extend(["setpriv", "--no-new-privs", "--init-groups"].map(str::to_owned));
        words.extend([format!("--reuid={user}"), format!("--regid={}", value("Group="))]);
        words.extend(["inh", "ambient"].map(|kind| format!("--{kind}-caps=-all{set}")));
        words.push(format!("--bounding-set=-all{set}"));
        words.extend(start.split(' ').map(str::to_owned));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut command = self.root.command(Some(self.namespace), &words);
        self.process = Some(ChildProcess::start(&mut command));
        self.notified(word)
    }

    /// Waits for a notification that has a line beginning with `word`.
    fn notified(&mut self, word: &str) -> String {
        let mut all = String::new();
        loop {
            let mut buffer = [0; 4096];
            let Ok(len) = self.notifications.recv(&mut buffer) else {
                let output = self.process.take().unwrap().finish(Duration::ZERO);
                panic!("no {word}: {all}\n{}", String::from_utf8_lossy(&output.stderr));
            };
            all.push_str(&String::from_utf8_lossy(&buffer[..len]));
            all.push('\n');
            if all.lines().any(|line| line.starts_with(word)) {
                return all;
            }
        }
    }

    /// Ends it as `systemctl stop` does. Returns its output.
    pub(crate) fn stop(&mut self) -> Output {
        let process = self.process.take().unwrap();
        process.signal(libc::SIGTERM);
        process.finish(LIMIT)
    }

    /// Waits for its end. Returns how it ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.process.take().unwrap().finish(LIMIT).status
    }

    /// Runs a command in the root, and restarts the service when that asks for it. Returns how
    /// often, and how long the service was away.
    pub(crate) fn during(&mut self, words: &[&str]) -> Vec<Duration> {
        let request: PathBuf = self.root.path(REQUEST);
        let root = self.root;
        let mut restarts = Vec::new();
        std::thread::scope(|scope| {
            let command = scope.spawn(|| root.said(words));
            while !command.is_finished() {
                if request.exists() {
                    let began = Instant::now();
                    let output = self.stop();
                    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                    self.start("READY=1");
                    restarts.push(began.elapsed());
                    std::fs::remove_file(&request).unwrap();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            command.join().unwrap();
        });
        restarts
    }
}
