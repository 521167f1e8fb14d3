//! Reports of a worker about its work: counts, events, and the items of taps.

use adit_rules::WorkerEvent;
use rtrb::Producer;

use crate::tally::StepTally;
use crate::tap::Tap;

/// Counts, taps and events of one worker.
pub(crate) struct Books {
    pub tally: StepTally,
    /// The taps; `None` while the worker has none.
    pub tap: Option<Box<Tap>>,
    events: Producer<WorkerEvent>,
}

impl Books {
    /// Creates empty books; `events` is the ring of events to the control thread.
    pub(crate) fn new(events: Producer<WorkerEvent>) -> Self {
        Self { tally: StepTally::new(), tap: None, events }
    }

    /// Sends an event to the control thread. Returns false if the ring is full: the event is lost
    /// and counted.
    pub(crate) fn report(&mut self, event: WorkerEvent) -> bool {
        let is_sent = self.events.push(event).is_ok();
        if !is_sent {
            self.tally.lose_event();
        }
        is_sent
    }

    /// Sends an event that any station can cause, but only while half of the ring is free. The
    /// other half is for events that the control thread waits for.
    pub(crate) fn report_unsolicited(&mut self, event: WorkerEvent) {
        if self.events.slots() > self.events.buffer().capacity() / 2 {
            self.report(event);
        } else {
            self.tally.drop_event();
        }
    }

    /// Sends an unsolicited event if `may_report`, which is false if the event's limit is reached;
    /// then counts the event as dropped.
    pub(crate) fn report_limited(&mut self, event: WorkerEvent, may_report: bool) {
        if may_report {
            self.report_unsolicited(event);
        } else {
            self.tally.drop_event();
        }
    }
}
