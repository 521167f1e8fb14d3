/* SPDX-License-Identifier: Apache-2.0
 *
 * See af_packet.c.
 */
#pragma once

void adit_af_packet_keep_fragments(void);
