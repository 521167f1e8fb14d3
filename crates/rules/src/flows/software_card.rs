//! A card in memory, for tests: runs flows on frames, octet by octet.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_types::PortId;

use crate::flows::card::{FlowCard, FlowCardError, FlowCounts, FlowHandle};
use crate::flows::flow::{Flow, FlowAction, FlowHeader};

/// The result of processing a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SoftwareCardVerdict {
    /// The frame goes to the workers as it is.
    Worker,
    /// The frame left through this port.
    Sent(PortId, Vec<u8>),
}

/// Returns why the card refuses a flow; `None` if it accepts the flow.
pub type FlowRefuser = Box<dyn FnMut(&Flow) -> Option<&'static str> + Send>;

#[derive(Default)]
struct SoftwareCardState {
    flows: BTreeMap<FlowHandle, Flow>,
    counts: BTreeMap<FlowHandle, FlowCounts>,
    last: u64,
    room: usize,
    refuses: Option<FlowRefuser>,
    /// Flows created since the start.
    created: u64,
    /// Flows refused since the start.
    refused: u64,
}

/// A card in memory. Clones share their state.
#[derive(Clone)]
pub struct SoftwareCard(Arc<Mutex<SoftwareCardState>>);

impl fmt::Debug for SoftwareCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftwareCard").field("flows", &self.inside().flows.len()).finish()
    }
}

impl SoftwareCard {
    /// Makes a card with room for `flows` flows; it refuses those for which `refuses` has a reason.
    #[must_use]
    pub fn new(flows: usize, refuses: Option<FlowRefuser>) -> Self {
        Self(Arc::new(Mutex::new(SoftwareCardState {
            room: flows,
            refuses,
            ..SoftwareCardState::default()
        })))
    }

    fn inside(&self) -> MutexGuard<'_, SoftwareCardState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many flows the card has.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.inside().flows.len()
    }

    /// Returns how many counters the card has, including those of removed flows.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.inside().counts.len()
    }

    /// Returns how many flows were created so far.
    #[must_use]
    pub fn created(&self) -> u64 {
        self.inside().created
    }

    /// Returns how many flows were refused so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.inside().refused
    }

    /// Changes the room of the card to `flows` flows.
    pub fn set_room(&self, flows: usize) {
        self.inside().room = flows;
    }

    /// Processes a frame that arrives on a port.
    #[must_use]
    pub fn process(&self, port: PortId, frame: &[u8]) -> SoftwareCardVerdict {
        let mut inside = self.inside();
        let SoftwareCardState { flows, counts, .. } = &mut *inside;
        let matching = flows.iter().filter(|(_, flow)| flow.port == port && matches(flow, frame));
        let Some((number, flow)) = matching.min_by_key(|(_, flow)| flow.priority) else {
            return SoftwareCardVerdict::Worker;
        };
        let count = counts.entry(*number).or_default();
        run_actions(flow, count, frame)
    }
}

impl FlowCard for SoftwareCard {
    fn create(&mut self, flow: &Flow) -> Result<FlowHandle, FlowCardError> {
        let mut inside = self.inside();
        if inside.flows.len() >= inside.room {
            inside.refused += 1;
            return Err(FlowCardError("No space left on device: the table is full".to_owned()));
        }
        if let Some(words) = inside.refuses.as_mut().and_then(|refuses| refuses(flow)) {
            inside.refused += 1;
            return Err(FlowCardError(words.to_owned()));
        }
        inside.last += 1;
        inside.created += 1;
        let number = FlowHandle(inside.last);
        inside.flows.insert(number, flow.clone());
        inside.counts.insert(number, FlowCounts::default());
        Ok(number)
    }

    fn destroy(&mut self, flow: FlowHandle) -> Result<(), FlowCardError> {
        let removed = self.inside().flows.remove(&flow);
        removed.map(|_| ()).ok_or_else(|| FlowCardError("No such file or directory".to_owned()))
    }

    fn query(&mut self, flow: FlowHandle) -> Result<FlowCounts, FlowCardError> {
        let counts = self.inside().counts.get(&flow).copied();
        counts.ok_or_else(|| FlowCardError("No such file or directory".to_owned()))
    }

    fn release(&mut self, flow: FlowHandle) {
        let mut inside = self.inside();
        if !inside.flows.contains_key(&flow) {
            inside.counts.remove(&flow);
        }
    }
}

