//! Writes the packets of a capture as pcapng, from their documents.

use std::io::{self, Write};

use serde_json::Value;

use super::pcapng::{CapturedFrame, FrameDirection, PcapngWriter};

/// The interface of packets of which it is unknown where they arrived: they waited.
const WAITED: &str = "waited in adit";

/// One file.
#[derive(Debug)]
pub(crate) struct CaptureWriter<W> {
    writer: PcapngWriter<W>,
    /// Names of the ports, and [`WAITED`].
    interfaces: Vec<String>,
    /// Only frames on this interface of adit.
    only: Option<String>,
    frames: u64,
    last_unix_ns: u64,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a file with an interface for each port. `only`: frames on one interface of adit.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn new(out: W, ports: &[String], only: Option<&str>) -> io::Result<Self> {
        let mut interfaces = ports.to_vec();
        interfaces.push(WAITED.to_owned());
        let writer = PcapngWriter::new(out, &interfaces)?;
        Ok(Self { writer, interfaces, only: only.map(str::to_owned), frames: 0, last_unix_ns: 0 })
    }

    /// Where it is written.
    pub(crate) const fn output(&self) -> &W {
        self.writer.output()
    }

    /// Octets written so far.
    pub(crate) const fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Writes the frames of a packet.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn packet(&mut self, packet: &Value) -> io::Result<()> {
        self.last_unix_ns = packet["time_unix_ns"].as_u64().unwrap_or_default();
        let verdict = comment(packet);
        // For a packet that waited, there may be only the frame that leaves.
        if packet.get("octets").is_some() || packet.get("sent").is_none() {
            self.frame(packet, FrameDirection::Inbound, &verdict)?;
        }
        for sent in packet["sent"].as_array().into_iter().flatten() {
            self.frame(sent, FrameDirection::Outbound, &verdict)?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Value, direction: FrameDirection, comment: &str) -> io::Result<()> {
        if self.only.is_some() && self.only.as_deref() != frame["interface"].as_str() {
            return Ok(());
        }
        let port = frame["port"].as_str().unwrap_or(WAITED);
        let at = self.interfaces.iter().position(|name| name == port);
        let octets = octets(frame["octets"].as_str().unwrap_or_default());
        let len = frame["len"].as_u64().and_then(|len| u32::try_from(len).ok());
        self.frames += 1;
        self.writer.frame(&CapturedFrame {
            interface: at.and_then(|at| u32::try_from(at).ok()).unwrap_or_default(),
            time_unix_ns: self.last_unix_ns,
            direction,
            len: len.unwrap_or_default(),
            octets: &octets,
            comment,
        })
    }

    /// Hands the octets written so far to the reader.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Ends the file. `lost`: packets that should be in it and are not.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn finish(&mut self, lost: u64) -> io::Result<()> {
        self.writer.finish(self.last_unix_ns, self.frames, lost)
    }
}

/// The outcome of a packet, in a line.
fn comment(packet: &Value) -> String {
    let outcome = &packet["outcome"];
    let word = |key: &str| outcome[key].as_str().unwrap_or_default();
    match outcome["reason"].as_str() {
        Some(reason) => format!("{} {reason}: {}", word("kind"), word("text")),
        None if word("kind") == "sent" => "sent".to_owned(),
        None => format!("{}: {}", word("kind"), word("text")),
    }
}

/// The octets of hexadecimal digits.
fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    let (pairs, _) = digits.as_chunks::<2>();
    pairs.iter().map(|[high, low]| high << 4 | low).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn packet(n: u64) -> Value {
        json!({
            "time_unix_ns": n, "port": "access", "interface": "n3", "len": 60, "octets": "0102ff",
            "sent": [{ "port": "core", "interface": "n6", "len": 40, "octets": "a0" }],
            "outcome": { "kind": "dropped", "reason": "far_drop", "text": "The FAR drops." },
        })
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
        assert_eq!(comment(&packet(1)), "dropped far_drop: The FAR drops.");
        assert_eq!(octets("0102ff"), [1, 2, 255]);
    }
}
