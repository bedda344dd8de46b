/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Convolution and fully connected layer with vectors (MVE): conv2d.h and fully_connected.h with
 * the blocks of dot_mve.h.
 *
 * Windows that are gathered are filled up to a multiple of sixteen values, whose weights are 0.
 */
#ifndef MCUFUSE_CONV2D_MVE_H_
#define MCUFUSE_CONV2D_MVE_H_

#include <mcufuse/conv2d.h>
#include <mcufuse/dot_mve.h>
#include <mcufuse/fully_connected.h>

/**
 * @brief Gather the window of output pixel @p x: @p depth bytes, a multiple of sixteen.
 *
 * Bytes beyond the window keep what they had: their weights are 0.
 */
MF_INLINE void mf_conv2d_mve_gather(const struct mf_conv2d_cfg *cfg, const int8_t *const *in, int x,
				    int8_t zero, int depth, int8_t *to)
{
	const int run = cfg->k_w * cfg->in_c;
	const int first = x * cfg->stride_w - cfg->pad_left;
	const int from = MF_MAX(first, 0);
	const int skip = (from - first) * cfg->in_c;
	const int n = MF_MAX(MF_MIN(first + cfg->k_w, cfg->in_w) - from, 0) * cfg->in_c;
	bool whole = n == run;

	for (int i = 0; i < cfg->k_h; i++) {
		whole = whole && in[i] != NULL;
	}
	if (whole) {
		for (int i = 0; i < cfg->k_h; i++) {
			mf_copy_s8(to + i * run, in[i] + first * cfg->in_c, run);
		}
		return;
	}
	mf_fill_s8(to, zero, depth);
	for (int i = 0; i < cfg->k_h; i++) {
		if (in[i] != NULL) {
			mf_copy_s8(to + i * run + skip, in[i] + from * cfg->in_c, n);
		}
	}
}

/** @brief One output row. */
MF_INLINE void mf_conv2d_row_s8_mve(const struct mf_conv2d_cfg *cfg,
				    const struct mf_conv2d_data *data, const int8_t *const *in,
				    int8_t *out, int tick, void *scratch)
{
	const int channels = cfg->in_c / cfg->groups;
	const int values = cfg->k_h * cfg->k_w * channels;
	const int depth = cfg->direct ? values : (values + 15) & ~15;
	const int out_c = cfg->out_c / cfg->groups;
	const int filled = (out_c + MF_VECTOR_LANES - 1) / MF_VECTOR_LANES * MF_VECTOR_LANES;
	const struct mf_dot_mve_cfg dot = {
		.depth = depth,
		.distance = cfg->direct ? cfg->stride_w * cfg->in_c : depth,
		.out_step = cfg->out_c,
		.rq = MF_REQUANT_CFG(cfg, data),
	};
	int8_t *window = scratch;

	(void)tick;
	for (int g = 0; g < cfg->groups; g++) {
		const int8_t *w = data->weights + g * depth * filled;
		const int32_t *block = data->requant + g * filled * 3;
		const int8_t *x = cfg->direct ? in[0] : window;
		int8_t *to = out + g * out_c;

		for (int p = 0; p < cfg->out_w; p += 2) {
			const int np = cfg->out_w % 2 == 0 || p + 1 < cfg->out_w ? 2 : 1;

			for (int q = 0; !cfg->direct && q < np; q++) {
				if (cfg->groups == 1 && cfg->dilation_w == 1) {
					mf_conv2d_mve_gather(cfg, in, p + q, data->in_zero, depth,
							     window + q * depth);
				} else {
					mf_conv2d_gather(cfg, in, p + q, g * channels,
							 data->in_zero, window + q * depth);
				}
			}
			if (np == 2) {
				mf_dot_mve_pixels(&dot, x, w, block, to, out_c, 2);
			} else {
				mf_dot_mve_pixels(&dot, x, w, block, to, out_c, 1);
			}
			to += 2 * cfg->out_c;
			x += cfg->direct ? 2 * dot.distance : 0;
		}
	}
}

/** @brief All outputs of a fully connected layer. */
MF_INLINE void mf_fully_connected_row_s8_mve(const struct mf_fully_connected_cfg *cfg,
					     const struct mf_fully_connected_data *data,
					     const int8_t *const *in, int8_t *out, int tick,
					     void *scratch)
{
	const struct mf_dot_mve_cfg dot = {
		.depth = (int)cfg->depth,
		.rq = MF_REQUANT_CFG(cfg, data),
	};

	(void)tick;
	(void)scratch;
	mf_dot_mve_pixels(&dot, in[0], data->weights, data->requant, out, cfg->out_c, 1);
}

#endif /* MCUFUSE_CONV2D_MVE_H_ */
