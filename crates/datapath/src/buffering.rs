//! Stores the packets that FARs buffer. [`crate::stage::divert`] puts packets here, and
//! [`crate::resume`] takes them out again.
//!
//! A packet keeps the PDR that it matched and the FAR that buffers it. Packets of one session are
//! kept in the order in which they came.
//! Spec: TS 29.244 §5.2.3 (buffering), §5.2.4.2 (buffered packets were processed before), §8.2.26
//! (Apply Action), §8.2.31 (DROBU).

use adit_pktio::PacketBuf;
use adit_rules::{DataDelivery, DeltaId, DropReason, PublishedRules};
use adit_types::limits::BUFFER_PKTS_MAX;
use adit_types::{Nanos, PdrId, Seid, SessionIndex};

use crate::owned_packet::OwnedPacket;
use crate::tally::StepTally;

/// Longest wait of a packet while the rules do not change: paging takes seconds, and a control
/// plane that has not decided after a minute has forgotten the session.
const WAIT_MAX: Nanos = Nanos::from_secs(60);

/// A notice of buffered data is not repeated within this time, so that a busy session does not fill
/// the ring of events. Later it is repeated: the event may have been lost, or the control plane did
/// not accept the report.
const NOTICE_INTERVAL: Nanos = Nanos::from_secs(1);

/// How many notices are remembered. A forgotten one is sent again; the control thread recognizes
/// it.
const NOTICES_REMEMBERED_MAX: usize = 1024;

/// Stands for no packet and for no session.
const NONE: u32 = u32::MAX;

/// A buffered packet.
pub(crate) struct BufferedPacket<B> {
    pub packet: OwnedPacket<B>,
    pub since: Nanos,
    /// The slot of the session's next packet, or `NONE`.
    next: u32,
}

/// A session that has buffered packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferedSession {
    pub session: SessionIndex,
    pub up_seid: Seid,
    /// The generation of the rules when the first packet came. Later rules release the packets.
    pub generation: DeltaId,
    /// [`PublishedRules::buffer_epoch`] when the first packet came. Rules with another epoch
    /// discard the packets.
    pub epoch: u32,
    /// The slot of the session's oldest packet.
    pub first: u32,
    last: u32,
    pub count: u32,
}

/// A buffered packet on its way to another worker.
pub(crate) struct MovedPacket<B> {
    of: SessionMark,
    since: Nanos,
    packet: OwnedPacket<B>,
}

/// State that the buffered packets of a session share.
#[derive(Debug, Clone, Copy)]
struct SessionMark {
    up_seid: Seid,
    generation: DeltaId,
    epoch: u32,
}

/// The last notice of buffered data that was sent for a session and PDR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notice {
    pub up_seid: Seid,
    pub generation: DeltaId,
    pub pdr: PdrId,
    pub delivery: Option<DataDelivery>,
    pub at: Nanos,
}

/// The buffered packets of one worker.
pub(crate) struct Buffering<B> {
    packets: Vec<Option<BufferedPacket<B>>>,
    free: Vec<u32>,
    waiting: Vec<BufferedSession>,
    /// The session's position in `waiting`, by session index.
    by_session: Vec<u32>,
    /// Position in `waiting` at which the next review begins.
    cursor: usize,
    notices: Vec<Option<Notice>>,
}

impl<B: PacketBuf> Buffering<B> {
    /// Allocates all memory, for `pkts_max` packets of `sessions_max` sessions.
    pub(crate) fn new(pkts_max: usize, sessions_max: usize) -> Self {
        let pkts_max = pkts_max.min(BUFFER_PKTS_MAX);
        let mut packets = Vec::new();
        packets.resize_with(pkts_max, || None);
        Self {
            packets,
            free: (0..).take(pkts_max).collect(),
            waiting: Vec::with_capacity(pkts_max.min(sessions_max)),
            by_session: vec![NONE; sessions_max],
            cursor: 0,
            notices: vec![None; NOTICES_REMEMBERED_MAX],
        }
    }

    /// Returns how many packets are buffered.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// True if packets of `session` are buffered.
    #[inline]
    pub(crate) fn has_packets_of(&self, session: SessionIndex) -> bool {
        !self.waiting.is_empty()
            && self.by_session.get(session.0 as usize).is_some_and(|at| *at != NONE)
    }

    /// True if no packet is buffered.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the position of `session` in the list of sessions with packets.
    #[inline]
    pub(crate) fn position(&self, session: SessionIndex) -> Option<usize> {
        let at = *self.by_session.get(session.0 as usize)?;
        (at != NONE).then_some(at as usize)
    }

    /// Appends a packet to those of its session. Returns false, and drops the packet, if the
    /// session has `session_pkts_max` packets already or no slot is free.
    pub(crate) fn push(
        &mut self,
        packet: OwnedPacket<B>,
        rules: &PublishedRules,
        session_pkts_max: u16,
        now: Nanos,
    ) -> bool {
        let PublishedRules { up_seid, generation, buffer_epoch: epoch, .. } = *rules;
        let of = SessionMark { up_seid, generation, epoch };
        self.insert(MovedPacket { of, since: now, packet }, session_pkts_max.into())
    }

