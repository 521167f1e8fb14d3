//! The screen of `adit top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table, Tabs};

use super::figures::{FlowRate, SessionRate, TopFigures};

/// Busy share from which on a thread is highlighted. Unit: percent.
const BUSY_PERCENT: f64 = 90.0;

/// The view in the middle of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TopTab {
    #[default]
    Overview,
    Sessions,
    Workers,
    Drops,
}

impl TopTab {
    pub(super) const ALL: [Self; 4] = [Self::Overview, Self::Sessions, Self::Workers, Self::Drops];

    const fn title(self) -> &'static str {
        match self {
            Self::Overview => "1 overview",
            Self::Sessions => "2 sessions",
            Self::Workers => "3 workers",
            Self::Drops => "4 drops",
        }
    }

    fn position(self) -> usize {
        Self::ALL.iter().position(|tab| *tab == self).unwrap_or_default()
    }

    /// Returns the next tab; after the last one the first.
    pub(super) fn next(self) -> Self {
        Self::ALL.get(self.position() + 1).copied().unwrap_or_default()
    }
}

/// The rate by which sessions are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TopOrder {
    #[default]
    Both,
    Uplink,
    Downlink,
}

impl TopOrder {
    /// Returns the next order; after the last one the first.
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Both => Self::Uplink,
            Self::Uplink => Self::Downlink,
            Self::Downlink => Self::Both,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Both => "both directions",
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        }
    }

    fn rate(self, session: &SessionRate) -> f64 {
        match self {
            Self::Both => session.uplink.bits_per_s + session.downlink.bits_per_s,
            Self::Uplink => session.uplink.bits_per_s,
            Self::Downlink => session.downlink.bits_per_s,
        }
    }
}

/// The state of the screen.
#[derive(Debug, Clone, Default)]
pub(super) struct TopScreen {
    pub tab: TopTab,
    pub order: TopOrder,
    /// How many rows are above the first one shown.
    pub scrolled: usize,
    pub is_paused: bool,
    /// `None` until there were two readings.
    pub figures: Option<TopFigures>,
    /// Rates of both directions together, the oldest first. Unit: bits per second.
    pub history: Vec<u64>,
    /// Why adit does not answer; `None` if it does.
    pub failure: Option<String>,
}

