// SPDX-License-Identifier: Apache-2.0
//
// Forwards usual packets in the hook of a network driver, by the entries that crates/xdp/src/entry.rs writes. Every
// other packet goes to the worker, unchanged. adit_wire::usual defines usual packets, and the fast path of adit_datapath
// how they are forwarded; the differential test of crates/tests compares both.
//
// Uses only helpers that programs of any license may use. Layouts: crates/xdp/src/layout.rs.

#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define uint(name, value) int (*name)[value]
#define type(name, value) typeof(value) *name

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const redirect_map)(void *map, __u64 key, __u64 flags) = (void *)BPF_FUNC_redirect_map;
static long (*const adjust_head)(struct xdp_md *ctx, int delta) = (void *)BPF_FUNC_xdp_adjust_head;
static long (*const adjust_tail)(struct xdp_md *ctx, int delta) = (void *)BPF_FUNC_xdp_adjust_tail;
static __u64 (*const now_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*const coarse_ns)(void) = (void *)BPF_FUNC_ktime_get_coarse_ns;
static __u32 (*const processor)(void) = (void *)BPF_FUNC_get_smp_processor_id;

char program_license[] SEC("license") = "Apache-2.0";

// Maximum number of interfaces, and the row of the counters for packets that are left to workers.
#define INTERFACES 32
#define PASSED INTERFACES
#define ROWS (INTERFACES + 1)
#define POOLS 16
#define OWN_V4 16
#define OWN_V6 16
// Numbers of 32 bits in one element of a map, whose elements take eight octets at least.
#define CHUNK_BITS 10
#define CHUNK (1 << CHUNK_BITS)
#define EGRESS_SETS 64

struct entry {
    __u64 head;
    __u32 teid;
    __u32 ue_v4;
    __u64 ue_v6;
    // Uplink: four QoS flows of 8 bits. Downlink: the far end.
    __u32 far;
    // Uplink: the number of the set of interfaces that packets leave through. Downlink: the next hop.
    __u32 hop;
    // Downlink: type of service as OuterTos of adit_rules has it, and from bit 8 on the QoS flow.
    __u32 marking;
    // Not zero while workers may still have earlier packets: see must_wait.
    __u32 hold;
    // Octets that may be forwarded before the worker must see a packet, and above them the number of the entry. If the
    // entry has no limits: the complement of the octets forwarded, plus a constant.
    __u64 budget;
    __u64 pkts;
    // Time of the last packet, by the coarse monotonic clock.
    __u64 last;
};

#define NUMBER_MASK ((1u << 20) - 1)
#define ACTIVE (1ull << 20)
#define LIMITED (1ull << 21)
#define V4 (1ull << 22)
#define V4_ANY (1ull << 23)
#define V6 (1ull << 24)
#define V6_ANY (1ull << 25)
#define ANY_QFI (1ull << 26)
#define HAS_QFI (1ull << 27)
#define REFLECTIVE (1ull << 28)
#define ARRIVAL_SHIFT 32
#define BUDGET_BITS 44
#define BUDGET_MASK ((1ull << BUDGET_BITS) - 1)

// A hold keeps packets from overtaking those that workers still have. It is HOLD_LEFT until a packet could be forwarded,
// and then has the times of the first and of the last such packet.
#define HOLD_LEFT 1u
#define HOLD_RUNS (1u << 31)
#define HOLD_BITS 15
#define HOLD_MASK ((1u << HOLD_BITS) - 1)
// The unit of these times is 16.4 microseconds. A hold ends after 0.5 ms without a packet, or after 2 ms.
#define HOLD_SHIFT 14
#define HOLD_QUIET 30
#define HOLD_LONGEST 122

struct interface {
    __u8 mac[6];
    __u16 mtu;
    // Our IPv4 address for tunnels; zero if there is none.
    __u32 v4;
    // Index in tx_ports, plus one; zero if packets that leave through the interface need a worker.
    __u16 port;
    // Not zero if SYNs that leave through the interface need a worker.
    __u16 keeps_syns;
};

