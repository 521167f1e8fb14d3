//! `adit top`: a running adit in the terminal.
//!
//! One thread reads adit's documents once per interval, and the main thread draws. The terminal is
//! restored when adit top ends, by a key, a signal or a panic.

mod figures;
mod look;
mod view;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use anyhow::{Context, bail};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::TopArguments;
use crate::client::document_values::{rows, text, whole};
use figures::TopFigures;
use look::AditReading;
use view::{TopScreen, TopTab, bits, pkts};

/// Maximum of sessions whose UE and data network are looked up in one interval.
const DETAILS_MAX: usize = 32;

/// Longest wait for a key.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// How many past rates are drawn.
const HISTORY_LEN_MAX: usize = 512;

/// Shows a running adit until `q` or a signal, or prints its figures once.
///
/// # Errors
/// No adit answers, or there is no terminal.
pub(crate) fn run(arguments: &TopArguments) -> anyhow::Result<()> {
    let mut observer = Observer::new(arguments);
    // If no adit answers, this fails before anything is drawn.
    let first = observer.look()?;
    if arguments.once {
        std::thread::sleep(observer.interval);
        let figures = observer.figures(&first)?.0;
        return print(&figures, arguments.json);
    }
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&is_ended))
            .context("cannot wait for signals")?;
    }
    let (news, seen) = mpsc::channel();
    // The thread ends with the process; it has nothing to release.
    std::thread::Builder::new()
        .name("adit-top-look".to_owned())
        .spawn(move || {
            let mut before = first;
            loop {
                std::thread::sleep(observer.interval);
                let told = match observer.figures(&before) {
                    Ok((figures, now)) => {
                        before = now;
                        Ok(Box::new(figures))
                    }
                    Err(error) => Err(format!("{error:#}")),
                };
                if news.send(told).is_err() {
                    return;
                }
            }
        })
        .context("cannot start the thread that looks at adit")?;
    show(&is_ended, |screen| receive_figures(screen, &seen))
}

/// Calls `update` and draws the screen, again and again until a key or a signal ends it.
fn show(
    is_ended: &AtomicBool,
    mut update: impl FnMut(&mut TopScreen) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init().context("adit top needs a terminal; see --once")?;
    let _restored = RestoredTerminal;
    let mut screen = TopScreen::default();
    while !is_ended.load(Ordering::Relaxed) {
        update(&mut screen)?;
        terminal.draw(|frame| screen.draw(frame))?;
        if event::poll(KEY_WAIT)?
            && let Event::Key(key) = event::read()?
            && !handle_key(&mut screen, key)
        {
            break;
        }
    }
    Ok(())
}

/// Restores the terminal when it is dropped, also by a panic.
struct RestoredTerminal;

impl Drop for RestoredTerminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Puts the figures that the other thread has read on the screen.
///
/// # Errors
/// The other thread has panicked, which restored the terminal.
fn receive_figures(
    screen: &mut TopScreen,
    seen: &Receiver<Result<Box<TopFigures>, String>>,
) -> anyhow::Result<()> {
    loop {
        match seen.try_recv() {
            Ok(_) if screen.is_paused => {}
            Ok(Ok(figures)) => {
                let both = figures.uplink.bits_per_s + figures.downlink.bits_per_s;
                screen.history.push(whole(both));
                let excess = screen.history.len().saturating_sub(HISTORY_LEN_MAX);
                screen.history.drain(..excess);
                (screen.figures, screen.failure) = (Some(*figures), None);
            }
            Ok(Err(failure)) => screen.failure = Some(failure),
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => {
                bail!("the thread that looks at adit ended by a fault, which it has named")
            }
        }
    }
}

