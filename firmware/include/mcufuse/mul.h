/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Product of two quantized maps, or of a map and a gate.
 */
#ifndef MCUFUSE_MUL_H_
#define MCUFUSE_MUL_H_

#include <mcufuse/operand.h>

/** @brief Shape and arithmetic; compile-time constants. */
struct mf_mul_cfg {
	int32_t groups;   /**< groups of a row */
	int32_t elements; /**< of a group */
	struct mf_operand_cfg lhs;
	struct mf_operand_cfg rhs;
	int rq_mode;
	int rq_shift;
	int32_t rq_lo;
	int32_t rq_hi;
};

/** @brief Constants of one layer. */
struct mf_mul_data {
	const int32_t *requant; /**< one entry, see requant.h */
	const int8_t *lhs;      /**< constant operands; NULL for activations */
	const int8_t *rhs;
	int32_t lhs_zero;
	int32_t rhs_zero;
	int32_t out_zero;
};

/** @brief One row; @p out may be the row of an operand that is not broadcast. */
MF_INLINE void mf_mul_row_s8(const struct mf_mul_cfg *cfg, const struct mf_mul_data *data,
			     const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const struct mf_requant_cfg rq = {.mode = cfg->rq_mode,
					  .shift = cfg->rq_shift,
					  .lo = cfg->rq_lo,
					  .hi = cfg->rq_hi,
					  .out_zero = data->out_zero};
	const int8_t *a = mf_operand_row(&cfg->lhs, data->lhs, &in, tick);
	const int8_t *b = mf_operand_row(&cfg->rhs, data->rhs, &in, tick);

	const int32_t a_zero = data->lhs_zero;
	const int32_t b_zero = data->rhs_zero;
	int32_t entry[MF_OPERAND_ENTRY];

	(void)scratch;
	mf_operand_entry(&rq, data->requant, entry);
	for (int32_t g = 0; g < cfg->groups; g++) {
		MF_UNROLL_4
		for (int32_t i = 0; i < cfg->elements; i++) {
			int32_t product =
				(a[i * cfg->lhs.step] - a_zero) * (b[i * cfg->rhs.step] - b_zero);

			out[i] = mf_operand_requant(&rq, entry, product);
		}
		out += cfg->elements;
		a += cfg->lhs.group;
		b += cfg->rhs.group;
	}
}

#endif /* MCUFUSE_MUL_H_ */
