/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Fully connected layer with dual 16-bit multiplications.
 *
 *     scratch: the input values, widened as in dot_dsp.h
 */
#ifndef MCUFUSE_FULLY_CONNECTED_DSP_H_
#define MCUFUSE_FULLY_CONNECTED_DSP_H_

#include <mcufuse/dot_dsp.h>

/** @brief Shape of a fully connected layer. */
struct mf_fully_connected_dsp_cfg {
	uint32_t depth; /**< input values */
	uint16_t out_c;
	bool raw; /**< see dot_dsp.h */
	uint8_t rq_mode;
	uint8_t rq_shift;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Constants of a layer. */
struct mf_fully_connected_dsp_data {
	const int32_t *weights; /**< in the order of dot_dsp.h, blocks of 8 channels */
	const int32_t *requant; /**< entries of requant.h, one for each output channel */
	int8_t out_zero;
};

/** @brief All outputs; in[0]: the input values in memory order. */
MF_INLINE void mf_fully_connected_row_s8_dsp(const struct mf_fully_connected_dsp_cfg *cfg,
					     const struct mf_fully_connected_dsp_data *data,
					     const int8_t *const *in, int8_t *out, int tick,
					     void *scratch)
{
	const struct mf_dot_dsp_cfg dot = {
		.block = 8,
		.steps = ((int)cfg->depth + 3) / 4 * 2,
		.raw = cfg->raw,
		.rq = MF_REQUANT_CFG(cfg, data),
	};

	(void)tick;
	mf_dot_dsp_widen(scratch, in[0], in[0], cfg->depth, 1);
	mf_dot_dsp_pixels(&dot, scratch, (const uint32_t *)data->weights,
			  mf_requant_entries(cfg->rq_mode, data->requant), out, cfg->out_c, 1);
}

#endif /* MCUFUSE_FULLY_CONNECTED_DSP_H_ */
