//! Flow rules of a card: the headers that a frame must have, and the actions on the frame.

use adit_types::PortId;

/// A flow rule of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The port from whose link frames arrive.
    pub port: PortId,
    /// If a frame matches several flows, the one with the highest priority applies.
    pub priority: FlowPriority,
    /// The headers, from the Ethernet header on, that directly follow each other in the frame.
    pub items: Vec<FlowItem>,
    /// The actions of the card, in this order.
    pub actions: Vec<FlowAction>,
}

/// The priority of a flow. A flow with a smaller value wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowPriority {
    /// Frames for the workers.
    Exception,
    /// Packets of a session.
    Session,
}

/// One header of a flow's pattern: its kind, and the octets in it that must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowItem {
    /// The kind of header.
    pub header: FlowHeader,
    /// The first octets of the header, compared in the bits that are set in `mask`.
    pub spec: Vec<u8>,
    /// As many octets as `spec`.
    pub mask: Vec<u8>,
}

/// A kind of header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowHeader {
    /// Ethernet.
    Ethernet,
    /// A VLAN tag: its control field and the type of the payload.
    Vlan,
    /// IPv4.
    Ipv4,
    /// UDP.
    Udp,
    /// TCP, not in a later fragment of a packet.
    Tcp,
    /// The eight octets that every GTP-U header has.
    Gtpu,
    /// A PDU Session Container of four octets as the only extension header of GTP-U. The four
    /// octets of optional GTP-U fields precede it; `spec` begins after them.
    Container,
    /// A condition rather than a header: the checksum of the nth IPv4 header (from one) is right,
    /// and the frame has all the octets of that packet's Total Length.
    Intact(u32),
}

/// The action of a card on a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowAction {
    /// Counts frames and their octets as received.
    Count,
    /// Removes octets from the front: as many as there are here, whatever their values.
    Decapsulate(Vec<u8>),
    /// Adds octets in front. The card writes the lengths and the IPv4 checksum into the headers of
    /// IPv4, UDP and GTP-U among them.
    Encapsulate(Vec<u8>),
    /// Decrements the time to live of the first IPv4 header of the frame.
    DecrementHops,
    /// Transmits the frame on the link of a port.
    Send(PortId),
    /// Passes the frame to the workers.
    ToWorker,
}

impl FlowItem {
    /// Matches a header with any content.
    pub(crate) const fn any(header: FlowHeader) -> Self {
        Self { header, spec: Vec::new(), mask: Vec::new() }
    }

    /// Requires that the octets from offset `at` equal `value` in the bits of `mask`.
    pub(crate) fn field(mut self, at: usize, value: &[u8], mask: &[u8]) -> Self {
        let end = at + value.len();
        if self.spec.len() < end {
            self.spec.resize(end, 0);
            self.mask.resize(end, 0);
        }
        self.spec[at..end].copy_from_slice(value);
        self.mask[at..end].copy_from_slice(mask);
        self
    }

    /// Requires that the octets from offset `at` equal `value`.
    pub(crate) fn exactly(self, at: usize, value: &[u8]) -> Self {
        let mask = vec![u8::MAX; value.len()];
        self.field(at, value, &mask)
    }
}
