//! Child processes that end with their owner, and programs that run to completion.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::stop::{POLL, Stop, environment};

/// Time between SIGTERM and SIGKILL.
const TERM_WAIT: Duration = Duration::from_secs(3);

/// A running child in its own process group. Drop ends the whole group: SIGTERM first, SIGKILL
/// after three seconds.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` with its output in the files `stdout` and `stderr`, which may be the same
    /// file.
    ///
    /// # Errors
    /// The files cannot be created, or the program cannot be started.
    pub fn start(name: &str, mut command: Command, stdout: &Path, stderr: &Path) -> Result<Self> {
        let out = File::create(stdout).with_context(|| format!("create {}", stdout.display()))?;
        let err = if stdout == stderr {
            out.try_clone().context("duplicate a log file")?
        } else {
            File::create(stderr).with_context(|| format!("create {}", stderr.display()))?
        };
        let child = command
            .process_group(0)
            .stdout(Stdio::from(out))
            .stderr(Stdio::from(err))
            .spawn()
            .map_err(|error| environment(format!("cannot start {name}: {error}")))?;
        Ok(Self { name: name.to_owned(), child, ended: None })
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the child has ended.
    ///
    /// # Errors
    /// The system call fails.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended =
                self.child.try_wait().with_context(|| format!("wait for {}", self.name))?;
        }
        Ok(self.ended)
    }

    /// Ends the child with SIGTERM, or with SIGKILL after three seconds, and returns its exit
    /// status.
    ///
    /// # Errors
    /// The wait for the child fails.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM);
        self.resume();
        let end = Instant::now() + TERM_WAIT;
        loop {
            if let Some(status) = self.poll()? {
                return Ok(status);
            }
            if Instant::now() >= end {
                self.signal(Signal::KILL);
                let status = self.child.wait().context("wait for a killed child")?;
                self.ended = Some(status);
                return Ok(status);
            }
            thread::sleep(POLL);
        }
    }

    /// Ends the child with SIGKILL, without any chance to clean up.
    ///
    /// # Errors
    /// The wait for the child fails.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL);
        self.ended = Some(self.child.wait().context("wait for a killed child")?);
        Ok(())
    }

    /// Pauses the process group until [`Self::resume`].
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the process group.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // After the child has ended, its id may belong to another process.
        if self.ended.is_none() {
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process_group(pid, signal));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.poll(), Ok(Some(_))) {
            return;
        }
        if let Err(error) = self.terminate() {
            eprintln!("adit-lab: {} may still run: {error}", self.name);
        }
    }
}

/// The result of a program that has ended.
#[derive(Debug)]
pub struct ProgramOutput {
    /// True if the exit status was zero.
    pub success: bool,
    /// The standard output.
    pub stdout: String,
    /// The last line of standard error or, if that is empty, the exit status.
    pub error_line: String,
}

/// A program that should end by itself, within a timeout.
#[derive(Debug)]
pub struct TimedProgram {
    process: Process,
    stdout: std::path::PathBuf,
    stderr: std::path::PathBuf,
    end: Instant,
}

impl TimedProgram {
    /// Starts `command`, with its output in files in `dir` that are named after `name`.
    ///
    /// # Errors
    /// See [`Process::start`].
    pub fn start(dir: &Path, name: &str, command: Command, timeout: Duration) -> Result<Self> {
        let stdout = dir.join(format!("{name}.out"));
        let stderr = dir.join(format!("{name}.err"));
        let process = Process::start(name, command, &stdout, &stderr)?;
        Ok(Self { process, stdout, stderr, end: Instant::now() + timeout })
    }

