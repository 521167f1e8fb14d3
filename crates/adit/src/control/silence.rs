//! Finds links that packets leave by while none comes back: gateways and peers on them may be gone
//! without an announcement.

use adit_types::{InterfaceId, Nanos};

/// Interval at which the counts of packets are read.
const READING_INTERVAL: Nanos = Nanos::from_secs(1);

/// Minimum of packets sent in a second that counts as traffic.
const SENT_PKTS_MIN: u64 = 3;

/// Maximum of packets received in a second on a silent link: answers to solicitations.
const ANSWER_PKTS_MAX: u64 = 2;

/// Frames received and sent through an interface so far.
pub(super) type LinkPackets = (u64, u64);

/// The counts of all interfaces at the last reading.
#[derive(Debug, Default)]
pub(super) struct SilenceWatch {
    former: Vec<LinkPackets>,
    next: Nanos,
}

impl SilenceWatch {
    /// Returns the interfaces that were silent in the last second; once per second, and none in
    /// between. `counts`: the present counts of all interfaces, by id.
    pub(super) fn check<C: Iterator<Item = LinkPackets>>(
        &mut self,
        now: Nanos,
        counts: impl FnOnce() -> C,
    ) -> Vec<InterfaceId> {
        if now < self.next {
            return Vec::new();
        }
        let is_late = now.since(self.next) >= READING_INTERVAL;
        self.next = now + READING_INTERVAL;
        let counts: Vec<LinkPackets> = counts().collect();
        let former = core::mem::replace(&mut self.former, counts);
        let pairs = (0..).map(InterfaceId).zip(former.iter().zip(&self.former));
        let is_silent =
            |((received, sent), (received_now, sent_now)): (&LinkPackets, &LinkPackets)| {
                sent_now.wrapping_sub(*sent) >= SENT_PKTS_MIN
                    && received_now.wrapping_sub(*received) <= ANSWER_PKTS_MAX
            };
        // After a pause of the control thread, the differences span more than a second.
        pairs.filter(|(_, pair)| !is_late && is_silent(*pair)).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_silent_if_packets_leave_and_only_answers_come_back() {
        let mut watch = SilenceWatch::default();
        let mut at = |second: u64, counts: &[LinkPackets]| -> Vec<u8> {
            let counts = counts.to_vec();
            let silent = watch.check(Nanos::from_secs(second), || counts.into_iter());
            silent.into_iter().map(|id| id.0).collect()
        };
        assert!(at(1, &[(0, 0); 4]).is_empty());
        assert_eq!(at(2, &[(0, 3), (2, 100), (3, 100), (0, 2)]), [0, 1]);
        assert!(at(2, &[(0, 50); 4]).is_empty(), "once per second");
        assert_eq!(at(3, &[(0, 6), (5, 200), (3, 101), (0, 5)]), [0, 3]);
        assert!(at(60, &[(0, 1000); 4]).is_empty(), "nobody looked for a while");
    }
}
