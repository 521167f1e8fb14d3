//! The queue of reports of one session.

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
        /// The paging policy and QoS flow of the first packet.
        service: DownlinkDataServiceInformation,
        /// Whether the data was buffered or dropped; `None` for a notification without that status.
        status: Option<DataStatus>,
    },
    /// A GTP-U peer reports that it does not know the tunnel that a FAR sends into. Spec: TS 29.244
    /// §7.5.8.4.
    ErrorIndication {
        /// The tunnel.
        tunnel: GtpuTunnel,
    },
    /// Usage of a URR. Spec: TS 29.244 §7.5.8.3.
    Usage(UsageReport),
    /// No packet arrived within the time of the user plane inactivity timer. Spec: TS 29.244
    /// §5.2.3.
    Inactivity,
}

impl ReportItem {
    pub(super) const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }

    /// True if no later event leads to the same report.
    pub(super) const fn happens_once(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Inactivity)
    }
}

/// A session that is gone but has, or may get, reports to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedSession {
    pub to: SocketAddr,
    pub cp_seid: Seid,
    pub owner: OwnerId,
    /// True if this node ended the session, false if the CP function did.
    pub by_us: bool,
    /// True once the last usage was read, so that no further item will be queued.
    pub is_read: bool,
}

/// The treatment of the reports of a session that ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RemainingReports {
    /// Usage that waits, and the last usage to come, are reported to this destination.
    Deliver(EndedSession),
    /// A request with usage in flight is retransmitted until it is answered; if a later process has
    /// to do that, it uses this destination. All else is dropped.
    KeepUsageInFlight(Option<EndedSession>),
    /// All reports are dropped, as nobody receives them.
    Discard,
}

/// The usage reports of a session that wait, or are in flight.
#[derive(Debug)]
pub(crate) struct UnacknowledgedUsage {
    pub owner: OwnerId,
    /// Where the reports go, if the session is gone.
    pub ended: Option<EndedSession>,
    pub reports: Vec<UsageReport>,
}

/// The reports of one session that wait or are in flight.
#[derive(Debug)]
pub(super) struct ReportQueue {
    pub owner: OwnerId,
    pub waiting: VecDeque<ReportItem>,
    /// How many items at the front of `waiting` were sent before, so that the CP function may have
    /// them.
    sent_before: usize,
    /// True while the session's reports wait until its silent peer answers again.
    pub is_held: bool,
    /// The pause after requests that were refused or not answered.
    pub pause: ReportPause,
    /// The items of the request in flight; empty if there is none.
    pub sending: Vec<ReportItem>,
    /// The sequence number of the request in flight.
    pub sequence: Option<u32>,
    /// The address of another SMF of the set to which the last response redirected the reports.
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

    /// Removes the items at the front that fit into one request. Downlink data with different
    /// statuses does not: a Downlink Data Report has one status.
    pub(super) fn take_batch(&mut self) -> Vec<ReportItem> {
        let mut batch: Vec<ReportItem> = Vec::new();
        while batch.len() < REPORT_ITEMS_PER_REQUEST_MAX
            && let Some(item) = self.waiting.front()
            && batch.iter().all(|other| fits_in_request_with(item, other))
        {
            batch.extend(self.waiting.pop_front());
        }
        self.sent_before = self.sent_before.saturating_sub(batch.len());
        batch
    }

    /// Puts items back in front of those that wait.
    pub(super) fn put_back(&mut self, items: impl DoubleEndedIterator<Item = ReportItem>) {
        for item in items.rev() {
            self.waiting.push_front(item);
            self.sent_before += 1;
        }
    }

    /// Merges usage into the waiting report of the same URR, if requests cannot be delivered now,
    /// so that the number of waiting reports stays bounded. A report that was sent before is not
    /// changed. False if there was no report to merge with.
    pub(super) fn merge(&mut self, item: &ReportItem) -> bool {
        let ReportItem::Usage(usage) = item else { return false };
        if !self.is_held && self.pause.failure_count() == 0 {
            return false;
        }
        let mut unsent = self.waiting.iter_mut().skip(self.sent_before).rev();
        let of_urr = unsent.find_map(|item| match item {
            ReportItem::Usage(known) if known.urr == usage.urr => Some(known),
            _ => None,
        });
        of_urr.is_some_and(|known| known.absorb(usage))
    }

    /// True if the request in flight contains usage, which must not be lost when the session ends.
    pub(super) fn carries_usage(&self) -> bool {
        self.sending.iter().any(ReportItem::is_usage)
    }

    /// Notes that no request is in flight any more.
    pub(super) fn end_request(&mut self) {
        (self.sequence, self.redirect, self.redirects) = (None, None, 0);
    }

    pub(super) fn counts(&self) -> ReportCounts {
        ReportCounts { in_flight: usize::from(self.is_in_flight()), waiting: self.waiting.len() }
    }

    /// Ends the queue: keeps the reports that `remaining` selects, and returns what was dropped.
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

/// How many requests are in flight, and how many items wait.
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

/// Reports that were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiscardedReports {
    /// Sequence number of the request that was in flight.
    pub sequence: Option<u32>,
    /// How many usage reports are lost.
    pub usage: usize,
}

fn fits_in_request_with(item: &ReportItem, other: &ReportItem) -> bool {
    match (item, other) {
        (
            ReportItem::DownlinkData { status, .. },
            ReportItem::DownlinkData { status: known, .. },
        ) => status == known,
        _ => true,
    }
}
