//! Frames as a capture file, and their fields as tshark reads them.

use std::io::Write;
use std::process::Command;

/// Frames with a MAC header.
const LINKTYPE_ETHERNET: u32 = 1;

/// Words by which a dissection marks a mistake.
pub const MARKS: [&str; 5] =
    ["Malformed", "Expert Info (Error", "Expert Info (Warning", "incorrect", "not decoded"];

/// A capture file of Ethernet frames, one microsecond apart.
#[must_use]
pub fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend(2_u16.to_le_bytes());
    file.extend(4_u16.to_le_bytes());
    file.extend([0; 8]);
    file.extend(65_535_u32.to_le_bytes());
    file.extend(LINKTYPE_ETHERNET.to_le_bytes());
    for (number, frame) in (0_u32..).zip(frames) {
        let len = u32::try_from(frame.len()).unwrap().to_le_bytes();
        file.extend(0_u32.to_le_bytes());
        file.extend(number.to_le_bytes());
        file.extend(len);
        file.extend(len);
        file.extend(frame);
    }
    file
}

/// A UDP datagram over IPv4 between two stations, with checksums.
#[must_use]
pub fn datagram(
    src: std::net::SocketAddrV4,
    dst: std::net::SocketAddrV4,
    payload: &[u8],
) -> Vec<u8> {
    let mac = |last| adit_types::MacAddr([2, 0, 0, 0, 0, last]);
    adit_testkit::packet::PacketBuilder::ethernet(mac(2), mac(1))
        .ipv4(*src.ip(), *dst.ip())
        .udp(src.port(), dst.port())
        .payload(payload)
        .build()
}

fn tshark(frames: &[Vec<u8>], args: &[&str]) -> Option<String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&pcap(frames)).unwrap();
    let checks = ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "tcp.check_checksum:TRUE"];
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file.path());
    for check in checks {
        command.arg("-o").arg(check);
    }
    let output = command.args(args).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The whole dissection of each frame; `None` without tshark.
#[must_use]
pub fn dissect(frames: &[Vec<u8>]) -> Option<Vec<String>> {
    let text = tshark(frames, &["-V"])?;
    let parts: Vec<String> = text.split("\nFrame ").map(str::to_owned).collect();
    assert_eq!(parts.len(), frames.len());
    Some(parts)
}

/// The values of `fields` in each frame, from the outside in, separated by commas.
#[must_use]
pub fn fields(frames: &[Vec<u8>], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut args = vec!["-T", "fields", "-E", "separator=|", "-E", "occurrence=a"];
    for field in fields {
        args.extend(["-e", field]);
    }
    let text = tshark(frames, &args)?;
    let rows: Vec<Vec<String>> =
        text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect();
    assert_eq!(rows.len(), frames.len());
    Some(rows)
}
