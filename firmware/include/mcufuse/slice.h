/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Some columns and channels of a row.
 */
#ifndef MCUFUSE_SLICE_H_
#define MCUFUSE_SLICE_H_

#include <mcufuse/common.h>

/** @brief Shape in bytes; compile-time constants. */
struct mf_slice_cfg {
	int32_t offset;       /**< of the first element in an input row */
	int32_t pixels;       /**< of an output row */
	int32_t pixel_step;   /**< from one input pixel to the next; may be negative */
	int32_t elements;     /**< of an output pixel */
	int32_t element_step; /**< from one input element to the next; may be negative */
	int32_t element_bytes;
};

/** @brief Nothing. */
struct mf_slice_data {
	char unused;
};

/** @brief One row; if no step is negative, @p out may be the input row. */
MF_INLINE void mf_slice_row_8(const struct mf_slice_cfg *cfg, const struct mf_slice_data *data,
			      const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const int8_t *x = in[0] + cfg->offset;
	const int32_t bytes = cfg->elements * cfg->element_bytes;

	(void)data;
	(void)tick;
	(void)scratch;
	if (cfg->element_step == cfg->element_bytes) {
		if (cfg->pixel_step == bytes || cfg->pixels == 1) {
			memmove(out, x, (size_t)(cfg->pixels * bytes));
			return;
		}
		for (int32_t p = 0; p < cfg->pixels; p++) {
			memmove(out, x, (size_t)bytes);
			out += bytes;
			x += cfg->pixel_step;
		}
		return;
	}
	for (int32_t p = 0; p < cfg->pixels; p++) {
		for (int32_t i = 0; i < cfg->elements; i++) {
			memmove(out, x + i * cfg->element_step, (size_t)cfg->element_bytes);
			out += cfg->element_bytes;
		}
		x += cfg->pixel_step;
	}
}

#endif /* MCUFUSE_SLICE_H_ */
