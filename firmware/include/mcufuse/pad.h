/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Rows, columns and channels of a constant around a map.
 */
#ifndef MCUFUSE_PAD_H_
#define MCUFUSE_PAD_H_

#include <mcufuse/common.h>

/** @brief Shape in bytes; compile-time constants. */
struct mf_pad_cfg {
	int32_t pixels; /**< of an input row */
	int32_t bytes;  /**< of an input pixel */
	int32_t before; /**< in front of each pixel */
	int32_t after;  /**< behind each pixel */
	int32_t left;   /**< in front of the row */
	int32_t right;  /**< behind the row */
	int32_t value;
};

/** @brief Nothing. */
struct mf_pad_data {
	char unused;
};

/** @brief One row; @p in[0] is NULL for a row of padding. */
MF_INLINE void mf_pad_row_8(const struct mf_pad_cfg *cfg, const struct mf_pad_data *data,
			    const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const int8_t *x = in[0];
	const int32_t step = cfg->before + cfg->bytes + cfg->after;

	(void)data;
	(void)tick;
	(void)scratch;
	if (x == NULL) {
		memset(out, cfg->value, (size_t)(cfg->left + cfg->pixels * step + cfg->right));
		return;
	}
	memset(out, cfg->value, (size_t)cfg->left);
	out += cfg->left;
	if (step == cfg->bytes) {
		memcpy(out, x, (size_t)(cfg->pixels * step));
		out += cfg->pixels * step;
	} else {
		for (int32_t p = 0; p < cfg->pixels; p++) {
			memset(out, cfg->value, (size_t)cfg->before);
			memcpy(out + cfg->before, x, (size_t)cfg->bytes);
			memset(out + cfg->before + cfg->bytes, cfg->value, (size_t)cfg->after);
			out += step;
			x += cfg->bytes;
		}
	}
	memset(out, cfg->value, (size_t)cfg->right);
}

#endif /* MCUFUSE_PAD_H_ */
