//! The reports about one session.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use adit_pfcp::ie::{DataStatus, DownlinkDataServiceInformation};
use adit_rules::GtpuTunnel;
use adit_session::{OwnerId, UsageReport};
use adit_types::limits::REPORT_ITEMS_PER_REQUEST_MAX;
use adit_types::{PdrId, Seid};

use crate::report_pause::ReportPause;

/// One thing to report about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportItem {
    /// Downlink data arrived for a PDR. Spec: TS 29.244 §7.5.8.2.
    DownlinkData {
        /// The PDR that the data matched.
        pdr: PdrId,
        /// The fields of the first packet: paging policy and QoS flow.
        service: DownlinkDataServiceInformation,
        /// Whether the data was buffered or dropped; `None` for a plain notification.
        status: Option<DataStatus>,
    },
    /// A GTP-U peer reports the tunnel that a FAR sends into as unknown. Spec: TS 29.244 §7.5.8.4.
    ErrorIndication {
        /// The tunnel.
        tunnel: GtpuTunnel,
    },
    /// Usage of a URR. Spec: TS 29.244 §7.5.8.3.
    Usage(UsageReport),
    /// No packet came for the time of the user plane inactivity timer. Spec: TS 29.244 §5.2.3.
    Inactivity,
}

impl ReportItem {
    pub(super) const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }

    /// No later event leads to the same report.
    pub(super) const fn happens_once(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Inactivity)
    }
}

/// A session that is gone except for its last reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedSession {
    pub to: SocketAddr,
    pub cp_seid: Seid,
    pub owner: OwnerId,
    /// This node ended it; else the CP function did.
    pub by_us: bool,
    /// The last usage was read: no item follows those that wait.
    pub is_read: bool,
}

/// The fate of the reports of a session that ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RemainingReports {
    /// Waiting usage, and the last usage to come, are reported to this destination.
    Deliver(EndedSession),
    /// A request with usage is retransmitted until its response, by a later process to this
    /// destination; all else is forgotten.
    KeepUsageInFlight(Option<EndedSession>),
    /// Nobody receives them.
    Discard,
}

/// The usage reports of a session that wait or are in flight.
#[derive(Debug)]
pub(crate) struct UnacknowledgedUsage {
    pub owner: OwnerId,
    /// The session, if it is gone.
    pub ended: Option<EndedSession>,
    pub reports: Vec<UsageReport>,
}

/// The reports of one session.
#[derive(Debug)]
pub(super) struct ReportQueue {
    pub owner: OwnerId,
    pub waiting: VecDeque<ReportItem>,
    /// How many of these, the first ones, were sent before: the CP function may have them.
    sent_before: usize,
    /// The session's reports wait until its silent peer answers again.
    pub is_held: bool,
    /// After requests that were refused or not answered.
    pub pause: ReportPause,
    /// The contents of the request in flight; empty without one.
    pub sending: Vec<ReportItem>,
    /// Sequence number of the request in flight.
    pub sequence: Option<u32>,
    /// The other SMF of the set that gets the reports, as the last response said.
    pub redirect: Option<IpAddr>,
    /// How often the request in flight was redirected.
    pub redirects: u8,
}

impl ReportQueue {
    pub(super) fn new(owner: OwnerId) -> Self {
        Self {
            owner,
            waiting: VecDeque::new(),
            sent_before: 0,
            is_held: false,
            pause: ReportPause::default(),
            sending: Vec::new(),
            sequence: None,
            redirect: None,
            redirects: 0,
        }
    }

    pub(super) fn is_in_flight(&self) -> bool {
        !self.sending.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.sending.is_empty() && self.pause == ReportPause::default()
    }

    fn remove_waiting(&mut self) -> VecDeque<ReportItem> {
        (self.sent_before, self.pause) = (0, ReportPause::default());
        core::mem::take(&mut self.waiting)
    }

