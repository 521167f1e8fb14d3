//! The answer to a trace or a capture: a line of JSON about it, a line for each packet, and a line about its end.
//!
//! ```text
//! {"tap":{"interfaces":[…],"ports":[…],"notes":[…]}}
//! {"packet":1,"outcome":{…},…}
//! {"end":{"packets":1,"skipped":0,"why":"duration"}}
//! ```

use std::io::{BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use rustix::net::RecvFlags;
use serde_json::{Value, json};

use super::news::{TapEnd, TapNames, TapNews};
use super::question::CheckedQuestion;
use super::words::{self, WordOptions};

/// The client's thread looks at its socket at least once in this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// A tap that runs, for the client's thread. Drop ends it.
#[derive(Debug)]
pub(crate) struct TapStream {
    pub(super) question: CheckedQuestion,
    pub(super) names: Arc<TapNames>,
    /// What the client should know before the first packet.
    pub(super) notes: Vec<String>,
    pub(super) news: Receiver<TapNews>,
}

impl TapStream {
    /// What it is and what it is about, for the log.
    pub(crate) fn subject(&self) -> (&'static str, String) {
        let what = if self.question.stages { "trace" } else { "capture" };
        (what, self.question.subject())
    }

    /// Writes the answer until the tap ends or the client is gone.
    ///
    /// # Errors
    /// The client is gone, or does not read.
    pub(crate) fn serve(self, client: &UnixStream) -> anyhow::Result<()> {
        let Self { question, names, notes, news } = self;
        let options =
            WordOptions { headers_only: question.snap_bytes.is_none(), stages: question.stages };
        let mut out = BufWriter::new(client);
        let TapNames { interfaces, ports, .. } = &*names;
        let head = json!({ "interfaces": interfaces, "ports": ports, "notes": notes });
        write_line(&mut out, &json!({ "tap": head }))?;
        let mut packets = 0;
        loop {
            let next = match news.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => return end(out, packets, None),
                Err(TryRecvError::Empty) => {
                    out.flush()?;
                    match news.recv_timeout(PATIENCE) {
                        Ok(next) => next,
                        Err(RecvTimeoutError::Timeout) => TapNews::Tick,
                        Err(RecvTimeoutError::Disconnected) => return end(out, packets, None),
                    }
                }
            };
            match next {
                TapNews::Record(items) => {
                    packets += 1;
                    let document = words::document(packets, &items, &names, options);
                    write_line(&mut out, &document)?;
                }
                TapNews::Tick if is_closed(client) => return Ok(()),
                TapNews::Tick => {}
                TapNews::Ended(ended) => return end(out, packets, Some(ended)),
            }
        }
    }
}

/// Writes the last line. Without an end of the tap, adit itself ends.
fn end(mut out: impl Write, packets: u64, ended: Option<TapEnd>) -> anyhow::Result<()> {
    let TapEnd { why, skipped } = ended.unwrap_or(TapEnd { why: "shutdown", skipped: 0 });
    write_line(
        &mut out,
        &json!({ "end": { "packets": packets, "skipped": skipped, "why": why } }),
    )?;
    Ok(out.flush()?)
}

fn write_line(out: &mut impl Write, line: &Value) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    Ok(out.write_all(b"\n")?)
}

/// True if the client has closed its side.
fn is_closed(client: &UnixStream) -> bool {
    let mut octet = [0];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(client, &mut octet[..], flags), Ok((0, _)))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc::sync_channel;

    use super::super::question::TapQuestion;
    use super::*;

    fn stream(news: Receiver<TapNews>) -> TapStream {
        let question = TapQuestion::default().check().unwrap();
        let names = TapNames { interfaces: Vec::new(), ports: Vec::new(), zero_unix_ns: 0 };
        TapStream { question, names: Arc::new(names), notes: Vec::new(), news }
    }

    #[test]
    fn answer_ends_with_what_was_skipped_and_why_it_ended() {
        let (adit, mut client) = UnixStream::pair().unwrap();
        let (sender, news) = sync_channel(4);
        sender.send(TapNews::Tick).unwrap();
        sender.send(TapNews::Ended(TapEnd { why: "duration", skipped: 9 })).unwrap();
        stream(news).serve(&adit).unwrap();
        drop(adit);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let lines: Vec<Value> =
            answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines[0]["tap"].is_object(), "{answer}");
        assert_eq!(lines[1], json!({ "end": { "packets": 0, "skipped": 9, "why": "duration" } }));
    }

    #[test]
    fn client_that_is_gone_ends_the_stream_and_the_tap() {
        let (adit, client) = UnixStream::pair().unwrap();
        let (sender, news) = sync_channel(4);
        sender.send(TapNews::Tick).unwrap();
        drop(client);
        // It ends at the first sign of life, or because nobody reads.
        let _ = stream(news).serve(&adit);
        assert!(sender.send(TapNews::Tick).is_err());
    }
}
