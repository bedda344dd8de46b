/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Convolution whose sizes are variables: one copy of the code serves layers of any shape.
 *
 *     scratch: windows of two pixels, alternating word by word
 */
#ifndef MCUFUSE_CONV2D_SIZED_H_
#define MCUFUSE_CONV2D_SIZED_H_

#include <mcufuse/dot.h>

/** @brief What all layers that share the code have in common. */
struct mf_conv2d_sized_cfg {
	uint8_t rq_mode;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Shape and constants of a layer: no groups, no dilation of columns. */
struct mf_conv2d_sized_data {
	const int8_t
		*weights; /**< in the order of dot.h, whole blocks of 4 channels and 4 values */
	const int32_t *requant; /**< entries of requant.h, whole blocks of 4 channels */
	uint16_t in_w;
	uint16_t in_c;
	uint16_t out_w;
	uint16_t out_c;
	uint16_t depth; /**< values of a window, up to a multiple of 4 */
	uint16_t pad_left;
	uint8_t k_h;
	uint8_t k_w;
	uint8_t stride_w;
	uint8_t rq_shift;
	int8_t in_zero;
	int8_t out_zero;
};

/** @brief Put @p n values at place @p at of a window, in words that lie @p np words apart. */
MF_UNUSED MF_NOINLINE static void mf_window_put(int8_t *window, int np, int at, const int8_t *from,
						int n, int8_t zero)
{
	if (from != NULL && ((at | n) & 3) == 0) {
		int8_t *to = window + at * np;

		for (int i = 0; i < n; i += 4) {
			memcpy(to, from + i, 4);
			to += 4 * np;
		}
		return;
	}
	for (int i = at; i < at + n; i++) {
		window[(i & ~3) * np + (i & 3)] = from != NULL ? *from++ : zero;
	}
}

/** @brief Gather the window of output pixel @p x. */
MF_UNUSED MF_NOINLINE static void mf_conv2d_window(const struct mf_conv2d_sized_data *d,
						   const int8_t *const *in, int x, int np,
						   int8_t *window)
{
	const int first = x * d->stride_w - d->pad_left;
	int at = 0;

	for (int i = 0; i < d->k_h; i++) {
		const int8_t *row = in[i];

		if (row == NULL || (first >= 0 && first + d->k_w <= d->in_w)) {
			mf_window_put(window, np, at, row != NULL ? row + first * d->in_c : NULL,
				      d->k_w * d->in_c, d->in_zero);
			at += d->k_w * d->in_c;
			continue;
		}
		for (int k = first; k < first + d->k_w; k++) {
			mf_window_put(window, np, at,
				      k < 0 || k >= d->in_w ? NULL : row + k * d->in_c, d->in_c,
				      d->in_zero);
			at += d->in_c;
		}
	}
}

/** @brief One output row. */
MF_INLINE void mf_conv2d_sized_row_s8(const struct mf_conv2d_sized_cfg *cfg,
				      const struct mf_conv2d_sized_data *d, const int8_t *const *in,
				      int8_t *out, int tick, void *scratch)
{
	const struct mf_dot_cfg dot = {
		.sized = true,
		.block = 4,
		.depth = d->depth,
		.out_step = d->out_c,
		.rq = MF_REQUANT_SIZED(cfg, d),
	};
	const int32_t *entry = mf_requant_entries(cfg->rq_mode, d->requant);
	int8_t *window = scratch;

	(void)tick;
	for (int p = 0; p < d->out_w; p += MF_DOT_PIXELS) {
		if (MF_DOT_PIXELS == 2 && p + 1 < d->out_w) {
			mf_conv2d_window(d, in, p, 2, window);
			mf_conv2d_window(d, in, p + 1, 2, window + 4);
			mf_dot_pixels(&dot, window, d->weights, entry, out, d->out_c, 2);
		} else {
			mf_conv2d_window(d, in, p, 1, window);
			mf_dot_pixels(&dot, window, d->weights, entry, out, d->out_c, 1);
		}
		out += MF_DOT_PIXELS * d->out_c;
	}
}

#endif /* MCUFUSE_CONV2D_SIZED_H_ */
