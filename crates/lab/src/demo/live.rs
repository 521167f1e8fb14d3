//! The live view: a table that is redrawn each second on a terminal, or else a line per second.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::report::{AditCounters, rate};
use crate::adit_process::Admin;
use adit_lab_process::stop::Stop;

const PERIOD: Duration = Duration::from_secs(1);

/// Destination of progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DemoOutput {
    /// Standard output.
    Stdout,
    /// Standard error, because standard output is for one JSON document.
    Stderr,
}

impl DemoOutput {
    /// Prints a line and flushes it. Ignores errors such as a closed terminal.
    pub(crate) fn line(self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    fn write(self, text: &str) {
        let _ = match self {
            Self::Stdout => io::stdout().write_all(text.as_bytes()).and(io::stdout().flush()),
            Self::Stderr => io::stderr().write_all(text.as_bytes()),
        };
    }

    fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        }
    }
}

/// The state that the live view shows.
#[derive(Debug, Default)]
struct DemoProgress {
    phase: String,
    sessions: usize,
    /// Number of lines of the table that are on the screen.
    drawn_lines: usize,
}

#[derive(Debug)]
struct DemoViewState {
    output: DemoOutput,
    terminal: bool,
    state: Mutex<DemoProgress>,
    stop: Stop,
}

impl DemoViewState {
    fn state(&self) -> std::sync::MutexGuard<'_, DemoProgress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The live view. Drop ends its thread.
#[derive(Debug)]
pub(crate) struct DemoView {
    shared: Arc<DemoViewState>,
    thread: Option<JoinHandle<()>>,
}

impl DemoView {
    /// Creates an empty view.
    #[must_use]
    pub(crate) fn new(output: DemoOutput) -> Self {
        let shared = DemoViewState {
            output,
            terminal: output.is_terminal(),
            state: Mutex::default(),
            stop: Stop::default(),
        };
        Self { shared: Arc::new(shared), thread: None }
    }

    /// Starts a thread that shows adit's counters.
    pub(crate) fn watch(&mut self, admin: Admin) {
        let shared = Arc::clone(&self.shared);
        self.thread = Some(thread::spawn(move || run(&shared, &admin)));
    }

    /// Shows the current phase.
    pub(crate) fn phase(&self, phase: &str) {
        let mut state = self.shared.state();
        phase.clone_into(&mut state.phase);
        if !self.shared.terminal {
            self.shared.output.line(phase);
        }
    }

    /// Shows how many PFCP sessions exist.
    pub(crate) fn sessions(&self, count: usize) {
        self.shared.state().sessions = count;
    }

    /// Prints a line above the table, which stays.
    pub(crate) fn print_line(&self, text: &str) {
        let mut state = self.shared.state();
        let clear = clear(&state);
        state.drawn_lines = 0;
        self.shared.output.write(&format!("{clear}{text}\n"));
    }

    /// Ends the thread and erases the table.
    pub(crate) fn finish(&mut self) {
        self.shared.stop.raise();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("adit-lab: the live view panicked");
        }
        let mut state = self.shared.state();
        self.shared.output.write(&clear(&state));
        state.drawn_lines = 0;
    }
}

impl Drop for DemoView {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A sample of adit's counters.
struct CounterSample {
    at: Instant,
    counters: AditCounters,
}

fn run(shared: &DemoViewState, admin: &Admin) {
    let mut before: Option<CounterSample> = None;
    while shared.stop.sleep(PERIOD).is_ok() {
        // Ignores errors: adit may be ending.
        let Ok(document) = admin.show("counters", &shared.stop) else { continue };
        let Ok(counters) = AditCounters::read(&document) else { continue };
        let now = CounterSample { at: Instant::now(), counters };
        if let Some(before) = &before {
            draw(shared, before, &now);
        }
        before = Some(now);
    }
}

fn draw(shared: &DemoViewState, before: &CounterSample, now: &CounterSample) {
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    let bps = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8.0 / seconds;
    let up = rate(bps(now.counters.uplink_bytes, before.counters.uplink_bytes));
    let down = rate(bps(now.counters.downlink_bytes, before.counters.downlink_bytes));
    let mut state = shared.state();
    if shared.terminal {
        let table = table(&state, &up, &down, &now.counters);
        let text = format!("{}{table}", clear(&state));
        shared.output.write(&text);
        state.drawn_lines = table.lines().count();
    } else {
        shared.output.line(&format!(
            "  {}: sessions {}, up {up}, down {down}, received {}, dropped {}",
            state.phase, state.sessions, now.counters.received_pkts, now.counters.dropped_pkts
        ));
    }
}

fn table(state: &DemoProgress, up: &str, down: &str, counters: &AditCounters) -> String {
    let drops: Vec<String> =
        counters.drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let rows = [
        ("phase", state.phase.clone()),
        ("sessions", state.sessions.to_string()),
        ("uplink", format!("{up:>12}   {} packets", counters.uplink_pkts)),
        ("downlink", format!("{down:>12}   {} packets", counters.downlink_pkts)),
        ("drops", if drops.is_empty() { "none".to_owned() } else { drops.join(", ") }),
    ];
    rows.iter().map(|(name, value)| format!("  {name:<9} {value:.85}\n")).collect()
}

/// Moves the cursor to the first line of the table and erases everything from there.
fn clear(state: &DemoProgress) -> String {
    if state.drawn_lines == 0 {
        String::new()
    } else {
        format!("\x1b[{}A\x1b[J", state.drawn_lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_phase_rates_and_drops_and_is_erased_by_its_height() {
        let mut counters = AditCounters::default();
        counters.drops.insert("gate_closed".to_owned(), 7);
        let mut state = DemoProgress { phase: "ping".to_owned(), sessions: 4, drawn_lines: 0 };
        let text = table(&state, "1.0 Mb/s", "2.0 Mb/s", &counters);
        for part in ["ping", "4", "1.0 Mb/s", "2.0 Mb/s", "gate_closed 7"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(clear(&state), "");
        state.drawn_lines = text.lines().count();
        assert_eq!(clear(&state), "\x1b[5A\x1b[J");
    }
}
