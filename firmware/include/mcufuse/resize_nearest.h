/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Nearest-neighbour resizing: each output pixel is a copy of an input pixel.
 */
#ifndef MCUFUSE_RESIZE_NEAREST_H_
#define MCUFUSE_RESIZE_NEAREST_H_

#include <mcufuse/common.h>

/** @brief Shape; compile-time constants. */
struct mf_resize_nearest_cfg {
	int32_t out_w;
	int32_t bytes;   /**< of a pixel */
	int32_t repeats; /**< > 0: each input pixel this often, in order; 0: by @c columns */
};

/** @brief Constants of one layer. */
struct mf_resize_nearest_data {
	const int16_t *columns; /**< input column of each output column; NULL if unused */
};

/** @brief One row. */
MF_INLINE void mf_resize_nearest_row_8(const struct mf_resize_nearest_cfg *cfg,
				       const struct mf_resize_nearest_data *data,
				       const int8_t *const *in, int8_t *out, int tick,
				       void *scratch)
{
	const int8_t *x = in[0];

	(void)tick;
	(void)scratch;
	if (cfg->repeats > 0) {
		for (int32_t w = 0; w < cfg->out_w; w += cfg->repeats) {
			MF_UNROLL
			for (int32_t k = 0; k < cfg->repeats; k++) {
				memcpy(out, x, (size_t)cfg->bytes);
				out += cfg->bytes;
			}
			x += cfg->bytes;
		}
		return;
	}
	for (int32_t w = 0; w < cfg->out_w; w++) {
		memcpy(out, x + data->columns[w] * cfg->bytes, (size_t)cfg->bytes);
		out += cfg->bytes;
	}
}

#endif /* MCUFUSE_RESIZE_NEAREST_H_ */
