//! `adit show`: one document, or with `--watch` again and again.

use std::io::{BufWriter, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::admin::{AdminQuestion, SessionFilter};
use crate::cli::{MetricsFormat, ShowArguments, Topic};
use crate::client::show;

/// Erases the screen and moves the cursor to its upper left. Spec: ECMA-48 §8.3.39, §8.3.21.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Prints the topic of the arguments once, or with `--watch` until Ctrl-C.
///
/// # Errors
/// The arguments do not go together; or an error of [`show::show`].
pub(crate) fn show(arguments: &ShowArguments) -> anyhow::Result<()> {
    let question = question(arguments)?;
    let stdout = std::io::stdout();
    let print = || {
        let mut out = BufWriter::new(stdout.lock());
        show::show(arguments.socket.path(), &question, arguments.form, &mut out)
    };
    let Some(seconds) = arguments.watch else { return print() };
    let interval = Duration::from_secs(seconds);
    let is_screen = stdout.is_terminal() && !arguments.form.as_json;
    loop {
        let began = Instant::now();
        if is_screen {
            let word = question.topic.word();
            print_line(&format!("{CLEAR}adit show {word}, every {seconds} s; Ctrl-C ends\n"))?;
        }
        print()?;
        std::thread::sleep(interval.saturating_sub(began.elapsed()));
    }
}

fn print_line(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn question(arguments: &ShowArguments) -> anyhow::Result<AdminQuestion> {
    let ShowArguments { what: topic, session, filter, limit, format, .. } = arguments;
    SessionFilter::parse(filter).map_err(anyhow::Error::msg)?;
    let word = topic.word();
    if session.is_some() && *topic != Topic::Qos {
        bail!("\"{word}\" is not shown by session; leave it out");
    }
    if !filter.is_empty() && *topic != Topic::Sessions {
        bail!("\"{word}\" has no filter; leave it out");
    }
    if limit.is_some() && !topic.is_paged() {
        bail!("\"{word}\" has no limit; leave it out");
    }
    if *limit == Some(0) {
        bail!("the limit is 1 or more");
    }
    if *format != MetricsFormat::default() && *topic != Topic::Metrics {
        bail!("\"{word}\" has no text format; leave it out");
    }
    let (session, filter) = (session.clone(), filter.clone());
    Ok(AdminQuestion { topic: *topic, session, filter, rows_max: *limit, format: *format })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{AditCli, AditCommand};
    use clap::Parser;

    fn asked(line: &str) -> Result<AdminQuestion, String> {
        let cli = AditCli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
        let AditCommand::Show(arguments) = cli.command else { panic!("{line}") };
        question(&arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn filters_and_limits_are_part_of_the_question() {
        let asked = asked("adit show sessions --dnn internet --ue 10.60.0.1 --limit 5").unwrap();
        assert_eq!(asked.rows_max, Some(5));
        assert_eq!(asked.filter.dnn.as_deref(), Some("internet"));
        assert!(asked.filter.ue.is_some());
    }

    #[test]
    fn arguments_that_do_not_go_together_are_refused_with_what_to_do() {
        for (line, part) in [
            ("adit show paths --dnn internet", "has no filter"),
            ("adit show ports --limit 5", "has no limit"),
            ("adit show sessions 10.60.0.1", "leave it out"),
            ("adit show sessions --ue x", "not an IP address"),
            ("adit show sessions --limit 0", "1 or more"),
            ("adit show ports --watch=0", "--watch"),
            ("adit show ports --format prometheus", "no text format"),
        ] {
            let refused = asked(line).unwrap_err();
            assert!(refused.contains(part), "{line}: {refused}");
        }
    }
}