    /// Waits until the program ends.
    ///
    /// # Errors
    /// `stop` was raised, or the program still runs after its timeout.
    pub fn wait(mut self, stop: &Stop) -> Result<ProgramOutput> {
        let status = loop {
            stop.check()?;
            if let Some(status) = self.process.poll()? {
                break status;
            }
            if Instant::now() >= self.end {
                bail!("{} did not end in time", self.process.name);
            }
            thread::sleep(POLL);
        };
        let read = |path: &Path| fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned());
        let stderr = read(&self.stderr).context("read a program's errors")?;
        let error_line = stderr.trim().lines().next_back().map_or_else(
            || match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            },
            str::to_owned,
        );
        let stdout = read(&self.stdout).context("read a program's output")?;
        Ok(ProgramOutput { success: status.success(), stdout, error_line })
    }
}

/// Makes a command that runs `program` and that the kernel sends `signal` (`TERM`, `KILL` …) when
/// the thread that started it ends for any reason. So start it from the main thread. If `setpriv`
/// of util-linux is not installed, it is a plain command.
#[must_use]
pub fn owned_command(program: impl AsRef<OsStr>, signal: &str) -> Command {
    if !is_installed("setpriv") {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal, "--"]).arg(program);
    command
}

/// True if `program` is on the search path, including `/usr/sbin` and `/sbin`.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("adit-lab-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn program_reports_output_and_error_line() {
        let dir = dir("output");
        let mut command = Command::new("sh");
        command.args(["-c", "echo said; echo wrong >&2; exit 3"]);
        let program = TimedProgram::start(&dir, "sh", command, Duration::from_secs(5)).unwrap();
        let output = program.wait(&Stop::default()).unwrap();
        assert!(!output.success);
        assert_eq!((output.stdout.as_str(), output.error_line.as_str()), ("said\n", "wrong"));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn process_ends_with_its_group_when_dropped() {
        let dir = dir("group");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let out = dir.join("out");
        let process = Process::start("sh", command, &out, &out).unwrap();
        let pid = loop {
            let text = fs::read_to_string(&out).unwrap();
            if let Some(line) = text.lines().next() {
                break line.to_owned();
            }
            thread::sleep(POLL);
        };
        drop(process);
        let gone = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
            // Init may not have reaped the zombie yet.
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        let end = Instant::now() + Duration::from_secs(2);
        while !gone() && Instant::now() < end {
            thread::sleep(POLL);
        }
        assert!(gone());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn owned_program_ends_with_the_process_that_started_it_even_when_that_is_killed() {
        if !is_installed("setpriv") {
            return;
        }
        let dir = dir("owned");
        // The shell starts `sleep` by the command of `owned_command`, and so owns it.
        let sleep = owned_command("sleep", "KILL");
        let words = std::iter::once(sleep.get_program()).chain(sleep.get_args());
        let line: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{} 1000 & echo $!; wait", line.join(" "))]);
        let out = dir.join("out");
        let mut shell = shell.stdout(File::create(&out).unwrap()).spawn().unwrap();
        let state = |pid: &str| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let (name, rest) = stat.rsplit_once(") ").unwrap_or_default();
            (name.ends_with("(sleep"), rest.starts_with('Z') || rest.is_empty())
        };
        let end = Instant::now() + Duration::from_secs(10);
        let pid = loop {
            let text = fs::read_to_string(&out).unwrap();
            let pid = text.lines().next().unwrap_or_default().to_owned();
            if state(&pid).0 {
                break pid;
            }
            assert!(Instant::now() < end, "it did not start");
            thread::sleep(POLL);
        };
        shell.kill().unwrap();
        shell.wait().unwrap();
        while !state(&pid).1 {
            assert!(Instant::now() < end, "it outlived its owner");
            thread::sleep(POLL);
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn program_past_its_time_is_an_error_and_is_ended() {
        let dir = dir("timeout");
        let mut command = Command::new("sleep");
        command.arg("1000");
        let program =
            TimedProgram::start(&dir, "sleep", command, Duration::from_millis(50)).unwrap();
        let error = program.wait(&Stop::default()).unwrap_err();
        assert_eq!(error.to_string(), "sleep did not end in time");
        fs::remove_dir_all(dir).unwrap();
    }
}