struct pool {
    __u32 domain;
    __u32 first;
    __u32 len;
    // Index of the pool's first address among the addresses of all pools.
    __u32 offset;
};

// The port that the program is attached to. n3 and n6 have the bit of an interface.
struct port {
    __u8 mac[6];
    // Not zero if kernels on this host send through the device: see has_open_checksum.
    __u8 is_virtual;
    // Not zero if SYNs that arrive on the port's N6 need a worker.
    __u8 keeps_syns;
    __u32 n3;
    __u32 n3_v4;
    __u32 n6;
    __u32 domain;
    __u32 n3_id;
    __u32 n6_id;
    __u32 own_v4_count;
    __u32 own_v6_count;
    __u32 own_v4[OWN_V4];
    __u64 own_v6[OWN_V6];
};

// Settings that are the same for all ports.
struct settings {
    __u32 teid_mask;
    __u32 pools;
    struct pool pool[POOLS];
    // The map of networks has the gateway numbers of most IPv6 destinations.
};

struct ue_key {
    __u64 addr;
    // Routing domain, and from bit 8 on the version of IP.
    __u64 kind;
};

struct counters {
    __u64 rx_pkts;
    __u64 rx_bytes;
    __u64 ul_pkts;
    __u64 ul_bytes;
    __u64 dl_pkts;
    __u64 dl_bytes;
    __u64 spare[2];
};

struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, 1); type(key, __u32); type(value, struct entry); } entries SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, 1); type(key, __u32); __u32 (*value)[CHUNK]; } teids SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, 1); type(key, __u32); __u32 (*value)[CHUNK]; } ue_pools SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_HASH); uint(map_flags, BPF_F_NO_PREALLOC); uint(max_entries, 1); type(key, struct ue_key); type(value, __u32); } ues SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, 1); type(key, __u32); type(value, __u64); } next_hops SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, 2); type(key, __u32); __u8 (*value)[65536]; } networks SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, EGRESS_SETS); type(key, __u32); __u32 (*value)[256]; } gateways SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, INTERFACES); type(key, __u32); type(value, struct interface); } interfaces SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, 1); type(key, __u32); type(value, struct settings); } settings SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, ROWS); type(key, __u32); type(value, struct counters); } counters SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_ARRAY); uint(map_flags, BPF_F_MMAPABLE); uint(max_entries, 1); type(key, __u32); type(value, struct port); } ports SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_DEVMAP); uint(max_entries, INTERFACES); uint(key_size, 4); uint(value_size, 4); } tx_ports SEC(".maps");
struct { uint(type, BPF_MAP_TYPE_XSKMAP); uint(max_entries, 64); uint(key_size, 4); uint(value_size, 4); } xsks_map SEC(".maps");

#define U16(p) (*(__u16 *)(p))
#define U32(p) (*(__u32 *)(p))
#define U64(p) (*(__u64 *)(p))
#define BE16(p) __builtin_bswap16(U16(p))
#define BE32(p) __builtin_bswap32(U32(p))
#define BE64(p) __builtin_bswap64(U64(p))

#define ETH_LEN 14
#define IPV4_LEN 20
#define IPV6_LEN 40
#define TUNNEL_LEN 36
#define CONTAINER_LEN 8
#define ETH_IPV4 0x0800
#define ETH_IPV6 0x86dd
#define GTPU_PORT 2152

// The packet of a user.
struct packet {
    __u64 src;
    __u64 dst;
    __u32 len;
    __u32 is_v6;
};

INLINE struct counters *row(__u32 at)
{
    __u32 key = processor() * ROWS + at;
    return map_lookup(&counters, &key);
}

