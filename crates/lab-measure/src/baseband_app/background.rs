//! Other programs on the machine: their throughput together with the workload.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use adit_lab_process::process::{Process, TimedProgram, is_installed, owned_command};
use adit_lab_process::scratch::Scratch;
use adit_lab_process::stop::{Stop, environment};

use crate::baseband_app::scheduling::{on_cores, pin};

/// A CPU-intensive program of normal priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackgroundKind {
    /// Threads that look for prime numbers.
    Primes,
    /// A transcoding by ffmpeg.
    Ffmpeg,
}

impl BackgroundKind {
    /// Returns the unit of the program's throughput.
    #[must_use]
    pub const fn product(self) -> &'static str {
        match self {
            Self::Primes => "primes",
            Self::Ffmpeg => "frames",
        }
    }
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub struct BackgroundLoad {
    program: BackgroundProgram,
}

#[derive(Debug)]
enum BackgroundProgram {
    Primes(PrimeThreads),
    Ffmpeg(Transcoding),
}

impl BackgroundLoad {
    /// Starts `threads` threads on `cores`, or on any core if `cores` is empty.
    ///
    /// # Errors
    /// ffmpeg is not installed or does not start; this process may not run on the cores.
    pub fn start(kind: BackgroundKind, cores: &[u16], threads: u16, stop: &Stop) -> Result<Self> {
        let program = match kind {
            BackgroundKind::Primes => {
                BackgroundProgram::Primes(PrimeThreads::start(cores, threads)?)
            }
            BackgroundKind::Ffmpeg => {
                BackgroundProgram::Ffmpeg(Transcoding::start(cores, threads, stop)?)
            }
        };
        Ok(Self { program })
    }

    /// Returns how many primes or frames the program has produced since its start.
    ///
    /// # Errors
    /// ffmpeg has ended.
    pub fn product_count(&mut self) -> Result<u64> {
        match &mut self.program {
            BackgroundProgram::Primes(threads) => Ok(threads.found()),
            BackgroundProgram::Ffmpeg(transcoding) => transcoding.frames(),
        }
    }
}

/// A counter of one thread. Its alignment keeps counters of other threads off the cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PrimeCounter(AtomicU64);

#[derive(Debug)]
struct PrimeThreads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    found: Vec<Arc<PrimeCounter>>,
}

/// The numbers that threads test, again and again: about one in seven of the odd ones is prime, and
/// the time for each is similar.
const NUMBERS: std::ops::Range<u64> = 1_000_000..1_100_000;

impl PrimeThreads {
    fn start(cores: &[u16], threads: u16) -> Result<Self> {
        if !cores.is_empty() {
            on_cores(cores, || Ok(()))?;
        }
        let mut all = Self { stop: Arc::default(), threads: Vec::new(), found: Vec::new() };
        for number in 0..threads {
            let counter = Arc::new(PrimeCounter::default());
            all.found.push(Arc::clone(&counter));
            let (stop, cores) = (Arc::clone(&all.stop), cores.to_vec());
            let body = move || {
                // Checked by `on_cores`. If a core goes offline, the thread stays where it is.
                let _ = if cores.is_empty() { Ok(()) } else { pin(&cores) };
                look_for_primes(&stop, &counter.0);
            };
            let builder = std::thread::Builder::new().name(format!("primes-{number}"));
            all.threads.push(builder.spawn(body).context("start a thread for primes")?);
        }
        Ok(all)
    }

    fn found(&self) -> u64 {
        self.found.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for PrimeThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the thread has no consequence.
            let _ = thread.join();
        }
    }
}

