/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief bottleneck.h for cores with DSP instructions: with the depthwise for 3x3 windows, or the
 * one for any window.
 */
#ifndef MCUFUSE_BOTTLENECK_DSP_H_
#define MCUFUSE_BOTTLENECK_DSP_H_

#include <mcufuse/bottleneck.h>
#include <mcufuse/conv2d_dsp.h>
#include <mcufuse/depthwise_conv2d_dsp.h>

/** @brief Shape of a bottleneck with a 3x3 window. */
struct mf_bottleneck_dsp_cfg {
	struct mf_bottleneck_shape shape;
	struct mf_conv2d_dsp_cfg expand; /**< out_w varies */
	struct mf_depthwise_conv2d_dsp_cfg depthwise;
	struct mf_conv2d_dsp_cfg project;
};

/** @brief Constants of the three layers. */
struct mf_bottleneck_dsp_data {
	struct mf_conv2d_dsp_data expand;
	struct mf_depthwise_conv2d_dsp_data depthwise;
	struct mf_conv2d_dsp_data project;
};

/** @brief Shape of a bottleneck with any window. */
struct mf_bottleneck_any_dsp_cfg {
	struct mf_bottleneck_shape shape;
	struct mf_conv2d_dsp_cfg expand; /**< out_w varies */
	struct mf_depthwise_conv2d_cfg depthwise;
	struct mf_conv2d_dsp_cfg project;
};

/** @brief Constants of the three layers. */
struct mf_bottleneck_any_dsp_data {
	struct mf_conv2d_dsp_data expand;
	struct mf_depthwise_conv2d_data depthwise;
	struct mf_conv2d_dsp_data project;
};

/** @brief Expand the rows of a strip; @p rows receives their places, NULL for padding. */
MF_INLINE void mf_bottleneck_expand_dsp(const struct mf_bottleneck_shape *shape,
					const struct mf_bottleneck_strip *strip,
					const struct mf_conv2d_dsp_cfg *cfg,
					const struct mf_conv2d_dsp_data *data,
					const int8_t *const *in, const int8_t **rows, int tick,
					void *scratch)
{
	struct mf_conv2d_dsp_cfg expand = *cfg;

	expand.conv.out_w = (uint16_t)strip->inside;
	for (int i = 0; i < shape->k_h; i++) {
		int8_t *row = mf_bottleneck_row(shape, scratch, i);
		const int8_t *from;

		rows[i] = in[i] != NULL ? row : NULL;
		if (in[i] != NULL) {
			from = in[i] + strip->begin * shape->in_c;
			mf_conv2d_row_s8_dsp(&expand, data, &from,
					     mf_bottleneck_pad(shape, strip, row), tick, scratch);
		}
	}
}

/** @brief One output row, 3x3 window. */
MF_INLINE void mf_bottleneck_row_s8_dsp(const struct mf_bottleneck_dsp_cfg *cfg,
					const struct mf_bottleneck_dsp_data *data,
					const int8_t *const *in, int8_t *out, int tick,
					void *scratch)
{
	const struct mf_bottleneck_shape *shape = &cfg->shape;
	int8_t *filtered = mf_bottleneck_row(shape, scratch, shape->k_h);
	const int8_t *const middle = filtered;
	const int8_t *rows[MF_BOTTLENECK_ROWS];

	for (int s = 0; s < shape->strips; s++) {
		const struct mf_bottleneck_strip strip = mf_bottleneck_strip(shape, s);

		mf_bottleneck_expand_dsp(shape, &strip, &cfg->expand, &data->expand, in, rows, tick,
					 scratch);
		mf_depthwise_conv2d_row_s8_dsp(&cfg->depthwise, &data->depthwise, rows, filtered,
					       tick, scratch);
		mf_conv2d_row_s8_dsp(&cfg->project, &data->project, &middle,
				     out + strip.first * shape->out_c, tick, scratch);
	}
}

/** @brief One output row, any window. */
MF_INLINE void mf_bottleneck_any_row_s8_dsp(const struct mf_bottleneck_any_dsp_cfg *cfg,
					    const struct mf_bottleneck_any_dsp_data *data,
					    const int8_t *const *in, int8_t *out, int tick,
					    void *scratch)
{
	const struct mf_bottleneck_shape *shape = &cfg->shape;
	int8_t *filtered = mf_bottleneck_row(shape, scratch, shape->k_h);
	const int8_t *const middle = filtered;
	const int8_t *rows[MF_BOTTLENECK_ROWS];

	for (int s = 0; s < shape->strips; s++) {
		const struct mf_bottleneck_strip strip = mf_bottleneck_strip(shape, s);

		mf_bottleneck_expand_dsp(shape, &strip, &cfg->expand, &data->expand, in, rows, tick,
					 scratch);
		mf_depthwise_conv2d_row_s8(&cfg->depthwise, &data->depthwise, rows, filtered, tick,
					   scratch);
		mf_conv2d_row_s8_dsp(&cfg->project, &data->project, &middle,
				     out + strip.first * shape->out_c, tick, scratch);
	}
}

#endif /* MCUFUSE_BOTTLENECK_DSP_H_ */