INLINE int pass(struct xdp_md *ctx)
{
    struct counters *count = row(PASSED);
    if (count)
        count->rx_pkts++;
    return redirect_map(&xsks_map, ctx->rx_queue_index, XDP_PASS);
}

INLINE __u32 folded(__u64 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

INLINE int is_checksum_valid(const void *ip)
{
    __u64 sum = (__u64)U32(ip) + U32(ip + 4) + U32(ip + 8) + U32(ip + 12) + U32(ip + 16);
    return folded(sum) == 0xffff;
}

// Spec: RFC 1812 §5.3.7, §4.2.2.11; RFC 3927 §2.7.
INLINE int is_forwardable_v4(__u32 addr)
{
    __u32 first = addr >> 24;
    return first != 0 && first != 127 && addr >> 16 != 0xa9fe && addr >> 28 != 0xe && addr != 0xffffffff;
}

// Uses only the upper half of an IPv6 address. Addresses whose upper half is zero take the worker.
INLINE int is_forwardable_v6(__u64 upper)
{
    return upper != 0 && upper >> 54 != 0x3fa && upper >> 56 != 0xff;
}

INLINE int is_forwardable(__u64 addr, __u32 is_v6)
{
    return is_v6 ? is_forwardable_v6(addr) : is_forwardable_v4(addr);
}

// Reads a packet that may be forwarded, which lies between `ip` and `end`. Returns 0 if the packet takes the worker.
INLINE int read_packet(void *ip, void *data_end, __u32 room, struct packet *packet)
{
    if (ip + IPV4_LEN > data_end)
        return 0;
    __u8 first = *(__u8 *)ip;
    if (first == 0x45) {
        packet->is_v6 = 0;
        packet->len = BE16(ip + 2);
        if (packet->len < IPV4_LEN || *(__u8 *)(ip + 8) <= 1 || !is_checksum_valid(ip))
            return 0;
        packet->src = BE32(ip + 12);
        packet->dst = BE32(ip + 16);
    } else if (first >> 4 == 6) {
        if (ip + IPV6_LEN > data_end)
            return 0;
        __u8 next = *(__u8 *)(ip + 6);
        packet->is_v6 = 1;
        packet->len = IPV6_LEN + BE16(ip + 4);
        if ((next != 6 && next != 17 && next != 58) || *(__u8 *)(ip + 7) <= 1)
            return 0;
        packet->src = BE64(ip + 8);
        packet->dst = BE64(ip + 24);
    } else {
        return 0;
    }
    return packet->len <= room;
}

// True if the checksum of a TCP segment or UDP datagram is left to a network card: its field then has the sum of the
// pseudo header. Kernels pass packets so through virtual devices, and only a worker can finish them. The first fragment of
// a datagram is none.
INLINE int has_open_checksum(const void *ip, const void *data_end, const struct packet *packet)
{
    const void *upper = ip + (packet->is_v6 ? IPV6_LEN : IPV4_LEN);
    if (upper + 8 > data_end)
        return 0;
    __u8 protocol = *(const __u8 *)(ip + (packet->is_v6 ? 6 : 9));
    __u64 sum = __builtin_bswap16(protocol);
    if (packet->is_v6) {
        sum += U16(ip + 4);
        for (int at = 8; at < IPV6_LEN; at += 4)
            sum += U32(ip + at);
    } else {
        if (BE16(ip + 6) & 0x3fff)
            return 0;
        sum += __builtin_bswap16(packet->len - IPV4_LEN);
        sum += (__u64)U32(ip + 12) + U32(ip + 16);
    }
    if (protocol == 17)
        return U16(upper + 6) == folded(sum);
    return protocol == 6 && upper + 18 <= data_end && U16(upper + 16) == folded(sum);
}

// True if a packet is a TCP SYN, or a later fragment that looks like one.
INLINE int is_syn(void *ip, void *data_end, __u32 is_v6)
{
    void *flags = ip + (is_v6 ? IPV6_LEN : IPV4_LEN) + 13;
    if (flags + 1 > data_end)
        return 0;
    return *(__u8 *)(ip + (is_v6 ? 6 : 9)) == 6 && *(__u8 *)flags & 2;
}

// Spec: RFC 1812 §5.3.1; RFC 1624 §3; RFC 8200 §3.
INLINE void decrement_hops(void *ip, __u32 is_v6)
{
    if (is_v6) {
        *(__u8 *)(ip + 7) -= 1;
        return;
    }
    *(__u8 *)(ip + 8) -= 1;
    __u16 sum = U16(ip + 10);
    sum += 1 + (sum >= 0xfffe);
    U16(ip + 10) = sum;
}

// Returns the type of service of a packet's outer header: a fixed value or, if its two ECN bits say so, the packet's own.
INLINE __u32 outer_tos(__u32 tos, const void *ip, __u32 is_v6)
{
    if (!(tos & 3))
        return tos;
    __u32 inner = is_v6 ? BE16(ip) >> 4 & 0xff : *(__u8 *)(ip + 1);
    return (tos & 0xfc) | (inner & ((tos & 1 ? 0x03 : 0) | (tos & 2 ? 0xfc : 0)));
}

// Reads the interface and the neighbor's address of a next hop. Returns 0 if the packet takes the worker.
INLINE struct interface *find_hop(__u32 index, __u64 *hop, __u32 *id)
{
    __u64 *word = map_lookup(&next_hops, &index);
    if (!word)
        return 0;
    *hop = *word;
    // Bit 63: the next hop is resolved.
    if (!(*hop >> 63))
        return 0;
    *id = *hop >> 48 & (INTERFACES - 1);
    struct interface *of = map_lookup(&interfaces, id);
    return of && of->port ? of : 0;
}

INLINE void write_ethernet(void *eth, __u64 hop, const struct interface *of, __u16 type)
{
    // The low 48 bits of the hop are the address, its first octet lowest.
    U32(eth) = hop;
    U16(eth + 4) = hop >> 32;
    U16(eth + 6) = U16(of->mac);
    U32(eth + 8) = U32(of->mac + 2);
    U16(eth + 12) = __builtin_bswap16(type);
}

// True if a packet would overtake earlier packets that a worker may still have. Then the packet goes to the worker, too,
// until no packet has come for HOLD_QUIET, or for at most HOLD_LONGEST, so that a busy flow does not stay with the worker.
// The first packet that could be forwarded starts the time. A race of processors loses at most the time of one packet.
INLINE int must_wait(struct entry *entry)
{
    __u32 hold = *(volatile __u32 *)&entry->hold;
    if (!hold)
        return 0;
    __u32 now = now_ns() >> HOLD_SHIFT & HOLD_MASK;
    __u32 first = hold & HOLD_RUNS ? hold >> HOLD_BITS & HOLD_MASK : now;
    __u32 last = hold & HOLD_RUNS ? hold & HOLD_MASK : now;
    int is_over = (now - last & HOLD_MASK) > HOLD_QUIET || (now - first & HOLD_MASK) > HOLD_LONGEST;
    *(volatile __u32 *)&entry->hold = is_over ? 0 : HOLD_RUNS | first << HOLD_BITS | now;
    return !is_over;
}

INLINE int leave(struct entry *entry)
{
    *(volatile __u32 *)&entry->hold = HOLD_LEFT;
    return 0;
}

// Charges a packet to its entry. Returns 0, and charges nothing, if the worker has to see it.
INLINE int charge(struct entry *entry, __u64 head, __u32 len)
{
    if (!(head & LIMITED)) {
        if (must_wait(entry))
            return 0;
        __sync_fetch_and_sub(&entry->budget, (__u64)len);
        return 1;
    }
    __u64 number = head & NUMBER_MASK;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __u64 budget = *(volatile __u64 *)&entry->budget;
        if (budget >> BUDGET_BITS != number || (budget & BUDGET_MASK) <= len)
            return leave(entry);
        if (!i && must_wait(entry))
            return 0;
        if (__sync_val_compare_and_swap(&entry->budget, budget, budget - len) == budget)
            return 1;
    }
    return leave(entry);
}