fn look_for_primes(stop: &AtomicBool, found: &AtomicU64) {
    loop {
        for number in NUMBERS {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if is_prime(number) {
                found.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Tests a number by trial division.
fn is_prime(number: u64) -> bool {
    if number < 4 || number.is_multiple_of(2) {
        return (2..4).contains(&number);
    }
    let mut divisor = 3;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            return false;
        }
        divisor += 2;
    }
    true
}

/// ffmpeg, which transcodes a short film again and again. It has made the film before.
#[derive(Debug)]
struct Transcoding {
    process: Process,
    scratch: Scratch,
}

const FILM: &str = "film.mkv";
const PROGRESS: &str = "progress";
const ERRORS: &str = "errors";
/// Maximum time to make the film.
const FILM_TIMEOUT: Duration = Duration::from_secs(120);

impl Transcoding {
    fn start(cores: &[u16], threads: u16, stop: &Stop) -> Result<Self> {
        if !is_installed("ffmpeg") {
            let text = "--background ffmpeg: ffmpeg is not installed (Debian package ffmpeg); --background primes needs nothing";
            return Err(environment(text));
        }
        let scratch = Scratch::create("transcoding")?;
        let film = scratch.path().join(FILM);
        let mut command = ffmpeg();
        command.args("-f lavfi -i testsrc2=size=640x360:rate=25:duration=10".split(' '));
        command.args("-f lavfi -i sine=frequency=440:duration=10".split(' '));
        command.args("-c:v mpeg4 -q:v 5 -c:a mp2".split(' ')).arg(&film);
        let made =
            TimedProgram::start(scratch.path(), "film", command, FILM_TIMEOUT)?.wait(stop)?;
        if !made.success {
            return Err(environment(format!("ffmpeg cannot make a film: {}", made.error_line)));
        }
        let mut command = ffmpeg();
        command.args("-nostats -stats_period 0.1 -progress pipe:1 -stream_loop -1 -i".split(' '));
        command.arg(&film).args("-c:v libx264 -c:a aac -threads".split(' '));
        command.arg(threads.to_string()).args("-f null -".split(' '));
        let [progress, errors] = [PROGRESS, ERRORS].map(|name| scratch.path().join(name));
        let start = || Process::start("ffmpeg", command, &progress, &errors);
        let process = if cores.is_empty() { start()? } else { on_cores(cores, start)? };
        Ok(Self { process, scratch })
    }

    fn frames(&mut self) -> Result<u64> {
        let read = |name: &str| std::fs::read_to_string(self.scratch.path().join(name));
        if let Some(status) = self.process.poll()? {
            let errors = read(ERRORS).unwrap_or_default();
            let last = errors.trim().lines().next_back().unwrap_or_default();
            bail!("ffmpeg ended with {status}: {last}");
        }
        Ok(frames(&read(PROGRESS).context("read the progress of ffmpeg")?))
    }
}

fn ffmpeg() -> Command {
    let mut command = owned_command("ffmpeg", "KILL");
    command.args("-hide_banner -loglevel error -y -nostdin".split(' ')).stdin(Stdio::null());
    command
}

/// Returns the last frame count in the output of `-progress`.
fn frames(progress: &str) -> u64 {
    let number = |line: &str| line.strip_prefix("frame=")?.trim().parse().ok();
    progress.lines().rev().find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_below_fifty_are_found() {
        let primes: Vec<u64> = (0..50).filter(|number| is_prime(*number)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]);
        assert!(is_prime(1_000_003) && !is_prime(1_018_081));
    }

    #[test]
    fn prime_threads_find_primes_until_they_are_dropped() {
        let stop = Stop::default();
        let mut load = BackgroundLoad::start(BackgroundKind::Primes, &[], 2, &stop).unwrap();
        let first = load.product_count().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(load.product_count().unwrap() > first);
        let error = BackgroundLoad::start(BackgroundKind::Primes, &[9_999], 1, &stop).unwrap_err();
        assert!(error.to_string().starts_with("cores [9999]: "), "{error}");
    }

    #[test]
    fn frames_of_a_transcoding_are_those_of_its_last_progress() {
        let text = "frame=12\nfps=0.0\nprogress=continue\nframe=  40\nfps=39.1\nprogress=cont";
        assert_eq!((frames(text), frames("")), (40, 0));
    }
}
