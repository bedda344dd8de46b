/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief conv2d_dsp.h for rows of odd width: the last three pixels are done together, two channels at a
 * time, where conv2d_dsp.h does two and then one alone.
 *
 *     scratch: [widened windows of two or three pixels | gathered bytes of two windows, or of one]
 */
#ifndef MCUFUSE_CONV2D_ODD_DSP_H_
#define MCUFUSE_CONV2D_ODD_DSP_H_

#include <mcufuse/conv2d_dsp.h>

/** Pixels at the end of a row. */
#define MF_CONV2D_ODD 3

/**
 * @brief Widen @p n values into every third word; the last group of four is filled up as in
 * mf_dot_dsp_widen().
 */
MF_INLINE uint32_t *mf_conv2d_odd_widen(uint32_t *to, const int8_t *x, int n)
{
	const int8_t *end = x + (n & ~3);

	_Pragma("GCC unroll 4") while (x != end)
	{
		const uint32_t v = mf_load_u32(x);

		to[0] = mf_sxtb16(v);
		to[MF_CONV2D_ODD] = mf_sxtb16_ror8(v);
		to += 2 * MF_CONV2D_ODD;
		x += 4;
	}
	if (n % 4 != 0) {
		uint32_t words[2];

		mf_dot_dsp_widen(words, x, x, n % 4, 1);
		to[0] = words[0];
		to[MF_CONV2D_ODD] = words[1];
		to += 2 * MF_CONV2D_ODD;
	}
	return to;
}

/** @brief Widen the window of pixel @p x into every third word. */
MF_INLINE void mf_conv2d_odd_window(const struct mf_conv2d_cfg *cfg, const int8_t *const *in, int x,
				    int8_t zero, uint32_t *to, int8_t *bytes)
{
	const int run = cfg->k_w * cfg->in_c;
	const int first = x * cfg->stride_w - cfg->pad_left;

	if (cfg->direct) {
		mf_conv2d_odd_widen(to, in[0] + first * cfg->in_c, run);
	} else if (mf_conv2d_dsp_by_rows(cfg)) {
		for (int i = 0; i < cfg->k_h; i++) {
			to = mf_conv2d_odd_widen(
				to, mf_conv2d_dsp_run(cfg, in[i], first, zero, bytes), run);
		}
	} else {
		mf_conv2d_gather(cfg, in, x, 0, zero, bytes);
		mf_conv2d_odd_widen(to, bytes, cfg->k_h * run);
	}
}

/** @brief One step: the words of three pixels at @p x, the channel pair's word at @p w. */
MF_INLINE void mf_conv2d_odd_step(uint32_t acc[MF_CONV2D_ODD][2], const uint32_t *x,
				  const uint32_t *w)
{
	const uint32_t even = mf_sxtb16(*w);

	MF_UNROLL
	for (int p = 0; p < MF_CONV2D_ODD; p++) {
		acc[p][1] = mf_smlad(x[p], *w, acc[p][1]);
		acc[p][0] = mf_smlad(x[p], even, acc[p][0]);
	}
}

/** @brief Two channels of three pixels, the weights in every second word; returns where those end. */
MF_INLINE const uint32_t *mf_conv2d_odd_pair(const struct mf_dot_dsp_cfg *cfg, const uint32_t *x,
					     const uint32_t *w, const int32_t *entry, int8_t *out)
{
	const int words = mf_requant_words(cfg->rq.mode);
	const uint32_t *end = x + cfg->steps * MF_CONV2D_ODD;
	uint32_t acc[MF_CONV2D_ODD][2];

	MF_UNROLL
	for (int p = 0; p < MF_CONV2D_ODD; p++) {
		acc[p][0] = (uint32_t)mf_requant_start(&cfg->rq, entry);
		acc[p][1] = acc[p][0];
	}
	if (MF_HAS_STEPS && cfg->steps % 8 == 0) {
		MF_WALK_3X2(acc, x, w, end, MF_STEP4_3X2 MF_STEP4_3X2);
	} else if (MF_HAS_STEPS) {
		MF_WALK_3X2(acc, x, w, end, MF_STEP4_3X2);
	}
	for (; !MF_HAS_STEPS && x != end; x += MF_CONV2D_ODD) {
		mf_conv2d_odd_step(acc, x, w);
		w += 2;
	}
	MF_UNROLL
	for (int p = 0; p < MF_CONV2D_ODD; p++) {
		acc[p][1] = (uint32_t)((int32_t)(acc[p][1] - acc[p][0]) >> 8);
		acc[p][1] += (uint32_t)mf_requant_start(&cfg->rq, entry + words);
	}
	MF_UNROLL
	for (int j = 0; j < 2; j++) {
		MF_UNROLL
		for (int p = 0; p < MF_CONV2D_ODD; p++) {
			acc[p][j] = (uint32_t)mf_requant(&cfg->rq, entry + j * words,
							 (int32_t)acc[p][j]);
		}
		MF_UNROLL
		for (int p = 0; p < MF_CONV2D_ODD; p++) {
			out[p * cfg->out_step + j] = (int8_t)acc[p][j];
		}
	}
	return w;
}

/** @brief Three pixels times all channels. */
MF_INLINE void mf_conv2d_odd_pixels(const struct mf_dot_dsp_cfg *cfg, const uint32_t *x,
				    const uint32_t *w, const int32_t *entry, int8_t *out)
{
	MF_KEEP(x);
	MF_KEEP(w);
	MF_KEEP(entry);
	MF_KEEP(out);
	for (int c = 0; c < cfg->out_step; c += 2) {
		w = mf_conv2d_odd_pair(cfg, x, w, entry, out);
		w -= c % 4 == 0 ? 2 * cfg->steps - 1 : 1;
		entry += 2 * mf_requant_words(cfg->rq.mode);
		out += 2;
	}
}

/** @brief One output row; raw weights, one group, a multiple of four channels. */
MF_INLINE void mf_conv2d_odd_row_s8_dsp(const struct mf_conv2d_cfg *cfg,
					const struct mf_conv2d_dsp_data *data,
					const int8_t *const *in, int8_t *out, int tick,
					void *scratch)
{
	const int depth = cfg->k_h * cfg->k_w * cfg->in_c;
	const struct mf_dot_dsp_cfg dot = {
		.block = 4,
		.steps = (depth + 3) / 4 * 2,
		.out_step = cfg->out_c,
		.raw = true,
		.rq = MF_REQUANT_CFG(cfg, data),
	};
	const int32_t *entry = mf_requant_entries(cfg->rq_mode, data->requant);
	const uint32_t *w = (const uint32_t *)data->weights;
	uint32_t *window = scratch;
	int p = 0;

	(void)tick;
	for (; p + MF_CONV2D_ODD < cfg->out_w; p += 2) {
		mf_conv2d_dsp_windows(cfg, in, p, 0, data->in_zero, window,
				      (int8_t *)(window + 2 * dot.steps), 2);
		mf_dot_dsp_pixels(&dot, window, w, entry, out, cfg->out_c, 2);
		out += 2 * cfg->out_c;
	}
	for (int i = 0; i < MF_CONV2D_ODD; i++) {
		mf_conv2d_odd_window(cfg, in, p + i, data->in_zero, window + i,
				     (int8_t *)(window + MF_CONV2D_ODD * dot.steps));
	}
	mf_conv2d_odd_pixels(&dot, window, w, entry, out);
}

#endif /* MCUFUSE_CONV2D_ODD_DSP_H_ */