INLINE void give_back(struct entry *entry, __u32 len)
{
    __sync_fetch_and_add(&entry->budget, (__u64)len);
}

// Counts a forwarded packet.
INLINE void count(struct entry *entry, __u32 arrival, __u32 rx_len, __u32 departure, __u32 tx_len, int is_uplink)
{
    __sync_fetch_and_add(&entry->pkts, 1);
    entry->last = coarse_ns();
    struct counters *rx = row(arrival);
    if (rx) {
        rx->rx_pkts++;
        rx->rx_bytes += rx_len;
    }
    struct counters *tx = row(departure);
    if (!tx)
        return;
    if (is_uplink) {
        tx->ul_pkts++;
        tx->ul_bytes += tx_len;
    } else {
        tx->dl_pkts++;
        tx->dl_bytes += tx_len;
    }
}

// Returns zero, to be added to the address of a load that must stay behind the load of `value`: processors that reorder
// loads keep the order of two loads if the address of the later one depends on the value of the earlier one.
INLINE __u64 none_of(__u64 value)
{
#ifdef LOADS_PASS_LOADS
    asm volatile("%0 &= 0" : "+r"(value) :: "memory");
    return value;
#else
    (void)value;
    asm volatile("" ::: "memory");
    return 0;
#endif
}

// Copies the fields of an entry that do not change while it is active. Returns 0 if the entry is written meanwhile.
INLINE int read_entry(struct entry *entry, struct entry *copy)
{
    copy->head = *(volatile __u64 *)&entry->head;
    if (!(copy->head & ACTIVE))
        return 0;
    struct entry *behind = (void *)entry + none_of(copy->head);
    copy->teid = behind->teid;
    copy->ue_v4 = behind->ue_v4;
    copy->ue_v6 = behind->ue_v6;
    copy->far = behind->far;
    copy->hop = behind->hop;
    copy->marking = behind->marking;
    __u64 all = copy->teid ^ copy->ue_v4 ^ copy->ue_v6 ^ copy->far ^ copy->hop ^ copy->marking;
    behind = (void *)entry + none_of(all);
    return *(volatile __u64 *)&behind->head == copy->head;
}

