//! Responses that wait for conditions, such as that all workers run a change.
//!
//! A response leaves when its last condition is met. To add a kind of condition, for example that a
//! record is durable, add a variant of [`Condition`] and a call of [`Answers::meet`].

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use adit_pfcp::{MessageType, NoRoom, PfcpWriter};
use adit_rules::DeltaId;
use adit_types::limits::PFCP_MESSAGE_BYTES_MAX;
use adit_types::{Nanos, Seid};

use crate::backlog::JobId;
use crate::response_cache::RequestKey;

/// Octets at the start of a message that its length field does not count.
const UNCOUNTED_OCTETS: usize = 4;

/// A condition that must be met before a response leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// All workers have observed this change.
    Observed(DeltaId),
    /// This job on many sessions has ended.
    JobEnded(JobId),
}

/// An encoded response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EncodedResponse {
    pub peer: IpAddr,
    pub to: SocketAddr,
    pub key: RequestKey,
    pub message_type: MessageType,
    pub bytes: Vec<u8>,
    /// When the request arrived.
    pub received: Nanos,
    /// The session that the request concerns; `None` if it concerns none or several.
    pub session: Option<Seid>,
}

impl EncodedResponse {
    /// Appends an IE. If the message would exceed its maximum length, appends nothing and returns
    /// false.
    pub(crate) fn append(
        &mut self,
        scratch: &mut [u8],
        put: impl FnOnce(&mut PfcpWriter<'_>) -> Result<(), NoRoom>,
    ) -> bool {
        let mut writer = PfcpWriter::new(scratch);
        let written = put(&mut writer).map(|()| writer.len()).ok();
        let Some(ie) = written.and_then(|len| scratch.get(..len)) else { return false };
        let total = self.bytes.len() + ie.len();
        let fits = total <= PFCP_MESSAGE_BYTES_MAX;
        let Some(len) = u16::try_from(total - UNCOUNTED_OCTETS).ok().filter(|_| fits) else {
            return false;
        };
        self.bytes.extend_from_slice(ie);
        if let Some(field) = self.bytes.get_mut(2..UNCOUNTED_OCTETS) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        true
    }
}

#[derive(Debug)]
struct WaitingAnswer {
    response: EncodedResponse,
    /// Conditions that are not met yet; never empty.
    open: Vec<Condition>,
}

/// All responses that wait; keyed by ascending numbers.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    waiting: BTreeMap<u64, WaitingAnswer>,
    by_condition: BTreeMap<Condition, Vec<u64>>,
    last_number: u64,
}

impl Answers {
    /// Returns how many responses wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps a response until all conditions in `open` are met. `open` must not be empty.
    pub(crate) fn hold(&mut self, response: EncodedResponse, open: Vec<Condition>) {
        debug_assert!(!open.is_empty(), "it would never leave");
        self.last_number += 1;
        for condition in &open {
            self.by_condition.entry(*condition).or_default().push(self.last_number);
        }
        self.waiting.insert(self.last_number, WaitingAnswer { response, open });
    }

    /// True while a response waits for this condition.
    pub(crate) fn is_awaited(&self, condition: Condition) -> bool {
        self.by_condition.contains_key(&condition)
    }

    /// Returns the first response that waits for this condition.
    pub(crate) fn first_awaiting_mut(
        &mut self,
        condition: Condition,
    ) -> Option<&mut EncodedResponse> {
        let number = self.by_condition.get(&condition)?.first()?;
        self.waiting.get_mut(number).map(|waiting| &mut waiting.response)
    }

    /// Notes that a condition is met. Returns the responses that wait for nothing else, in the
    /// order in which they began to wait.
    pub(crate) fn meet(&mut self, condition: Condition) -> Vec<EncodedResponse> {
        let mut complete = Vec::new();
        for number in self.by_condition.remove(&condition).unwrap_or_default() {
            let Some(waiting) = self.waiting.get_mut(&number) else { continue };
            waiting.open.retain(|open| *open != condition);
            if waiting.open.is_empty() {
                complete.extend(self.waiting.remove(&number).map(|waiting| waiting.response));
            }
        }
        complete
    }

    /// Drops the responses that wait for this condition, and returns them.
    pub(crate) fn drop_awaiting(&mut self, condition: Condition) -> Vec<EncodedResponse> {
        let numbers = self.by_condition.get(&condition).cloned().unwrap_or_default();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// Drops the responses that satisfy `is_meant`.
    pub(crate) fn drop_all(&mut self, is_meant: impl Fn(&EncodedResponse) -> bool) {
        let meant = self.waiting.iter().filter(|(_, waiting)| is_meant(&waiting.response));
        let numbers: Vec<u64> = meant.map(|(number, _)| *number).collect();
        for number in numbers {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u64) -> Option<EncodedResponse> {
        let WaitingAnswer { response, open } = self.waiting.remove(&number)?;
        for condition in open {
            if let Some(numbers) = self.by_condition.get_mut(&condition) {
                numbers.retain(|other| *other != number);
                if numbers.is_empty() {
                    self.by_condition.remove(&condition);
                }
            }
        }
        Some(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(host: u8) -> EncodedResponse {
        let peer = IpAddr::from([192, 0, 2, host]);
        let key = RequestKey { port: 1, message_type: 50, sequence: 1, digest: 0 };
        let message_type = MessageType::SESSION_ESTABLISHMENT_RESPONSE;
        let to = SocketAddr::new(peer, 1);
        EncodedResponse {
            peer,
            to,
            key,
            message_type,
            bytes: vec![0; 8],
            received: Nanos(0),
            session: None,
        }
    }

    #[test]
    fn answer_leaves_when_the_last_of_its_conditions_is_met() {
        let (change, job) = (Condition::Observed(DeltaId(1)), Condition::JobEnded(JobId(1)));
        let mut answers = Answers::default();
        answers.hold(response(1), vec![change, job]);
        answers.hold(response(2), vec![change]);
        assert_eq!(answers.meet(change), [response(2)]);
        assert!(!answers.is_awaited(change) && answers.is_awaited(job));
        assert_eq!(answers.meet(job), [response(1)]);
        assert_eq!((answers.len(), answers.by_condition.len()), (0, 0));
    }

    #[test]
    fn dropped_answer_leaves_nothing_behind() {
        let (change, job) = (Condition::Observed(DeltaId(1)), Condition::JobEnded(JobId(1)));
        let mut answers = Answers::default();
        answers.hold(response(1), vec![change, job]);
        answers.hold(response(2), vec![job]);
        answers.drop_all(|response| response.peer == IpAddr::from([192, 0, 2, 2]));
        assert_eq!(answers.drop_awaiting(change), [response(1)]);
        assert_eq!((answers.len(), answers.by_condition.len()), (0, 0));
    }

    #[test]
    fn appended_ie_is_counted_by_the_length_field() {
        let mut answer = response(1);
        let cause = adit_pfcp::Cause::RequestAccepted;
        assert!(answer.append(&mut [0; 64], |writer| writer.put(&cause)));
        assert_eq!((answer.bytes.len(), &answer.bytes[2..4]), (13, &[0, 9][..]));
        assert!(!answer.append(&mut [0; 4], |writer| writer.put(&cause)), "no room");
        assert_eq!(answer.bytes.len(), 13);
    }
}
