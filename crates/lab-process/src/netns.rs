//! Network namespaces: `ip netns` creates them, short-lived threads enter them, drop removes them.
//!
//! A socket or TUN device that is opened inside [`NetNamespace::enter`] stays in that namespace, no
//! matter which thread uses it later. [`NetNamespace::command`] starts programs there.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use adit_types::MacAddr;
use anyhow::{Context, Result, anyhow, bail};
use nix::ifaddrs::getifaddrs;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::stop::environment;

const NETNS_DIR: &str = "/run/netns";

/// A network device.
#[derive(Debug, Clone, Copy)]
pub struct NetDevice {
    /// The kernel's index of the device in its namespace.
    pub index: usize,
    /// Link-layer address of the device.
    pub mac: MacAddr,
}

/// A network namespace of this process. Drop removes it and every device in it.
#[derive(Debug)]
pub struct NetNamespace {
    name: String,
    link: File,
}

impl NetNamespace {
    /// Creates the namespace `name` and brings its loopback device up.
    /// # Errors
    /// `ip netns add` fails: the kernel has no network namespaces, or this process may not create
    /// them.
    pub fn create(name: String) -> Result<Self> {
        ip(&["netns", "add", &name]).map_err(|error| {
            environment(format!(
                "cannot create a network namespace ({error}); run on a machine or container that \
                 may make them (CAP_SYS_ADMIN, CAP_NET_ADMIN)"
            ))
        })?;
        let path = format!("{NETNS_DIR}/{name}");
        let link = match File::open(&path) {
            Ok(link) => link,
            Err(error) => {
                let _ = ip(&["netns", "del", &name]);
                return Err(error).with_context(|| format!("open {path}"));
            }
        };
        let namespace = Self { name, link };
        namespace.ip_batch(&[], "link set lo up\n")?;
        Ok(namespace)
    }

