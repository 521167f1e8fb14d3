//! The binaries as processes, in network namespaces of their own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use adit_testkit::{skip, skip_on_this_machine};

/// The binary `name` in the folder above the test executable's; `None`, with the reason printed, if
/// it was not built.
///
/// # Panics
/// When it was not built and `CI` is in the environment: a job must not pass because it skips
/// tests.
#[must_use]
pub fn binary(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join(name);
    if path.exists() {
        return Some(path);
    }
    skip(format_args!("{} is not built", path.display()));
    None
}

/// True if a program of the lab ended with status 2: the machine lacks something. Prints the last
/// line, which names the reason.
#[must_use]
pub fn is_refused_by_the_machine(output: &Output) -> bool {
    let refused = output.status.code() == Some(2);
    if refused {
        let progress = String::from_utf8_lossy(&output.stderr);
        skip(progress.trim_end().lines().last().unwrap_or_default());
    }
    refused
}

/// True if this process can create network namespaces, as root can; else prints why the test skips.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip("not root");
        return false;
    }
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    let may = probe.is_ok_and(|output| output.status.success());
    if !may {
        skip("network namespaces cannot be made here");
    }
    may
}

/// Waits until another process has made a file.
///
/// # Panics
/// When it does not appear within `limit`.
pub fn wait_for_file(file: &Path, limit: Duration) {
    let end = Instant::now() + limit;
    while !file.exists() {
        assert!(Instant::now() < end, "{} does not appear", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a command to its end. After `limit` kills it and fails the test.
///
/// # Panics
/// When it cannot be started or does not end.
pub fn run(command: &mut Command, limit: Duration) -> Output {
    ChildProcess::start(command).finish(limit)
}

/// A process with pipes. Dropping it ends the process.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
}

impl ChildProcess {
    /// Starts a command.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap() }
    }

    /// Its process identifier.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads standard error up to a line with `word`.
    ///
    /// # Panics
    /// When the process ends first.
    pub fn wait_for(&mut self, word: &str) {
        let mut reader = BufReader::with_capacity(1, self.child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.lines().last().unwrap_or_default().contains(word) {
            let len = reader.read_line(&mut said).unwrap();
            assert!(len > 0, "ended before {word:?}: {said}");
        }
        self.child.stderr = Some(reader.into_inner());
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).unwrap();
        // SAFETY: kill takes any pid and signal; the child was not waited for, so the pid is its
        // own.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }

    /// True if it has ended.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end and collects its output.
    ///
    /// # Panics
    /// When it does not end within `limit`; kills it first.
    #[must_use]
    pub fn finish(mut self, limit: Duration) -> Output {
        finish(&mut self.child, limit)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The process can have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn finish(child: &mut Child, limit: Duration) -> Output {
    fn drain(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            // A killed process can leave half a line.
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

/// A network namespace. Dropping it removes the namespace.
#[derive(Debug)]
pub struct TestNamespace {
    name: String,
    /// Environment of the commands that run in it.
    environment: Vec<(&'static str, &'static str)>,
}

impl TestNamespace {
    /// A namespace whose loopback interface is up.
    ///
    /// # Panics
    /// Without the right to create one.
    #[must_use]
    pub fn new(purpose: &str) -> Self {
        // Tests of one program may have the same purpose at the same time.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("adit-test-{purpose}-{number}-{}", std::process::id());
        ip(&["netns", "add", &name]);
        let namespace = Self { name, environment: Vec::new() };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    /// Commands in the namespace take the machine for the one that hwloc's synthetic `description`
    /// describes.
    #[must_use]
    pub fn on_machine(mut self, description: &'static str) -> Self {
        self.environment.push(("HWLOC_SYNTHETIC", description));
        self
    }

    /// The name that `ip netns` lists.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in the namespace.
    pub fn ip(&self, args: &[&str]) {
        ip(&[&["-n", &self.name], args].concat());
    }

    /// A command to run in the namespace.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command.envs(self.environment.iter().copied());
        command
    }

    /// A command that runs the test of this name in the namespace, and no other of this program. An
    /// environment variable has to show that it is there.
    ///
    /// # Panics
    /// When the calling test has another name.
    #[must_use]
    pub fn this_test(&self, test: &str) -> Command {
        // A program that finds no test of a name succeeds. Threads of tests have their names.
        let thread = std::thread::current();
        let own = thread.name().filter(|name| *name != "main");
        assert!(own.is_none_or(|own| own == test), "{test} is not the name of {own:?}");
        let mut command = self.command(&std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).stdin(Stdio::null());
        command
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.name]);
    }
}

fn ip(args: &[&str]) {
    let output = run(Command::new("ip").args(args), Duration::from_secs(10));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {told}", args.join(" "));
}
