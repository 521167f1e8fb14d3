/* SPDX-License-Identifier: Apache-2.0
 *
 * The DPDK headers that `build.rs` binds, and functions for what DPDK offers as macros only.
 */
#include <rte_config.h>
#include <rte_alarm.h>
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_eventdev.h>
#include <rte_flow.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_service.h>
#include <rte_thash.h>
#include <rte_version.h>

#include "af_packet.h"
#include "memif_gate.h"

/* rte_errno is a thread-local lvalue macro. */
static inline int adit_rte_errno(void)
{
	return rte_errno;
}
