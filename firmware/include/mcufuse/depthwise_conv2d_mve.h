/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise convolution with vectors (MVE), sixteen channels at a time.
 *
 * Products of bytes are added in pairs with 16 bits (the generator refuses weights for which a pair may
 * overflow) and then with 32 bits. Multiplying and widening part even lanes from odd ones twice, so
 * that four vectors of sums hold the channels 0 4 8 12, 2 6 10 14, 1 5 9 13 and 3 7 11 15 of a block;
 * narrowing puts them back. The table is in that order.
 *
 *     scratch: one pixel of zero points, in the place of padded pixels
 */
#ifndef MCUFUSE_DEPTHWISE_CONV2D_MVE_H_
#define MCUFUSE_DEPTHWISE_CONV2D_MVE_H_

#include <mcufuse/depthwise_conv2d.h>
#include <mcufuse/vector.h>

/** Channels of a block. */
#define MF_DEPTHWISE_MVE_BLOCK 16
/** Most values of a window. */
#define MF_DEPTHWISE_MVE_TAPS  32

#if MF_HAS_MVE
/** @brief The next sixteen weights; GCC 12 does not use post-increments here. */
MF_INLINE int8x16_t mf_depthwise_mve_next(const int8_t **w)
{
	int8x16_t v;

	__asm__("vldrb.u8 %q0, [%1], #16" : "=w"(v), "+r"(*w) : : "memory");
	return v;
}

/** @brief Sums of a block of @p n channels. */
MF_INLINE void mf_depthwise_mve_sums(const int8_t *const *tap, int taps, int c, const int8_t *w,
				     int n, int32x4_t sum[4])
{
	MF_UNROLL
	for (int t = 0; t < taps; t += 2) {
		int16x8_t even, odd;
		int8x16_t x, v;

		MF_IN_ORDER();
		x = mf_bytes_load(tap[t] + c, n).v;
		v = mf_depthwise_mve_next(&w);
		even = vmullbq_int_s8(x, v);
		odd = vmulltq_int_s8(x, v);
		if (t + 1 < taps) {
			x = mf_bytes_load(tap[t + 1] + c, n).v;
			v = mf_depthwise_mve_next(&w);
			even = vaddq_s16(even, vmullbq_int_s8(x, v));
			odd = vaddq_s16(odd, vmulltq_int_s8(x, v));
		}
		sum[0] = t == 0 ? vmovlbq_s16(even) : vaddq_s32(sum[0], vmovlbq_s16(even));
		sum[1] = t == 0 ? vmovltq_s16(even) : vaddq_s32(sum[1], vmovltq_s16(even));
		sum[2] = t == 0 ? vmovlbq_s16(odd) : vaddq_s32(sum[2], vmovlbq_s16(odd));
		sum[3] = t == 0 ? vmovltq_s16(odd) : vaddq_s32(sum[3], vmovltq_s16(odd));
		/* GCC 12 would add up all parts at the end, and keep them on the stack until then */
		__asm__("" : "+w"(sum[0]), "+w"(sum[1]), "+w"(sum[2]), "+w"(sum[3]));
	}
}

/** @brief Requantize and store the sums of a block of @p n channels. */
MF_INLINE void mf_depthwise_mve_store(const struct mf_requant_cfg *rq, const int32_t *table,
				      int32x4_t sum[4], int8_t *out, int n)
{
	int16x8_t even, odd;
	int8x16_t y;

	MF_UNROLL
	for (int i = 0; i < 4; i++) {
		struct mf_vector_table words;

		MF_IN_ORDER();
		words.word[0] = vldrwq_s32(table);
		words.word[1] = vldrwq_s32(table + 4);
		words.word[2] = vldrwq_s32(table + 8);
		sum[i] = mf_vector_scale(rq, &words, sum[i]);
		table += 3 * MF_VECTOR_LANES;
	}
	even = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), sum[0]), sum[1]);
	odd = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), sum[2]), sum[3]);
	y = vqmovntq_s16(vqmovnbq_s16(vdupq_n_s8(0), even), odd);
	if (rq->lo > -128) {
		y = vmaxq_s8(y, vdupq_n_s8((int8_t)rq->lo));
	}
	if (rq->hi < 127) {
		y = vminq_s8(y, vdupq_n_s8((int8_t)rq->hi));
	}
	if (n == MF_DEPTHWISE_MVE_BLOCK) {
		vstrbq_s8(out, y);
	} else {
		vstrbq_p_s8(out, y, vctp8q((uint32_t)n));
	}
}
#endif

