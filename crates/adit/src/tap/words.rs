//! Makes documents of tap records: one for each packet.

use adit_rules::{
    ApplyAction, DestinationInterface, FastPathDifference, FastPathTrialResult, HeaderCreation,
    TapItem, TapOrigin, TapOutcome, TapPacket, TapQer,
};
use adit_types::Direction;

use super::frame;
use super::news::TapNames;
use super::packet::{
    TracedEgress, TracedFar, TracedFastPath, TracedFrame, TracedOutcome, TracedPacket, TracedQer,
    TracedSession, TracedUrr, TracedWait, TriedPdr,
};

/// Which parts of a record the client gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordOptions {
    /// True to cut the octets of frames at the end of their headers.
    pub headers_only: bool,
    /// True to include stages and rules.
    pub stages: bool,
    /// True to include the trial of the fast path.
    pub path: bool,
}

/// Makes the document of a record. `number`: the number of its packet in the tap, from 1.
pub(super) fn document(
    number: u64,
    items: &[TapItem],
    names: &TapNames,
    options: WordOptions,
) -> TracedPacket {
    let document = TracedPacket { packet: number, ..TracedPacket::default() };
    let mut words = RecordWords { names, options, document, frame: Vec::new() };
    let mut items = items.iter().peekable();
    while let Some(item) = items.next() {
        words.add(item);
        let is_octets = |next: &&TapItem| matches!(next, TapItem::Octets { .. });
        if !items.peek().is_some_and(is_octets) {
            words.end_frame();
        }
    }
    words.document
}

struct RecordWords<'n> {
    names: &'n TapNames,
    options: WordOptions,
    document: TracedPacket,
    /// Octets so far of the frame that is being read.
    frame: Vec<u8>,
}

