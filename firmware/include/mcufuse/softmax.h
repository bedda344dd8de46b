/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Softmax over the channels of each pixel, in integers.
 *
 * exp(-scale * d), d being the distance from the greatest value, comes from a table. TFLite: the
 * table is Q0.31, the sum Q12.19, its reciprocal three steps of Newton's division in Q2.29 (the bits of
 * gemmlowp's fixed-point functions). ONNX: the table is Q.20, the reciprocal one 64-bit division.
 */
#ifndef MCUFUSE_SOFTMAX_H_
#define MCUFUSE_SOFTMAX_H_

#include <mcufuse/common.h>

/** @brief Shape; compile-time constants. */
struct mf_softmax_cfg {
	int32_t pixels; /**< of a row */
	int32_t channels;
};

/** @brief Constants of one layer. */
struct mf_softmax_data {
	const int32_t *exponents;
	int32_t entries; /**< of the table; exponents beyond are 0 */
	int32_t out_zero;
	uint32_t out_inverse; /**< ONNX: 1 / output scale in Q.8 */
};

/** @brief Greatest value of a pixel. */
MF_INLINE int32_t mf_softmax_max(const int8_t *x, int32_t n)
{
	int32_t max = x[0];

	for (int32_t i = 1; i < n; i++) {
		max = x[i] > max ? x[i] : max;
	}
	return max;
}

/** @brief exp of a value at distance @p d below the greatest. */
MF_INLINE int32_t mf_softmax_exp(const struct mf_softmax_data *data, int32_t d)
{
	return d < data->entries ? data->exponents[d] : 0;
}

/** @brief floor((a * b + 2^30) / 2^31). */
MF_INLINE int32_t mf_softmax_product(int32_t a, int32_t b)
{
	return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/** @brief x / 2^bits, halves away from zero. */
MF_INLINE int32_t mf_softmax_shift(int32_t x, int bits)
{
	int64_t half = bits > 0 ? (int64_t)1 << (bits - 1) : 0;

	return (int32_t)((x + half - (bits > 0 && x < 0)) >> bits);
}

/** @brief 1 / (1 + a) in Q0.31 for a in [0, 1) in Q0.31. */
MF_INLINE int32_t mf_softmax_reciprocal(int32_t a)
{
	int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) >> 1);
	int32_t x = 1515870810 + mf_softmax_product(half, -1010580540);
	int64_t result;

	for (int i = 0; i < 3; i++) {
		int32_t error = (1 << 29) - mf_softmax_product(half, x);
		int64_t step = (int64_t)mf_softmax_product(x, error) * 4;

		step = step > INT32_MAX ? INT32_MAX : (step < INT32_MIN ? INT32_MIN : step);
		x += (int32_t)step;
	}
	result = (int64_t)x * 2;
	return result > INT32_MAX ? INT32_MAX : (int32_t)result;
}

/** @brief One row with TFLite's bits; @p out may be the input row. */
MF_INLINE void mf_softmax_row_s8(const struct mf_softmax_cfg *cfg,
				 const struct mf_softmax_data *data, const int8_t *const *in,
				 int8_t *out, int tick, void *scratch)
{
	const int8_t *x = in[0];

	(void)tick;
	(void)scratch;
	for (int32_t p = 0; p < cfg->pixels; p++) {
		int32_t max = mf_softmax_max(x, cfg->channels);
		int32_t sum = 0;
		int32_t scale;
		int headroom;
		int shift;

		for (int32_t i = 0; i < cfg->channels; i++) {
			sum += mf_softmax_shift(mf_softmax_exp(data, max - x[i]), 12);
		}
		headroom = __builtin_clz((uint32_t)sum);
		scale = mf_softmax_reciprocal(
			(int32_t)(((uint32_t)sum << headroom) - ((uint32_t)1 << 31)));
		shift = 12 - headroom + 23;
		for (int32_t i = 0; i < cfg->channels; i++) {
			int32_t e = mf_softmax_exp(data, max - x[i]);
			int32_t y = mf_softmax_shift(mf_softmax_product(scale, e), shift);

			out[i] = (int8_t)mf_clamp(y + data->out_zero, -128, 127);
		}
		x += cfg->channels;
		out += cfg->channels;
	}
}

/** @brief One row as ONNX defines it, within one unit; @p out may be the input row. */
MF_INLINE void mf_softmax_row_s8_even(const struct mf_softmax_cfg *cfg,
				      const struct mf_softmax_data *data, const int8_t *const *in,
				      int8_t *out, int tick, void *scratch)
{
	const uint64_t half = (uint64_t)1 << 35;
	const uint64_t mask = ((uint64_t)1 << 36) - 1;
	const int8_t *x = in[0];

	(void)tick;
	(void)scratch;
	for (int32_t p = 0; p < cfg->pixels; p++) {
		int32_t max = mf_softmax_max(x, cfg->channels);
		uint32_t sum = 0;
		uint64_t scale;

		for (int32_t i = 0; i < cfg->channels; i++) {
			sum += (uint32_t)mf_softmax_exp(data, max - x[i]);
		}
		scale = (((uint64_t)data->out_inverse << 28) + sum / 2) / sum;
		for (int32_t i = 0; i < cfg->channels; i++) {
			uint32_t e = (uint32_t)mf_softmax_exp(data, max - x[i]);
			uint64_t product = scale * e + half;
			int32_t y = (int32_t)(product >> 36);

			if ((product & mask) == 0) {
				y &= ~1;
			}
			out[i] = (int8_t)mf_clamp(y + data->out_zero, -128, 127);
		}
		x += cfg->channels;
		out += cfg->channels;
	}
}

#endif /* MCUFUSE_SOFTMAX_H_ */
