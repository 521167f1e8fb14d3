//! Captures for tshark.

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use adit_pfcp::PFCP_PORT;

const LINKTYPE_RAW: u32 = 101;

/// A capture of UDP datagrams over IPv4.
fn pcap(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend(2_u16.to_le_bytes());
    file.extend(4_u16.to_le_bytes());
    file.extend([0; 8]);
    file.extend(65_535_u32.to_le_bytes());
    file.extend(LINKTYPE_RAW.to_le_bytes());
    for datagram in datagrams {
        let total = u16::try_from(28 + datagram.len()).unwrap();
        file.extend([0; 8]);
        file.extend(u32::from(total).to_le_bytes());
        file.extend(u32::from(total).to_le_bytes());
        let [hi, lo] = total.to_be_bytes();
        file.extend([0x45, 0, hi, lo, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        file.extend(PFCP_PORT.to_be_bytes());
        file.extend(PFCP_PORT.to_be_bytes());
        file.extend((total - 20).to_be_bytes());
        file.extend([0, 0]);
        file.extend(datagram);
    }
    file
}

/// The output of `tshark` for the datagrams; `None` if it is not installed.
pub(crate) fn read_with(mut tshark: Command, datagrams: &[Vec<u8>]) -> Option<String> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("adit-pfcp-{}-{number}.pcap", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(&pcap(datagrams)).unwrap();
    let output = tshark.arg("-r").arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let Ok(output) = output else {
        adit_testkit::skip("tshark not found");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}