impl RecordWords<'_> {
    fn add(&mut self, item: &TapItem) {
        match item {
            TapItem::Packet(packet) => self.packet(packet),
            TapItem::Octets { len, octets } => {
                self.frame.extend(octets.iter().take(usize::from(*len)));
            }
            TapItem::Sent { port, interface, len } => self.document.sent.push(TracedFrame {
                port: self.names.port(*port),
                interface: self.names.interface(*interface),
                len: *len,
                ..TracedFrame::default()
            }),
            TapItem::Waited(wait, time) => {
                self.document.waited =
                    Some(TracedWait { r#for: wait.text().to_owned(), ns: time.0 });
            }
            TapItem::End(outcome) => self.outcome(*outcome),
            TapItem::FastPath(answer) if self.options.path => {
                self.document.fast_path = Some(fast_path(*answer, self.names));
            }
            TapItem::FastPath(_) | TapItem::Skipped(..) | TapItem::Stopped(_) => {}
            item if self.options.stages => self.detail(item),
            _ => {}
        }
    }

    fn packet(&mut self, packet: &TapPacket) {
        let TapPacket { origin, worker, at, port, interface, len, .. } = packet;
        let from = match origin {
            TapOrigin::Port => "port",
            TapOrigin::Handoff => "another thread",
            TapOrigin::Recirculated => "the worker itself",
            TapOrigin::Waited => "a queue of the worker",
        };
        self.document = TracedPacket {
            packet: self.document.packet,
            time_unix_ns: self.names.zero_unix_ns.saturating_add(at.0),
            worker: worker.0.into(),
            from: from.to_owned(),
            port: port.map(|port| self.names.port(port)),
            interface: interface.map(|interface| self.names.interface(interface)),
            len: *len,
            ..TracedPacket::default()
        };
    }

    /// Ends a frame: adds its headers and octets to the last sent frame, or, if none was sent yet,
    /// to the packet.
    fn end_frame(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        let mut octets = core::mem::take(&mut self.frame);
        let words = frame::words(&octets);
        if self.options.headers_only {
            octets.truncate(words.headers_len);
        }
        let TracedPacket { headers, octets: of_packet, sent, .. } = &mut self.document;
        let (headers, text) = match sent.last_mut() {
            Some(sent) => (&mut sent.headers, &mut sent.octets),
            None => (headers, of_packet),
        };
        (*headers, *text) = (words.headers, Some(hex(&octets)));
    }

    fn detail(&mut self, item: &TapItem) {
        let document = &mut self.document;
        match item {
            TapItem::Stage(stage, took) => {
                *document.stages_ns.entry(stage.name().to_owned()).or_default() += took.0;
            }
            TapItem::Session(session) => {
                let by =
                    session.teid.map_or("UE address".to_owned(), |teid| format!("TEID {teid}"));
                document.session = Some(TracedSession {
                    up_seid: session.seid.to_string(),
                    by,
                    pdrs: session.pdrs.into(),
                    compiled_filters: session.has_matcher,
                });
            }
            TapItem::Tried { pdr, precedence, mismatch } => document.pdrs_tried.push(TriedPdr {
                pdr: pdr.0,
                precedence: precedence.0,
                matched: mismatch.is_none(),
                why: mismatch.map(|mismatch| mismatch.text().to_owned()),
            }),
            TapItem::Matched { pdr, direction } => {
                let direction = match direction {
                    Direction::Uplink => "uplink",
                    Direction::Downlink => "downlink",
                };
                (document.pdr, document.direction) = (Some(pdr.0), Some(direction.to_owned()));
            }
            TapItem::Qer(TapQer { qer, is_gate_open, has_room, has_packet_rate }) => {
                let gate = if *is_gate_open { "open" } else { "closed" };
                let rate = has_room.map(|has| if has { "within" } else { "used up" });
                document.qers.push(TracedQer {
                    qer: qer.0,
                    gate: gate.to_owned(),
                    rate: rate.map(str::to_owned),
                    packet_rate: *has_packet_rate,
                });
            }
            TapItem::Urr { urr, before, after } => document
                .urrs
                .push(TracedUrr { urr: urr.0, counted_bytes: after.saturating_sub(*before) }),
            TapItem::Far { far, action, destination, outer, must_queue } => {
                document.far = Some(TracedFar {
                    far: far.0,
                    action: actions(*action),
                    destination: destination_name(*destination).to_owned(),
                    outer_header: outer.map(outer_words),
                    waits_for_rate: *must_queue,
                });
            }
            TapItem::Egress { interface, station, mac, is_switched, dscp } => {
                document.egress = Some(TracedEgress {
                    interface: self.names.interface(*interface),
                    next_hop: station.to_string(),
                    mac: mac.map(|mac| mac.to_string()),
                    switched_locally: *is_switched,
                    dscp: *dscp,
                });
            }
            _ => {}
        }
    }

    fn outcome(&mut self, outcome: TapOutcome) {
        let (kind, reason, text) = match outcome {
            TapOutcome::Transmitted => ("sent", None, "It left."),
            TapOutcome::Dropped(reason) => ("dropped", Some(reason.name()), reason.text()),
            TapOutcome::Consumed(reason) => ("consumed", Some(reason.name()), reason.text()),
            TapOutcome::SlowPath => ("answered", None, "Adit answers it in place of the server."),
            TapOutcome::Buffered => ("buffered", None, "Its FAR buffers it."),
            TapOutcome::Queued => ("queued", None, "It waits for the rate of its QERs or slice."),
            TapOutcome::WaitsForNeighbor => {
                ("waits", None, "It waits for the link-layer address of its next hop.")
            }
            TapOutcome::WaitsForPort => {
                ("waits", None, "It waits for room in the transmit queue of its port.")
            }
            TapOutcome::WaitsForFragments => {
                ("waits", None, "It waits for the other fragments of its datagram.")
            }
            TapOutcome::Switched => {
                ("switched", None, "It goes to another UE, by its session's rules.")
            }
            TapOutcome::HandedOff => {
                ("handed_off", None, "The worker that owns its session gets it.")
            }
        };
        let (kind, text) = (kind.to_owned(), text.to_owned());
        self.document.outcome = TracedOutcome { kind, reason: reason.map(str::to_owned), text };
    }
}

/// Makes the document of a trial of the fast path.
fn fast_path(answer: FastPathTrialResult, names: &TapNames) -> TracedFastPath {
    let leaves = |reason: &str, why: &str| TracedFastPath {
        kind: "leaves".to_owned(),
        reason: Some(reason.to_owned()),
        text: why.to_owned(),
        port: None,
        interface: None,
        len: None,
        difference: None,
    };
    let (kind, text, frame) = match answer {
        FastPathTrialResult::Leaves(why) => return leaves(why.name(), why.text()),
        FastPathTrialResult::LeavesUnruled(why) => {
            let text = format!("its session has no fast rule for it: {}", why.text());
            return leaves(why.name(), &text);
        }
        FastPathTrialResult::Sends(frame) => ("sends", "It would send the packet.", frame),
        FastPathTrialResult::Queues(frame) => {
            ("queues", "It would queue the packet for its rates.", frame)
        }
    };
    TracedFastPath {
        kind: kind.to_owned(),
        reason: None,
        text: text.to_owned(),
        port: Some(names.port(frame.port)),
        interface: Some(names.interface(frame.interface)),
        len: Some(frame.len),
        difference: frame.difference.map(difference_words),
    }
}

fn difference_words(difference: FastPathDifference) -> String {
    match difference {
        FastPathDifference::Outcome => "the packet has another outcome".to_owned(),
        FastPathDifference::Egress => "the frame leaves elsewhere".to_owned(),
        FastPathDifference::Length(len) => format!("the frame has {len} octets"),
        FastPathDifference::Octet { at, fast_path, stages } => {
            format!("octet {at} of the frame is 0x{stages:02x}, by the fast path 0x{fast_path:02x}")
        }
        FastPathDifference::Frames => "more than one frame leaves".to_owned(),
    }
}

/// Formats octets as hexadecimal digits.
fn hex(octets: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS[usize::from(nibble & 0xf)];
    octets.iter().flat_map(|octet| [digit(octet >> 4), digit(*octet)]).collect()
}

fn actions(action: ApplyAction) -> Vec<String> {
    let names = [
        (ApplyAction::DROP, "drop"),
        (ApplyAction::FORW, "forward"),
        (ApplyAction::BUFF, "buffer"),
        (ApplyAction::NOCP, "notify"),
        (ApplyAction::DUPL, "duplicate"),
    ];
    let set = names.into_iter().filter(|(one, _)| action.contains(*one));
    set.map(|(_, name)| name.to_owned()).collect()
}

const fn destination_name(destination: DestinationInterface) -> &'static str {
    match destination {
        DestinationInterface::Access => "Access",
        DestinationInterface::Core => "Core",
        DestinationInterface::SgiLanN6Lan => "SGi-LAN/N6-LAN",
        DestinationInterface::CpFunction => "CP function",
        DestinationInterface::LiFunction => "LI function",
    }
}