/// Handles a key. False if the key ends adit top.
fn handle_key(screen: &mut TopScreen, key: KeyEvent) -> bool {
    if key.kind == KeyEventKind::Release {
        return true;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('p') => screen.is_paused = !screen.is_paused,
        KeyCode::Char('s') => (screen.order, screen.scrolled) = (screen.order.next(), 0),
        KeyCode::Tab => (screen.tab, screen.scrolled) = (screen.tab.next(), 0),
        KeyCode::Char(digit @ '1'..='4') => {
            let position = digit.to_digit(10).and_then(|digit| usize::try_from(digit - 1).ok());
            let tab = position.and_then(|position| TopTab::ALL.get(position));
            (screen.tab, screen.scrolled) = (tab.copied().unwrap_or_default(), 0);
        }
        KeyCode::Up => screen.scrolled = screen.scrolled.saturating_sub(1),
        KeyCode::Down => screen.scrolled += 1,
        KeyCode::PageUp => screen.scrolled = screen.scrolled.saturating_sub(20),
        KeyCode::PageDown => screen.scrolled += 20,
        KeyCode::Home => screen.scrolled = 0,
        _ => {}
    }
    let rows = screen.figures.as_ref().map_or(0, |figures| match screen.tab {
        TopTab::Overview => 1,
        TopTab::Sessions => figures.top_sessions.len(),
        TopTab::Workers => figures.workers.len(),
        TopTab::Drops => figures.drops.len(),
    });
    screen.scrolled = screen.scrolled.min(rows.saturating_sub(1));
    true
}

/// Reads the documents of a running adit.
struct Observer {
    socket: std::path::PathBuf,
    interval: Duration,
    sessions: usize,
    /// UE and data network of the shown sessions, by UP SEID.
    details: BTreeMap<String, SessionDetails>,
}

#[derive(Clone, Default)]
struct SessionDetails {
    ue: Vec<String>,
    dnn: String,
}

impl Observer {
    fn new(arguments: &TopArguments) -> Self {
        Self {
            socket: arguments.socket.path().to_owned(),
            interval: Duration::from_secs(arguments.interval),
            sessions: usize::try_from(arguments.sessions).unwrap_or(usize::MAX),
            details: BTreeMap::new(),
        }
    }

    fn look(&self) -> anyhow::Result<AditReading> {
        AditReading::take(&self.socket, self.sessions)
    }

    /// Reads adit's documents, and returns them with the figures since `before`.
    fn figures(&mut self, before: &AditReading) -> anyhow::Result<(TopFigures, AditReading)> {
        let now = self.look()?;
        let mut figures = TopFigures::between(before, &now);
        let shown: Vec<&str> =
            figures.top_sessions.iter().map(|session| session.up_seid.as_str()).collect();
        self.details.retain(|seid, _| shown.contains(&seid.as_str()));
        for session in figures.top_sessions.iter_mut().take(DETAILS_MAX) {
            if !self.details.contains_key(&session.up_seid) {
                let details = details(&self.socket, &session.up_seid)?;
                self.details.insert(session.up_seid.clone(), details);
            }
        }
        for session in &mut figures.top_sessions {
            let known = self.details.get(&session.up_seid).cloned().unwrap_or_default();
            (session.ue, session.dnn) = (known.ue, known.dnn);
        }
        Ok((figures, now))
    }
}

fn details(socket: &Path, up_seid: &str) -> anyhow::Result<SessionDetails> {
    let Some(session) = look::session(socket, up_seid)? else {
        return Ok(SessionDetails::default());
    };
    let ue = rows(&session, "ue").iter().filter_map(Value::as_str);
    let dnn = session.get("information").map(|known| text(known, "dnn"));
    Ok(SessionDetails { ue: ue.map(str::to_owned).collect(), dnn: dnn.unwrap_or_default() })
}

