//! Stores Session Report Requests and Node Report Requests of the UPF until a caller takes them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use adit_pfcp::grouped::UsageReport;
use adit_pfcp::ie::{UsageReportTrigger, VolumeMeasurement};
use adit_pfcp::{Message, PfcpDatagram, RawMessage};
use adit_types::{Seid, UrrId};
use anyhow::{Result, bail};

use adit_lab_process::stop::POLL;

/// A usage report of one URR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedUsage {
    /// The URR.
    pub urr: UrrId,
    /// Triggers of the report.
    pub trigger: UsageReportTrigger,
    /// The measured volume; all fields absent if there is none.
    pub volume: VolumeMeasurement,
}

impl ReportedUsage {
    /// Extracts the figures of a usage report.
    #[must_use]
    pub fn of(report: &UsageReport<'_>) -> Self {
        let volume = report.volume_measurement.unwrap_or_default();
        Self { urr: report.urr_id, trigger: report.usage_report_trigger, volume }
    }

    /// Returns the total volume. Unit: octets.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.volume.total.unwrap_or(0)
    }
}

/// Report requests of the UPF in the order of arrival, without retransmissions.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    datagrams: Vec<Vec<u8>>,
    sequences: BTreeSet<u32>,
}

impl Inbox {
    /// Stores a request, unless it is a retransmission.
    pub fn put(&self, sequence: u32, datagram: &[u8]) {
        let mut state = self.lock();
        if state.sequences.insert(sequence) {
            state.datagrams.push(datagram.to_vec());
        }
    }

    /// Discards all requests.
    pub fn clear(&self) {
        self.lock().datagrams.clear();
    }

    /// Removes the first request for which `pick` returns a value, and returns that value. `pick`
    /// gets the SEID in the request's header.
    pub fn take<T>(
        &self,
        mut pick: impl FnMut(Option<Seid>, &Message<'_>) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        let (at, found) = state.datagrams.iter().enumerate().find_map(|(at, datagram)| {
            let found = messages(datagram).find_map(|raw| {
                let message = Message::decode(&raw).ok()?;
                pick(raw.header.seid, &message)
            });
            found.map(|found| (at, found))
        })?;
        state.datagrams.remove(at);
        Some(found)
    }

    /// Waits for a request for which `pick` returns a value, removes it, and returns the value.
    /// `what` names the request in the error.
    ///
    /// # Errors
    /// `watch` fails; no such request arrives within `limit`.
    pub fn wait<T>(
        &self,
        what: &str,
        limit: Duration,
        mut watch: impl FnMut() -> Result<()>,
        mut pick: impl FnMut(Option<Seid>, &Message<'_>) -> Option<T>,
    ) -> Result<T> {
        let end = Instant::now() + limit;
        loop {
            if let Some(found) = self.take(&mut pick) {
                return Ok(found);
            }
            if Instant::now() >= end {
                bail!("no {what} within {limit:?}; the SMF received {}", self.describe());
            }
            watch()?;
            std::thread::sleep(POLL);
        }
    }

    /// Describes the stored messages for an error message.
    fn describe(&self) -> String {
        let state = self.lock();
        let kinds: Vec<String> = state
            .datagrams
            .iter()
            .flat_map(|datagram| messages(datagram))
            .map(|raw| match Message::decode(&raw) {
                Ok(Message::SessionReportRequest(report)) => {
                    format!("a report of {:?}", report.report_type)
                }
                _ => raw.header.message_type.to_string(),
            })
            .collect();
        if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn messages(datagram: &[u8]) -> impl Iterator<Item = RawMessage<'_>> {
    PfcpDatagram::new(datagram).flatten()
}

#[cfg(test)]
mod tests {
    use adit_pfcp::encode;
    use adit_pfcp::ie::ReportType;
    use adit_pfcp::message::SessionReportRequest;

    use super::*;

    fn report(seid: u64, sequence: u32, report_type: ReportType) -> Vec<u8> {
        let mut buffer = [0; 200];
        let body = SessionReportRequest::new(report_type);
        let len = encode(&mut buffer, Some(Seid(seid)), sequence, &body).unwrap();
        buffer[..len].to_vec()
    }

    fn kind(seid: Option<Seid>, message: &Message<'_>) -> Option<(u64, ReportType)> {
        let Message::SessionReportRequest(report) = message else { return None };
        Some((seid?.0, report.report_type))
    }

    #[test]
    fn retransmission_is_kept_once_and_the_picked_request_is_taken() {
        let inbox = Inbox::default();
        for (sequence, report_type) in [(1, ReportType::UPIR), (1, ReportType::UPIR)] {
            inbox.put(sequence, &report(7, sequence, report_type));
        }
        inbox.put(2, &report(8, 2, ReportType::ERIR));
        let eighth = |seid, message: &Message<'_>| kind(seid, message).filter(|found| found.0 == 8);
        assert_eq!(inbox.take(eighth), Some((8, ReportType::ERIR)));
        assert_eq!(inbox.take(kind), Some((7, ReportType::UPIR)));
        assert_eq!(inbox.take(kind), None);
    }

    #[test]
    fn request_that_never_comes_is_an_error_that_names_what_came() {
        let inbox = Inbox::default();
        inbox.put(1, &report(7, 1, ReportType::UPIR));
        let error = inbox.wait("usage report", Duration::ZERO, || Ok(()), |_, _| None::<()>);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("no usage report") && text.contains("UPIR"), "{text}");
    }
}
