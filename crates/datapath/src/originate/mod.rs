//! Frames that Adit makes itself: requests, announcements and answers, written and sent.

pub(crate) mod arp;
pub(crate) mod echo;
pub(crate) mod end_marker;
pub(crate) mod gtpu;
pub(crate) mod ip;
pub(crate) mod kernel_frames;
pub(crate) mod neighbor_discovery;

use adit_pktio::PacketBuf;

/// Gives the packet in `buf` exactly `len` octets, whose contents are unspecified.
pub(crate) fn resize<B: PacketBuf>(buf: &mut B, len: usize) -> Option<&mut [u8]> {
    let have = buf.data().len();
    if have >= len {
        return buf.truncate(len).then(|| buf.data_mut());
    }
    buf.append(len - have)
}
