/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise convolution, one output row at a time.
 *
 * For each channel the row is cut into strips of neighbouring outputs. In a strip every input value
 * is loaded once and serves all outputs that it belongs to:
 *
 *     left strip | strip | ... | strip | right strip
 *
 * The outer strips know at compile time which columns are padding; those count as the zero point,
 * since the weights' sum times the zero point is part of the bias.
 */
#ifndef MCUFUSE_DEPTHWISE_CONV2D_H_
#define MCUFUSE_DEPTHWISE_CONV2D_H_

#include <mcufuse/requant.h>

/** Most outputs of a strip. */
#define MF_DEPTHWISE_STRIP 6

#define MF_DEPTHWISE_UNROLL _Pragma("GCC unroll 32")

/** @brief Shape of a depthwise convolution. */
struct mf_depthwise_conv2d_cfg {
	uint16_t in_w;
	uint16_t in_c;
	uint16_t out_w;
	uint16_t multiplier; /**< output channels for each input channel */
	uint16_t pad_left;
	uint8_t k_h;
	uint8_t k_w;
	uint8_t stride_w;
	uint8_t dilation_w;
	uint8_t strip; /**< outputs of a strip */
	uint8_t rq_mode;
	uint8_t rq_shift;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Constants of a layer. */
struct mf_depthwise_conv2d_data {
	const int8_t *weights;  /**< [output channel][k_h][k_w] */
	const int32_t *requant; /**< entries of requant.h, one for each output channel */
	int8_t in_zero;
	int8_t out_zero;
};

/**
 * @brief One kernel row's share of @p n outputs, the first of which begins at column @p first.
 *
 * @param row the input row, from the channel on
 * @param inside whether all columns are known to be in the map
 */
MF_INLINE void mf_depthwise_taps(const struct mf_depthwise_conv2d_cfg *cfg, int32_t *acc,
				 const int8_t *row, const int8_t *w, int32_t zero, int first, int n,
				 bool inside)
{
	const int last = (n - 1) * cfg->stride_w + (cfg->k_w - 1) * cfg->dilation_w;

	MF_DEPTHWISE_UNROLL
	for (int j = 0; j <= last; j++) {
		const int x = first + j;
		const int32_t v = inside || (x >= 0 && x < cfg->in_w) ? row[x * cfg->in_c] : zero;

		MF_DEPTHWISE_UNROLL
		for (int k = 0; k < cfg->k_w; k++) {
			const int o = j - k * cfg->dilation_w;

			if (o >= 0 && o % cfg->stride_w == 0 && o / cfg->stride_w < n) {
				acc[o / cfg->stride_w] += v * w[k];
			}
		}
	}
}

/** @brief A kernel row that is padding. */
MF_INLINE void mf_depthwise_padding(const struct mf_depthwise_conv2d_cfg *cfg, int32_t *acc,
				    const int8_t *w, int32_t zero, int n)
{
	int32_t sum = 0;

	for (int k = 0; k < cfg->k_w; k++) {
		sum += w[k];
	}
	MF_UNROLL
	for (int o = 0; o < n; o++) {
		acc[o] += zero * sum;
	}
}

/** @brief @p n neighbouring outputs of one channel, the first at column @p p. */
MF_INLINE void mf_depthwise_strip(const struct mf_depthwise_conv2d_cfg *cfg,
				  const struct mf_requant_cfg *rq, int32_t zero,
				  const int8_t *const *in, int channel, const int8_t *w,
				  const int32_t *entry, int8_t *out, int p, int n, bool inside)
{
	const int first = p * cfg->stride_w - cfg->pad_left;
	const int step = cfg->in_c * cfg->multiplier;
	int32_t acc[MF_DEPTHWISE_STRIP];

	MF_UNROLL
	for (int o = 0; o < n; o++) {
		acc[o] = mf_requant_start(rq, entry);
	}
	for (int i = 0; i < cfg->k_h; i++) {
		const int8_t *row = in[i];

		if (row == NULL) {
			mf_depthwise_padding(cfg, acc, w, zero, n);
		} else {
			row += channel;
			MF_KEEP(row);
			mf_depthwise_taps(cfg, acc, row, w, zero, first, n, inside);
		}
		w += cfg->k_w;
	}
	MF_UNROLL
	for (int o = 0; o < n; o++) {
		out[(p + o) * step] = (int8_t)mf_requant(rq, entry, acc[o]);
	}
}

/** @brief One output row. */
MF_INLINE void mf_depthwise_conv2d_row_s8(const struct mf_depthwise_conv2d_cfg *cfg,
					  const struct mf_depthwise_conv2d_data *data,
					  const int8_t *const *in, int8_t *out, int tick,
					  void *scratch)
{
	const struct mf_requant_cfg rq = MF_REQUANT_CFG(cfg, data);
	const int n = cfg->strip < cfg->out_w ? cfg->strip : cfg->out_w;
	const int last = (cfg->out_w - 1) / n * n;
	const int reach = (last - 1) * cfg->stride_w + (cfg->k_w - 1) * cfg->dilation_w;
	/* padding only ever in the outer strips */
	const bool narrow = n * cfg->stride_w >= cfg->pad_left && reach - cfg->pad_left < cfg->in_w;
	const int8_t *w = data->weights;
	const int32_t *entry = mf_requant_entries(cfg->rq_mode, data->requant);

	(void)tick;
	(void)scratch;
	MF_KEEP(w);
	MF_KEEP(entry);
	MF_KEEP(out);
	for (int c = 0; c < cfg->in_c; c++) {
		for (int m = 0; m < cfg->multiplier; m++) {
			mf_depthwise_strip(cfg, &rq, data->in_zero, in, c, w, entry, out, 0, n,
					   false);
			for (int p = n; p < last; p += n) {
				mf_depthwise_strip(cfg, &rq, data->in_zero, in, c, w, entry, out, p,
						   n, narrow);
			}
			if (last > 0) {
				mf_depthwise_strip(cfg, &rq, data->in_zero, in, c, w, entry, out,
						   last, cfg->out_w - last, false);
			}
			w += cfg->k_h * cfg->k_w;
			entry += mf_requant_words(rq.mode);
			out++;
		}
	}
}

#endif /* MCUFUSE_DEPTHWISE_CONV2D_H_ */
