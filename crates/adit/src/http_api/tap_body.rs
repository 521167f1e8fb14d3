//! The response body of a trace or a capture: a thread writes it as packets arrive, and the
//! connection sends it in parts.

use std::convert::Infallible;
use std::io::{self, Write};

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::client::tap_client::capture_writer::CaptureWriter;
use crate::tap::packet::TracedPacket;
use crate::tap::{TapEnd, TapOutput, TapSink};

/// Size at which a part goes to the connection; one packet may make a part larger. Unit: octets.
const PART_BYTES: usize = 16 << 10;

/// Most parts that wait for the connection. Slower clients lose packets, which are counted.
const PARTS_MAX: usize = 8;

/// The writer of the thread. The connection drops the receiver of `parts` when its client is gone.
#[derive(Debug)]
pub(super) struct BodyWriter {
    parts: Sender<Bytes>,
    part: Vec<u8>,
}

/// Returns a response body and the writer that fills it.
pub(super) fn body() -> (BodyWriter, Body) {
    let (parts, written) = channel(PARTS_MAX);
    let next = |mut written: Receiver<Bytes>| async {
        let part = written.recv().await?;
        Some((Ok::<_, Infallible>(part), written))
    };
    let body = Body::from_stream(stream::unfold(written, next));
    (BodyWriter { parts, part: Vec::new() }, body)
}

impl Write for BodyWriter {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.part.extend(octets);
        if self.part.len() >= PART_BYTES {
            self.flush()?;
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.part.is_empty() {
            return Ok(());
        }
        let part = core::mem::take(&mut self.part);
        self.parts.blocking_send(part.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl TapOutput for BodyWriter {
    fn is_closed(&self) -> bool {
        self.parts.is_closed()
    }
}

/// A capture as pcapng.
#[derive(Debug)]
pub(super) struct CaptureBody(pub CaptureWriter<BodyWriter>);

impl TapSink for CaptureBody {
    fn packet(&mut self, packet: TracedPacket) -> anyhow::Result<()> {
        Ok(self.0.packet(&packet)?)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.0.flush()?)
    }

    fn end(&mut self, _: u64, TapEnd { skipped, .. }: TapEnd) -> anyhow::Result<()> {
        Ok(self.0.finish(skipped)?)
    }

    fn is_closed(&self) -> bool {
        self.0.output().is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writer_ends_when_nobody_has_the_body() {
        let (mut writer, body) = body();
        writer.write_all(b"x").unwrap();
        writer.flush().unwrap();
        assert!(!writer.is_closed());
        drop(body);
        assert!(writer.is_closed());
        writer.write_all(b"y").unwrap();
        assert_eq!(writer.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
