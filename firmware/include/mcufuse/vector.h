/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The vectors of 16 bytes of Armv8.1-M (MVE), each operation with its meaning in C beside it.
 *
 * This is the only header of the convolutions that contains conditionals for MVE.
 */
#ifndef MCUFUSE_VECTOR_H_
#define MCUFUSE_VECTOR_H_

#include <mcufuse/requant.h>

#if MF_HAS_MVE
#include <arm_mve.h>
#endif

/** Channels that are requantized together. */
#define MF_VECTOR_LANES 4

/** @brief Sixteen signed bytes. */
struct mf_bytes {
#if MF_HAS_MVE
	int8x16_t v;
#else
	int8_t v[16];
#endif
};

/** @brief The first @p n of the bytes at @p at, 0 for the others. */
MF_INLINE struct mf_bytes mf_bytes_load(const int8_t *at, int n)
{
	struct mf_bytes bytes;

#if MF_HAS_MVE
	bytes.v = n >= 16 ? vldrbq_s8(at) : vldrbq_z_s8(at, vctp8q((uint32_t)n));
#else
	for (int i = 0; i < 16; i++) {
		bytes.v[i] = i < n ? at[i] : 0;
	}
#endif
	return bytes;
}

/** @brief @p acc plus the sum of the sixteen products. */
MF_INLINE int32_t mf_bytes_dot(int32_t acc, struct mf_bytes a, struct mf_bytes b)
{
#if MF_HAS_MVE
	return vmladavaq_s8(acc, a.v, b.v);
#else
	for (int i = 0; i < 16; i++) {
		acc += a.v[i] * b.v[i];
	}
	return acc;
#endif
}

/** @brief Word @p i of channel @p j in a table whose blocks of four channels hold one word after the other. */
MF_INLINE int32_t mf_vector_word(const int32_t *block, int i, int j)
{
	return block[i * MF_VECTOR_LANES + j];
}

/** @brief Requantize one channel of a block. */
MF_INLINE int8_t mf_vector_requant_one(const struct mf_requant_cfg *rq, const int32_t *block,
				       int32_t acc, int j)
{
	const int32_t entry[3] = {
		mf_vector_word(block, 0, j),
		mf_vector_word(block, 1, j),
		mf_vector_word(block, 2, j),
	};

	return (int8_t)mf_requant(rq, entry, acc + mf_requant_start(rq, entry));
}

#if MF_HAS_MVE
/** @brief Requantize a block of channels by mode HIGH_WIDE; not clamped. */
MF_INLINE int32x4_t mf_vector_high(const struct mf_requant_cfg *rq, const int32_t *block,
				   int32x4_t acc)
{
	int32x4_t y = vaddq_s32(acc, vldrwq_s32(block));

	y = vmulhq_s32(y, vldrwq_s32(block + 4));
	y = vaddq_s32(y, vldrwq_s32(block + 8));
	return rq->shift > 0 ? vshlq_r_s32(y, -rq->shift) : y;
}

/** @brief Requantize a block of channels by mode TFLITE, no shift above 0; not clamped. */
MF_INLINE int32x4_t mf_vector_tflite(const struct mf_requant_cfg *rq, const int32_t *block,
				     int32x4_t acc)
{
	const int32x4_t shift = vldrwq_s32(block + 8);
	int32x4_t y = vaddq_s32(acc, vldrwq_s32(block));

	y = vqrdmulhq_s32(y, vldrwq_s32(block + 4));
	/* VRSHL rounds halves up: away from zero means one less for negative values, if there is a shift */
	y = vaddq_s32(y, vshrq_n_s32(vandq_s32(y, shift), 31));
	y = vrshlq_s32(y, shift);
	return vaddq_n_s32(y, rq->out_zero);
}
#endif

/** @brief Requantize the first @p n channels of a block and store them. */
MF_INLINE void mf_vector_requant(const struct mf_requant_cfg *rq, const int32_t *block,
				 const int32_t acc[MF_VECTOR_LANES], int8_t *out, int n)
{
#if MF_HAS_MVE
	if (rq->mode == MF_REQUANT_HIGH_WIDE || rq->mode == MF_REQUANT_TFLITE_RIGHT) {
		const int32x4_t sums = {acc[0], acc[1], acc[2], acc[3]};
		int32x4_t y = rq->mode == MF_REQUANT_TFLITE_RIGHT
				      ? mf_vector_tflite(rq, block, sums)
				      : mf_vector_high(rq, block, sums);

		y = vminq_s32(vmaxq_s32(y, vdupq_n_s32(rq->lo)), vdupq_n_s32(rq->hi));
		if (n == MF_VECTOR_LANES) {
			vstrbq_s32(out, y);
		} else {
			vstrbq_p_s32(out, y, vctp32q((uint32_t)n));
		}
		return;
	}
#endif
	for (int j = 0; j < n; j++) {
		out[j] = mf_vector_requant_one(rq, block, acc[j], j);
	}
}

#endif /* MCUFUSE_VECTOR_H_ */
