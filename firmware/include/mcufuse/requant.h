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
 *     HIGH     y = clamp((high word of (acc * M) + R) >> shift)    entry: bias << 10 | R, M
 *     AFFINE   y = clamp((acc * M + C) >> (32 + shift))            entry: M, C lo, C hi
 *     SPLIT    the same, with C = K + h, or K - h - 1 if acc < 0   entry: bias, M, h
 *     TFLITE, TFLITE_SINGLE, ONNX
 *              the rounding mode's own arithmetic                  entry: bias, multiplier, shift
 *
 *     HIGH_WIDE
 *              as HIGH                                             entry: bias, M, R
 *
 * K is (2 out_zero + 1) * 2^(31 + shift). The bias is part of C in AFFINE: there the accumulation
 * starts at 0. In a uniform table the words after the first are the same for all entries and stand
 * once, before them.
 */
#ifndef MCUFUSE_REQUANT_H_
#define MCUFUSE_REQUANT_H_

#include <mcufuse/simd.h>

/** Bits of R in a word of mode HIGH. */
#define MF_REQUANT_R_BITS 10

enum mf_requant_mode {
	MF_REQUANT_HIGH = 0,
	MF_REQUANT_AFFINE = 1,
	MF_REQUANT_SPLIT = 2,
	MF_REQUANT_TFLITE = 3,
	MF_REQUANT_SINGLE = 4,
	MF_REQUANT_ONNX = 5,
	MF_REQUANT_HIGH_WIDE = 6,
	MF_REQUANT_TFLITE_RIGHT = 7, /**< TFLITE, no shift above 0: vectors can do it */
	MF_REQUANT_UNIFORM = 8,      /**< added to a mode other than AFFINE */
};

/** @brief How a layer requantizes; compile-time constants, taken from a kernel's cfg. */
struct mf_requant_cfg {
	int mode;              /**< enum mf_requant_mode */
	int shift;             /**< of HIGH, AFFINE and SPLIT */
	int32_t lo;            /**< least output */
	int32_t hi;            /**< greatest output */
	int32_t out_zero;      /**< of SPLIT and the exact modes (the others have it in C) */
	const int32_t *common; /**< of a uniform table: its first two words */
	bool sized;            /**< the shift is a variable */
};

/** A struct mf_requant_cfg from the fields that all cfg and data structs of a kind have. */
#define MF_REQUANT_CFG(cfg, data)                                                                  \
	{                                                                                          \
		.mode = (cfg)->rq_mode,                                                            \
		.shift = (cfg)->rq_shift,                                                          \
		.lo = (cfg)->rq_lo,                                                                \
		.hi = (cfg)->rq_hi,                                                                \
		.out_zero = (data)->out_zero,                                                      \
		.common = (data)->requant,                                                         \
	}

/** The same for kernels whose shift is a variable. */
#define MF_REQUANT_SIZED(cfg, data)                                                                \
	{                                                                                          \
		.mode = (cfg)->rq_mode,                                                            \
		.shift = (data)->rq_shift,                                                         \
		.lo = (cfg)->rq_lo,                                                                \
		.hi = (cfg)->rq_hi,                                                                \
		.out_zero = (data)->out_zero,                                                      \
		.common = (data)->requant,                                                         \
		.sized = true,                                                                     \
	}

/** @brief Words of one channel's entry in the table. */
MF_INLINE int mf_requant_words(int mode)
{
	return mode >= MF_REQUANT_UNIFORM ? 1 : mode == MF_REQUANT_HIGH ? 2 : 3;
}

/** @brief The first entry of a table. */
MF_INLINE const int32_t *mf_requant_entries(int mode, const int32_t *table)
{
	return table + (mode >= MF_REQUANT_UNIFORM ? 2 : 0);
}

/** @brief Word 1 or 2 of an entry. */
MF_INLINE int32_t mf_requant_word(const struct mf_requant_cfg *rq, const int32_t *entry, int i)
{
	return rq->mode >= MF_REQUANT_UNIFORM ? rq->common[i - 1] : entry[i];
}

/** @brief Where the accumulation of a channel starts. */
MF_INLINE int32_t mf_requant_start(const struct mf_requant_cfg *rq, const int32_t *entry)
{
	const int mode = rq->mode % MF_REQUANT_UNIFORM;

	return mode == MF_REQUANT_AFFINE ? 0
	       : mode == MF_REQUANT_HIGH ? entry[0] >> MF_REQUANT_R_BITS
					 : entry[0];
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

/** @brief The exact modes. */
MF_INLINE int32_t mf_requant_exact(const struct mf_requant_cfg *rq, int32_t m, int shift,
				   int32_t acc)
{
	const int mode = rq->mode % MF_REQUANT_UNIFORM;
	int64_t y = mode == MF_REQUANT_TFLITE || mode == MF_REQUANT_TFLITE_RIGHT
			    ? mf_requant_tflite(acc, m, shift)
		    : mode == MF_REQUANT_SINGLE ? mf_requant_single(acc, m, shift)
						: mf_requant_onnx(acc, m, shift);

	y += rq->out_zero;
	return y < rq->lo ? rq->lo : (y > rq->hi ? rq->hi : (int32_t)y);
}

/** @brief An entry of HIGH_WIDE from one of HIGH; its first word is not set, see mf_requant_start(). */
MF_INLINE void mf_requant_unpack(const struct mf_requant_cfg *rq, const int32_t *entry,
				 int32_t wide[3])
{
	const int32_t r = (int32_t)((uint32_t)entry[0] << (32 - MF_REQUANT_R_BITS));

	wide[1] = mf_requant_word(rq, entry, 1);
	wide[2] = r >> (32 - MF_REQUANT_R_BITS);
}

/** @brief The output for the accumulator @p acc of the channel of @p entry. */
MF_INLINE int32_t mf_requant(const struct mf_requant_cfg *rq, const int32_t *entry, int32_t acc)
{
	const int mode = rq->mode % MF_REQUANT_UNIFORM;
	int64_t offset = 0;
	int32_t high;

	if (mode == MF_REQUANT_HIGH_WIDE) {
		high = mf_multiply_high_add(acc, entry[1], entry[2]);
	} else if (mode == MF_REQUANT_HIGH) {
		high = (int32_t)((uint32_t)entry[0] << (32 - MF_REQUANT_R_BITS));
		high >>= 32 - MF_REQUANT_R_BITS;
		high = mf_multiply_high_add(acc, mf_requant_word(rq, entry, 1), high);
	} else if (mode == MF_REQUANT_AFFINE) {
		offset = mf_requant_offset(entry + 1);
		high = mf_multiply_add_high(offset, acc, entry[0]);
	} else if (mode == MF_REQUANT_SPLIT) {
		offset = mf_requant_word(rq, entry, 2) ^ (acc >> 31);
		high = mf_multiply_add_high(offset, acc, mf_requant_word(rq, entry, 1));
		high += (int32_t)((uint32_t)(2 * rq->out_zero + 1) << (rq->shift - 1));
	} else {
		return mf_requant_exact(rq, mf_requant_word(rq, entry, 1),
					mf_requant_word(rq, entry, 2), acc);
	}
	if (rq->sized) {
		return mf_shift_clamp(high >> rq->shift, 0, rq->lo, rq->hi);
	}
	return mf_shift_clamp(high, rq->shift, rq->lo, rq->hi);
}

#endif /* MCUFUSE_REQUANT_H_ */
