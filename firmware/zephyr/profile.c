/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <zephyr/kernel.h>
#include <zephyr/logging/log.h>

#include <mcufuse/profile.h>

LOG_MODULE_REGISTER(mcufuse, CONFIG_MCUFUSE_LOG_LEVEL);

int mcufuse_profile(const struct mcufuse_model *m, uint32_t *cycles)
{
	uint32_t empty;

	if (m == NULL || cycles == NULL) {
		return -EINVAL;
	}
	if (m->feed_row != NULL) {
		return -ENOTSUP;
	}
	empty = k_cycle_get_32();
	empty = k_cycle_get_32() - empty;
	for (unsigned int i = 0; i < m->n_steps; i++) {
		const uint32_t start = k_cycle_get_32();
		uint32_t taken;

		m->steps[i].run();
		taken = k_cycle_get_32() - start;
		cycles[i] = taken > empty ? taken - empty : 0U;
		LOG_DBG("%s: %s: %u cycles, %u MACs", m->name, m->steps[i].name, cycles[i],
			m->steps[i].macs);
	}
	return 0;
}
