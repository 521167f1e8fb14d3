//! A flow: the headers that a frame must have, and the actions on the frame.

use adit_types::PortId;

/// A rule of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Frames arrive from the link of this port.
    pub port: PortId,
    /// If a frame matches several flows, the one with the highest priority applies.
    pub priority: FlowPriority,
    /// The headers from the Ethernet header on.
    pub items: Vec<FlowItem>,
    /// The actions of the card, in this order.
    pub actions: Vec<FlowAction>,
}

/// The priority of a flow, highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowPriority {
    /// Frames for the workers.
    Exception,
    /// Packets of a session.
    Session,
}

/// A header that frames must have after the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowItem {
    /// Which.
    pub header: FlowHeader,
    /// Its first octets, compared in the bits that `mask` has.
    pub spec: Vec<u8>,
    /// As long as `spec`.
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
    /// TCP, not in a later fragment.
    Tcp,
    /// The eight octets that every GTP-U header has.
    Gtpu,
    /// A PDU Session Container of four octets as the only extension header of GTP-U, after the four
    /// octets of optional fields, which the item does not compare.
    Container,
    /// No header: the checksum of the nth IPv4 header is right, and the frame has as many octets as
    /// it says. Counts from one.
    Intact(u32),
}

/// The action of a card on a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowAction {
    /// Counts frames, and their octets as received.
    Count,
    /// Removes as many octets from the front; the frame need not have these.
    Decapsulate(Vec<u8>),
    /// Adds octets in front. The card writes lengths and the checksum of the headers of IPv4, UDP
    /// and GTP-U in them.
    Encapsulate(Vec<u8>),
    /// Decrements the time to live of the first IPv4 header.
    DecrementHops,
    /// Transmits the frame on the link of a port.
    Send(PortId),
    /// Gives the frame to the workers.
    ToWorker,
}

impl FlowItem {
    /// A header with any content.
    pub(crate) const fn any(header: FlowHeader) -> Self {
        Self { header, spec: Vec::new(), mask: Vec::new() }
    }

    /// Demands that the octets from `at` on are `value` in the bits of `mask`.
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

    /// Demands that the octets from `at` on are `value`.
    pub(crate) fn exactly(self, at: usize, value: &[u8]) -> Self {
        let mask = vec![u8::MAX; value.len()];
        self.field(at, value, &mask)
    }
}