/// Prints the figures of one interval.
fn print(figures: &TopFigures, as_json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        serde_json::to_writer_pretty(&mut out, figures)?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "{} sessions, {} associations", figures.sessions, figures.associations)?;
    for (name, rate) in [("uplink", figures.uplink), ("downlink", figures.downlink)] {
        writeln!(out, "{name:<10} {:>14} {:>14}", bits(rate.bits_per_s), pkts(rate.pkts_per_s))?;
    }
    writeln!(out, "{:<10} {:>14}", "dropped", pkts(figures.dropped_pkts_per_s))?;
    for worker in &figures.workers {
        let name = format!("{} {}", worker.role, worker.thread);
        writeln!(
            out,
            "{name:<10} {:>12.1} % {:>14}",
            worker.busy_percent,
            pkts(worker.received_pkts_per_s)
        )?;
    }
    for drop in figures.drops.iter().filter(|drop| drop.pkts_per_s > 0.0) {
        writeln!(out, "{:<25} {:>14}", drop.reason, pkts(drop.pkts_per_s))?;
    }
    for session in figures.top_sessions.iter().take(10) {
        let (up, down) = (bits(session.uplink.bits_per_s), bits(session.downlink.bits_per_s));
        writeln!(out, "{} {:<20} {up:>14} {down:>14}", session.up_seid, session.ue.join(" "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(screen: &mut TopScreen, code: KeyCode) -> bool {
        handle_key(screen, KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys_choose_views_and_end() {
        let mut screen = TopScreen::default();
        assert!(press(&mut screen, KeyCode::Char('3')));
        assert_eq!(screen.tab, TopTab::Workers);
        assert!(press(&mut screen, KeyCode::Tab) && press(&mut screen, KeyCode::Tab));
        assert_eq!(screen.tab, TopTab::Overview);
        assert!(press(&mut screen, KeyCode::Down));
        assert_eq!(screen.scrolled, 0, "there is nothing below");
        assert!(!press(&mut screen, KeyCode::Char('q')));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!handle_key(&mut screen, interrupt));
    }

    #[test]
    fn paused_screen_keeps_what_it_shows() {
        let [before, now] = figures::tests::looks();
        let (news, seen) = mpsc::channel();
        let told = || Ok(Box::new(TopFigures::between(&before, &now)));
        let mut screen = TopScreen::default();
        assert!(press(&mut screen, KeyCode::Char('p')));
        news.send(told()).unwrap();
        receive_figures(&mut screen, &seen).unwrap();
        assert_eq!(screen.figures, None);
        assert!(press(&mut screen, KeyCode::Char('p')));
        news.send(told()).unwrap();
        news.send(Err("gone".to_owned())).unwrap();
        receive_figures(&mut screen, &seen).unwrap();
        assert!(screen.figures.is_some() && screen.failure.as_deref() == Some("gone"));
        assert_eq!(screen.history, [16_800_000]);
        drop(news);
        assert!(receive_figures(&mut screen, &seen).is_err(), "nobody looks at adit any more");
    }

    /// Environment variable that marks the run inside a pseudo terminal.
    const INSIDE: &str = "ADIT_TEST_TOP_PANICS";

    #[test]
    fn panic_leaves_the_terminal_as_it_was() {
        if std::env::var_os(INSIDE).is_some() {
            let ended = show(&AtomicBool::new(false), |_| panic!("a fault of adit top"));
            unreachable!("{ended:?}");
        }
        let test = std::env::current_exe().unwrap();
        let script = format!(
            "stty -g; {INSIDE}=1 '{}' --exact client::top::tests::panic_leaves_the_terminal_as_it_was --nocapture; stty -g",
            test.display()
        );
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &script, "/dev/null"]).stdin(std::process::Stdio::null());
        let Ok(output) = command.output() else {
            println!("skipped: there is no script of util-linux");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let (before, after) = (lines.first().unwrap(), lines.last().unwrap());
        assert!(before.contains(':') && before == after, "{text}");
        // adit top entered the alternate screen, and left it before the panic's message.
        let left = text.find("\u{1b}[?1049l").unwrap_or_else(|| panic!("{text}"));
        assert!(text.find("\u{1b}[?1049h").is_some_and(|entered| entered < left), "{text}");
        assert!(text.find("a fault of adit top").is_some_and(|said| left < said), "{text}");
    }
}
