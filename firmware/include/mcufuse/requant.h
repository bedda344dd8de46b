/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief From a 32-bit accumulator to an int8 output.
 *
 * The generator picks the mode and proves that its constants give the exact result for every
 * accumulator that can occur (generator/mcufuse/kernels/requant.py):
 *
 *     HIGH     y = clamp((high word of (acc * M) + R) >> shift)    entry: bias, M, R
 *     AFFINE   y = clamp((acc * M + C) >> (32 + shift))            entry: M, C lo, C hi
 *     SPLIT    the same, C chosen by the sign of acc               entry: bias, M, C+ lo, hi, C- lo, hi
 *     TFLITE, TFLITE_SINGLE, ONNX
 *              the rounding mode's own arithmetic                  entry: bias, multiplier, shift
 *
 * The bias is part of C in AFFINE: there the accumulation starts at 0.
 */
#ifndef MCUFUSE_REQUANT_H_
#define MCUFUSE_REQUANT_H_

#include <mcufuse/simd.h>

enum mf_requant_mode {
	MF_REQUANT_HIGH = 0,
	MF_REQUANT_AFFINE = 1,
	MF_REQUANT_SPLIT = 2,
	MF_REQUANT_TFLITE = 3,
	MF_REQUANT_SINGLE = 4,
	MF_REQUANT_ONNX = 5,
};

/** @brief How a layer requantizes; compile-time constants, taken from a kernel's cfg. */
struct mf_requant_cfg {
	int mode;         /**< enum mf_requant_mode */
	int shift;        /**< of HIGH, AFFINE and SPLIT */
	int32_t lo;       /**< least output */
	int32_t hi;       /**< greatest output */
	int32_t out_zero; /**< of the exact modes (the others have it in C) */
};

/** @brief Words of one channel's entry in the table. */
MF_INLINE int mf_requant_words(int mode)
{
	return mode == MF_REQUANT_SPLIT ? 6 : 3;
}

/** @brief Where the accumulation of a channel starts. */
MF_INLINE int32_t mf_requant_start(const struct mf_requant_cfg *rq, const int32_t *entry)
{
	return rq->mode == MF_REQUANT_AFFINE ? 0 : entry[0];
}

/** @brief 64-bit constant from two table words, low word first (cores are little-endian). */
MF_INLINE int64_t mf_requant_offset(const int32_t *words)
{
	int64_t value;

	memcpy(&value, __builtin_assume_aligned(words, 4), sizeof(value));
	return value;
}

/** @brief round(acc * m * 2^(shift - 31)): two roundings, as TFLite's reference kernels. */
MF_INLINE int64_t mf_requant_tflite(int32_t acc, int32_t m, int shift)
{
	int left = shift > 0 ? shift : 0;
	int right = shift > 0 ? 0 : -shift;
	int64_t scaled = (int64_t)((uint64_t)(int64_t)acc << left);
	int64_t high = (scaled * m + (1 << 30)) >> 31;

	if (right == 0) {
		return high;
	}
	return (high + ((int64_t)1 << (right - 1)) - (high < 0)) >> right;
}

/** @brief round(acc * m * 2^(shift - 31)): one rounding, halves up. */
MF_INLINE int64_t mf_requant_single(int32_t acc, int32_t m, int shift)
{
	int total = 31 - shift;
	int64_t half = total > 0 ? (int64_t)1 << (total - 1) : 0;

	return ((int64_t)acc * m + half) >> total;
}

/** @brief round(acc * m * 2^(shift - 31)): one rounding, halves to even. */
MF_INLINE int64_t mf_requant_onnx(int32_t acc, int32_t m, int shift)
{
	int total = 31 - shift;
	int64_t half = total > 0 ? (int64_t)1 << (total - 1) : 0;
	int64_t sum = (int64_t)acc * m + half;
	int64_t mask = (int64_t)(((uint64_t)1 << total) - 1);
	int64_t rounded = sum >> total;

	if (total > 0 && (sum & mask) == 0) {
		rounded &= ~(int64_t)1;
	}
	return rounded;
}

/** @brief clamp((acc * m + c) >> (32 + shift)). */
MF_INLINE int32_t mf_requant_affine(const struct mf_requant_cfg *rq, int32_t m, int64_t c,
				    int32_t acc)
{
	int32_t high = (int32_t)((c + (int64_t)acc * m) >> 32);

	return mf_shift_clamp(high, rq->shift, rq->lo, rq->hi);
}

/** @brief The output for the accumulator @p acc of the channel of @p entry. */
MF_INLINE int32_t mf_requant(const struct mf_requant_cfg *rq, const int32_t *entry, int32_t acc)
{
	int64_t y;

	switch (rq->mode) {
	case MF_REQUANT_HIGH:
		return mf_shift_clamp(mf_multiply_high_add(acc, entry[1], entry[2]), rq->shift, rq->lo,
				      rq->hi);
	case MF_REQUANT_AFFINE:
		return mf_requant_affine(rq, entry[0], mf_requant_offset(entry + 1), acc);
	case MF_REQUANT_SPLIT:
		return mf_requant_affine(rq, entry[1],
					 mf_requant_offset(entry + (acc < 0 ? 4 : 2)), acc);
	case MF_REQUANT_TFLITE:
		y = mf_requant_tflite(acc, entry[1], entry[2]);
		break;
	case MF_REQUANT_SINGLE:
		y = mf_requant_single(acc, entry[1], entry[2]);
		break;
	default:
		y = mf_requant_onnx(acc, entry[1], entry[2]);
		break;
	}
	y += rq->out_zero;
	return y < rq->lo ? rq->lo : (y > rq->hi ? rq->hi : (int32_t)y);
}

#endif /* MCUFUSE_REQUANT_H_ */
