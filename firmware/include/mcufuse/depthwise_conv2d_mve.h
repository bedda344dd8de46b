/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise convolution with vectors (MVE), eight channels at a time.
 *
 * Products of bytes are added in pairs with 16 bits (the generator refuses weights for which a pair may
 * overflow) and then, the even and the odd channels apart, with 32 bits.
 *
 *     scratch: one pixel of zero points, in the place of padded pixels
 */
#ifndef MCUFUSE_DEPTHWISE_CONV2D_MVE_H_
#define MCUFUSE_DEPTHWISE_CONV2D_MVE_H_

#include <mcufuse/depthwise_conv2d.h>
#include <mcufuse/vector.h>

/** Channels of a block. */
#define MF_DEPTHWISE_MVE_BLOCK 8
/** Most values of a window. */
#define MF_DEPTHWISE_MVE_TAPS  32

#if MF_HAS_MVE
/** @brief @p n values, widened. */
MF_INLINE int16x8_t mf_depthwise_mve_load(const int8_t *at, int n)
{
	return n == MF_DEPTHWISE_MVE_BLOCK ? vldrbq_s16(at)
					   : vldrbq_z_s16(at, vctp16q((uint32_t)n));
}

/** @brief The next eight weights, widened; GCC 12 does not use post-increments here. */
MF_INLINE int16x8_t mf_depthwise_mve_next(const int8_t **w)
{
	int16x8_t v;

	__asm__("vldrb.s16 %q0, [%1], #8" : "=w"(v), "+l"(*w) : : "memory");
	return v;
}

/** @brief Sums of a block of @p n channels: even ones in the first vector, odd ones in the second. */
MF_INLINE void mf_depthwise_mve_sums(const int8_t *const *tap, int taps, int c, const int8_t *w,
				     int n, int32x4_t sum[2])
{
	MF_UNROLL
	for (int t = 0; t < taps; t += 2) {
		int16x8_t s;

		MF_IN_ORDER();
		s = mf_depthwise_mve_load(tap[t] + c, n);
		s = vmulq_s16(s, mf_depthwise_mve_next(&w));
		if (t + 1 < taps) {
			int16x8_t x = mf_depthwise_mve_load(tap[t + 1] + c, n);

			s = vaddq_s16(s, vmulq_s16(x, mf_depthwise_mve_next(&w)));
		}
		sum[0] = t == 0 ? vmovlbq_s16(s) : vaddq_s32(sum[0], vmovlbq_s16(s));
		sum[1] = t == 0 ? vmovltq_s16(s) : vaddq_s32(sum[1], vmovltq_s16(s));
	}
	MF_IN_ORDER();
}
#endif

/** @brief @p n channels of one output pixel, from channel @p c on. */
MF_INLINE void mf_depthwise_mve_block(const struct mf_requant_cfg *rq, const int8_t *const *tap,
				      int taps, int c, const int8_t *w, const int32_t *table,
				      int8_t *out, int n)
{
#if MF_HAS_MVE
	int32x4_t sum[2];
	int16x8_t y;

	mf_depthwise_mve_sums(tap, taps, c, w, n, sum);
	MF_UNROLL
	for (int half = 0; half < 2; half++) {
		const int32_t *block = table + 3 * MF_VECTOR_LANES * half;
		const struct mf_vector_table words = {
			{vldrwq_s32(block), vldrwq_s32(block + 4), vldrwq_s32(block + 8)},
		};

		sum[half] = mf_vector_scale(rq, &words, sum[half]);
	}
	y = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), sum[0]), sum[1]);
	y = vminq_s16(vmaxq_s16(y, vdupq_n_s16((int16_t)rq->lo)), vdupq_n_s16((int16_t)rq->hi));
	if (n == MF_DEPTHWISE_MVE_BLOCK) {
		vstrbq_s16(out, y);
	} else {
		vstrbq_p_s16(out, y, vctp16q((uint32_t)n));
	}
#else
	for (int j = 0; j < n; j++) {
		int32_t acc = 0;

		for (int t = 0; t < taps; t++) {
			acc += tap[t][c + j] * w[t * MF_DEPTHWISE_MVE_BLOCK + j];
		}
		out[j] = mf_vector_requant_one(rq, table + 3 * MF_VECTOR_LANES * (j % 2), acc,
					       j / 2);
	}
#endif
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
	const int8_t *tap[MF_DEPTHWISE_MVE_TAPS];
	int8_t *padding = scratch;

	(void)tick;
	mf_fill_s8(padding, data->in_zero, cfg->in_c);
	for (int p = 0; p < cfg->out_w; p++) {
		const int first = p * cfg->stride_w - cfg->pad_left;
		const int8_t *w = data->weights;
		const int32_t *table = data->requant;

		for (int i = 0; i < cfg->k_h; i++) {
			for (int k = 0; k < cfg->k_w; k++) {
				const int x = first + k * cfg->dilation_w;

				tap[i * cfg->k_w + k] = in[i] != NULL && x >= 0 && x < cfg->in_w
								? in[i] + x * cfg->in_c
								: padding;
			}
		}
		MF_KEEP(w);
		MF_KEEP(table);
		for (int c = 0; c < cfg->in_c - rest; c += MF_DEPTHWISE_MVE_BLOCK) {
			mf_depthwise_mve_block(&rq, tap, taps, c, w, table, out + c,
					       MF_DEPTHWISE_MVE_BLOCK);
			w += taps * MF_DEPTHWISE_MVE_BLOCK;
			table += 6 * MF_VECTOR_LANES;
		}
		if (rest != 0) {
			mf_depthwise_mve_block(&rq, tap, taps, cfg->in_c - rest, w, table,
					       out + cfg->in_c - rest, rest);
		}
		out += cfg->in_c;
	}
}

#endif /* MCUFUSE_DEPTHWISE_CONV2D_MVE_H_ */
