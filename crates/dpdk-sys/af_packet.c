/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the kernel from joining fragments for the net_af_packet driver (DPDK 22.11 to 24.11).
 *
 * The driver puts the sockets of a port into a fanout group with PACKET_FANOUT_FLAG_DEFRAG, also a single
 * one: the kernel joins the IPv4 fragments of a datagram, and the slots of the ring cut what is longer
 * than they are. No socket leaves a group, so the flag has to be missing when it joins. A program's own
 * setsockopt precedes that of libc, and the driver is a plugin.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/if_packet.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "af_packet.h"

static int keeps_fragments;

/* From now on no socket of the process joins fragments. */
void adit_af_packet_keep_fragments(void)
{
	__atomic_store_n(&keeps_fragments, 1, __ATOMIC_RELAXED);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	int (*real)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");
	unsigned int fanout;
	if (level == SOL_PACKET && name == PACKET_FANOUT && len == sizeof(fanout) &&
	    __atomic_load_n(&keeps_fragments, __ATOMIC_RELAXED) != 0) {
		memcpy(&fanout, value, sizeof(fanout));
		fanout &= ~((unsigned int)PACKET_FANOUT_FLAG_DEFRAG << 16);
		return real(fd, level, name, &fanout, sizeof(fanout));
	}
	return real(fd, level, name, value, len);
}