    /// Does the work of [`Self::push`], also for a packet that comes from another worker.
    fn insert(&mut self, moved: MovedPacket<B>, session_pkts_max: u32) -> bool {
        let MovedPacket { of: SessionMark { up_seid, generation, epoch }, since, packet } = moved;
        let session = packet.session;
        let known = self.position(session);
        let count = known.map_or(0, |at| self.waiting[at].count);
        if count >= session_pkts_max || self.by_session.len() <= session.0 as usize {
            return false;
        }
        let Some(slot) = self.free.pop() else { return false };
        self.packets[slot as usize] = Some(BufferedPacket { packet, since, next: NONE });
        match known {
            Some(at) => {
                let last = core::mem::replace(&mut self.waiting[at].last, slot);
                self.waiting[at].count += 1;
                if let Some(Some(last)) = self.packets.get_mut(last as usize) {
                    last.next = slot;
                }
            }
            None => {
                let at = u32::try_from(self.waiting.len()).unwrap_or(NONE);
                self.by_session[session.0 as usize] = at;
                let (first, last, count) = (slot, slot, 1);
                self.waiting.push(BufferedSession {
                    session,
                    up_seid,
                    generation,
                    epoch,
                    first,
                    last,
                    count,
                });
            }
        }
        true
    }

    /// Moves the packets of the sessions for which `is_moving` is true into `moved`; each session's
    /// packets keep their order.
    #[cold]
    pub(crate) fn take_moving(
        &mut self,
        is_moving: &dyn Fn(SessionIndex) -> bool,
        moved: &mut Vec<MovedPacket<B>>,
    ) {
        let mut at = 0;
        while let Some(BufferedSession { session, up_seid, generation, epoch, .. }) =
            self.session_at(at)
        {
            if !is_moving(session) {
                at += 1;
                continue;
            }
            let of = SessionMark { up_seid, generation, epoch };
            let mut slot = self.take_session(at).first;
            while let Some(BufferedPacket { packet, since, next }) = self.take_packet(slot) {
                moved.push(MovedPacket { of, since, packet });
                slot = next;
            }
        }
    }

    /// Appends packets that were buffered in another worker. Drops a packet if no slot is free.
    #[cold]
    pub(crate) fn put(&mut self, moved: &mut Vec<MovedPacket<B>>, tally: &mut StepTally) {
        for packet in moved.drain(..) {
            if !self.insert(packet, u32::MAX) {
                tally.drop_waiting(DropReason::BufferFull, &[]);
            }
        }
    }

    /// Removes the session at position `at` from the list. Its packets stay in their slots.
    pub(crate) fn take_session(&mut self, at: usize) -> BufferedSession {
        let waiting = self.waiting.swap_remove(at);
        self.by_session[waiting.session.0 as usize] = NONE;
        if let (Some(moved), Ok(at)) = (self.waiting.get(at), u32::try_from(at)) {
            self.by_session[moved.session.0 as usize] = at;
        }
        waiting
    }

    /// Removes and returns the packet in `slot`.
    fn take_packet(&mut self, slot: u32) -> Option<BufferedPacket<B>> {
        let held = self.packets.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(held)
    }

    /// Removes the packet in `slot`. Returns it, when it was buffered, and the slot of the next
    /// one.
    pub(crate) fn take_with_next(&mut self, slot: u32) -> Option<(OwnedPacket<B>, Nanos, u32)> {
        let BufferedPacket { packet, since, next } = self.take_packet(slot)?;
        Some((packet, since, next))
    }

    /// Returns the session at position `at` in the list of sessions with packets.
    pub(crate) fn session_at(&self, at: usize) -> Option<BufferedSession> {
        self.waiting.get(at).copied()
    }

    /// Returns how many sessions have packets.
    pub(crate) fn session_count(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the position of the next session to review; sessions are reviewed in turn.
    pub(crate) fn next_review(&mut self) -> Option<usize> {
        let at = self.cursor.checked_rem(self.waiting.len())?;
        self.cursor = at + 1;
        Some(at)
    }

    /// Discards all packets of the session at position `at`.
    pub(crate) fn discard(&mut self, at: usize, tally: &mut StepTally) {
        let mut slot = self.take_session(at).first;
        while let Some(held) = self.take_packet(slot) {
            tally.drop_waiting(DropReason::BufferDiscarded, held.packet.buf.data());
            slot = held.next;
        }
    }

    /// Discards the session's packets that waited too long. Returns whether there were any.
    pub(crate) fn discard_late(&mut self, at: usize, now: Nanos, tally: &mut StepTally) -> bool {
        let mut found = false;
        loop {
            let first = self.waiting[at].first;
            let Some(Some(held)) = self.packets.get(first as usize) else { return found };
            if now.since(held.since) < WAIT_MAX {
                return found;
            }
            found = true;
            if self.waiting[at].count == 1 {
                self.discard(at, tally);
                return found;
            }
            self.waiting[at].first = held.next;
            self.waiting[at].count -= 1;
            if let Some(late) = self.take_packet(first) {
                tally.drop_waiting(DropReason::BufferDiscarded, late.packet.buf.data());
            }
        }
    }

    /// Drops all buffered packets.
    pub(crate) fn drain(&mut self, tally: &mut StepTally) {
        while let Some(at) = self.waiting.len().checked_sub(1) {
            self.discard(at, tally);
        }
    }

    /// Returns true if `notice` has not been sent within [`NOTICE_INTERVAL`]; remembers it as sent.
    pub(crate) fn claim_notice(&mut self, session: SessionIndex, notice: Notice) -> bool {
        let hash = (session.0 as usize).wrapping_mul(31).wrapping_add(usize::from(notice.pdr.0));
        let Some(last) = self.notices.get_mut(hash % NOTICES_REMEMBERED_MAX) else { return true };
        let is_known = last.is_some_and(|last| {
            Notice { at: notice.at, ..last } == notice && notice.at.since(last.at) < NOTICE_INTERVAL
        });
        if !is_known {
            *last = Some(notice);
        }
        !is_known
    }
}
