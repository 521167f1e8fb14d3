//! The layout of the program's maps: see `bpf/forward.bpf.c`.

/// Interfaces at most.
pub(crate) const INTERFACES: usize = 32;
/// Words of `struct interface`.
pub(crate) const INTERFACE_WORDS: usize = 2;
/// Rows of counters of one processor: one per interface, and one for packets that are left to
/// workers.
pub(crate) const COUNTER_ROWS: usize = INTERFACES + 1;
/// Words of a row of counters.
pub(crate) const COUNTER_WORDS: usize = 8;
/// Pools of UE addresses at most.
pub(crate) const POOLS: usize = 16;
/// Addresses of ours on one link at most, of each family.
pub(crate) const OWN_ADDRS: usize = 16;
/// Numbers of 32 bits in one element of a map.
pub(crate) const CHUNK: usize = 1 << 10;
/// Sets of interfaces that packets leave through at most.
pub(crate) const EGRESS_SETS: usize = 64;
/// Gateways of one such set, by number.
pub(crate) const GATEWAYS: usize = 256;
/// Parts of the destinations of one family.
pub(crate) const NETWORKS: usize = 1 << 16;

/// Words of an entry.
pub(crate) const ENTRY_WORDS: usize = 8;

/// Positions of the words of an entry.
pub(crate) mod word {
    pub(crate) const HEAD: usize = 0;
    /// TEID; above it the UE's IPv4 address.
    pub(crate) const TEID: usize = 1;
    pub(crate) const UE_V6: usize = 2;
    /// Far end or QoS flows; above it the next hop or the set of interfaces that packets leave
    /// through.
    pub(crate) const FAR: usize = 3;
    /// Type of service and QoS flow; above them the [`hold`](super::HOLD_LEFT) of the entry.
    pub(crate) const MARKING: usize = 4;
    pub(crate) const BUDGET: usize = 5;
    pub(crate) const PKTS: usize = 6;
    pub(crate) const LAST: usize = 7;
}

/// Bits of the head.
pub(crate) mod head {
    /// The number of the entry: of how many entries in its place it is the last one.
    pub(crate) const NUMBER: u64 = (1 << 20) - 1;
    /// Numbers are below: the budget of an entry without limits begins with this one.
    pub(crate) const NUMBERS_END: u64 = NUMBER;
    pub(crate) const ACTIVE: u64 = 1 << 20;
    pub(crate) const LIMITED: u64 = 1 << 21;
    pub(crate) const V4: u64 = 1 << 22;
    pub(crate) const V4_ANY: u64 = 1 << 23;
    pub(crate) const V6: u64 = 1 << 24;
    pub(crate) const V6_ANY: u64 = 1 << 25;
    pub(crate) const ANY_QFI: u64 = 1 << 26;
    pub(crate) const HAS_QFI: u64 = 1 << 27;
    pub(crate) const REFLECTIVE: u64 = 1 << 28;
    pub(crate) const ARRIVAL_SHIFT: u32 = 32;
}

/// Bits of a budget below the number of its entry.
pub(crate) const BUDGET_BITS: u32 = 44;

/// The hold of an entry that was put, in its word: workers may still have earlier packets.
pub(crate) const HOLD_LEFT: u64 = 1 << 32;

/// No QoS flow.
pub(crate) const NO_QFI: u8 = u8::MAX;

/// Bit of a next hop that says that it is resolved.
pub(crate) const HOP_RESOLVED: u64 = 1 << 63;
/// Where the interface of a next hop begins, above its link-layer address.
pub(crate) const HOP_INTERFACE_SHIFT: u32 = 48;