INLINE struct entry *entry_of(__u32 session, __u32 direction)
{
    __u32 key = session * 2 + direction;
    return map_lookup(&entries, &key);
}

// Returns the session of a TEID, which is found by the low bits of the TEID, plus one.
INLINE __u32 session_of_teid(const struct settings *all, __u32 teid)
{
    __u32 at = teid & all->teid_mask;
    __u32 key = at >> CHUNK_BITS;
    __u32 *chunk = map_lookup(&teids, &key);
    return chunk ? chunk[at & (CHUNK - 1)] : 0;
}

// Returns the session of a UE, plus one.
INLINE __u32 session_of_ue(const struct settings *all, __u32 domain, __u64 addr, __u32 is_v6)
{
    if (!is_v6) {
        for (int i = 0; i < POOLS; i++) {
            if (i >= all->pools)
                break;
            const struct pool *pool = &all->pool[i];
            __u32 at = (__u32)addr - pool->first;
            if (pool->domain != domain || at >= pool->len)
                continue;
            at += pool->offset;
            __u32 key = at >> CHUNK_BITS;
            __u32 *chunk = map_lookup(&ue_pools, &key);
            return chunk ? chunk[at & (CHUNK - 1)] : 0;
        }
    }
    struct ue_key key = { .addr = addr, .kind = domain | (is_v6 ? 0x600 : 0x400) };
    __u32 *session = map_lookup(&ues, &key);
    return session ? *session : 0;
}

