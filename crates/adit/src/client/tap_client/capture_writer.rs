//! Writes the packets of a capture as pcapng, from their documents.

use std::io::{self, Write};

use super::pcapng::{CapturedFrame, FrameDirection, PcapngWriter};
use crate::tap::packet::{TracedFrame, TracedOutcome, TracedPacket};

/// Interface of packets that waited in adit: the port that received them is no longer known.
const WAITED_INTERFACE: &str = "waited in adit";

/// Writes a file of the capture.
#[derive(Debug)]
pub(crate) struct CaptureWriter<W> {
    writer: PcapngWriter<W>,
    /// Names of the ports, and [`WAITED_INTERFACE`].
    interfaces: Vec<String>,
    /// If set, only frames on this interface of adit are written.
    only: Option<String>,
    frames: u64,
    last_unix_ns: u64,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a file with an interface for each port. `only`: the one interface of adit to write.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub(crate) fn new(out: W, ports: &[String], only: Option<&str>) -> io::Result<Self> {
        let mut interfaces = ports.to_vec();
        interfaces.push(WAITED_INTERFACE.to_owned());
        let writer = PcapngWriter::new(out, &interfaces)?;
        Ok(Self { writer, interfaces, only: only.map(str::to_owned), frames: 0, last_unix_ns: 0 })
    }

    pub(crate) const fn output(&self) -> &W {
        self.writer.output()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Writes the frames of a packet.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn packet(&mut self, packet: &TracedPacket) -> io::Result<()> {
        self.last_unix_ns = packet.time_unix_ns;
        let verdict = comment(&packet.outcome);
        let TracedPacket { port, interface, len, octets, sent, .. } = packet;
        // A packet that waited may have no received frame here, only frames that leave.
        if octets.is_some() || sent.is_empty() {
            let (port, interface) = (port.clone().unwrap_or_default(), interface.clone());
            let (interface, octets) = (interface.unwrap_or_default(), octets.clone());
            let frame = TracedFrame { port, interface, len: *len, octets, headers: Vec::new() };
            self.frame(&frame, FrameDirection::Inbound, &verdict)?;
        }
        for sent in sent {
            self.frame(sent, FrameDirection::Outbound, &verdict)?;
        }
        Ok(())
    }

    fn frame(
        &mut self,
        frame: &TracedFrame,
        direction: FrameDirection,
        comment: &str,
    ) -> io::Result<()> {
        let TracedFrame { port, interface, len, octets, .. } = frame;
        if self.only.as_ref().is_some_and(|only| only != interface) {
            return Ok(());
        }
        let port = if port.is_empty() { WAITED_INTERFACE } else { port };
        let at = self.interfaces.iter().position(|name| name == port);
        let octets = hex_octets(octets.as_deref().unwrap_or_default());
        self.frames += 1;
        self.writer.frame(&CapturedFrame {
            interface: at.and_then(|at| u32::try_from(at).ok()).unwrap_or_default(),
            time_unix_ns: self.last_unix_ns,
            direction,
            len: *len,
            octets: &octets,
            comment,
        })
    }

    /// Flushes the octets written so far to the output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Ends the file. `lost`: how many packets are missing from it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn finish(&mut self, lost: u64) -> io::Result<()> {
        self.writer.finish(self.last_unix_ns, self.frames, lost)
    }
}

/// Describes the outcome of a packet in a line.
fn comment(TracedOutcome { kind, reason, text }: &TracedOutcome) -> String {
    match reason {
        Some(reason) => format!("{kind} {reason}: {text}"),
        None if kind == "sent" => "sent".to_owned(),
        None => format!("{kind}: {text}"),
    }
}

/// Parses hexadecimal digits into octets.
fn hex_octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    let (pairs, _) = digits.as_chunks::<2>();
    pairs.iter().map(|[high, low]| high << 4 | low).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn packet(n: u64) -> TracedPacket {
        let sent = TracedFrame {
            port: "core".to_owned(),
            interface: "n6".to_owned(),
            len: 40,
            octets: Some("a0".to_owned()),
            headers: Vec::new(),
        };
        let outcome = TracedOutcome {
            kind: "dropped".to_owned(),
            reason: Some("far_drop".to_owned()),
            text: "The FAR drops.".to_owned(),
        };
        TracedPacket {
            time_unix_ns: n,
            port: Some("access".to_owned()),
            interface: Some("n3".to_owned()),
            len: 60,
            octets: Some("0102ff".to_owned()),
            sent: vec![sent],
            outcome,
            ..TracedPacket::default()
        }
    }

    #[test]
    fn one_interface_gets_only_its_frames() {
        let ports = ["access", "core"].map(str::to_owned);
        for (only, frames) in [(None, 2), (Some("n6"), 1), (Some("n9"), 0)] {
            let mut file = Vec::new();
            let mut writer = CaptureWriter::new(&mut file, &ports, only).unwrap();
            writer.packet(&packet(1)).unwrap();
            assert_eq!(writer.frames, frames, "{only:?}");
        }
    }

    #[test]
    fn comment_names_the_reason_and_its_sentence() {
        assert_eq!(comment(&packet(1).outcome), "dropped far_drop: The FAR drops.");
        assert_eq!(hex_octets("0102ff"), [1, 2, 255]);
    }
}
