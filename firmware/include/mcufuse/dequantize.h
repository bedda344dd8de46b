/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief From 8 bits to float.
 */
#ifndef MCUFUSE_DEQUANTIZE_H_
#define MCUFUSE_DEQUANTIZE_H_

#include <mcufuse/common.h>

/** @brief Shape and arithmetic; compile-time constants. */
struct mf_dequantize_cfg {
	int32_t elements; /**< of a row */
	float scale;
	int32_t zero;
	bool is_unsigned; /**< u8 input */
};

/** @brief Nothing. */
struct mf_dequantize_data {
	char unused;
};

/** @brief One row; @p out is 4-aligned. */
MF_INLINE void mf_dequantize_row_8(const struct mf_dequantize_cfg *cfg,
				   const struct mf_dequantize_data *data, const int8_t *const *in,
				   int8_t *out, int tick, void *scratch)
{
	const int8_t *x = in[0];

	(void)data;
	(void)tick;
	(void)scratch;
	for (int32_t i = 0; i < cfg->elements; i++) {
		int32_t q = cfg->is_unsigned ? (uint8_t)x[i] : x[i];
		float v = cfg->scale * (float)(q - cfg->zero);

		memcpy(__builtin_assume_aligned(out + 4 * i, 4), &v, sizeof(v));
	}
}

#endif /* MCUFUSE_DEQUANTIZE_H_ */
