//! Copies of packets that the fast path is tried with.

use adit_pktio::{PacketBuf, RxChecksum};
use adit_rules::LeaveReason;

/// Octets in front of a copied frame: more than new headers are longer than the received ones.
const HEADROOM: usize = 128;

/// A copy of a packet, which is neither charged, counted nor sent. Its mark is the position of a
/// [`LeaveReason`].
pub(super) struct TrialPacket<'r> {
    room: &'r mut [u8],
    start: usize,
    end: usize,
    mark: u32,
    checksum: RxChecksum,
}

impl<'r> TrialPacket<'r> {
    /// A copy of the packet in `buf`; `None` if it has several segments, or is too long.
    pub(super) fn copy<B: PacketBuf>(buf: &B, room: &'r mut [u8]) -> Option<Self> {
        let frame = buf.data();
        let (start, end) = (HEADROOM, HEADROOM + frame.len());
        room.get_mut(start..end).filter(|_| buf.is_contiguous())?.copy_from_slice(frame);
        Some(Self { room, start, end, mark: 0, checksum: buf.rx_checksum() })
    }

    /// Why the fast path left it to the stages.
    pub(super) fn why(&self) -> LeaveReason {
        let why = usize::try_from(self.mark).ok().and_then(|at| LeaveReason::ALL.get(at));
        why.copied().unwrap_or(LeaveReason::Unnamed)
    }

    /// Where its frame is in its room.
    pub(super) const fn place(&self) -> core::ops::Range<usize> {
        self.start..self.end
    }
}

impl PacketBuf for TrialPacket<'_> {
    const IS_TRIAL: bool = true;

    fn data(&self) -> &[u8] {
        self.room.get(self.start..self.end).unwrap_or_default()
    }

    fn data_mut(&mut self) -> &mut [u8] {
        self.room.get_mut(self.start..self.end).unwrap_or_default()
    }

    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(len)?;
        Some(self.data_mut())
    }

    fn trim_front(&mut self, len: usize) -> bool {
        let fits = len <= self.end - self.start;
        self.start += if fits { len } else { 0 };
        fits
    }

    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        self.end = self.end.checked_add(len).filter(|end| *end <= self.room.len())?;
        Some(self.data_mut())
    }

    fn truncate(&mut self, len: usize) -> bool {
        let fits = len <= self.end - self.start;
        self.end = if fits { self.start + len } else { self.end };
        fits
    }

    fn replace_front(&mut self, cut: usize, add: usize, keep: usize) -> Option<&mut [u8]> {
        let behind = self.start + cut;
        let start = behind.checked_sub(add)?;
        if keep > self.end.checked_sub(behind)? {
            return None;
        }
        (self.start, self.end) = (start, behind + keep);
        Some(self.data_mut())
    }

    fn mark(&self) -> u32 {
        self.mark
    }

    fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }

    fn rx_checksum(&self) -> RxChecksum {
        self.checksum
    }
}

/// Leaves a packet to the stages. In a trial it notes why.
#[inline(always)]
// PERF (adit-bench datapath): nothing of it is left outside of trials.
pub(super) fn leave<B: PacketBuf, T>(buf: &mut B, why: LeaveReason) -> Option<T> {
    if B::IS_TRIAL {
        buf.set_mark(why as u32);
    }
    None
}