impl TopScreen {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let areas = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [title, tabs, _, middle, keys] = areas.areas(frame.area());
        frame.render_widget(self.title(), title);
        let names = TopTab::ALL.map(TopTab::title);
        frame.render_widget(Tabs::new(names).select(self.tab.position()), tabs);
        let hint = "q quit · 1–4 or Tab view · ↑↓ scroll · s order of sessions · p pause";
        frame.render_widget(
            Paragraph::new(hint).style(Style::new().add_modifier(Modifier::DIM)),
            keys,
        );
        let Some(figures) = &self.figures else {
            return frame.render_widget(Paragraph::new("waiting for two looks…"), middle);
        };
        match self.tab {
            TopTab::Overview => self.draw_overview(frame, middle, figures),
            TopTab::Sessions => self.draw_sessions(frame, middle, figures),
            TopTab::Workers => self.draw_workers(frame, middle, figures),
            TopTab::Drops => self.draw_drops(frame, middle, figures),
        }
    }

    fn title(&self) -> Line<'_> {
        let mut parts = vec![Span::styled("adit top", Style::new().add_modifier(Modifier::BOLD))];
        if let Some(figures) = &self.figures {
            parts.push(Span::raw(format!(
                "   {} sessions · {} associations · {}",
                figures.sessions, figures.associations, figures.model
            )));
        }
        if self.is_paused {
            parts.push(Span::styled("   paused", Style::new().fg(Color::Yellow)));
        }
        if let Some(failure) = &self.failure {
            parts.push(Span::styled(format!("   {failure}"), Style::new().fg(Color::Red)));
        }
        Line::from(parts)
    }

    fn draw_overview(&self, frame: &mut Frame<'_>, area: Rect, figures: &TopFigures) {
        let ports = u16::try_from(figures.ports.len() + 2).unwrap_or(u16::MAX);
        let rates = Layout::vertical([
            Constraint::Length(8),
            Constraint::Length(4),
            Constraint::Length(ports),
            Constraint::Min(0),
        ]);
        let [figures_area, history, ports_area, interfaces] = rates.areas(area);
        let pair = |name: &str, rate: FlowRate| {
            Line::from(format!(
                "{name:<14}{:>14}   {:>12}",
                bits(rate.bits_per_s),
                pkts(rate.pkts_per_s)
            ))
        };
        let one = |name: &str, value: String| Line::from(format!("{name:<14}{value:>14}"));
        let dropped = one("dropped", pkts(figures.dropped_pkts_per_s));
        let dropped = match figures.dropped_pkts_per_s > 0.0 {
            true => dropped.style(Style::new().fg(Color::Yellow)),
            false => dropped,
        };
        let lines = vec![
            pair("uplink", figures.uplink),
            pair("downlink", figures.downlink),
            dropped,
            one("waiting", format!("{} packets", figures.waiting_pkts)),
            one("established", format!("{:.1}/s", figures.establishments_per_s)),
            one("modified", format!("{:.1}/s", figures.modifications_per_s)),
            one("deleted", format!("{:.1}/s", figures.deletions_per_s)),
            one("refused", format!("{:.1}/s", figures.refusals_per_s)),
        ];
        frame.render_widget(Paragraph::new(lines), figures_area);
        let width = usize::from(history.width);
        let shown = &self.history[self.history.len().saturating_sub(width)..];
        frame.render_widget(Sparkline::default().data(shown), history);
        let rows = figures.ports.iter().map(|port| {
            let style = match port.link.as_str() {
                "down" => Style::new().fg(Color::Red),
                _ => Style::new(),
            };
            Row::new([
                port.name.clone(),
                if port.link.is_empty() { "–".to_owned() } else { port.link.clone() },
                port.link_losses.to_string(),
                pkts(port.missed_pkts_per_s),
            ])
            .style(style)
        });
        table(frame, ports_area, ["port", "link", "losses", "missed"], rows.collect());
        let rows = figures.interfaces.iter().map(|interface| {
            Row::new([
                interface.name.clone(),
                bits(interface.rx.bits_per_s),
                pkts(interface.rx.pkts_per_s),
                bits(interface.tx.bits_per_s),
                pkts(interface.tx.pkts_per_s),
            ])
        });
        table(frame, interfaces, ["interface", "rx", "rx", "tx", "tx"], rows.collect());
    }

    fn draw_sessions(&self, frame: &mut Frame<'_>, area: Rect, figures: &TopFigures) {
        let [above, below] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
        let cut =
            if figures.sessions_cut { "; not all were looked at, see --sessions" } else { "" };
        let text = format!("by rate of {}{cut}", self.order.name());
        frame.render_widget(Paragraph::new(text), above);
        let mut sessions: Vec<&SessionRate> = figures.top_sessions.iter().collect();
        sessions.sort_by(|a, b| self.order.rate(b).total_cmp(&self.order.rate(a)));
        let rows = sessions.into_iter().skip(self.scrolled).map(|session| {
            Row::new([
                session.up_seid.clone(),
                session.ue.join(" "),
                session.dnn.clone(),
                bits(session.uplink.bits_per_s),
                pkts(session.uplink.pkts_per_s),
                bits(session.downlink.bits_per_s),
                pkts(session.downlink.pkts_per_s),
            ])
        });
        let header = ["UP SEID", "UE", "DNN", "uplink", "uplink", "downlink", "downlink"];
        table(frame, below, header, rows.collect());
    }

    fn draw_workers(&self, frame: &mut Frame<'_>, area: Rect, figures: &TopFigures) {
        let rows = figures.workers.iter().skip(self.scrolled).map(|worker| {
            let style = match (worker.state.as_str(), worker.busy_percent >= BUSY_PERCENT) {
                ("stands still", _) => Style::new().fg(Color::Red),
                (_, true) => Style::new().fg(Color::Yellow),
                _ => Style::new(),
            };
            Row::new([
                worker.thread.to_string(),
                worker.role.clone(),
                worker.core.to_string(),
                worker.state.clone(),
                format!("{:.1} %", worker.busy_percent),
                format!("{:.0} %", worker.full_bursts_percent),
                format!("{:.1} %", worker.fullest_ring_percent),
                pkts(worker.received_pkts_per_s),
            ])
            .style(style)
        });
        let header =
            ["thread", "role", "core", "state", "busy", "full bursts", "fullest ring", "received"];
        table(frame, area, header, rows.collect());
    }

    fn draw_drops(&self, frame: &mut Frame<'_>, area: Rect, figures: &TopFigures) {
        if figures.drops.is_empty() {
            return frame.render_widget(Paragraph::new("no packet was dropped"), area);
        }
        let rows = figures.drops.iter().skip(self.scrolled).map(|drop| {
            let meaning =
                adit_rules::DropReason::ALL.iter().find(|known| known.name() == drop.reason);
            let style = match drop.pkts_per_s > 0.0 {
                true => Style::new().fg(Color::Yellow),
                false => Style::new(),
            };
            let meaning = meaning.map_or("", |known| known.text());
            let cells =
                [drop.reason.as_str(), &pkts(drop.pkts_per_s), &drop.pkts.to_string(), meaning];
            Row::new(cells.map(|cell| Cell::from(cell.to_owned()))).style(style)
        });
        let widths = [
            Constraint::Length(24),
            Constraint::Length(12),
            Constraint::Length(14),
            Constraint::Fill(1),
        ];
        let header = Row::new(["reason", "rate", "packets", "meaning"]);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Table::new(rows, widths).header(header.style(bold)), area);
    }
}

