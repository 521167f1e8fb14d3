/* SPDX-License-Identifier: Apache-2.0
 *
 * The C floor of `adit-bench datapath`: what forwarding the usual packet costs in plain C without the
 * features of a UPF. Untagged IPv4 frames and one PDU Session Container. Per direction one array from
 * keys to sessions and one cache line per session; no filter, gate, rate, report or change of rules.
 * Frames are checked as Adit checks them, and leave with the same octets.
 *
 * One pass reads the frames and prefetches their keys, one prefetches the lines of their sessions, one
 * rewrites. Fields of frames are big-endian, the machine is little-endian.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BURST_MAX 64
#define ROOM_LEN (128 + 2048)
#define packed __attribute__((packed))
#define BE16(value) __builtin_bswap16(value)
#define BE32(value) __builtin_bswap32(value)

struct ethernet {
	uint8_t dst[6], src[6];
	uint16_t type;
} packed;

struct ipv4 {
	uint8_t version_ihl, tos;
	uint16_t total_len, id, fragment;
	uint8_t ttl, protocol;
	uint16_t checksum;
	uint32_t src, dst;
} packed;

/* All headers before the inner packet. */
struct g_pdu {
	struct ethernet eth;
	struct ipv4 ip;
	struct packed { uint16_t src, dst, len, checksum; } udp;
	struct packed { uint8_t flags, type; uint16_t len; uint32_t teid; } gtpu;
	struct packed { uint16_t sequence; uint8_t n_pdu, next; } optional;
	struct packed { uint8_t len, type, qfi, next; } container;
} packed;

#define IP_HEADERS_LEN (sizeof(struct ipv4) + 8 + 8) /* that the GTP-U length leaves out */
#define TUNNEL_LEN (sizeof(struct g_pdu) - sizeof(struct ethernet))

/* The layouts below are those of c_floor.rs. A packet is laid out as the bench's buffers are. */
struct packet {
	size_t start, end;
	bool is_verified; /* The port verified the checksum of the outermost IPv4 header. */
	uint8_t room[ROOM_LEN];
};

struct line {
	uint64_t pkts, octets;
	uint32_t teid; /* Ours in uplink, the gNB's in downlink; big-endian. */
	uint32_t ue;   /* Big-endian. */
	uint32_t hop;
	uint8_t qfi;
} __attribute__((aligned(64)));

/* Headers towards a next hop, and the sum of the constant words of the outer IPv4 header. */
struct hop {
	struct g_pdu headers;
	uint16_t unused;
	uint32_t sum;
};

/* One direction. Entry n of `index` (2^k long) is the line of key `first + n`. Line 0 fits none. */
struct floor {
	uint64_t example[8]; /* The first octets of a usual frame. */
	const uint32_t *index;
	uint32_t first, index_mask;
	struct line *lines;
	const struct hop *hops;
	uint32_t mtu;
};

_Static_assert(sizeof(struct g_pdu) == 58 && sizeof(struct line) == 64 && sizeof(struct hop) == 64,
	       "sizes of c_floor.rs");

/* The bits of usual frames that are constant, by direction. */
static const union {
	struct g_pdu fields;
	uint64_t words[8];
} constant[2] = {
	{ .fields = { .eth = { .dst = { 255, 255, 255, 255, 255, 255 }, .type = 0xffff },
		      .ip = { .version_ihl = 255, .fragment = BE16(0x3fff), .protocol = 255, .dst = ~0u },
		      .udp = { .dst = 0xffff },
		      .gtpu = { .flags = 255, .type = 255 },
		      .optional = { .next = 255 },
		      .container = { .len = 255, .type = 0xe0, .qfi = 0x80, .next = 255 } } },
	{ .fields = { .eth = { .dst = { 255, 255, 255, 255, 255, 255 }, .type = 0xffff },
		      .ip = { .version_ihl = 255 } } },
};

enum { UPLINK, DOWNLINK };

static inline bool fits(const struct floor *floor, const void *frame, int direction)
{
	/* In downlink the first two words hold all constant bits. */
	int words = direction == UPLINK ? 8 : 2;
	uint64_t different = 0;
	for (int i = 0; i < words; i++) {
		uint64_t word;
		memcpy(&word, (const uint8_t *)frame + 8 * i, 8);
		different |= (word ^ floor->example[i]) & constant[direction].words[i];
	}
	return different == 0;
}

/* The words of a valid header add up to all ones, in any order of octets. RFC 1071 §2. */
static inline bool is_checksum_valid(const struct ipv4 *ip)
{
	uint32_t words[5];
	memcpy(words, ip, sizeof(words));
	return ((uint64_t)words[0] + words[1] + words[2] + words[3] + words[4]) % 0xffff == 0;
}

/* True if the IPv4 packet in `len` octets may be forwarded. */
static inline bool is_forwardable(const struct ipv4 *ip, size_t len)
{
	return BE16(ip->total_len) >= sizeof(*ip) && BE16(ip->total_len) <= len && ip->ttl > 1;
}

