//! The binaries as processes, in network namespaces of their own.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The binary `name` beside the test executable's folder, or `None` (told to the reader) when it
/// was not built.
///
/// # Panics
/// When it was not built and the environment says `CI`: a job must not be green by silence.
#[must_use]
pub fn binary(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is not built", path.display());
    println!("skipped: {} is not built", path.display());
    None
}

/// True for root; else says why the test does nothing.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let uid = unsafe { libc::geteuid() };
    if uid != 0 {
        println!("skipped: not root");
    }
    uid == 0
}

/// Runs a command to its end; at most `limit`, then it is killed and the test fails.
///
/// # Panics
/// When it cannot be started or does not end.
pub fn run(command: &mut Command, limit: Duration) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    finish(child.unwrap(), limit)
}

/// Waits for a process started with pipes and collects what it wrote.
///
/// # Panics
/// When it does not end within `limit`; it is killed then.
#[must_use]
pub fn finish(mut child: Child, limit: Duration) -> Output {
    fn drain(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            // What a killed process leaves half-written is read as far as it goes.
            let _ = from.read_to_end(&mut all);
            all
        })
    }
    let stdout = drain(child.stdout.take().unwrap());
    let stderr = drain(child.stderr.take().unwrap());
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
            panic!(
                "did not end within {limit:?}\n{}\n{}",
                String::from_utf8_lossy(&stdout),
                String::from_utf8_lossy(&stderr)
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Sends a signal to a process that was started here.
pub fn signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: kill takes any pid and signal; the child was not waited for, so the pid is its own.
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
}

/// A network namespace that ends with its value.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A namespace whose loopback interface is up.
    ///
    /// # Panics
    /// Without the right to make one.
    #[must_use]
    pub fn new(purpose: &str) -> Self {
        let name = format!("adit-test-{purpose}-{}", std::process::id());
        ip(&["netns", "add", &name]);
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    /// Runs `ip` in the namespace.
    pub fn ip(&self, args: &[&str]) {
        ip(&[&["-n", &self.name], args].concat());
    }

    /// A command that will run in the namespace.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.name]);
    }
}

fn ip(args: &[&str]) {
    let output = run(Command::new("ip").args(args), Duration::from_secs(10));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {told}", args.join(" "));
}
