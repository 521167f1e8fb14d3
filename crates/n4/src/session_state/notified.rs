//! Downlink data that was reported, and notifications that are delayed.

use std::collections::BTreeMap;

use adit_pfcp::ie::DownlinkDataServiceInformation;
use adit_rules::DataDelivery;
use adit_types::limits::{REPORT_ITEMS_MAX, REPORT_ITEMS_PER_SESSION_MAX};
use adit_types::{FarId, Nanos, PdrId, Seid};

use super::SessionStates;

/// The identity of a notification of downlink data: the same one is not reported twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotificationIdentity {
    pub far: FarId,
    pub pdr: PdrId,
    pub delivery: Option<DataDelivery>,
}

/// A notification of downlink data, as a worker's event requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DownlinkDataNotice {
    pub data: NotificationIdentity,
    pub service: DownlinkDataServiceInformation,
}

/// A notification that was made. `is_open`: the next packet is reported again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentNotification {
    notice: DownlinkDataNotice,
    is_open: bool,
}

/// Notifications that a BAR delays, ordered by time and arrival.
#[derive(Debug, Default)]
pub(super) struct DelayedNotices {
    by_time: BTreeMap<(Nanos, u64), (Seid, DownlinkDataNotice)>,
    total: u64,
}

impl SessionStates {
    /// Notes a notification as made. False if it was made before, or there is no room.
    pub(crate) fn note_notified(&mut self, up_seid: Seid, notice: DownlinkDataNotice) -> bool {
        let notified = self.live.activity(up_seid).map_or(&[][..], |a| &a.notified);
        let known = notified.iter().position(|known| known.notice.data == notice.data);
        let is_new = match known {
            Some(at) => notified.get(at).is_some_and(|known| known.is_open),
            None => notified.len() < REPORT_ITEMS_PER_SESSION_MAX,
        };
        if is_new {
            self.live.edit_activity(up_seid, |activity| {
                let reported = SentNotification { notice, is_open: false };
                match known.and_then(|at| activity.notified.get_mut(at)) {
                    Some(known) => *known = reported,
                    None => activity.notified.push(reported),
                }
            });
        }
        is_new
    }

    /// True if downlink data of a session was reported since its FARs were set last.
    pub(crate) fn has_notified(&self, up_seid: Seid) -> bool {
        self.live.activity(up_seid).is_some_and(|activity| !activity.notified.is_empty())
    }

    /// Makes the next packet of each notification be reported again, because the CP function did
    /// not accept the report.
    pub(crate) fn reopen_notified(&mut self, up_seid: Seid) {
        if self.has_notified(up_seid) {
            self.live.edit_activity(up_seid, |activity| {
                activity.notified.iter_mut().for_each(|known| known.is_open = true);
            });
        }
    }

    /// Removes and returns the notifications of a session, or of some of its FARs, so that the next
    /// packet is reported again.
    pub(crate) fn take_notified(
        &mut self,
        up_seid: Seid,
        fars: Option<&[FarId]>,
    ) -> Vec<DownlinkDataNotice> {
        if !self.has_notified(up_seid) {
            return Vec::new();
        }
        let is_of = |known: &mut SentNotification| {
            fars.is_none_or(|fars| fars.contains(&known.notice.data.far))
        };
        self.live.edit_activity(up_seid, |activity| {
            activity.notified.extract_if(.., is_of).map(|known| known.notice).collect()
        })
    }

    /// Delays a notification until `at`; if too many are delayed, it is due at once.
    pub(crate) fn delay_notice(&mut self, at: Nanos, up_seid: Seid, notice: DownlinkDataNotice) {
        let at = if self.delayed.by_time.len() < REPORT_ITEMS_MAX { at } else { Nanos(0) };
        self.delayed.total += 1;
        self.delayed.by_time.insert((at, self.delayed.total), (up_seid, notice));
    }

    /// Removes and returns a delayed notification that is due by `now`.
    pub(crate) fn take_delayed_notice(&mut self, now: Nanos) -> Option<(Seid, DownlinkDataNotice)> {
        let entry = self.delayed.by_time.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// Returns when the next delayed notification is due.
    pub(crate) fn next_delayed_notice(&self) -> Option<Nanos> {
        self.delayed.by_time.first_key_value().map(|(&(at, _), _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SetKey;
    use super::*;

    #[test]
    fn notification_beyond_the_bound_of_those_held_back_is_sent_at_once() {
        let data = NotificationIdentity { far: FarId(1), pdr: PdrId(1), delivery: None };
        let service = DownlinkDataServiceInformation::default();
        let notice = DownlinkDataNotice { data, service };
        let mut states = SessionStates::new(SetKey::Group(vec![0]));
        for _ in 0..REPORT_ITEMS_MAX {
            states.delay_notice(Nanos(9), Seid(1), notice);
        }
        assert_eq!(states.next_delayed_notice(), Some(Nanos(9)));
        states.delay_notice(Nanos(9), Seid(2), notice);
        assert_eq!(states.next_delayed_notice(), Some(Nanos(0)));
    }
}
