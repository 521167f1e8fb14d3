//! The log: its format, its levels by room, and how many lines of one kind it gets.
//!
//! Lines of one kind come from one place in the code. Each kind gets [`BURST_LINES_MAX`] lines at
//! once and then one per [`LINE_INTERVAL`], whatever peers do; omitted lines are counted, and
//! a line of its own reports them. Lines of [`audit::TARGET`] are never omitted.

pub(crate) mod audit;
pub(crate) mod log_filter;

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, warn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Target of lines about events of the PFCP node, unless they are audit lines.
pub(crate) const N4_TARGET: &str = "adit_n4";

/// Maximum of lines of one kind without a pause.
const BURST_LINES_MAX: u32 = 20;

/// Interval after which a kind may have another line.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text for people.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
}

/// The log as the command line sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct LogSettings {
    /// Format of the log, which goes to standard error.
    #[arg(long = "log", value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: LogFormat,
    /// A level (error, warn, info, debug), or levels by room such as info,adit_n4=debug; default:
    /// log.levels of the configuration, RUST_LOG, or info.
    #[arg(long = "log-levels", value_name = "LEVELS")]
    pub levels: Option<String>,
}

/// Starts the log of this process. `configured`: levels to use if the command line names none.
///
/// # Errors
/// The levels cannot be read, or there is a log already.
pub(crate) fn start(settings: &LogSettings, configured: Option<&str>) -> anyhow::Result<()> {
    let levels = settings.levels.as_deref().or(configured);
    let levels = log_filter::begin(levels).map_err(anyhow::Error::msg)?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match settings.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let log = tracing_subscriber::registry().with(levels).with(lines.with_filter(KindFilter));
    log.try_init().context("the log cannot start")
}

/// The limit of the lines of one kind: a token bucket.
#[derive(Debug)]
struct KindLimit {
    kind: tracing::callsite::Identifier,
    lines_left: u32,
    since: Instant,
    left_out: u64,
    /// The text of the first line that was left out.
    message: String,
}

impl KindLimit {
    fn new(kind: tracing::callsite::Identifier, now: Instant) -> Self {
        Self { kind, lines_left: BURST_LINES_MAX, since: now, left_out: 0, message: String::new() }
    }

    /// Takes a token; true if there was one, so that a line may be written.
    fn admit(&mut self, now: Instant) -> bool {
        let spans = now.duration_since(self.since).as_nanos() / LINE_INTERVAL.as_nanos();
        let spans = u32::try_from(spans).unwrap_or(u32::MAX);
        if spans > 0 {
            self.lines_left = self.lines_left.saturating_add(spans).min(BURST_LINES_MAX);
            self.since = now;
        }
        let is_admitted = self.lines_left > 0;
        self.lines_left = self.lines_left.saturating_sub(1);
        is_admitted
    }
}

/// The limits of all kinds of lines written so far: at most one per place in the code.
static KINDS: Mutex<Vec<KindLimit>> = Mutex::new(Vec::new());

/// Leaves out lines of a kind that exceeds its limit.
struct KindFilter;

impl<S> Filter<S> for KindFilter {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let is_exempt = metadata.target() == audit::TARGET || metadata.target() == module_path!();
        is_exempt || admit(event, Instant::now())
    }
}

fn admit(event: &Event<'_>, now: Instant) -> bool {
    let kind = event.metadata().callsite();
    let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    let position = kinds.iter().position(|known| known.kind == kind);
    let position = position.unwrap_or_else(|| {
        kinds.push(KindLimit::new(kind, now));
        kinds.len() - 1
    });
    let Some(limit) = kinds.get_mut(position) else { return true };
    let is_admitted = limit.admit(now);
    if !is_admitted {
        if limit.left_out == 0 {
            let mut message = MessageText::default();
            event.record(&mut message);
            limit.message = message.0;
        }
        limit.left_out += 1;
    }
    is_admitted
}

/// Logs how many lines were left out since the last call, by kind. Call it about once per second.
pub(crate) fn report_left_out() {
    let mut left_out = Vec::new();
    {
        let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds.iter_mut().filter(|kind| kind.left_out > 0) {
            left_out
                .push((core::mem::take(&mut kind.message), core::mem::take(&mut kind.left_out)));
        }
    }
    for (like, lines) in left_out {
        warn!(lines, like, "lines of one kind were left out of the log");
    }
}

/// Receives the message of an event.
#[derive(Default)]
struct MessageText(String);

impl Visit for MessageText {
    fn record_debug(&mut self, field: &Field, value: &dyn core::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn kind_gets_a_burst_and_then_one_line_per_interval() {
        let start = Instant::now();
        let kind = tracing::callsite::Identifier(&NO_CALLSITE);
        let mut limit = KindLimit::new(kind, start);
        let admitted =
            |limit: &mut KindLimit, at: Instant| (0..100).filter(|_| limit.admit(at)).count();
        assert_eq!(admitted(&mut limit, start), 20);
        assert_eq!(admitted(&mut limit, start + LINE_INTERVAL / 2), 0);
        assert_eq!(admitted(&mut limit, start + LINE_INTERVAL), 1);
        assert_eq!(admitted(&mut limit, start + 1000 * LINE_INTERVAL), 20);
    }

    /// A call site that is nowhere in the code.
    struct NoCallsite;

    static NO_CALLSITE: NoCallsite = NoCallsite;

    impl tracing::Callsite for NoCallsite {
        fn set_interest(&self, _: tracing::subscriber::Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            unreachable!("the limit does not read it")
        }
    }

    #[test]
    fn lines_beyond_the_share_of_their_kind_are_counted_and_named_and_audit_lines_are_all_there() {
        let text = written_by(|| {
            for n in 0..30 {
                tracing::info!(n, "of one kind");
                tracing::info!(target: audit::TARGET, n, "an act");
            }
            report_left_out();
        });
        let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!((count("\"message\":\"of one kind\""), count("\"target\":\"audit\"")), (20, 30));
        let report = text.lines().last().unwrap();
        assert!(report.contains("\"lines\":10") && report.contains("of one kind"), "{report}");
    }

    /// Returns the lines that `acts` writes to the log, as JSON.
    pub(crate) fn written_by(acts: impl FnOnce()) -> String {
        let written = std::sync::Arc::new(Mutex::new(Vec::new()));
        let sink = std::sync::Arc::clone(&written);
        let lines =
            fmt::layer().json().flatten_event(true).with_writer(move || LogSink(sink.clone()));
        let log = tracing_subscriber::registry().with(lines.with_filter(KindFilter));
        tracing::subscriber::with_default(log, acts);
        String::from_utf8(written.lock().unwrap().clone()).unwrap()
    }

    #[derive(Clone)]
    struct LogSink(std::sync::Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for LogSink {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
