/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief PReLU: one scale for values above the zero point, one times alpha below.
 */
#ifndef MCUFUSE_PRELU_H_
#define MCUFUSE_PRELU_H_

#include <mcufuse/operand.h>

/** @brief Shape and arithmetic; compile-time constants. */
struct mf_prelu_cfg {
	int32_t groups;   /**< groups of a row */
	int32_t elements; /**< of a group */
	struct mf_operand_cfg alpha;
	int positive_mode;
	int positive_shift;
	int negative_mode;
	int negative_shift;
};

/** @brief Constants of one layer. */
struct mf_prelu_data {
	const int32_t *positive; /**< one entry each, see requant.h */
	const int32_t *negative;
	const int8_t *alpha;
	int32_t in_zero;
	int32_t alpha_zero;
	int32_t out_zero;
};

/** @brief One row; @p out may be the input row. */
MF_INLINE void mf_prelu_row_s8(const struct mf_prelu_cfg *cfg, const struct mf_prelu_data *data,
			       const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const struct mf_requant_cfg above = {.mode = cfg->positive_mode,
					     .shift = cfg->positive_shift,
					     .lo = -128,
					     .hi = 127,
					     .out_zero = data->out_zero};
	const struct mf_requant_cfg below = {.mode = cfg->negative_mode,
					     .shift = cfg->negative_shift,
					     .lo = -128,
					     .hi = 127,
					     .out_zero = data->out_zero};
	const int8_t *alpha = mf_operand_row(&cfg->alpha, data->alpha, &in, tick);
	const int8_t *x = in[0];
	const int32_t x_zero = data->in_zero;
	const int32_t alpha_zero = data->alpha_zero;
	int32_t positive[MF_OPERAND_ENTRY];
	int32_t negative[MF_OPERAND_ENTRY];

	(void)scratch;
	mf_operand_entry(&above, data->positive, positive);
	mf_operand_entry(&below, data->negative, negative);
	for (int32_t g = 0; g < cfg->groups; g++) {
		for (int32_t i = 0; i < cfg->elements; i++) {
			int32_t v = x[i] - x_zero;

			if (v >= 0) {
				out[i] = mf_operand_requant(&above, positive, v);
			} else {
				v *= alpha[i * cfg->alpha.step] - alpha_zero;
				out[i] = mf_operand_requant(&below, negative, v);
			}
		}
		x += cfg->elements;
		out += cfg->elements;
		alpha += cfg->alpha.group;
	}
}

#endif /* MCUFUSE_PRELU_H_ */
