/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Sum or difference of two quantized maps.
 *
 * Both operands take 256 values, so that the generator can check a sequence for every pair of them. In
 * the LINEAR modes the sum needs two multiplications in 32 bits:
 *
 *     v = a * lhs_factor + base + b * rhs_factor
 *     LINEAR       y = clamp(v >> shift)
 *     LINEAR_EVEN  y = clamp((v - 1 + bit shift of v + offset) >> shift): halves go to even
 *
 * The exact modes follow the rounding's own definition where no such constants exist.
 */
#ifndef MCUFUSE_ADD_H_
#define MCUFUSE_ADD_H_

#include <mcufuse/operand.h>
#include <mcufuse/vector_loops.h>

enum mf_add_mode {
	MF_ADD_LINEAR = 0,
	MF_ADD_LINEAR_EVEN = 1,
	MF_ADD_TFLITE = 2,
	MF_ADD_SINGLE = 3,
	MF_ADD_ONNX = 4,
};

/** @brief Shape and arithmetic; compile-time constants. */
struct mf_add_cfg {
	int32_t groups;   /**< groups of a row */
	int32_t elements; /**< of a group */
	struct mf_operand_cfg lhs;
	struct mf_operand_cfg rhs;
	int mode;   /**< enum mf_add_mode */
	int shift;  /**< LINEAR modes, ONNX: bits to drop */
	int32_t lo; /**< least output */
	int32_t hi; /**< greatest output */
};

/** @brief Constants of one layer. */
struct mf_add_data {
	const int8_t *lhs; /**< constant operands; NULL for activations */
	const int8_t *rhs;
	int32_t lhs_factor; /**< LINEAR modes, ONNX: multiplier; others: 31-bit multiplier */
	int32_t rhs_factor;
	int32_t base;     /**< LINEAR: all constants; LINEAR_EVEN: of the zero points */
	int32_t offset;   /**< LINEAR_EVEN: half a unit and the output's zero point */
	int32_t lhs_zero; /**< exact modes, from here on */
	int32_t rhs_zero;
	int32_t out_zero;
	int32_t left_shift;
	int32_t lhs_shift;
	int32_t rhs_shift;
	int32_t out_factor;
	int32_t out_shift;
	int32_t sign; /**< of the second operand: 1 or -1 */
};

/** @brief The sum by the definition of the TFLite roundings. */
MF_INLINE int64_t mf_add_tflite(const struct mf_add_cfg *cfg, const struct mf_add_data *d,
				int32_t a, int32_t b)
{
	int32_t x = (a - d->lhs_zero) * (1 << d->left_shift);
	int32_t y = (b - d->rhs_zero) * (1 << d->left_shift);
	int32_t s;

	if (cfg->mode == MF_ADD_TFLITE) {
		x = (int32_t)mf_requant_tflite(x, d->lhs_factor, d->lhs_shift);
		y = (int32_t)mf_requant_tflite(y, d->rhs_factor, d->rhs_shift);
		s = x + d->sign * y;
		return mf_requant_tflite(s, d->out_factor, d->out_shift);
	}
	x = (int32_t)mf_requant_single(x, d->lhs_factor, d->lhs_shift);
	y = (int32_t)mf_requant_single(y, d->rhs_factor, d->rhs_shift);
	s = x + d->sign * y;
	return mf_requant_single(s, d->out_factor, d->out_shift);
}

/** @brief v / 2^shift, halves to even. */
MF_INLINE int32_t mf_add_half_even(int64_t v, int shift)
{
	int64_t half = shift > 0 ? (int64_t)1 << (shift - 1) : 0;
	int64_t odd = (v >> shift) & 1;

	return (int32_t)(shift > 0 ? (v + half - 1 + odd) >> shift : v);
}

/** @brief One element. */
MF_INLINE int32_t mf_add_element(const struct mf_add_cfg *cfg, const struct mf_add_data *d,
				 int32_t a, int32_t b)
{
	int32_t v;

	if (cfg->mode == MF_ADD_TFLITE || cfg->mode == MF_ADD_SINGLE) {
		int64_t r = mf_add_tflite(cfg, d, a, b) + d->out_zero;

		return r < cfg->lo ? cfg->lo : (r > cfg->hi ? cfg->hi : (int32_t)r);
	}
	if (cfg->mode == MF_ADD_ONNX) {
		a -= d->lhs_zero;
		b -= d->rhs_zero;
		v = a * d->lhs_factor + d->sign * b * d->rhs_factor;
		return mf_clamp(mf_add_half_even(v, cfg->shift) + d->out_zero, cfg->lo, cfg->hi);
	}
	v = a * d->lhs_factor + d->base + b * d->rhs_factor;
	if (cfg->mode == MF_ADD_LINEAR) {
		return mf_shift_clamp(v, cfg->shift, cfg->lo, cfg->hi);
	}
	v += ((v >> cfg->shift) & 1) - 1;
	return mf_shift_clamp(v + d->offset, cfg->shift, cfg->lo, cfg->hi);
}

/** @brief One row; @p out may be either operand's row. */
MF_INLINE void mf_add_row_s8(const struct mf_add_cfg *cfg, const struct mf_add_data *data,
			     const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const struct mf_add_data local = *data; /* in registers: stores may alias data */
	const struct mf_vector_sum sum = {local.lhs_factor, local.rhs_factor, local.base,
					  cfg->shift,       cfg->lo,          cfg->hi};
	const int8_t *a = mf_operand_row(&cfg->lhs, data->lhs, &in, tick);
	const int8_t *b = mf_operand_row(&cfg->rhs, data->rhs, &in, tick);

	(void)scratch;
	for (int32_t g = 0; g < cfg->groups; g++) {
		int32_t done = 0;

		if (cfg->mode == MF_ADD_LINEAR && cfg->lhs.step == 1 && cfg->rhs.step == 1) {
			done = mf_vector_add(&sum, a, b, out, cfg->elements);
		}
		MF_UNROLL_4
		for (int32_t i = done; i < cfg->elements; i++) {
			out[i] = (int8_t)mf_add_element(cfg, &local, a[i * cfg->lhs.step],
							b[i * cfg->rhs.step]);
		}
		out += cfg->elements;
		a += cfg->lhs.group;
		b += cfg->rhs.group;
	}
}

#endif /* MCUFUSE_ADD_H_ */
