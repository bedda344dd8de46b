/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A function of one 8-bit value as a table of 256 bytes.
 */
#ifndef MCUFUSE_LUT_H_
#define MCUFUSE_LUT_H_

#include <mcufuse/vector_loops.h>

/** @brief Shape; compile-time constants. */
struct mf_lut_cfg {
	int32_t elements; /**< of a row */
};

/** @brief Constants of one layer. */
struct mf_lut_data {
	const uint8_t *table; /**< 256 results, indexed by the input's bits as an unsigned number */
};

/** @brief One row; @p out may be the input row. */
MF_INLINE void mf_lut_row_8(const struct mf_lut_cfg *cfg, const struct mf_lut_data *data,
			    const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const uint8_t *table = data->table;
	const uint8_t *x = (const uint8_t *)in[0];
	uint8_t *y = (uint8_t *)out;
	const int32_t done = mf_vector_lookup(table, x, y, cfg->elements);

	(void)tick;
	(void)scratch;
	MF_UNROLL_4
	for (int32_t i = done; i < cfg->elements; i++) {
		y[i] = table[x[i]];
	}
}

#endif /* MCUFUSE_LUT_H_ */