static inline bool is_g_pdu(const struct floor *floor, const struct packet *p)
{
	const struct g_pdu *outer = (const void *)&p->room[p->start];
	const struct ipv4 *inner = (const void *)(outer + 1);
	size_t len = p->end - p->start;
	if (len < sizeof(*outer) + sizeof(*inner) || !fits(floor, outer, UPLINK))
		return false;
	uint16_t ip_len = BE16(outer->ip.total_len);
	return ip_len >= TUNNEL_LEN && ip_len + sizeof(outer->eth) <= len &&
	       BE16(outer->udp.len) + sizeof(outer->ip) == ip_len &&
	       BE16(outer->gtpu.len) + IP_HEADERS_LEN == ip_len &&
	       (p->is_verified || is_checksum_valid(&outer->ip)) && inner->version_ihl == 0x45 &&
	       is_forwardable(inner, ip_len - TUNNEL_LEN) && is_checksum_valid(inner);
}

static inline bool is_plain(const struct floor *floor, const struct packet *p)
{
	const struct ethernet *eth = (const void *)&p->room[p->start];
	const struct ipv4 *ip = (const void *)(eth + 1);
	size_t len = p->end - p->start;
	return len >= sizeof(*eth) + sizeof(*ip) && fits(floor, eth, DOWNLINK) &&
	       is_forwardable(ip, len - sizeof(*eth)) && (p->is_verified || is_checksum_valid(ip));
}

/* The packets of a burst that are usual, in order, and the lines of their sessions. */
struct found {
	size_t count;
	struct packet *packets[BURST_MAX];
	struct line *lines[BURST_MAX];
};

static inline void find(const struct floor *floor, struct packet *const *rx, size_t count, int direction,
			struct found *found)
{
	uint32_t entries[BURST_MAX];
	found->count = 0;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *frame = &rx[i]->room[rx[i]->start];
		if (direction == UPLINK ? !is_g_pdu(floor, rx[i]) : !is_plain(floor, rx[i]))
			continue;
		uint32_t key = direction == UPLINK
				       ? ((const struct g_pdu *)frame)->gtpu.teid
				       : ((const struct g_pdu *)frame)->ip.dst;
		uint32_t entry = (BE32(key) - floor->first) & floor->index_mask;
		__builtin_prefetch(&floor->index[entry]);
		entries[found->count] = entry;
		found->packets[found->count++] = rx[i];
	}
	for (size_t i = 0; i < found->count; i++) {
		found->lines[i] = &floor->lines[floor->index[entries[i]]];
		__builtin_prefetch(found->lines[i], 1);
	}
}

/* Decrements the TTL. The checksum grows by what its word shrinks. RFC 1624 §3. */
static inline void decrement_ttl(struct ipv4 *ip)
{
	uint16_t sum = ip->checksum;
	ip->ttl--;
	ip->checksum = sum + 1 + (sum >= 0xfffe);
}

static inline void count(struct line *line, uint16_t len)
{
	line->pkts++;
	line->octets += len;
}

/* Forwards the usual packets of `rx` to `tx`; returns how many. */
size_t adit_floor_uplink(const struct floor *floor, struct packet *const *rx, size_t n, struct packet **tx)
{
	struct found found;
	size_t sent = 0;
	find(floor, rx, n, UPLINK, &found);
	for (size_t i = 0; i < found.count; i++) {
		struct packet *p = found.packets[i];
		struct line *line = found.lines[i];
		const struct g_pdu *outer = (const void *)&p->room[p->start];
		struct ipv4 *ip = (struct ipv4 *)&p->room[p->start + sizeof(*outer)];
		uint16_t len = BE16(ip->total_len);
		if (line->teid != outer->gtpu.teid || line->ue != ip->src || len > floor->mtu)
			continue;
		p->start += TUNNEL_LEN;
		p->end = p->start + sizeof(struct ethernet) + len;
		memcpy(&p->room[p->start], &floor->hops[line->hop].headers.eth, sizeof(struct ethernet));
		decrement_ttl(ip);
		count(line, len);
		tx[sent++] = p;
	}
	return sent;
}

size_t adit_floor_downlink(const struct floor *floor, struct packet *const *rx, size_t n, struct packet **tx)
{
	struct found found;
	size_t sent = 0;
	find(floor, rx, n, DOWNLINK, &found);
	for (size_t i = 0; i < found.count; i++) {
		struct packet *p = found.packets[i];
		struct line *line = found.lines[i];
		const struct hop *hop = &floor->hops[line->hop];
		struct ipv4 *ip = (struct ipv4 *)&p->room[p->start + sizeof(struct ethernet)];
		uint32_t len = BE16(ip->total_len), outer_len = len + TUNNEL_LEN;
		if (line->ue != ip->dst || outer_len > floor->mtu || p->start < TUNNEL_LEN)
			continue;
		p->start -= TUNNEL_LEN;
		p->end = p->start + sizeof(struct g_pdu) + len;
		struct g_pdu *outer = (struct g_pdu *)&p->room[p->start];
		uint32_t sum = hop->sum + outer_len;
		memcpy(outer, &hop->headers, sizeof(*outer));
		sum = (sum & 0xffff) + (sum >> 16);
		outer->ip.total_len = BE16(outer_len);
		outer->ip.checksum = BE16((uint16_t) ~(sum + (sum >> 16)));
		outer->udp.len = BE16(outer_len - sizeof(outer->ip));
		outer->gtpu.len = BE16(outer_len - IP_HEADERS_LEN);
		outer->gtpu.teid = line->teid;
		outer->container.qfi = line->qfi;
		decrement_ttl(ip);
		count(line, len);
		tx[sent++] = p;
	}
	return sent;
}