fn outer_words(outer: HeaderCreation) -> String {
    match outer {
        HeaderCreation::Gtpu(tunnel) => format!("GTP-U to TEID {} at {}", tunnel.teid, tunnel.addr),
        HeaderCreation::Udp { addr, port } => format!("UDP to {addr} port {port}"),
        HeaderCreation::Ip { addr } => format!("IP to {addr}"),
    }
}

#[cfg(test)]
mod tests {
    use adit_rules::{
        DropReason, FastPathFrame, LeaveReason, NoFastRule, TAP_OCTETS_MAX, TapSet, TapStage,
    };
    use adit_types::{InterfaceId, Nanos, PortId, WorkerId};

    use super::*;

    fn names() -> TapNames {
        let (interfaces, ports) = (vec!["n3".to_owned()], vec!["access".to_owned()]);
        TapNames { interfaces, ports, zero_unix_ns: 1_000 }
    }

    fn record(outcome: TapOutcome) -> Vec<TapItem> {
        let mut octets = [0; TAP_OCTETS_MAX];
        octets[12..14].copy_from_slice(&[0x88, 0xcc]);
        vec![
            TapItem::Packet(TapPacket {
                taps: TapSet::NONE,
                origin: TapOrigin::Port,
                worker: WorkerId(3),
                at: Nanos(5),
                port: Some(PortId(0)),
                interface: Some(InterfaceId(0)),
                len: 60,
            }),
            TapItem::Octets { len: 56, octets },
            TapItem::Octets { len: 4, octets },
            TapItem::Stage(TapStage::Parse, Nanos(40)),
            TapItem::Stage(TapStage::Parse, Nanos(2)),
            TapItem::End(outcome),
        ]
    }