/** @brief @p n channels of one output pixel, from channel @p c on. */
MF_INLINE void mf_depthwise_mve_block(const struct mf_requant_cfg *rq, const int8_t *const *tap,
				      int taps, int c, const int8_t *w, const int32_t *table,
				      int8_t *out, int n)
{
#if MF_HAS_MVE
	int32x4_t sum[4];

	mf_depthwise_mve_sums(tap, taps, c, w, n, sum);
	mf_depthwise_mve_store(rq, table, sum, out, n);
#else
	static const uint8_t part[4] = {0, 2, 1, 3};

	for (int j = 0; j < n; j++) {
		int32_t acc = 0;

		for (int t = 0; t < taps; t++) {
			acc += tap[t][c + j] * w[t * MF_DEPTHWISE_MVE_BLOCK + j];
		}
		out[j] = mf_vector_requant_one(rq, table + 3 * MF_VECTOR_LANES * part[j % 4], acc,
					       j / 4);
	}
#endif
}

/** @brief Where the values of the window that begins at column @p first stand. */
MF_INLINE void mf_depthwise_mve_taps(const struct mf_depthwise_conv2d_cfg *cfg,
				     const int8_t *const *in, int first, const int8_t *padding,
				     const int8_t **tap)
{
	for (int i = 0; i < cfg->k_h; i++) {
		for (int k = 0; k < cfg->k_w; k++) {
			const int x = first + k * cfg->dilation_w;
			const bool inside = in[i] != NULL && x >= 0 && x < cfg->in_w;

			*tap++ = inside ? in[i] + x * cfg->in_c : padding;
		}
	}
}

/** @brief Move the taps to the next pixel, if the window stays inside the rows. */
MF_INLINE void mf_depthwise_mve_move(const struct mf_depthwise_conv2d_cfg *cfg,
				     const int8_t *const *in, const int8_t **tap)
{
	for (int i = 0; i < cfg->k_h; i++) {
		const int step = in[i] != NULL ? cfg->stride_w * cfg->in_c : 0;

		MF_UNROLL
		for (int k = 0; k < cfg->k_w; k++) {
			*tap++ += step;
		}
	}
}

/** @brief One output row. */
MF_INLINE void mf_depthwise_conv2d_row_s8_mve(const struct mf_depthwise_conv2d_cfg *cfg,
					      const struct mf_depthwise_conv2d_data *data,
					      const int8_t *const *in, int8_t *out, int tick,
					      void *scratch)
{
	const struct mf_requant_cfg rq = MF_REQUANT_CFG(cfg, data);
	const int taps = cfg->k_h * cfg->k_w;
	const int rest = cfg->in_c % MF_DEPTHWISE_MVE_BLOCK;
	const int span = (cfg->k_w - 1) * cfg->dilation_w + 1;
	const int8_t *tap[MF_DEPTHWISE_MVE_TAPS];
	int8_t *padding = scratch;

	(void)tick;
	mf_fill_s8(padding, data->in_zero, cfg->in_c);
	for (int p = 0; p < cfg->out_w; p++) {
		const int first = p * cfg->stride_w - cfg->pad_left;
		const int8_t *w = data->weights;
		const int32_t *table = data->requant;

		if (first - cfg->stride_w >= 0 && first + span <= cfg->in_w) {
			mf_depthwise_mve_move(cfg, in, tap);
		} else {
			mf_depthwise_mve_taps(cfg, in, first, padding, tap);
		}
		MF_KEEP(w);
		MF_KEEP(table);
		for (int c = 0; c < cfg->in_c - rest; c += MF_DEPTHWISE_MVE_BLOCK) {
			mf_depthwise_mve_block(&rq, tap, taps, c, w, table, out + c,
					       MF_DEPTHWISE_MVE_BLOCK);
			w += taps * MF_DEPTHWISE_MVE_BLOCK;
			table += 12 * MF_VECTOR_LANES;
		}
		if (rest != 0) {
			mf_depthwise_mve_block(&rq, tap, taps, cfg->in_c - rest, w, table,
					       out + cfg->in_c - rest, rest);
		}
		out += cfg->in_c;
	}
}

#endif /* MCUFUSE_DEPTHWISE_CONV2D_MVE_H_ */