INLINE int is_own(const struct port *port, __u64 addr, __u32 is_v6)
{
    if (is_v6) {
        for (int i = 0; i < OWN_V6; i++) {
            if (i < port->own_v6_count && port->own_v6[i] == addr)
                return 1;
        }
    } else {
        for (int i = 0; i < OWN_V4; i++) {
            if (i < port->own_v4_count && port->own_v4[i] == (__u32)addr)
                return 1;
        }
    }
    return 0;
}

// A G-PDU to our address: out of its tunnel, to the data network.
INLINE int uplink(struct xdp_md *ctx, const struct port *port, const struct settings *all)
{
    void *data = (void *)(long)ctx->data;
    void *data_end = (void *)(long)ctx->data_end;
    __u32 frame_len = data_end - data;
    void *ip = data + ETH_LEN;
    void *udp = ip + IPV4_LEN;
    void *gtpu = udp + 8;
    // The longest headers of a tunnel, and those of the user's packet.
    if (data + 58 + IPV4_LEN > data_end)
        return pass(ctx);
    __u32 ip_len = BE16(ip + 2);
    // CE and ECT(1) change the user's packet, or stop it. Spec: RFC 6040 §4.2.
    if (*(__u8 *)ip != 0x45 || *(__u8 *)(ip + 1) & 1 || *(__u8 *)(ip + 9) != 17 || BE16(ip + 6) & 0x3fff || BE16(udp + 2) != GTPU_PORT)
        return pass(ctx);
    if (ip_len + ETH_LEN > frame_len || BE16(udp + 4) + IPV4_LEN != ip_len || BE16(gtpu + 2) + TUNNEL_LEN != ip_len)
        return pass(ctx);
    __u8 flags = *(__u8 *)gtpu;
    if (*(__u8 *)(gtpu + 1) != 255 || !is_checksum_valid(ip))
        return pass(ctx);
    __u32 offset = ETH_LEN + TUNNEL_LEN;
    int qfi = -1;
    if ((flags & ~3) == 0x34) {
        // One PDU Session Container of four octets, of type 0 or 1, without PPI.
        if (*(__u8 *)(gtpu + 11) != 0x85 || *(__u8 *)(gtpu + 12) != 1 || *(__u8 *)(gtpu + 13) & 0xe0
            || *(__u8 *)(gtpu + 14) & 0x80 || *(__u8 *)(gtpu + 15) != 0)
            return pass(ctx);
        qfi = *(__u8 *)(gtpu + 14) & 0x3f;
        offset += CONTAINER_LEN;
    } else if ((flags & ~3) != 0x30) {
        return pass(ctx);
    } else if (flags & 3) {
        offset += 4;
    }
    struct packet packet;
    // The lengths of the tunnel's headers may end before an optional part does: what follows is padding.
    if (ip_len + ETH_LEN < offset || !read_packet(data + offset, data_end, ip_len + ETH_LEN - offset, &packet))
        return pass(ctx);
    if (!is_forwardable(packet.dst, packet.is_v6))
        return pass(ctx);
    __u32 teid = BE32(gtpu + 4);
    __u32 session = session_of_teid(all, teid);
    if (!session)
        return pass(ctx);
    struct entry *entry = entry_of(session - 1, 0);
    struct entry rule;
    if (!entry || !read_entry(entry, &rule))
        return pass(ctx);
    if (rule.teid != teid || !(rule.head >> ARRIVAL_SHIFT & port->n3))
        return pass(ctx);
    if (!(rule.head & ANY_QFI)) {
        __u32 flows = rule.far;
        if (qfi < 0 || (qfi != (flows & 0xff) && qfi != (flows >> 8 & 0xff) && qfi != (flows >> 16 & 0xff) && qfi != flows >> 24))
            return pass(ctx);
    }
    __u64 any = packet.is_v6 ? V6_ANY : V4_ANY, matches = packet.is_v6 ? V6 : V4;
    if (!(rule.head & matches))
        return pass(ctx);
    __u64 ue = packet.is_v6 ? rule.ue_v6 : rule.ue_v4;
    if (rule.head & any ? !is_forwardable(packet.src, packet.is_v6) : packet.src != ue)
        return pass(ctx);
    // The gateway to this part of the data networks.
    __u32 key = packet.is_v6;
    __u8 *numbers = map_lookup(&networks, &key);
    __u32 part = packet.is_v6 ? (packet.dst >> 48 ^ packet.dst >> 32 ^ packet.dst >> 16) & 0xffff : packet.dst >> 16 & 0xffff;
    if (!numbers || !numbers[part])
        return pass(ctx);
    __u32 *of_set = map_lookup(&gateways, &rule.hop);
    __u32 index = of_set ? of_set[numbers[part]] : 0;
    if (!index)
        return pass(ctx);
    __u64 hop;
    __u32 id;
    struct interface *of = find_hop(index - 1, &hop, &id);
    if (!of || packet.len > of->mtu || (of->keeps_syns && is_syn(data + offset, data_end, packet.is_v6)))
        return pass(ctx);
    if (!charge(entry, rule.head, packet.len))
        return pass(ctx);
    __u32 tx_len = ETH_LEN + packet.len;
    __u32 cut = offset - ETH_LEN;
    // The octets that follow the packet are padding.
    __u32 padding = frame_len - cut - tx_len;
    if (padding && adjust_tail(ctx, -(int)padding)) {
        give_back(entry, packet.len);
        return pass(ctx);
    }
    adjust_head(ctx, cut);
    data = (void *)(long)ctx->data;
    data_end = (void *)(long)ctx->data_end;
    if (data + ETH_LEN + IPV4_LEN > data_end)
        return XDP_ABORTED;
    write_ethernet(data, hop, of, packet.is_v6 ? ETH_IPV6 : ETH_IPV4);
    decrement_hops(data + ETH_LEN, packet.is_v6);
    count(entry, port->n3_id, frame_len, id, tx_len, 1);
    return redirect_map(&tx_ports, of->port - 1, 0);
}

