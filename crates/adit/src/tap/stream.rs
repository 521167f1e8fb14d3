//! The answer to a trace or a capture: a line of JSON about it, a line for each packet, and a line
//! about its end.
//!
//! ```text
//! {"tap":{"interfaces":[…],"ports":[…],"notes":[…]}}
//! {"packet":1,"outcome":{…},…}
//! {"end":{"packets":1,"skipped":0,"why":"duration"}}
//! ```

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use super::news::{TapEnd, TapMessage, TapNames};
use super::packet::{TraceEnd, TraceHead, TraceLine, TracedPacket};
use super::packet_words;
use super::question::TapQuestion;
use super::words::{self, WordOptions};

/// Media type of the lines of JSON.
pub(crate) const JSON_LINES: &str = "application/x-ndjson";

/// How long the thread of a client waits for a record before it checks whether the client is gone.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A running tap, for the thread of its client. Drop ends the tap.
#[derive(Debug)]
pub(crate) struct TapStream {
    pub(super) question: TapQuestion,
    pub(super) names: Arc<TapNames>,
    /// Notes for the client before the first packet.
    pub(super) notes: Vec<String>,
    pub(super) news: Receiver<TapMessage>,
}

/// Writes the packets of an answer, and its end, in the form that a client gets.
///
/// # Errors
/// Each method returns the errors of the connection, which end the tap.
pub(crate) trait TapSink {
    /// Writes the next packet.
    fn packet(&mut self, packet: TracedPacket) -> anyhow::Result<()>;

    /// Sends the client the octets written so far, because no more packets are there now.
    fn flush(&mut self) -> anyhow::Result<()>;

    /// Ends the answer, which had `packets` packets.
    fn end(&mut self, packets: u64, end: TapEnd) -> anyhow::Result<()>;

    /// True if the client has closed the connection.
    fn is_closed(&self) -> bool;
}

impl TapStream {
    /// Names of the ports, by `PortId`.
    pub(crate) fn ports(&self) -> &[String] {
        &self.names.ports
    }

    /// Writes the packets until the tap ends or the client is gone.
    ///
    /// # Errors
    /// The client is gone, or does not read.
    pub(crate) fn serve(self, sink: &mut impl TapSink) -> anyhow::Result<()> {
        let Self { question, names, news, .. } = self;
        let TapQuestion { stages, path, snap_bytes, .. } = question;
        let options = WordOptions { headers_only: snap_bytes.is_none(), stages, path };
        let mut packets = 0;
        // The control thread closed the channel without an end of the tap: adit itself ends.
        let shutdown = TapEnd { why: "shutdown", skipped: 0 };
        let ended = loop {
            let next = match news.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => break shutdown,
                Err(TryRecvError::Empty) => {
                    sink.flush()?;
                    match news.recv_timeout(CLIENT_CHECK_INTERVAL) {
                        Ok(next) => next,
                        Err(RecvTimeoutError::Timeout) => TapMessage::Tick,
                        Err(RecvTimeoutError::Disconnected) => break shutdown,
                    }
                }
            };
            match next {
                TapMessage::Record(items) => {
                    packets += 1;
                    sink.packet(words::document(packets, &items, &names, options))?;
                }
                TapMessage::Tick if sink.is_closed() => return Ok(()),
                TapMessage::Tick => {}
                TapMessage::Ended(ended) => break ended,
            }
        };
        sink.end(packets, ended)?;
        sink.flush()
    }
}

/// The connection to which lines of JSON are written.
pub(crate) trait TapOutput: Write {
    /// True if the client has closed the connection.
    fn is_closed(&self) -> bool;
}

/// Writes the answer as lines of JSON, each packet with its description if the client requests it.
#[derive(Debug)]
pub(crate) struct JsonLines<W> {
    out: W,
    has_words: bool,
}

