//! Writes pcapng: a section, an interface per port, packets with direction and comment, and
//! statistics at the end.
//!
//! Spec: draft-ietf-opsawg-pcapng §4. Octets are little-endian, which readers see by the section's
//! byte-order magic.

use std::io::{self, Write};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINK_ETHERNET: u16 = 1;

/// Codes of options: those of any block, and those of single kinds of blocks.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;

/// Resolution of time stamps, as the negative power of ten of a second: nanoseconds.
const TIME_RESOLUTION: u8 = 9;

/// Whether a frame was received or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameDirection {
    Inbound,
    Outbound,
}

/// A frame to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct CapturedFrame<'f> {
    /// Index of the frame's interface in the file.
    pub interface: u32,
    /// Time of the frame. Unit: nanoseconds since 1970-01-01 00:00 UTC.
    pub time_unix_ns: u64,
    pub direction: FrameDirection,
    /// Length of the frame on the wire. Unit: octets.
    pub len: u32,
    /// The captured octets.
    pub octets: &'f [u8],
    pub comment: &'f str,
}

/// Writes a pcapng file.
#[derive(Debug)]
pub(super) struct PcapngWriter<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a file with an interface for each name.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub(super) fn new(out: W, interfaces: &[String]) -> io::Result<Self> {
        let mut writer = Self { out, bytes: 0 };
        let mut body = Vec::new();
        body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend([1_u16, 0].map(u16::to_le_bytes).as_flattened());
        // The length of the section is not known yet.
        body.extend(u64::MAX.to_le_bytes());
        option(
            &mut body,
            SECTION_APPLICATION,
            concat!("adit ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        end_options(&mut body);
        writer.block(SECTION, &body)?;
        for name in interfaces {
            let mut body = Vec::new();
            body.extend([LINK_ETHERNET, 0].map(u16::to_le_bytes).as_flattened());
            // Snap length zero: there is no limit.
            body.extend(0_u32.to_le_bytes());
            option(&mut body, INTERFACE_NAME, name.as_bytes());
            option(&mut body, INTERFACE_RESOLUTION, &[TIME_RESOLUTION]);
            end_options(&mut body);
            writer.block(INTERFACE, &body)?;
        }
        Ok(writer)
    }

    pub(super) const fn output(&self) -> &W {
        &self.out
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn frame(&mut self, frame: &CapturedFrame<'_>) -> io::Result<()> {
        let CapturedFrame { interface, time_unix_ns, direction, len, octets, comment } = *frame;
        let mut body = Vec::new();
        body.extend(interface.to_le_bytes());
        time(&mut body, time_unix_ns);
        let captured = u32::try_from(octets.len()).unwrap_or(u32::MAX);
        body.extend(captured.to_le_bytes());
        body.extend(len.max(captured).to_le_bytes());
        body.extend(octets);
        pad(&mut body);
        let flags: u32 = match direction {
            FrameDirection::Inbound => 1,
            FrameDirection::Outbound => 2,
        };
        option(&mut body, PACKET_FLAGS, &flags.to_le_bytes());
        option(&mut body, COMMENT, comment.as_bytes());
        end_options(&mut body);
        self.block(ENHANCED_PACKET, &body)
    }

    /// Ends the file with statistics of the first interface: how many packets were captured, and
    /// how many were lost.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn finish(&mut self, time_unix_ns: u64, captured: u64, lost: u64) -> io::Result<()> {
        let mut body = Vec::new();
        body.extend(0_u32.to_le_bytes());
        time(&mut body, time_unix_ns);
        option(&mut body, STATISTICS_RECEIVED, &captured.saturating_add(lost).to_le_bytes());
        option(&mut body, STATISTICS_DROPPED, &lost.to_le_bytes());
        end_options(&mut body);
        self.block(STATISTICS, &body)?;
        self.out.flush()
    }

    /// Flushes the octets written so far to the output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let len = u32::try_from(body.len() + 12).map_err(io::Error::other)?;
        self.bytes += u64::from(len);
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&len.to_le_bytes())
    }
}

/// Appends a time stamp, whose upper half comes first.
fn time(body: &mut Vec<u8>, ns: u64) {
    body.extend((ns >> 32).to_le_bytes().iter().take(4));
    body.extend(ns.to_le_bytes().iter().take(4));
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    // Cuts octets that the 16-bit length cannot count.
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    body.extend([code, len].map(u16::to_le_bytes).as_flattened());
    body.extend(value);
    pad(body);
}

fn end_options(body: &mut Vec<u8>) {
    option(body, END_OF_OPTIONS, &[]);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_layout_of_the_draft() {
        let mut file = Vec::new();
        let mut writer = PcapngWriter::new(&mut file, &["n3".to_owned()]).unwrap();
        let before = writer.bytes();
        let frame = CapturedFrame {
            interface: 0,
            time_unix_ns: 0x1_0000_0002,
            direction: FrameDirection::Outbound,
            len: 60,
            octets: &[1, 2, 3],
            comment: "sent",
        };
        writer.frame(&frame).unwrap();
        writer.finish(5, 7, 2).unwrap();
        let total = writer.bytes();
        let words: Vec<u32> = {
            let (words, rest) = file.as_chunks::<4>();
            assert!(rest.is_empty());
            words.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        assert_eq!(total, file.len() as u64);
        assert_eq!(words[..3], [SECTION, words[1], BYTE_ORDER_MAGIC]);
        let packet = &words[usize::try_from(before).unwrap() / 4..];
        let comment = u32::from_le_bytes(*b"sent");
        let [flags, comment_head] =
            [4 << 16 | u32::from(PACKET_FLAGS), 4 << 16 | u32::from(COMMENT)];
        let octets = 0x0003_0201;
        let head = [ENHANCED_PACKET, 56, 0, 1, 2, 3, 60, octets];
        let expected = [&head[..], &[flags, 2, comment_head, comment, 0, 56]].concat();
        assert_eq!(packet[..14], expected);
        let expected = [STATISTICS, 52, 0, 0, 5, 8 << 16 | 4, 9, 0, 8 << 16 | 5, 2, 0, 0, 52];
        assert_eq!(packet[14..], expected, "{packet:?}");
    }
}
