//! Writes and sends frames that Adit makes itself: requests, announcements and answers.

pub(crate) mod arp;
pub(crate) mod echo;
pub(crate) mod end_marker;
pub(crate) mod gtpu;
pub(crate) mod ip;
pub(crate) mod kernel_frames;
pub(crate) mod neighbor_discovery;

use adit_pktio::PacketBuf;

/// Makes the packet in `buf` exactly `len` octets long, with unspecified contents. `None` if the
/// buffer is too small.
pub(crate) fn resize<B: PacketBuf>(buf: &mut B, len: usize) -> Option<&mut [u8]> {
    let have = buf.data().len();
    if have >= len {
        return buf.truncate(len).then(|| buf.data_mut());
    }
    buf.append(len - have)
}