    /// Returns the name that `ip netns` lists.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a new thread inside the namespace, and returns its result.
    ///
    /// # Errors
    /// `work` fails or panics, or the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                self.join()?;
                work()
            });
            worker.join().map_err(|_| anyhow!("a thread in namespace {} panicked", self.name))?
        })
    }

    /// Returns a network device of the namespace.
    ///
    /// # Errors
    /// There is no such Ethernet device.
    pub fn device(&self, name: &str) -> Result<NetDevice> {
        self.enter(|| {
            let mut all = getifaddrs().context("list the network devices")?;
            let found = all.find_map(|entry| {
                let address = entry.address.filter(|_| entry.interface_name == name)?;
                let link = address.as_link_addr()?;
                Some(NetDevice { index: link.ifindex(), mac: MacAddr(link.addr()?) })
            });
            found.with_context(|| format!("no Ethernet device {name} in {}", self.name))
        })
    }

    /// Runs `work` on this thread inside the namespace; the thread returns to its own namespace
    /// afterwards.
    ///
    /// # Errors
    /// `work` fails, or the kernel refuses to change the namespace.
    pub fn visit<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let own = File::open("/proc/thread-self/ns/net").context("open the network namespace")?;
        self.join()?;
        let result = work();
        move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Network))
            .context("return to the network namespace")?;
        result
    }

    /// Moves this thread into the namespace for good.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn join(&self) -> Result<()> {
        move_into_link_name_space(self.link.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("enter network namespace {}", self.name))
    }

    /// Sets features of a device with `ethtool`, such as `["tx", "off"]`.
    ///
    /// # Errors
    /// `ethtool` is not installed, or it refuses.
    pub fn set_features(&self, device: &str, features: &[&str]) -> Result<()> {
        let output = self.command("ethtool").args(["-K", device]).args(features).output();
        let output = output.map_err(|error| {
            environment(format!("cannot run ethtool ({error}): install ethtool"))
        })?;
        if !output.status.success() {
            bail!("ethtool -K {device}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// Makes a command that runs `program` inside the namespace, in its own process group. The
    /// kernel terminates the program when the thread that started it ends, so start it from the
    /// main thread.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={NETNS_DIR}/{}", self.name))
            .args(["setpriv", "--pdeathsig", "TERM", "--"])
            .arg(program.as_ref())
            .stdin(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    /// Runs `ip` commands, one per line, in the namespace.
    ///
    /// # Errors
    /// `ip` refuses a line; the message is the one of `ip`.
    pub fn ip_batch(&self, options: &[&str], lines: &str) -> Result<()> {
        let mut child = Command::new("ip")
            .args(options)
            .args(["-n", &self.name, "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| environment(format!("cannot run ip ({error}): install iproute2")))?;
        if let Some(mut stdin) = child.stdin.take() {
            // If `ip` refuses a line, it closes the pipe; its error output has the reason.
            let _ = stdin.write_all(lines.as_bytes());
        }
        let output = child.wait_with_output().context("wait for ip")?;
        if !output.status.success() {
            bail!("ip in {}: {}", self.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// Sets kernel parameters under `/proc/sys/net` of the namespace. Skips parameters that this
    /// kernel does not have.
    ///
    /// # Errors
    /// A parameter exists and cannot be written.
    pub fn sysctl(&self, settings: &[(&str, &str)]) -> Result<()> {
        self.enter(|| {
            for (key, value) in settings {
                let path = format!("/proc/sys/net/{key}");
                if Path::new(&path).exists() {
                    fs::write(&path, value).with_context(|| format!("write {path}"))?;
                }
            }
            Ok(())
        })
    }
}

impl Drop for NetNamespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "del", &self.name]) {
            eprintln!("adit-lab: cannot remove namespace {}: {error}", self.name);
        }
    }
}

/// Removes the namespaces and directories of labs whose process has ended. Returns the names of
/// those that this call removed; a lab that starts at the same time may remove some, too.
///
/// # Errors
/// A namespace or directory of such a lab cannot be removed.
pub fn remove_stale(prefixes: &[&str], dir: &Path, dir_prefix: &str) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for name in entries(Path::new(NETNS_DIR)) {
        if prefixes.iter().any(|prefix| is_stale(&name, prefix)) && remove_namespace(&name)? {
            removed.push(name);
        }
    }
    for name in entries(dir) {
        if is_stale(&name, dir_prefix) && remove_dir(&dir.join(&name))? {
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Removes the namespace `name`; false if another process has removed it meanwhile.
fn remove_namespace(name: &str) -> Result<bool> {
    match ip(&["netns", "del", name]) {
        Ok(()) => Ok(true),
        Err(_) if !Path::new(NETNS_DIR).join(name).exists() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes `dir` and its contents; false if another process has removed it meanwhile.
fn remove_dir(dir: &Path) -> Result<bool> {
    match fs::remove_dir_all(dir) {
        Ok(()) => Ok(true),
        Err(_) if !dir.exists() => Ok(false),
        Err(error) => Err(error).with_context(|| format!("remove {}", dir.display())),
    }
}

fn entries(dir: &Path) -> Vec<String> {
    let Ok(read) = fs::read_dir(dir) else { return Vec::new() };
    read.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// True for `<prefix><pid>` if there is no process with the id.
fn is_stale(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .and_then(|pid| pid.parse::<u32>().ok())
        .is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(args)
        .output()
        .map_err(|error| environment(format!("cannot run ip ({error}): install iproute2")))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn stale_name_needs_the_prefix_and_a_dead_process() {
        let own = std::process::id();
        assert!(!is_stale(&format!("adit-ran-{own}"), "adit-ran-"));
        // Above the kernel's largest process id (2^22).
        assert!(is_stale("adit-ran-4194999", "adit-ran-"));
        assert!(!is_stale("adit-ran-x", "adit-ran-"));
        assert!(!is_stale("other-4194999", "adit-ran-"));
    }

    #[test]
    fn namespace_exists_until_it_is_dropped() {
        if !rustix::process::geteuid().is_root() {
            adit_testkit::skip("not root");
            return;
        }
        let name = format!("adit-test-{}", std::process::id());
        let namespace = NetNamespace::create(name.clone()).unwrap();
        let path = Path::new(NETNS_DIR).join(&name);
        assert!(path.exists());
        let devices =
            namespace.enter(|| Ok(fs::read_to_string("/proc/thread-self/net/dev")?)).unwrap();
        assert_eq!(devices.lines().count(), 3, "only the loopback device: {devices}");
        drop(namespace);
        assert!(!path.exists());
    }

    #[test]
    fn labs_that_start_together_share_the_removal_of_stale_namespaces() {
        if !rustix::process::geteuid().is_root() {
            adit_testkit::skip("not root");
            return;
        }
        let own = std::process::id();
        let prefix = format!("adit-stale-{own}-");
        let root = std::env::temp_dir().join(format!("adit-stale-dirs-{own}"));
        let stale: Vec<_> = (0..16).map(|nth| format!("{prefix}{}", 4_195_000 + nth)).collect();
        for name in &stale {
            ip(&["netns", "add", name]).unwrap();
            fs::create_dir_all(root.join(name).join("logs")).unwrap();
        }
        let removed: BTreeSet<_> = thread::scope(|scope| {
            let lab = || scope.spawn(|| remove_stale(&[&prefix], &root, &prefix).unwrap());
            let labs: Vec<_> = (0..4).map(|_| lab()).collect();
            labs.into_iter().flat_map(|lab| lab.join().unwrap()).collect()
        });
        let left = entries(Path::new(NETNS_DIR)).into_iter().find(|name| name.starts_with(&prefix));
        assert_eq!((left, entries(&root)), (None, Vec::new()));
        assert_eq!(removed, stale.into_iter().collect());
        fs::remove_dir(root).unwrap();
    }
}
