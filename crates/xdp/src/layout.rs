//! The layout of the program's maps: see `bpf/forward.bpf.c`.

/// Maximum number of interfaces.
pub(crate) const MAPPED_INTERFACES_MAX: usize = 32;
/// Words of `struct interface`.
pub(crate) const INTERFACE_WORDS: usize = 2;
/// Rows of counters per processor: one for each interface, and one for packets that are left to
/// workers.
pub(crate) const COUNTER_ROWS: usize = MAPPED_INTERFACES_MAX + 1;
/// Words of a row of counters.
pub(crate) const COUNTER_WORDS: usize = 8;
/// Maximum number of pools of UE addresses.
pub(crate) const POOLS_MAX: usize = 16;
/// Maximum number of our addresses on one link, for each address family.
pub(crate) const OWN_ADDRS_MAX: usize = 16;
/// Number of 32-bit numbers in one element of a map.
pub(crate) const CHUNK_LEN: usize = 1 << 10;
/// Maximum number of sets of interfaces that packets leave through.
pub(crate) const EGRESS_SETS_MAX: usize = 64;
/// Number of gateways in one set of interfaces.
pub(crate) const GATEWAYS: usize = 256;
/// Number of parts that the destinations of one address family are divided into.
pub(crate) const NETWORKS: usize = 1 << 16;

/// Words of an entry.
pub(crate) const ENTRY_WORDS: usize = 8;

/// Positions of the words of an entry.
pub(crate) mod word {
    pub(crate) const HEAD: usize = 0;
    /// TEID in the lower half; the UE's IPv4 address in the upper half.
    pub(crate) const TEID: usize = 1;
    pub(crate) const UE_V6: usize = 2;
    /// Lower half: index of the far end, or the QoS flows. Upper half: the next hop, or the number
    /// of the set of interfaces that packets leave through.
    pub(crate) const FAR: usize = 3;
    /// Lower half: type of service and QoS flow. Upper half: the [`hold`](super::HOLD_LEFT).
    pub(crate) const MARKING: usize = 4;
    pub(crate) const BUDGET: usize = 5;
    pub(crate) const PKTS: usize = 6;
    pub(crate) const LAST: usize = 7;
}

/// Flags and fields of the head.
pub(crate) mod head {
    /// The number of the entry: how many entries its place has had. After the last number below
    /// [`NUMBERS_END`] follows 1.
    pub(crate) const NUMBER: u64 = (1 << 20) - 1;
    /// Numbers are less than this: the budget of an entry without limits begins with this number.
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

/// Number of bits of a budget, below the number of the entry in the same word.
pub(crate) const BUDGET_BITS: u32 = 44;

/// The hold of a new entry, which is not zero: workers may still have earlier packets, which later
/// packets must not overtake.
pub(crate) const HOLD_LEFT: u64 = 1 << 32;

/// The QoS flow identifier that means none.
pub(crate) const NO_QFI: u8 = u8::MAX;

/// Bit of a next hop: it is resolved.
pub(crate) const HOP_RESOLVED: u64 = 1 << 63;
/// First bit of the interface in a next hop; the bits below are the link-layer address.
pub(crate) const HOP_INTERFACE_SHIFT: u32 = 48;