/// Draws a table whose columns are equally wide.
fn table<const N: usize>(frame: &mut Frame<'_>, area: Rect, header: [&str; N], rows: Vec<Row<'_>>) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let widths = [Constraint::Fill(1); N];
    frame.render_widget(Table::new(rows, widths).header(Row::new(header).style(bold)), area);
}

/// Formats a rate in bits per second with a unit prefix.
pub(super) fn bits(per_second: f64) -> String {
    scaled(per_second, "bit/s")
}

/// Formats a rate in packets per second with a unit prefix.
pub(super) fn pkts(per_second: f64) -> String {
    scaled(per_second, "pps")
}

fn scaled(value: f64, unit: &str) -> String {
    for (limit, prefix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= limit {
            return format!("{:.2} {prefix}{unit}", value / limit);
        }
    }
    format!("{value:.0} {unit}")
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::looks;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// Returns the rows of a terminal that shows `screen`.
    fn shown(screen: &TopScreen) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(110, 30)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..buffer.area.height).map(row).collect()
    }

    fn screen(tab: TopTab) -> TopScreen {
        let [before, now] = looks();
        let figures = Some(TopFigures::between(&before, &now));
        TopScreen { tab, figures, history: vec![1, 2, 3], ..TopScreen::default() }
    }

    fn line<'a>(rows: &'a [String], part: &str) -> &'a str {
        rows.iter().find(|row| row.contains(part)).map_or("", String::as_str)
    }

    #[test]
    fn overview_shows_traffic_signaling_and_ports() {
        let rows = shown(&screen(TopTab::Overview));
        assert!(rows[0].contains("7 sessions · 2 associations · run-to-completion"), "{rows:#?}");
        assert!(line(&rows, "downlink").contains("16.00 Mbit/s"), "{rows:#?}");
        assert!(line(&rows, "established").contains("7.0/s"), "{rows:#?}");
        assert!(line(&rows, "access").contains("up"), "{rows:#?}");
        assert!(line(&rows, "n3").contains("12.00 kbit/s"), "{rows:#?}");
        assert!(rows.last().is_some_and(|keys| keys.contains("q quit")), "{rows:#?}");
    }

    #[test]
    fn sessions_are_sorted_by_the_chosen_rate_and_scroll() {
        let mut screen = screen(TopTab::Sessions);
        let rows = shown(&screen);
        let position = |rows: &[String], seid: &str| rows.iter().position(|row| row.contains(seid));
        assert!(position(&rows, "0x2") < position(&rows, "0x1"), "{rows:#?}");
        assert!(line(&rows, "by rate").contains("--sessions"), "{rows:#?}");
        screen.order = screen.order.next();
        screen.scrolled = 1;
        let rows = shown(&screen);
        assert!(line(&rows, "by rate").contains("uplink"), "{rows:#?}");
        assert_eq!(rows.iter().filter(|row| row.contains("0x")).count(), 2, "{rows:#?}");
    }

    #[test]
    fn workers_and_drops_are_shown_with_what_they_mean() {
        let rows = shown(&screen(TopTab::Workers));
        assert!(line(&rows, "62.5 %").contains("3.00 kpps"), "{rows:#?}");
        let rows = shown(&screen(TopTab::Drops));
        assert!(line(&rows, "rate_exceeded").contains("maximum bit rate"), "{rows:#?}");
    }

    #[test]
    fn adit_that_does_not_answer_is_reported_and_the_last_figures_stay() {
        let failure = Some("adit does not answer".to_owned());
        let rows = shown(&TopScreen { failure, is_paused: true, ..screen(TopTab::Overview) });
        assert!(
            rows[0].contains("adit does not answer") && rows[0].contains("paused"),
            "{rows:#?}"
        );
        assert!(line(&rows, "downlink").contains("16.00 Mbit/s"), "{rows:#?}");
        let rows = shown(&TopScreen::default());
        assert!(rows.iter().any(|row| row.contains("waiting for two looks")), "{rows:#?}");
    }

    #[test]
    fn small_terminal_is_no_fault() {
        for (width, height) in [(1, 1), (20, 3), (40, 8)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            for tab in TopTab::ALL {
                terminal.draw(|frame| screen(tab).draw(frame)).unwrap();
            }
        }
    }

    #[test]
    fn rates_have_prefixes() {
        assert_eq!(bits(999.0), "999 bit/s");
        assert_eq!(bits(1_500_000_000.0), "1.50 Gbit/s");
        assert_eq!(pkts(2_340_000.0), "2.34 Mpps");
    }
}
