//! The progress line on standard error while a trial runs.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_lab_engine::trial::TrialProgress;

const INTERVAL: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);

/// Prints a line of progress. On a terminal it replaces the previous line, and an empty line only
/// removes that line.
pub(crate) fn show(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
        // Losing a progress line is harmless.
        let _ = std::io::stderr().flush();
    } else if !line.is_empty() {
        eprintln!("{line}");
    }
}

/// Prints a line each second until `done`. On a terminal each line replaces the previous one.
pub(crate) fn watch(live: &TrialProgress, what: &str, done: &AtomicBool) {
    let mut last = Instant::now();
    let mut before = counts(live);
    while !done.load(Ordering::Acquire) {
        std::thread::sleep(POLL);
        let elapsed = last.elapsed();
        if elapsed < INTERVAL {
            continue;
        }
        let now = counts(live);
        // A new trial starts from zero.
        let per_second = |now: u64, before: u64| {
            let count = u128::from(now.checked_sub(before).unwrap_or(now));
            u64::try_from(count * 1000 / elapsed.as_millis().max(1)).unwrap_or(u64::MAX)
        };
        let rate = match live.rate_pps.load(Ordering::Relaxed) {
            0 => String::new(),
            rate => format!("offered {}, ", mpps(rate)),
        };
        let line = format!(
            "{what}: {rate}sent {}, received {}",
            mpps(per_second(now.0, before.0)),
            mpps(per_second(now.1, before.1))
        );
        show(&line);
        (last, before) = (Instant::now(), now);
    }
    show("");
}

fn counts(live: &TrialProgress) -> (u64, u64) {
    (live.sent.load(Ordering::Relaxed), live.received.load(Ordering::Relaxed))
}

/// Formats a ratio in parts per thousand as a decimal number.
#[must_use]
pub(crate) fn ratio(permille: u64) -> String {
    format!("{}.{:03}", permille / 1000, permille % 1000)
}

/// Formats a rate in kpps or Mpps.
#[must_use]
pub(crate) fn mpps(pps: u64) -> String {
    if pps >= 1_000_000 {
        format!("{}.{:03} Mpps", pps / 1_000_000, pps % 1_000_000 / 1000)
    } else {
        format!("{}.{:03} kpps", pps / 1000, pps % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_fitting_unit() {
        assert_eq!(mpps(12_345_678), "12.345 Mpps");
        assert_eq!(mpps(12_040), "12.040 kpps");
    }
}
