//! The copy of a packet with which the fast path is tried.

use adit_pktio::{PacketBuf, RxChecksum};
use adit_rules::LeaveReason;

/// Room in front of a copied frame: more than the fast path lengthens the headers by. Unit: octets.
const HEADROOM: usize = 128;

/// A copy of a packet that is neither charged, counted nor sent. Its mark is the index of a
/// [`LeaveReason`] in [`LeaveReason::ALL`].
pub(super) struct TrialPacket<'r> {
    room: &'r mut [u8],
    start: usize,
    end: usize,
    mark: u32,
    checksum: RxChecksum,
}

impl<'r> TrialPacket<'r> {
    /// Copies the packet in `buf`; `None` if it has several segments or is too long.
    pub(super) fn copy<B: PacketBuf>(buf: &B, room: &'r mut [u8]) -> Option<Self> {
        let frame = buf.data();
        let (start, end) = (HEADROOM, HEADROOM + frame.len());
        room.get_mut(start..end).filter(|_| buf.is_contiguous())?.copy_from_slice(frame);
        Some(Self { room, start, end, mark: 0, checksum: buf.rx_checksum() })
    }

    /// Returns why the fast path left the packet to the stages.
    pub(super) fn why(&self) -> LeaveReason {
        let why = usize::try_from(self.mark).ok().and_then(|at| LeaveReason::ALL.get(at));
        why.copied().unwrap_or(LeaveReason::Unnamed)
    }

    /// Returns where in the room the frame is.
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

/// Leaves a packet to the stages: returns `None`. In a trial, notes the reason in the copy.
#[inline(always)]
// PERF (adit-bench datapath): compiled away outside of trials.
pub(super) fn leave<B: PacketBuf, T>(buf: &mut B, why: LeaveReason) -> Option<T> {
    if B::IS_TRIAL {
        buf.set_mark(why as u32);
    }
    None
}
