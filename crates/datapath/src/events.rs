//! Events to the control thread.

use adit_rules::WorkerEvent;
use rtrb::Producer;

use crate::tally::StepTally;

/// The ring of events. Events that find it full are lost and counted.
pub(crate) struct Events(Producer<WorkerEvent>);

impl Events {
    /// Events into `ring`.
    pub(crate) fn new(ring: Producer<WorkerEvent>) -> Self {
        Self(ring)
    }

    /// Sends one event. Returns whether the ring took it.
    pub(crate) fn push(&mut self, tally: &mut StepTally, event: WorkerEvent) -> bool {
        let is_sent = self.0.push(event).is_ok();
        if !is_sent {
            tally.lose_event();
        }
        is_sent
    }

    /// Sends an event that any station can cause, while half of the ring is free. The other half is
    /// for events that the control thread waits for.
    pub(crate) fn push_unsolicited(&mut self, tally: &mut StepTally, event: WorkerEvent) {
        if self.0.slots() > self.0.buffer().capacity() / 2 {
            self.push(tally, event);
        } else {
            tally.drop_event();
        }
    }
}