    #[test]
    fn every_drop_reason_is_named_with_its_sentence() {
        let options = WordOptions { headers_only: true, stages: true, path: false };
        for reason in DropReason::ALL {
            let document = document(1, &record(TapOutcome::Dropped(*reason)), &names(), options);
            assert_eq!(document.outcome.reason.as_deref(), Some(reason.name()));
            assert_eq!(document.outcome.text, reason.text());
        }
    }

    #[test]
    fn record_has_names_times_and_octets_as_far_as_they_are_wanted() {
        let items = record(TapOutcome::Transmitted);
        let all = document(
            7,
            &items,
            &names(),
            WordOptions { headers_only: false, stages: true, path: false },
        );
        assert_eq!((all.packet, all.worker, all.time_unix_ns, all.len), (7, 3, 1_005, 60));
        let place = (all.port.as_deref(), all.interface.as_deref());
        assert_eq!(place, (Some("access"), Some("n3")));
        assert_eq!(all.octets.as_ref().unwrap().len(), 2 * 60);
        assert_eq!(all.stages_ns["parse"], 42);
        let few = document(
            7,
            &items,
            &names(),
            WordOptions { headers_only: true, stages: false, path: false },
        );
        assert_eq!(few.octets.as_ref().unwrap().len(), 2 * 14);
        assert_eq!(
            few.headers[0],
            "Ethernet 00:00:00:00:00:00 > 00:00:00:00:00:00, EtherType 0x88cc"
        );
        // Members for events that did not happen are absent.
        let members = serde_json::to_value(&few).unwrap();
        let members: Vec<_> = members.as_object().unwrap().keys().cloned().collect();
        let expected = "from headers interface len octets outcome packet port time_unix_ns worker";
        assert_eq!(members.join(" "), expected);
    }

    #[test]
    fn fast_path_says_why_it_leaves_a_packet_and_how_the_stages_differ() {
        let said = |answer| fast_path(answer, &names());
        for why in LeaveReason::ALL {
            let said = said(FastPathTrialResult::Leaves(*why));
            assert_eq!((said.reason.as_deref(), &*said.text), (Some(why.name()), why.text()));
        }
        let said_unruled = said(FastPathTrialResult::LeavesUnruled(NoFastRule::GateClosed));
        assert!(said_unruled.text.contains("no fast rule for it: a gate"), "{said_unruled:?}");
        let octet = FastPathDifference::Octet { at: 22, fast_path: 63, stages: 64 };
        let difference = Some(octet);
        let (port, interface) = (PortId(0), InterfaceId(0));
        let said =
            said(FastPathTrialResult::Sends(FastPathFrame { port, interface, len: 9, difference }));
        assert_eq!((said.port.as_deref(), said.len), (Some("access"), Some(9)));
        let expected = "octet 22 of the frame is 0x40, by the fast path 0x3f";
        assert_eq!(said.difference.as_deref(), Some(expected));
    }
}
