/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Convolution, one output row at a time.
 *
 * Two neighbouring output pixels are computed together. Their windows are copied into the scratch
 * memory with the padding filled in, so that the inner loop is one run without tests:
 *
 *     scratch: [window of pixel x | window of pixel x + 1]     window: k_h x k_w x channels of the group
 *
 * A 1x1 convolution reads the rows where they are. The weights' sum times the input's zero point is
 * part of the bias, so a padded value counts as the zero point.
 */
#ifndef MCUFUSE_CONV2D_H_
#define MCUFUSE_CONV2D_H_

#include <mcufuse/dot.h>
#include <mcufuse/vector.h>

/** @brief Shape of a convolution. */
struct mf_conv2d_cfg {
	uint16_t in_w;
	uint16_t in_c;
	uint16_t out_w;
	uint16_t out_c;
	uint16_t groups;
	uint16_t pad_left;
	uint8_t k_h;
	uint8_t k_w;
	uint8_t stride_w;
	uint8_t dilation_w;
	bool direct; /**< 1x1, one group, no padding: rows are read where they are */
	uint8_t rq_mode;
	uint8_t rq_shift;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Constants of a layer. */
struct mf_conv2d_data {
	const int8_t *weights;  /**< [group] in the order of dot.h */
	const int32_t *requant; /**< entries of requant.h, one for each output channel */
	int8_t in_zero;
	int8_t out_zero;
};

/** @brief Gather one kernel row of the window that begins at column @p first. */
MF_INLINE void mf_conv2d_gather_run(const struct mf_conv2d_cfg *cfg, const int8_t *row, int first,
				    int channel, int8_t zero, int8_t *to)
{
	const int depth = cfg->in_c / cfg->groups;
	const int run = cfg->k_w * depth;

	if (row == NULL) {
		mf_fill_s8(to, zero, run);
	} else if (cfg->groups == 1 && cfg->dilation_w == 1 && first >= 0 &&
		   first + cfg->k_w <= cfg->in_w) {
		mf_copy_s8(to, row + first * depth, run);
	} else {
		for (int k = 0; k < cfg->k_w; k++) {
			const int x = first + k * cfg->dilation_w;

			if (x < 0 || x >= cfg->in_w) {
				mf_fill_s8(to, zero, depth);
			} else {
				mf_copy_s8(to, row + x * cfg->in_c + channel, depth);
			}
			to += depth;
		}
	}
}

/** @brief Gather the window of output pixel @p x. */
MF_INLINE void mf_conv2d_gather(const struct mf_conv2d_cfg *cfg, const int8_t *const *in, int x,
				int channel, int8_t zero, int8_t *to)
{
	const int run = cfg->k_w * (cfg->in_c / cfg->groups);
	const int first = x * cfg->stride_w - cfg->pad_left;

	for (int i = 0; i < cfg->k_h; i++) {
		mf_conv2d_gather_run(cfg, in[i], first, channel, zero, to + i * run);
	}
}

/** @brief One output row; scratch: two windows, none if direct. */
MF_INLINE void mf_conv2d_row_s8(const struct mf_conv2d_cfg *cfg, const struct mf_conv2d_data *data,
				const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const int channels = cfg->in_c / cfg->groups;
	const int depth = cfg->k_h * cfg->k_w * channels;
	const int out_c = cfg->out_c / cfg->groups;
	const int words = mf_requant_words(cfg->rq_mode) * out_c;
	const struct mf_dot_cfg dot = {
		.block = 4,
		.depth = depth,
		.distance = cfg->direct ? cfg->stride_w * cfg->in_c : depth,
		.out_step = cfg->out_c,
		.rq = MF_REQUANT_CFG(cfg, data),
	};
	int8_t *window = scratch;

	(void)tick;
	for (int g = 0; g < cfg->groups; g++) {
		const int8_t *w = data->weights + g * depth * out_c;
		const int32_t *entry = mf_requant_entries(cfg->rq_mode, data->requant) + g * words;
		int8_t *to = out + g * out_c;
		const int8_t *x = cfg->direct ? in[0] : window;

		for (int p = 0; p < cfg->out_w; p += MF_DOT_PIXELS) {
			const int np =
				MF_DOT_PIXELS == 2 && (cfg->out_w % 2 == 0 || p + 1 < cfg->out_w)
					? 2
					: 1;

			for (int q = 0; !cfg->direct && q < np; q++) {
				mf_conv2d_gather(cfg, in, p + q, g * channels, data->in_zero,
						 window + q * depth);
			}
			if (np == 2) {
				mf_dot_pixels(&dot, x, w, entry, to, out_c, 2);
			} else {
				mf_dot_pixels(&dot, x, w, entry, to, out_c, 1);
			}
			to += MF_DOT_PIXELS * cfg->out_c;
			x += cfg->direct ? MF_DOT_PIXELS * dot.distance : 0;
		}
	}
}

#endif /* MCUFUSE_CONV2D_H_ */
