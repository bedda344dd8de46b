/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Fully connected layer with dual 16-bit multiplications.
 *
 * As one pixel of dot_dsp.h, but the input is widened on the way: with eight channels a block that costs
 * three instructions of 31, and no memory.
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

/** @brief Two steps with the four values at @p x; returns the next weights. */
MF_INLINE const uint32_t *mf_fully_connected_group(uint32_t acc[2][MF_DOT_DSP_CHANNELS],
						   const int8_t *x, const uint32_t *w, int n,
						   bool raw, int pairs)
{
	uint32_t words[2];

	mf_dot_dsp_widen(words, x, x, n, 1);
	mf_dot_dsp_step(acc, &words[0], w, raw, 1, pairs);
	mf_dot_dsp_step(acc, &words[1], w + pairs, raw, 1, pairs);
	return w + 2 * pairs;
}

/** @brief @p nb channels; returns the next weights. */
MF_INLINE const uint32_t *mf_fully_connected_block(const struct mf_fully_connected_dsp_cfg *cfg,
						   const struct mf_requant_cfg *rq, const int8_t *x,
						   const uint32_t *w, const int32_t *entry,
						   int8_t *out, int nb)
{
	const struct mf_dot_dsp_cfg dot = {.raw = cfg->raw, .rq = *rq};
	const int8_t *end = x + (cfg->depth & ~3u);
	const int pairs = (nb + 1) / 2;
	uint32_t acc[2][MF_DOT_DSP_CHANNELS];

	mf_dot_dsp_start(&dot, entry, acc, 1, nb);
	if (cfg->depth >= 4) {
		do {
			if (MF_HAS_STEPS && cfg->raw && pairs == 4) {
				MF_STEP2_1X8(acc, x, w);
				if (cfg->depth % 8 == 0) {
					MF_STEP2_1X8(acc, x, w);
				}
			} else {
				w = mf_fully_connected_group(acc, x, w, 4, cfg->raw, pairs);
				x += 4;
			}
		} while (x != end);
	}
	if (cfg->depth % 4 != 0) {
		w = mf_fully_connected_group(acc, x, w, cfg->depth % 4, cfg->raw, pairs);
	}
	mf_dot_dsp_finish(&dot, entry, acc, out, 1, nb);
	return w;
}

/** @brief All outputs; in[0]: the input values in memory order. */
MF_INLINE void mf_fully_connected_row_s8_dsp(const struct mf_fully_connected_dsp_cfg *cfg,
					     const struct mf_fully_connected_dsp_data *data,
					     const int8_t *const *in, int8_t *out, int tick,
					     void *scratch)
{
	const struct mf_requant_cfg rq = MF_REQUANT_CFG(cfg, data);
	const int32_t *entry = mf_requant_entries(cfg->rq_mode, data->requant);
	const uint32_t *w = (const uint32_t *)data->weights;
	const int rest = cfg->out_c % MF_DOT_DSP_CHANNELS;
	const int8_t *x = in[0];

	(void)tick;
	(void)scratch;
	MF_KEEP(x);
	MF_KEEP(w);
	MF_KEEP(entry);
	MF_KEEP(out);
	for (int c = 0; c < cfg->out_c - rest; c += MF_DOT_DSP_CHANNELS) {
		w = mf_fully_connected_block(cfg, &rq, x, w, entry, out + c, MF_DOT_DSP_CHANNELS);
		entry += MF_DOT_DSP_CHANNELS * mf_requant_words(cfg->rq_mode);
	}
	if (rest != 0) {
		mf_fully_connected_block(cfg, &rq, x, w, entry, out + cfg->out_c - rest, rest);
	}
}

#endif /* MCUFUSE_FULLY_CONNECTED_DSP_H_ */
