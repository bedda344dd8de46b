/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Maps joined along channels, width or height.
 */
#ifndef MCUFUSE_CONCAT_H_
#define MCUFUSE_CONCAT_H_

#include <mcufuse/common.h>

/** @brief Shape; compile-time constants. */
struct mf_concat_cfg {
	int32_t operands;
	int32_t pieces;    /**< of each operand's row: pixels along channels, 1 along width */
	int32_t out_bytes; /**< of one piece of the output */
};

/** @brief Constants of one layer. */
struct mf_concat_data {
	const int32_t *bytes; /**< of one piece of each operand */
};

/** @brief One row along channels or width. */
MF_INLINE void mf_concat_row_8(const struct mf_concat_cfg *cfg, const struct mf_concat_data *data,
			       const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	(void)tick;
	(void)scratch;
	MF_UNROLL
	for (int32_t k = 0; k < cfg->operands; k++) {
		const int8_t *x = in[k];
		const int32_t bytes = data->bytes[k];
		int8_t *y = out;

		for (int32_t p = 0; p < cfg->pieces; p++) {
			memcpy(y, x, (size_t)bytes);
			y += cfg->out_bytes;
			x += bytes;
		}
		out += bytes;
	}
}

/** @brief One row along height: all operands but one are NULL; @p out may be that one's row. */
MF_INLINE void mf_concat_height_row_8(const struct mf_concat_cfg *cfg,
				      const struct mf_concat_data *data, const int8_t *const *in,
				      int8_t *out, int tick, void *scratch)
{
	(void)data;
	(void)tick;
	(void)scratch;
	MF_UNROLL
	for (int32_t k = 0; k < cfg->operands; k++) {
		if (in[k] != NULL && in[k] != out) {
			/* the output may begin a few bytes before the operand */
			memmove(out, in[k], (size_t)cfg->out_bytes);
		}
	}
}

#endif /* MCUFUSE_CONCAT_H_ */
