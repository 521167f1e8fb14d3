/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps two faults of the memif driver (net/memif, DPDK 22.11 to 24.11) away from the program: it
 * redefines functions of the EAL that the driver calls. A program's own definition precedes that of
 * a shared library, and the driver is a plugin. The definitions forward to those of the EAL.
 *
 * Connections during bursts. The driver handles its control socket on the EAL's interrupt thread.
 * When the peer disconnects or dies, that thread unmaps the shared memory and frees the regions
 * while a worker may be inside a burst on them: the worker reads freed memory and dies. The driver
 * has no lock for this. The three functions with which it registers its handlers put these behind a
 * gate: a handler runs while no queue of a memif port is inside a burst, and bursts do nothing
 * meanwhile.
 *
 * Packet memory with zero-copy=yes. The driver sends its peer the descriptor of the EAL's packet
 * memory and closes it once the connection stands. It is the EAL's own, the same for every port, so
 * a second port or connection would send whatever file has its number by then. rte_memseg_get_fd
 * gives the driver a duplicate.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <rte_interrupts.h>
#include <rte_log.h>
#include <rte_memory.h>

#include "memif_gate.h"

/* The driver has two handlers: one for its listening socket, one for connections. */
#define HANDLERS_MAX 4
#define SLOTS_MAX 512
#define CACHE_LINE 64

/* One per queue of a memif port. The thread that uses the queue writes `inside`. */
struct slot {
	int taken;
	int inside;
} __attribute__((aligned(CACHE_LINE)));

static struct slot slots[SLOTS_MAX];
static int closed;

/* Takes a slot for one more queue; -1 if none is left. */
int adit_memif_gate_take(void)
{
	for (int slot = 0; slot < SLOTS_MAX; slot++) {
		int none = 0;
		if (__atomic_compare_exchange_n(&slots[slot].taken, &none, 1, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return slot;
	}
	return -1;
}

/* Releases a slot. Its queue is outside a burst and enters no further one. */
void adit_memif_gate_give_back(int slot)
{
	__atomic_store_n(&slots[slot].taken, 0, __ATOMIC_RELEASE);
}

/* Enters a burst; false while a handler runs. The store must be visible before the load: either
 * this thread sees the gate closed, or the handler sees it inside.
 */
bool adit_memif_gate_enter(int slot)
{
	__atomic_store_n(&slots[slot].inside, 1, __ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&closed, __ATOMIC_SEQ_CST) == 0, 1))
		return true;
	__atomic_store_n(&slots[slot].inside, 0, __ATOMIC_RELEASE);
	return false;
}

/* Leaves a burst. */
void adit_memif_gate_leave(int slot)
{
	__atomic_store_n(&slots[slot].inside, 0, __ATOMIC_RELEASE);
}

static rte_intr_callback_fn handlers[HANDLERS_MAX];

static void run_gated(size_t handler, void *arg)
{
	__atomic_fetch_add(&closed, 1, __ATOMIC_SEQ_CST);
	for (int slot = 0; slot < SLOTS_MAX; slot++)
		while (__atomic_load_n(&slots[slot].inside, __ATOMIC_SEQ_CST) != 0)
			sched_yield();
	handlers[handler](arg);
	__atomic_fetch_sub(&closed, 1, __ATOMIC_SEQ_CST);
}

static void gated_0(void *arg) { run_gated(0, arg); }
static void gated_1(void *arg) { run_gated(1, arg); }
static void gated_2(void *arg) { run_gated(2, arg); }
static void gated_3(void *arg) { run_gated(3, arg); }

static const rte_intr_callback_fn gated[HANDLERS_MAX] = {gated_0, gated_1, gated_2, gated_3};

/* True for an address inside the driver. */
static bool is_of_memif(const void *address)
{
	Dl_info info;
	return dladdr(address, &info) != 0 && info.dli_fname != NULL &&
	       strstr(info.dli_fname, "rte_net_memif") != NULL;
}

static bool is_memif(rte_intr_callback_fn handler)
{
	void *address;
	memcpy(&address, &handler, sizeof(address));
	return is_of_memif(address);
}

/* Returns the gated form of a handler of the driver; any other handler unchanged. */
static rte_intr_callback_fn behind_gate(rte_intr_callback_fn handler)
{
	if (!is_memif(handler))
		return handler;
	for (size_t i = 0; i < HANDLERS_MAX; i++) {
		rte_intr_callback_fn none = NULL;
		if (__atomic_load_n(&handlers[i], __ATOMIC_ACQUIRE) == handler ||
		    __atomic_compare_exchange_n(&handlers[i], &none, handler, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
		    none == handler)
			return gated[i];
	}
	return handler;
}

/* True once the driver has registered a handler here. */
bool adit_memif_gate_guards(void)
{
	return __atomic_load_n(&handlers[0], __ATOMIC_ACQUIRE) != NULL;
}

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int rte_intr_callback_register(const struct rte_intr_handle *handle, rte_intr_callback_fn handler,
			       void *arg)
{
	int (*real)(const struct rte_intr_handle *, rte_intr_callback_fn, void *) =
		next("rte_intr_callback_register");
	return real(handle, behind_gate(handler), arg);
}

int rte_intr_callback_unregister(const struct rte_intr_handle *handle,
				 rte_intr_callback_fn handler, void *arg)
{
	int (*real)(const struct rte_intr_handle *, rte_intr_callback_fn, void *) =
		next("rte_intr_callback_unregister");
	return real(handle, behind_gate(handler), arg);
}

int rte_intr_callback_unregister_pending(const struct rte_intr_handle *handle,
					 rte_intr_callback_fn handler, void *arg,
					 rte_intr_unregister_callback_fn done)
{
	int (*real)(const struct rte_intr_handle *, rte_intr_callback_fn, void *,
		    rte_intr_unregister_callback_fn) = next("rte_intr_callback_unregister_pending");
	return real(handle, behind_gate(handler), arg, done);
}

/* The descriptor of a segment; the memif driver gets a duplicate, which it may close.
 *
 * The driver asks once for each list of segments, and addresses every frame within the first one.
 * Memory in two lists, of several page sizes or NUMA nodes, is refused: its connection fails.
 */
int rte_memseg_get_fd(const struct rte_memseg *segment)
{
	static const struct rte_memseg_list *shared;
	int (*real)(const struct rte_memseg *) = next("rte_memseg_get_fd");
	int memory = real(segment);
	if (memory < 0 || !is_of_memif(__builtin_return_address(0)))
		return memory;
	const struct rte_memseg_list *list = rte_mem_virt2memseg_list(segment->addr);
	if (shared == NULL)
		shared = list;
	if (list != shared) {
		RTE_LOG(ERR, EAL,
			"memif with zero-copy=yes: packet memory has several page sizes or NUMA "
			"nodes; reserve hugepages of one size on one node\n");
		return -ENOTSUP;
	}
	return fcntl(memory, F_DUPFD_CLOEXEC, 0);
}
