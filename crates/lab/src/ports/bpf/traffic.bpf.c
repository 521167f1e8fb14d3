// SPDX-License-Identifier: Apache-2.0
//
// The ends of the links of `adit-lab ports`. The kernel runs `lab_send` again and again on frames that nobody received
// (BPF_F_TEST_XDP_LIVE_FRAMES), and sends what it makes of them. `lab_drop` counts packets at the other end, and drops them.

#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define uint(name, value) int (*name)[value]
#define type(name, value) typeof(value) *name

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const redirect)(__u32 device, __u64 flags) = (void *)BPF_FUNC_redirect;
static long (*const store_bytes)(struct xdp_md *ctx, __u32 at, void *from, __u32 len) =
    (void *)BPF_FUNC_xdp_store_bytes;
static __u64 (*const clock_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;

char program_license[] SEC("license") = "Apache-2.0";

// A power of two. crates/lab/src/ports/programs.rs has these numbers and the layouts, too.
#define FRAMES 4096
#define FRAME_MAX 128
// Packets that have not arrived after this time count as lost.
#define LOST_NS 50000000ull

struct frame {
    __u8 octets[FRAME_MAX];
};

struct {
    uint(type, BPF_MAP_TYPE_ARRAY);
    uint(max_entries, FRAMES);
    type(key, __u32);
    type(value, struct frame);
} frames SEC(".maps");

// One thread sends.
struct sender {
    __u64 made;
    // Number of packets that had arrived when the counter was last read.
    __u64 arrived;
    __u64 lost;
    // While the sender waits: when that number last grew.
    __u64 since;
    // Maximum number of packets in flight; 0 for no limit.
    __u32 in_flight;
    __u32 device;
};

struct {
    uint(type, BPF_MAP_TYPE_ARRAY);
    uint(max_entries, 1);
    type(key, __u32);
    type(value, struct sender);
} sender SEC(".maps");

// One thread receives.
struct {
    uint(type, BPF_MAP_TYPE_ARRAY);
    uint(max_entries, 1);
    type(key, __u32);
    type(value, __u64);
} arrived SEC(".maps");

static inline __attribute__((always_inline)) int may_send(struct sender *from, const __u64 *arrived)
{
    if (!from->in_flight || (__s64)(from->made - from->arrived - from->lost) < from->in_flight)
        return 1;
    __u64 now = clock_ns(), count = *(volatile const __u64 *)arrived;
    if (count != from->arrived) {
        from->arrived = count;
        from->since = now;
    }
    // Late packets were counted as lost, but are not.
    if ((__s64)(from->made - count - from->lost) < 0 || now - from->since > LOST_NS)
        from->lost = from->made - count;
    return (__s64)(from->made - count - from->lost) < from->in_flight;
}

SEC("xdp")
int lab_send(struct xdp_md *ctx)
{
    __u32 first = 0;
    struct sender *from = map_lookup(&sender, &first);
    __u64 *count = map_lookup(&arrived, &first);
    if (!from || !count || !may_send(from, count))
        return XDP_DROP;
    __u32 key = from->made & (FRAMES - 1);
    struct frame *frame = map_lookup(&frames, &key);
    __u64 len = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
    if (!frame || len == 0 || len > FRAME_MAX)
        return XDP_ABORTED;
    // The kernel reuses buffers, which still have what the receivers of earlier frames wrote into them.
    if (store_bytes(ctx, 0, frame, len))
        return XDP_ABORTED;
    from->made += 1;
    return redirect(from->device, 0);
}

SEC("xdp")
int lab_drop(struct xdp_md *ctx)
{
    __u32 first = 0;
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u8 *octets = data;
    __u64 *count = map_lookup(&arrived, &first);
    // The kernel answers for its address.
    if (!count || data + 14 > end || octets[12] != 0x08 || octets[13] != 0x00)
        return XDP_PASS;
    *(volatile __u64 *)count += 1;
    return XDP_DROP;
}
