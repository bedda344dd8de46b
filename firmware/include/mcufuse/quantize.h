/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief From float to 8 bits. No libm: rounding is done on the integer part.
 */
#ifndef MCUFUSE_QUANTIZE_H_
#define MCUFUSE_QUANTIZE_H_

#include <mcufuse/common.h>

/** @brief Shape and arithmetic; compile-time constants. */
struct mf_quantize_cfg {
	int32_t elements; /**< of a row */
	float scale;
	int32_t zero;
	int32_t lo; /**< least output */
	int32_t hi; /**< greatest output */
	bool even;  /**< halves to even, else away from zero */
};

/** @brief Nothing. */
struct mf_quantize_data {
	char unused;
};

/** @brief Nearest integer of @p v, |v| < 2^24. */
MF_INLINE int32_t mf_quantize_round(float v, bool even)
{
	int32_t whole = (int32_t)v;
	float rest = v - (float)whole; /* exact, towards zero */

	if (even) {
		float limit = 0.5f;

		if (rest > limit || (rest == limit && (whole & 1) != 0)) {
			return whole + 1;
		}
		return rest < -limit || (rest == -limit && (whole & 1) != 0) ? whole - 1 : whole;
	}
	return rest >= 0.5f ? whole + 1 : (rest <= -0.5f ? whole - 1 : whole);
}

/** @brief One row of 4-aligned floats; @p out may be the input row. NaN gives the least output. */
MF_INLINE void mf_quantize_row_8(const struct mf_quantize_cfg *cfg,
				 const struct mf_quantize_data *data, const int8_t *const *in,
				 int8_t *out, int tick, void *scratch)
{
	(void)data;
	(void)tick;
	(void)scratch;
	for (int32_t i = 0; i < cfg->elements; i++) {
		int32_t q = -1024;
		float v;

		memcpy(&v, __builtin_assume_aligned(in[0] + 4 * i, 4), sizeof(v));
		v /= cfg->scale;
		if (v >= 1024.0f) {
			q = 1024;
		} else if (v > -1024.0f) {
			q = mf_quantize_round(v, cfg->even);
		}
		out[i] = (int8_t)mf_clamp(q + cfg->zero, cfg->lo, cfg->hi);
	}
}

#endif /* MCUFUSE_QUANTIZE_H_ */
