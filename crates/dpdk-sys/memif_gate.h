/* SPDX-License-Identifier: Apache-2.0
 *
 * See memif_gate.c.
 */
#pragma once

#include <stdbool.h>

bool adit_memif_gate_guards(void);
int adit_memif_gate_take(void);
void adit_memif_gate_give_back(int slot);
bool adit_memif_gate_enter(int slot);
void adit_memif_gate_leave(int slot);
