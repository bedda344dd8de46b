/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Convolution with dual 16-bit multiplications: conv2d.h for cores with DSP instructions.
 *
 *     scratch: [widened windows of two pixels, see dot_dsp.h | gathered bytes of two windows]
 *
 * Kernel rows whose length is a multiple of four are widened straight from the input row; others,
 * and those that touch padding, are gathered as bytes first.
 */
#ifndef MCUFUSE_CONV2D_DSP_H_
#define MCUFUSE_CONV2D_DSP_H_

#include <mcufuse/conv2d.h>
#include <mcufuse/dot_dsp.h>

/** @brief Shape of a convolution. */
struct mf_conv2d_dsp_cfg {
	struct mf_conv2d_cfg conv;
	bool raw; /**< see dot_dsp.h */
};

/** @brief Constants of a layer. */
struct mf_conv2d_dsp_data {
	const int32_t *weights; /**< [group] in the order of dot_dsp.h */
	const int32_t *requant; /**< entries of requant.h, one for each output channel */
	int8_t in_zero;
	int8_t out_zero;
};

/** @brief Whether kernel rows can be widened one by one. */
MF_INLINE bool mf_conv2d_dsp_by_rows(const struct mf_conv2d_cfg *cfg)
{
	return cfg->groups == 1 && cfg->dilation_w == 1 && cfg->k_w * cfg->in_c % 4 == 0;
}

/** @brief The place of a kernel row of the window that begins at column @p first. */
MF_INLINE const int8_t *mf_conv2d_dsp_run(const struct mf_conv2d_cfg *cfg, const int8_t *row,
					  int first, int8_t zero, int8_t *bytes)
{
	if (row != NULL && first >= 0 && first + cfg->k_w <= cfg->in_w) {
		return row + first * cfg->in_c;
	}
	mf_conv2d_gather_run(cfg, row, first, 0, zero, bytes);
	return bytes;
}

/** @brief Widen the windows of @p np pixels from pixel @p x on. */
MF_INLINE void mf_conv2d_dsp_windows(const struct mf_conv2d_cfg *cfg, const int8_t *const *in,
				     int x, int channel, int8_t zero, uint32_t *to, int8_t *bytes,
				     int np)
{
	const int run = cfg->k_w * (cfg->in_c / cfg->groups);
	const int first = x * cfg->stride_w - cfg->pad_left;

	if (cfg->direct) {
		const int8_t *at = in[0] + first * cfg->in_c;

		mf_dot_dsp_widen(to, at, at + cfg->stride_w * cfg->in_c, run, np);
	} else if (mf_conv2d_dsp_by_rows(cfg)) {
		for (int i = 0; i < cfg->k_h; i++) {
			const int8_t *x0 = mf_conv2d_dsp_run(cfg, in[i], first, zero, bytes);
			const int8_t *x1 =
				np > 1 ? mf_conv2d_dsp_run(cfg, in[i], first + cfg->stride_w, zero,
							   bytes + run)
				       : x0;

			to = mf_dot_dsp_widen(to, x0, x1, run, np);
		}
	} else {
		mf_conv2d_gather(cfg, in, x, channel, zero, bytes);
		if (np > 1) {
			mf_conv2d_gather(cfg, in, x + 1, channel, zero, bytes + cfg->k_h * run);
		}
		mf_dot_dsp_widen(to, bytes, bytes + cfg->k_h * run, cfg->k_h * run, np);
	}
}

/** @brief One output row. */
MF_INLINE void mf_conv2d_row_s8_dsp(const struct mf_conv2d_dsp_cfg *dsp,
				    const struct mf_conv2d_dsp_data *data, const int8_t *const *in,
				    int8_t *out, int tick, void *scratch)
{
	const struct mf_conv2d_cfg *cfg = &dsp->conv;
	const int channels = cfg->in_c / cfg->groups;
	const int depth = cfg->k_h * cfg->k_w * channels;
	const int out_c = cfg->out_c / cfg->groups;
	const struct mf_dot_dsp_cfg dot = {
		.block = 4,
		.steps = (depth + 3) / 4 * 2,
		.out_step = cfg->out_c,
		.raw = dsp->raw,
		.rq = MF_REQUANT_CFG(cfg, data),
	};
	const int weights = dot.steps * ((out_c + 1) / 2);
	const int words = mf_requant_words(cfg->rq_mode) * out_c;
	uint32_t *window = scratch;
	int8_t *bytes = (int8_t *)(window + 2 * dot.steps);

	(void)tick;
	for (int g = 0; g < cfg->groups; g++) {
		const uint32_t *w = (const uint32_t *)data->weights + g * weights;
		const int32_t *entry = mf_requant_entries(cfg->rq_mode, data->requant) + g * words;
		int8_t *to = out + g * out_c;
		int p = 0;

		for (; p + 1 < cfg->out_w; p += 2) {
			mf_conv2d_dsp_windows(cfg, in, p, g * channels, data->in_zero, window,
					      bytes, 2);
			mf_dot_dsp_pixels(&dot, window, w, entry, to, out_c, 2);
			to += 2 * cfg->out_c;
		}
		if (cfg->out_w % 2 != 0) {
			mf_conv2d_dsp_windows(cfg, in, p, g * channels, data->in_zero, window,
					      bytes, 1);
			mf_dot_dsp_pixels(&dot, window, w, entry, to, out_c, 1);
		}
	}
}

#endif /* MCUFUSE_CONV2D_DSP_H_ */
