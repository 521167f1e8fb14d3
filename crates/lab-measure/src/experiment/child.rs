//! Runs one measurement as a child process of this program.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use adit_lab_process::process::owned_command;
use adit_lab_process::stop::{EnvironmentError, POLL, Stop};

/// Exit status of a measurement that cannot run on this machine or with its options.
const RULED_OUT: i32 = EnvironmentError::EXIT_STATUS as i32;

/// How a measurement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChildExit {
    /// The child measured.
    Measured,
    /// The measurement cannot run on this machine or with its options, for this reason.
    RuledOut(String),
    /// The child failed with this error.
    Failed(String),
}

/// Runs `adit-lab` with the arguments `words` and `--out out`. When `stop` is raised, interrupts
/// the child and waits for it, since the child still writes its report.
///
/// # Errors
/// The child cannot be started.
pub(super) fn run(words: &[String], out: &Path, stop: &Stop) -> Result<ChildExit> {
    let program = std::env::current_exe().context("find this program")?;
    // If this program dies, the child gets SIGINT, so that it still writes its report.
    let mut command = owned_command(program, "INT");
    command.args(words).arg("--out").arg(out).stdin(Stdio::null()).stderr(Stdio::piped());
    // Standard output is for the JSON of this program.
    command.stdout(std::io::stderr());
    let mut child = command.spawn().context("start a measurement")?;
    let mut stderr = child.stderr.take().context("standard error of a measurement")?;
    let listener = thread::spawn(move || {
        let (mut buffer, mut last) = ([0; 4096], Vec::new());
        while let Ok(len @ 1..) = stderr.read(&mut buffer) {
            let part = buffer.get(..len).unwrap_or_default();
            eprint!("{}", String::from_utf8_lossy(part));
            last.extend_from_slice(part);
            let surplus = last.len().saturating_sub(4096);
            last.drain(..surplus);
        }
        String::from_utf8_lossy(&last).into_owned()
    });
    let status = wait(&mut child, stop)?;
    let output = listener.join().unwrap_or_default();
    let message = output.rsplit("adit-lab: ").next().filter(|_| output.contains("adit-lab: "));
    let reason = || match message {
        Some(message) => message.trim().to_owned(),
        None => format!("it ended with {status}"),
    };
    Ok(match status.code() {
        Some(0) => ChildExit::Measured,
        Some(RULED_OUT) => ChildExit::RuledOut(reason()),
        _ => ChildExit::Failed(reason()),
    })
}

fn wait(child: &mut Child, stop: &Stop) -> Result<std::process::ExitStatus> {
    let mut interrupted = false;
    loop {
        if let Some(status) = child.try_wait().context("wait for a measurement")? {
            return Ok(status);
        }
        if stop.is_raised() && !interrupted {
            interrupted = true;
            // The terminal may have sent SIGINT already; a second one is harmless.
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::INT));
        }
        thread::sleep(POLL);
    }
}