/// True if a frame has the headers of a flow.
fn matches(flow: &Flow, frame: &[u8]) -> bool {
    let mut at = 0;
    let mut ipv4 = Vec::new();
    for item in &flow.items {
        if let FlowHeader::Intact(nth) = item.header {
            let start = (nth as usize).checked_sub(1).and_then(|nth| ipv4.get(nth));
            if !start.is_some_and(|start| is_intact(&frame[*start..])) {
                return false;
            }
            continue;
        }
        let Some(rest) = frame.get(at..) else { return false };
        let Some((skipped, len)) = header_len(item.header, rest) else { return false };
        let header = &rest[skipped..];
        let mut fields = header.iter().zip(&item.spec).zip(&item.mask);
        if header.len() < item.spec.len()
            || fields.any(|((octet, spec), mask)| (octet ^ spec) & mask != 0)
        {
            return false;
        }
        if item.header == FlowHeader::Ipv4 {
            ipv4.push(at);
        }
        at += len;
    }
    true
}

/// Returns how many octets of a header precede those that an item compares, and the whole length.
/// `None` if `octets` does not begin with the header.
fn header_len(header: FlowHeader, octets: &[u8]) -> Option<(usize, usize)> {
    let (skipped, len) = match header {
        FlowHeader::Ethernet => (0, 14),
        FlowHeader::Vlan => (0, 4),
        FlowHeader::Udp | FlowHeader::Gtpu => (0, 8),
        FlowHeader::Tcp => (0, 20),
        FlowHeader::Ipv4 => match octets.first()? {
            first if first >> 4 == 4 && first & 0xf >= 5 => (0, usize::from(first & 0xf) * 4),
            _ => return None,
        },
        FlowHeader::Container => match octets.get(3..8)? {
            // Type of the extension header, its length in units of four octets, and no next header.
            [0x85, 1, _, _, 0] => (4, 8),
            _ => return None,
        },
        FlowHeader::Intact(_) => return None,
    };
    (octets.len() >= len).then_some((skipped, len))
}

/// True if the checksum of the IPv4 header is right, and `octets` has at least its Total Length.
fn is_intact(octets: &[u8]) -> bool {
    let header_len = usize::from(octets[0] & 0xf) * 4;
    let len = usize::from(u16::from_be_bytes([octets[2], octets[3]]));
    checksum(&octets[..header_len]) == 0 && len >= header_len && len <= octets.len()
}

fn checksum(octets: &[u8]) -> u16 {
    let (words, _) = octets.as_chunks::<2>();
    let mut sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

fn run_actions(flow: &Flow, count: &mut FlowCounts, frame: &[u8]) -> SoftwareCardVerdict {
    let mut octets = frame.to_vec();
    for action in &flow.actions {
        match action {
            FlowAction::Count => {
                count.pkts += 1;
                count.bytes += frame.len() as u64;
            }
            FlowAction::Decapsulate(front) => {
                octets.drain(..front.len().min(octets.len()));
            }
            FlowAction::Encapsulate(front) => {
                octets.splice(..0, front.iter().copied());
                complete_headers(&mut octets, front.len());
            }
            FlowAction::DecrementHops => {
                let at = network_offset(&octets);
                if let Some([hops, _, sum @ ..]) = octets.get_mut(at + 8..at + 12) {
                    *hops -= 1;
                    sum.fill(0);
                    write_checksum(&mut octets, at);
                }
            }
            FlowAction::Send(port) => return SoftwareCardVerdict::Sent(*port, octets),
            FlowAction::ToWorker => return SoftwareCardVerdict::Worker,
        }
    }
    SoftwareCardVerdict::Worker
}

/// Returns the offset of the header after the Ethernet header and VLAN tag.
fn network_offset(frame: &[u8]) -> usize {
    if frame.get(12..14) == Some(&[0x81, 0x00]) { 18 } else { 14 }
}

fn write_checksum(frame: &mut [u8], at: usize) {
    let end = at + usize::from(frame[at] & 0xf) * 4;
    let sum = checksum(&frame[at..end]).to_be_bytes();
    frame[at + 10..at + 12].copy_from_slice(&sum);
}

/// Writes the lengths and the IPv4 checksum of a tunnel's headers in the first `front` octets.
fn complete_headers(frame: &mut [u8], front: usize) {
    let at = network_offset(frame);
    if front <= at {
        return;
    }
    let len = frame.len() - at;
    for (field, overhead) in [(2, 0), (24, 20), (30, 36)] {
        let value = u16::try_from(len - overhead).unwrap_or_default();
        frame[at + field..at + field + 2].copy_from_slice(&value.to_be_bytes());
    }
    write_checksum(frame, at);
}
