/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Fully connected layer: one tick computes the whole output.
 */
#ifndef MCUFUSE_FULLY_CONNECTED_H_
#define MCUFUSE_FULLY_CONNECTED_H_

#include <mcufuse/dot.h>

/** @brief Shape of a fully connected layer. */
struct mf_fully_connected_cfg {
	uint32_t depth; /**< input values */
	uint16_t out_c;
	uint8_t rq_mode;
	uint8_t rq_shift;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Constants of a layer. */
struct mf_fully_connected_data {
	const int8_t *weights;  /**< in the order of dot.h, blocks of 8 channels */
	const int32_t *requant; /**< entries of requant.h, one for each output channel */
	int8_t out_zero;
};

/** @brief All outputs; in[0]: the input values in memory order. */
MF_INLINE void mf_fully_connected_row_s8(const struct mf_fully_connected_cfg *cfg,
					 const struct mf_fully_connected_data *data,
					 const int8_t *const *in, int8_t *out, int tick,
					 void *scratch)
{
	const struct mf_dot_cfg dot = {
		.block = 8,
		.depth = cfg->depth,
		.rq = MF_REQUANT_CFG(cfg, data),
	};

	(void)tick;
	(void)scratch;
	mf_dot_pixels(&dot, in[0], data->weights, mf_requant_entries(cfg->rq_mode, data->requant),
		      out, cfg->out_c, 1);
}

#endif /* MCUFUSE_FULLY_CONNECTED_H_ */