impl<W: TapOutput> JsonLines<W> {
    /// Begins the answer with the line about the tap.
    ///
    /// # Errors
    /// The connection fails.
    pub(crate) fn new(out: W, stream: &TapStream, has_words: bool) -> anyhow::Result<Self> {
        let TapNames { interfaces, ports, .. } = &*stream.names;
        let (interfaces, ports) = (interfaces.clone(), ports.clone());
        let mut lines = Self { out, has_words };
        let notes = stream.notes.clone();
        lines.line(&TraceLine::Head { tap: TraceHead { interfaces, ports, notes } })?;
        Ok(lines)
    }

    fn line(&mut self, line: &TraceLine) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        Ok(self.out.write_all(b"\n")?)
    }
}

impl<W: TapOutput> TapSink for JsonLines<W> {
    fn packet(&mut self, mut packet: TracedPacket) -> anyhow::Result<()> {
        packet.words = self.has_words.then(|| packet_words::words(&packet));
        self.line(&TraceLine::Packet(Box::new(packet)))
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    fn end(&mut self, packets: u64, TapEnd { why, skipped }: TapEnd) -> anyhow::Result<()> {
        self.line(&TraceLine::End { end: TraceEnd { packets, skipped, why: why.to_owned() } })
    }

    fn is_closed(&self) -> bool {
        self.out.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::sync_channel;

    use serde_json::{Value, json};

    use super::super::wish::CaptureWish;
    use super::*;

    /// A client that closes its connection before the tick with this number.
    struct TestClient {
        text: Vec<u8>,
        closes_at: usize,
        ticks: Cell<usize>,
    }

    impl TestClient {
        fn new(closes_at: usize) -> Self {
            Self { text: Vec::new(), closes_at, ticks: Cell::new(0) }
        }
    }

    impl Write for TestClient {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.text.write(octets)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl TapOutput for TestClient {
        fn is_closed(&self) -> bool {
            self.ticks.set(self.ticks.get() + 1);
            self.ticks.get() >= self.closes_at
        }
    }

    fn stream(news: Receiver<TapMessage>) -> TapStream {
        let question = CaptureWish { all: true, ..CaptureWish::default() }.check().unwrap();
        let names = TapNames { interfaces: Vec::new(), ports: Vec::new(), zero_unix_ns: 0 };
        TapStream { question, names: Arc::new(names), notes: Vec::new(), news }
    }

    #[test]
    fn answer_ends_with_what_was_skipped_and_why_it_ended() {
        let (sender, news) = sync_channel(4);
        sender.send(TapMessage::Tick).unwrap();
        sender.send(TapMessage::Ended(TapEnd { why: "duration", skipped: 9 })).unwrap();
        let stream = stream(news);
        let mut lines = JsonLines::new(TestClient::new(usize::MAX), &stream, false).unwrap();
        stream.serve(&mut lines).unwrap();
        let answer = String::from_utf8(lines.out.text).unwrap();
        let lines: Vec<Value> =
            answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines[0]["tap"].is_object(), "{answer}");
        assert_eq!(lines[1], json!({ "end": { "packets": 0, "skipped": 9, "why": "duration" } }));
    }

    #[test]
    fn client_that_is_gone_ends_the_stream_and_the_tap() {
        let (sender, news) = sync_channel(4);
        sender.send(TapMessage::Tick).unwrap();
        sender.send(TapMessage::Tick).unwrap();
        let stream = stream(news);
        let mut lines = JsonLines::new(TestClient::new(2), &stream, false).unwrap();
        stream.serve(&mut lines).unwrap();
        assert!(sender.send(TapMessage::Tick).is_err());
    }

    #[test]
    fn adit_that_ends_says_so() {
        let (sender, news) = sync_channel(4);
        drop(sender);
        let stream = stream(news);
        let mut lines = JsonLines::new(TestClient::new(usize::MAX), &stream, false).unwrap();
        stream.serve(&mut lines).unwrap();
        assert!(String::from_utf8(lines.out.text).unwrap().contains("shutdown"));
    }
}
