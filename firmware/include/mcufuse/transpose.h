/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Axes in another order.
 */
#ifndef MCUFUSE_TRANSPOSE_H_
#define MCUFUSE_TRANSPOSE_H_

#include <mcufuse/common.h>

/** @brief Output shape, and the input's distances in bytes; compile-time constants. */
struct mf_transpose_cfg {
	int32_t out_w;
	int32_t out_c;
	int32_t step_h; /**< input distance from one output row to the next; 0 if in[0] is its row */
	int32_t step_w;
	int32_t step_c;
	int32_t element_bytes; /**< 1 or 4 */
};

/** @brief Nothing. */
struct mf_transpose_data {
	char unused;
};

/** @brief One row of the output. */
MF_INLINE void mf_transpose_row_8(const struct mf_transpose_cfg *cfg,
				  const struct mf_transpose_data *data, const int8_t *const *in,
				  int8_t *out, int tick, void *scratch)
{
	const int8_t *x = in[0] + tick * cfg->step_h;

	(void)data;
	(void)scratch;
	for (int32_t w = 0; w < cfg->out_w; w++) {
		if (cfg->step_c == cfg->element_bytes) {
			memcpy(out, x, (size_t)(cfg->out_c * cfg->element_bytes));
			out += cfg->out_c * cfg->element_bytes;
		} else {
			MF_UNROLL_4
			for (int32_t c = 0; c < cfg->out_c; c++) {
				memcpy(out, x + c * cfg->step_c, (size_t)cfg->element_bytes);
				out += cfg->element_bytes;
			}
		}
		x += cfg->step_w;
	}
}

#endif /* MCUFUSE_TRANSPOSE_H_ */
