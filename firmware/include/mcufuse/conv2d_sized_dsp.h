/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Convolution whose sizes are variables, with dual 16-bit multiplications: conv2d_sized.h for cores
 * with DSP instructions.
 *
 *     scratch: [widened windows of two pixels, see dot_dsp.h | bytes of two windows, unless direct]
 */
#ifndef MCUFUSE_CONV2D_SIZED_DSP_H_
#define MCUFUSE_CONV2D_SIZED_DSP_H_

#include <mcufuse/conv2d_sized.h>
#include <mcufuse/dot_dsp.h>

/** @brief What all layers that share the code have in common. */
struct mf_conv2d_sized_dsp_cfg {
	bool raw; /**< see dot_dsp.h */
	uint8_t rq_mode;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Shape and constants of a layer. */
struct mf_conv2d_sized_dsp_data {
	struct mf_conv2d_sized_data shape; /**< its weights are not used */
	const int32_t *weights;            /**< in the order of dot_dsp.h, blocks of 4 channels */
	bool direct;                       /**< 1x1 without padding: rows are read where they are */
};

/** @brief Widen the windows of @p np pixels from pixel @p x on. */
MF_INLINE void mf_conv2d_sized_widen(const struct mf_conv2d_sized_dsp_data *data,
				     const int8_t *const *in, int x, uint32_t *to, int8_t *bytes,
				     int np)
{
	const struct mf_conv2d_sized_data *d = &data->shape;
	const int values = d->k_h * d->k_w * d->in_c;
	const int8_t *from = bytes;
	int distance = values;

	if (data->direct) {
		from = in[0] + x * d->stride_w * d->in_c;
		distance = d->stride_w * d->in_c;
	} else {
		for (int q = 0; q < np; q++) {
			mf_conv2d_window(d, in, x + q, 1, bytes + q * values);
		}
	}
	mf_dot_dsp_widen(to, from, from + distance, values, np);
}

/** @brief One output row. */
MF_INLINE void mf_conv2d_sized_row_s8_dsp(const struct mf_conv2d_sized_dsp_cfg *cfg,
					  const struct mf_conv2d_sized_dsp_data *data,
					  const int8_t *const *in, int8_t *out, int tick,
					  void *scratch)
{
	const struct mf_conv2d_sized_data *d = &data->shape;
	const struct mf_dot_dsp_cfg dot = {
		.sized = true,
		.block = 4,
		.steps = d->depth / 2,
		.out_step = d->out_c,
		.raw = cfg->raw,
		.rq = MF_REQUANT_SIZED(cfg, d),
	};
	const uint32_t *w = (const uint32_t *)data->weights;
	const int32_t *entry = mf_requant_entries(cfg->rq_mode, d->requant);
	uint32_t *window = scratch;
	int8_t *bytes = (int8_t *)(window + d->depth);

	(void)tick;
	for (int p = 0; p < d->out_w; p += 2) {
		if (p + 1 < d->out_w) {
			mf_conv2d_sized_widen(data, in, p, window, bytes, 2);
			mf_dot_dsp_pixels(&dot, window, w, entry, out, d->out_c, 2);
		} else {
			mf_conv2d_sized_widen(data, in, p, window, bytes, 1);
			mf_dot_dsp_pixels(&dot, window, w, entry, out, d->out_c, 1);
		}
		out += 2 * d->out_c;
	}
}

#endif /* MCUFUSE_CONV2D_SIZED_DSP_H_ */
