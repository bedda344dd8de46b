/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise convolution, three columns wide, whose sizes are variables: one copy of the code
 * serves layers of any shape.
 *
 * As in depthwise_conv2d.h each channel's row is cut into strips, here of three outputs. The last strip
 * ends at the end of the row; where the width is not a multiple of three it overlaps the one before.
 */
#ifndef MCUFUSE_DEPTHWISE_CONV2D_SIZED_H_
#define MCUFUSE_DEPTHWISE_CONV2D_SIZED_H_

#include <mcufuse/requant.h>

/** Outputs of a strip. */
#define MF_DEPTHWISE_SIZED 3

/** @brief What all layers that share the code have in common. */
struct mf_depthwise_conv2d_sized_cfg {
	uint8_t stride_w;
	uint8_t rq_mode;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Shape and constants of a layer; at least four outputs a row if both its ends are padded. */
struct mf_depthwise_conv2d_sized_data {
	const int8_t *weights;  /**< [channel][k_h][3] */
	const int32_t *requant; /**< entries of requant.h, one for each channel */
	uint16_t in_c;
	uint16_t out_w;
	uint8_t k_h;
	bool pad_left;  /**< one column of padding */
	bool pad_right; /**< one column of padding that is read */
	uint8_t rq_shift;
	int8_t in_zero;
	int8_t out_zero;
};

/** @brief One strip of one channel, the first output at column @p p. */
MF_INLINE void mf_depthwise_sized_strip(const struct mf_depthwise_conv2d_sized_data *d,
					const struct mf_requant_cfg *rq, int stride,
					const int8_t *const *in, int c, const int8_t *w,
					const int32_t *entry, int8_t *out, int p, bool left,
					bool right)
{
	const int last = (MF_DEPTHWISE_SIZED - 1) * stride + 2;
	const int first = (p * stride - (d->pad_left && !left ? 1 : 0)) * d->in_c + c;
	const int32_t zero = d->in_zero;
	int32_t acc[MF_DEPTHWISE_SIZED];

	MF_UNROLL
	for (int o = 0; o < MF_DEPTHWISE_SIZED; o++) {
		acc[o] = mf_requant_start(rq, entry);
	}
	for (int i = 0; i < d->k_h; i++) {
		const int8_t *x = in[i] == NULL ? &d->in_zero : in[i] + first;
		const int step = in[i] == NULL ? 0 : d->in_c;

		MF_UNROLL
		for (int j = 0; j <= last; j++) {
			int32_t v = zero;

			if (!(left && j == 0) && !(right && j == last)) {
				v = *x;
				x += step;
			}
			MF_UNROLL
			for (int k = 0; k < 3; k++) {
				if (j >= k && (j - k) % stride == 0 &&
				    (j - k) / stride < MF_DEPTHWISE_SIZED) {
					acc[(j - k) / stride] += v * w[k];
				}
			}
		}
		w += 3;
	}
	out += p * d->in_c;
	MF_UNROLL
	for (int o = 0; o < MF_DEPTHWISE_SIZED; o++) {
		*out = (int8_t)mf_requant(rq, entry, acc[o]);
		out += d->in_c;
	}
}

/** @brief One output row. */
MF_INLINE void mf_depthwise_conv2d_sized_row_s8(const struct mf_depthwise_conv2d_sized_cfg *cfg,
						const struct mf_depthwise_conv2d_sized_data *d,
						const int8_t *const *in, int8_t *out, int tick,
						void *scratch)
{
	const struct mf_requant_cfg rq = MF_REQUANT_SIZED(cfg, d);
	const int stride = cfg->stride_w;
	const int8_t *w = d->weights;
	const int32_t *entry = mf_requant_entries(cfg->rq_mode, d->requant);

	(void)tick;
	(void)scratch;
	for (int c = 0; c < d->in_c; c++) {
		int p = 0;

		while (true) {
			const bool end = p + MF_DEPTHWISE_SIZED >= d->out_w;

			if (p == 0 && d->pad_left) {
				mf_depthwise_sized_strip(d, &rq, stride, in, c, w, entry, out, p,
							 true, false);
			} else if (end && d->pad_right) {
				mf_depthwise_sized_strip(d, &rq, stride, in, c, w, entry, out, p,
							 false, true);
			} else {
				mf_depthwise_sized_strip(d, &rq, stride, in, c, w, entry, out, p,
							 false, false);
			}
			if (end) {
				break;
			}
			p = MF_MIN(p + MF_DEPTHWISE_SIZED, d->out_w - MF_DEPTHWISE_SIZED);
		}
		w += 3 * d->k_h;
		entry += mf_requant_words(cfg->rq_mode);
		out++;
	}
}

#endif /* MCUFUSE_DEPTHWISE_CONV2D_SIZED_H_ */