    /// The items at the front that fit one request: one Downlink Data Report has one data status.
    pub(super) fn take_batch(&mut self) -> Vec<ReportItem> {
        let mut batch: Vec<ReportItem> = Vec::new();
        while batch.len() < REPORT_ITEMS_PER_REQUEST_MAX
            && let Some(item) = self.waiting.front()
            && batch.iter().all(|other| fits_with(item, other))
        {
            batch.extend(self.waiting.pop_front());
        }
        self.sent_before = self.sent_before.saturating_sub(batch.len());
        batch
    }

    /// Puts items in front of those that wait.
    pub(super) fn put_back(&mut self, items: impl DoubleEndedIterator<Item = ReportItem>) {
        for item in items.rev() {
            self.waiting.push_front(item);
            self.sent_before += 1;
        }
    }

    /// While requests cannot be delivered, adds usage to the waiting report of its URR, unless that
    /// was sent before, so that the waiting reports of a session have a bound. False without such a
    /// report.
    pub(super) fn merge(&mut self, item: &ReportItem) -> bool {
        let ReportItem::Usage(usage) = item else { return false };
        if !self.is_held && self.pause.failures() == 0 {
            return false;
        }
        let mut unsent = self.waiting.iter_mut().skip(self.sent_before).rev();
        let of_urr = unsent.find_map(|item| match item {
            ReportItem::Usage(known) if known.urr == usage.urr => Some(known),
            _ => None,
        });
        of_urr.is_some_and(|known| known.absorb(usage))
    }

    /// The request in flight carries usage, which must not be lost when the session ends.
    pub(super) fn carries_usage(&self) -> bool {
        self.sending.iter().any(ReportItem::is_usage)
    }

    /// No request is in flight any more.
    pub(super) fn end_request(&mut self) {
        (self.sequence, self.redirect, self.redirects) = (None, None, 0);
    }

    pub(super) fn counts(&self) -> ReportCounts {
        ReportCounts { in_flight: usize::from(self.is_in_flight()), waiting: self.waiting.len() }
    }

    /// Keeps the reports that `remaining` selects.
    pub(super) fn end(&mut self, remaining: RemainingReports) -> DiscardedReports {
        match remaining {
            RemainingReports::Deliver(_) => {
                let mut at = 0;
                let mut sent_before = 0;
                self.waiting.retain(|item| {
                    sent_before += usize::from(at < self.sent_before && item.is_usage());
                    at += 1;
                    item.is_usage()
                });
                self.sent_before = sent_before;
                DiscardedReports::default()
            }
            RemainingReports::KeepUsageInFlight(_) => {
                drop(self.remove_waiting());
                if self.carries_usage() {
                    return DiscardedReports::default();
                }
                self.sending.clear();
                DiscardedReports { sequence: self.sequence, usage: 0 }
            }
            RemainingReports::Discard => {
                let waiting = self.remove_waiting();
                let items = self.sending.drain(..).chain(waiting);
                let usage = items.filter(ReportItem::is_usage).count();
                DiscardedReports { sequence: self.sequence, usage }
            }
        }
    }
}

/// Requests in flight, and items that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReportCounts {
    pub in_flight: usize,
    pub waiting: usize,
}

impl ReportCounts {
    pub(super) const fn replace(&mut self, before: Self, after: Self) {
        self.in_flight = (self.in_flight + after.in_flight).saturating_sub(before.in_flight);
        self.waiting = (self.waiting + after.waiting).saturating_sub(before.waiting);
    }
}

/// Reports that went with their queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiscardedReports {
    /// Sequence number of the request that was in flight.
    pub sequence: Option<u32>,
    /// Usage reports that are lost.
    pub usage: usize,
}

fn fits_with(item: &ReportItem, other: &ReportItem) -> bool {
    match (item, other) {
        (
            ReportItem::DownlinkData { status, .. },
            ReportItem::DownlinkData { status: known, .. },
        ) => status == known,
        _ => true,
    }
}