// A packet from a data network: into the tunnel of the UE that it goes to.
INLINE int downlink(struct xdp_md *ctx, const struct port *port, const struct settings *all)
{
    void *data = (void *)(long)ctx->data;
    void *data_end = (void *)(long)ctx->data_end;
    __u32 frame_len = data_end - data;
    struct packet packet;
    if (!read_packet(data + ETH_LEN, data_end, frame_len - ETH_LEN, &packet))
        return pass(ctx);
    if (packet.is_v6 != (BE16(data + 12) == ETH_IPV6))
        return pass(ctx);
    if (!is_forwardable(packet.src, packet.is_v6) || is_own(port, packet.dst, packet.is_v6))
        return pass(ctx);
    if (port->keeps_syns && is_syn(data + ETH_LEN, data_end, packet.is_v6))
        return pass(ctx);
    __u32 session = session_of_ue(all, port->domain, packet.dst, packet.is_v6);
    if (!session)
        return pass(ctx);
    struct entry *entry = entry_of(session - 1, 1);
    struct entry rule;
    if (!entry || !read_entry(entry, &rule))
        return pass(ctx);
    if (!(rule.head & (packet.is_v6 ? V6 : V4)) || !(rule.head >> ARRIVAL_SHIFT & port->n6))
        return pass(ctx);
    if (packet.dst != (packet.is_v6 ? rule.ue_v6 : rule.ue_v4))
        return pass(ctx);
    if (port->is_virtual && has_open_checksum(data + ETH_LEN, data_end, &packet))
        return pass(ctx);
    __u64 hop;
    __u32 id;
    struct interface *of = find_hop(rule.hop, &hop, &id);
    __u32 has_container = !!(rule.head & HAS_QFI);
    __u32 grow = TUNNEL_LEN + (has_container ? CONTAINER_LEN : 0);
    __u32 ip_len = packet.len + grow;
    __u32 tos = outer_tos(rule.marking & 0xff, data + ETH_LEN, packet.is_v6);
    if (!of || !of->v4 || ip_len > of->mtu || !charge(entry, rule.head, packet.len))
        return pass(ctx);
    __u32 padding = frame_len - ETH_LEN - packet.len;
    if (adjust_head(ctx, -(int)grow)) {
        give_back(entry, packet.len);
        return pass(ctx);
    }
    if (padding && adjust_tail(ctx, -(int)padding)) {
        give_back(entry, packet.len);
        adjust_head(ctx, grow);
        return pass(ctx);
    }
    data = (void *)(long)ctx->data;
    data_end = (void *)(long)ctx->data_end;
    if (data + ETH_LEN + TUNNEL_LEN + CONTAINER_LEN + IPV4_LEN > data_end) {
        // Never: the packet was longer before.
        if (data + ETH_LEN + TUNNEL_LEN + IPV4_LEN > data_end || has_container)
            return XDP_ABORTED;
    }
    write_ethernet(data, hop, of, ETH_IPV4);
    void *ip = data + ETH_LEN;
    U32(ip) = __builtin_bswap32(0x45000000 | tos << 16 | ip_len);
    U32(ip + 4) = __builtin_bswap32(0x00004000);
    U32(ip + 8) = __builtin_bswap32(64u << 24 | 17u << 16);
    U32(ip + 12) = __builtin_bswap32(of->v4);
    U32(ip + 16) = __builtin_bswap32(rule.far);
    __u64 sum = (__u64)U32(ip) + U32(ip + 4) + U32(ip + 8) + U32(ip + 12) + U32(ip + 16);
    U16(ip + 10) = ~folded(sum);
    void *udp = ip + IPV4_LEN;
    U32(udp) = __builtin_bswap32(GTPU_PORT << 16 | GTPU_PORT);
    U32(udp + 4) = __builtin_bswap32((ip_len - IPV4_LEN) << 16);
    void *gtpu = udp + 8;
    U32(gtpu) = __builtin_bswap32((has_container ? 0x34ff0000 : 0x30ff0000) | (ip_len - TUNNEL_LEN));
    U32(gtpu + 4) = __builtin_bswap32(rule.teid);
    void *inner = gtpu + 8;
    if (has_container) {
        U32(inner) = __builtin_bswap32(0x85);
        __u32 qfi = (rule.marking >> 8 & 0x3f) | (rule.head & REFLECTIVE ? 0x40 : 0);
        U32(inner + 4) = __builtin_bswap32(1u << 24 | qfi << 8);
        inner += CONTAINER_LEN;
        if (inner + IPV4_LEN > data_end)
            return XDP_ABORTED;
    }
    decrement_hops(inner, packet.is_v6);
    count(entry, port->n6_id, frame_len, id, ETH_LEN + ip_len, 0);
    return redirect_map(&tx_ports, of->port - 1, 0);
}

SEC("xdp")
int adit_forward(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *data_end = (void *)(long)ctx->data_end;
    __u32 zero = 0;
    const struct port *port = map_lookup(&ports, &zero);
    const struct settings *all = map_lookup(&settings, &zero);
    if (!port || !all || data + ETH_LEN + IPV4_LEN > data_end)
        return pass(ctx);
    if (U32(data) != U32(port->mac) || U16(data + 4) != U16(port->mac + 4))
        return pass(ctx);
    __u16 type = BE16(data + 12);
    if (type == ETH_IPV4 && port->n3 && BE32(data + ETH_LEN + 16) == port->n3_v4)
        return uplink(ctx, port, all);
    if (port->n6 && (type == ETH_IPV4 || type == ETH_IPV6))
        return downlink(ctx, port, all);
    return pass(ctx);
}
