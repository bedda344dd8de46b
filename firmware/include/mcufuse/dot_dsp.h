/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Pixels times channels with dual 16-bit multiplications (Armv7E-M and Armv8-M with DSP).
 *
 * Input values are widened to 16 bits in scratch memory, two to a word; the words of `np` pixels
 * alternate. A step multiplies two values of each pixel with two weights of each channel. A weight
 * word serves the channels B (even) and A (odd):
 *
 *     bits  0..7  B[k]   8..15  A[k]   16..23  B[k']   24..31  A[k']        k' = k + 2
 *
 * Spreading it for B takes one instruction. A needs none if the layer is `raw`: the halfwords of the
 * word as it is are 256 A + B, so that
 *
 *     sum(x * (256 A + B)) - sum(x * B) = 256 sum(x * A)
 *
 * modulo 2^32, exact as long as |sum(x * A)| < 2^23. Values stand in the order 0 2 1 3, 4 6 5 7 ...
 */
#ifndef MCUFUSE_DOT_DSP_H_
#define MCUFUSE_DOT_DSP_H_

#include <mcufuse/requant.h>
#include <mcufuse/steps_dsp.h>

/** Most output channels of a block. */
#define MF_DOT_DSP_CHANNELS 8

/** @brief What a layer's blocks have in common; compile-time constants. */
struct mf_dot_dsp_cfg {
	bool sized; /**< steps, out_step, rq.shift and the channels are variables, see dot.h */
	int block;  /**< output channels of a full block; even */
	int steps;  /**< pairs of values of a window, padding to a multiple of 4 values included */
	int out_step; /**< from the first pixel's output to the second's, bytes */
	bool raw;     /**< weights are packed for the subtraction, see above */
	struct mf_requant_cfg rq;
};

/** @brief Steps of the inner loop that are written out. */
MF_INLINE int mf_dot_dsp_unroll(int steps)
{
	if (steps <= 8) {
		return steps;
	}
	for (int n = 8; n >= 4; n -= 2) {
		if (steps % n == 0) {
			return n;
		}
	}
	return 4;
}

/** @brief One step of @p np pixels (words at @p x) and @p pairs channel pairs (words at @p w). */
MF_INLINE void mf_dot_dsp_step(uint32_t acc[2][MF_DOT_DSP_CHANNELS], const uint32_t *x,
			       const uint32_t *w, bool raw, int np, int pairs)
{
	MF_UNROLL
	for (int j = 0; j < pairs; j++) {
		const uint32_t b = mf_sxtb16(w[j]);
		const uint32_t a = raw ? w[j] : mf_sxtb16_ror8(w[j]);

		MF_UNROLL
		for (int p = 0; p < np; p++) {
			acc[p][2 * j + 1] = mf_smlad(x[p], a, acc[p][2 * j + 1]);
			acc[p][2 * j] = mf_smlad(x[p], b, acc[p][2 * j]);
		}
	}
}

/** @brief The inner loop; returns the next weights. */
MF_INLINE const uint32_t *mf_dot_dsp_walk(const struct mf_dot_dsp_cfg *cfg,
					  uint32_t acc[2][MF_DOT_DSP_CHANNELS], const uint32_t *x,
					  const uint32_t *w, int np, int pairs)
{
	const int unroll = cfg->sized ? 2 : mf_dot_dsp_unroll(cfg->steps);
	const int rest = cfg->sized ? 0 : cfg->steps % unroll; /* steps are even */
	const uint32_t *end = x + (cfg->steps - rest) * np;

	do {
		if (MF_HAS_STEPS && cfg->raw && np == 2 && pairs == 2) {
			MF_UNROLL
			for (int k = 0; k < unroll; k++) {
				MF_STEP_2X4(acc, x, w);
			}
		} else if (MF_HAS_STEPS && cfg->raw && np == 1 && pairs == 2 && unroll % 2 == 0) {
			MF_UNROLL
			for (int k = 0; k < unroll; k += 2) {
				MF_STEP2_1X4(acc, x, w);
			}
		} else {
			MF_UNROLL
			for (int k = 0; k < unroll; k++) {
				mf_dot_dsp_step(acc, x + k * np, w + k * pairs, cfg->raw, np,
						pairs);
			}
			x += unroll * np;
			w += unroll * pairs;
		}
	} while (x != end);
	MF_UNROLL
	for (int k = 0; k < 4; k++) {
		if (k < rest) {
			mf_dot_dsp_step(acc, x + k * np, w + k * pairs, cfg->raw, np, pairs);
		}
	}
	return w + rest * pairs;
}

/** @brief Requantize and store channel @p j of @p np pixels. */
MF_INLINE void mf_dot_dsp_store(const struct mf_requant_cfg *rq, const int32_t *entry,
				int8_t *const out[2], int j, int32_t first, int32_t second, int np)
{
	const int32_t y0 = mf_requant(rq, entry, first);
	const int32_t y1 = np > 1 ? mf_requant(rq, entry, second) : 0;

	out[0][j] = (int8_t)y0;
	if (np > 1) {
		out[1][j] = (int8_t)y1;
	}
}

/** @brief Where the sums of @p nb channels start. */
MF_INLINE void mf_dot_dsp_start(const struct mf_dot_dsp_cfg *cfg, const int32_t *entry,
				uint32_t acc[2][MF_DOT_DSP_CHANNELS], int np, int nb)
{
	const int words = mf_requant_words(cfg->rq.mode);

	MF_UNROLL
	for (int j = 0; j < (nb + 1) / 2 * 2; j++) {
		const int source = cfg->raw || j == nb ? j & ~1 : j;

		MF_UNROLL
		for (int p = 0; p < np; p++) {
			acc[p][j] = (uint32_t)mf_requant_start(&cfg->rq, entry + source * words);
		}
	}
}

/** @brief Requantize and store the sums of @p nb channels. */
MF_INLINE void mf_dot_dsp_finish(const struct mf_dot_dsp_cfg *cfg, const int32_t *entry,
				 uint32_t acc[2][MF_DOT_DSP_CHANNELS], int8_t *out, int np, int nb)
{
	const struct mf_requant_cfg rq = cfg->rq;
	const int words = mf_requant_words(rq.mode);
	int8_t *to[2] = {out, out + cfg->out_step};

	if (cfg->sized) {
		MF_KEEP(to[1]);
	}
	MF_UNROLL
	for (int j = 0; j < nb; j++) {
		int32_t sum[2];

		MF_UNROLL
		for (int p = 0; p < np; p++) {
			sum[p] = (int32_t)acc[p][j];
			if (cfg->raw && j % 2 != 0) {
				sum[p] = (int32_t)(acc[p][j] - acc[p][j - 1]) >> 8;
				sum[p] += mf_requant_start(&rq, entry + j * words);
			}
		}
		mf_dot_dsp_store(&rq, entry + j * words, to, j, sum[0], sum[np - 1], np);
	}
}

/** @brief @p np pixels times @p nb channels; returns the next weights. */
MF_INLINE const uint32_t *mf_dot_dsp_block(const struct mf_dot_dsp_cfg *cfg, const uint32_t *x,
					   const uint32_t *w, const int32_t *entry, int8_t *out,
					   int np, int nb)
{
	uint32_t acc[2][MF_DOT_DSP_CHANNELS];

	mf_dot_dsp_start(cfg, entry, acc, np, nb);
	w = mf_dot_dsp_walk(cfg, acc, x, w, np, (nb + 1) / 2);
	mf_dot_dsp_finish(cfg, entry, acc, out, np, nb);
	return w;
}

/** @brief As mf_dot_dsp_pixels() for a sized layer. */
MF_INLINE void mf_dot_dsp_pixels_sized(const struct mf_dot_dsp_cfg *cfg, const uint32_t *x,
				       const uint32_t *w, const int32_t *entry, int8_t *out,
				       int channels, int np)
{
	int8_t spare[2 * MF_DOT_DSP_CHANNELS];

	for (int c = channels; c > 0; c -= cfg->block) {
		struct mf_dot_dsp_cfg block = *cfg;
		int8_t *to = out;

		if (c < cfg->block) {
			block.out_step = cfg->block;
			to = spare;
		}
		w = mf_dot_dsp_block(&block, x, w, entry, to, np, cfg->block);
		entry += cfg->block * mf_requant_words(cfg->rq.mode);
		for (int j = 0; c < cfg->block && j < c; j++) {
			out[j] = spare[j];
			if (np > 1) {
				out[cfg->out_step + j] = spare[cfg->block + j];
			}
		}
		out += cfg->block;
	}
}

/** @brief @p np pixels times @p channels channels. */
MF_INLINE void mf_dot_dsp_pixels(const struct mf_dot_dsp_cfg *cfg, const uint32_t *x,
				 const uint32_t *w, const int32_t *entry, int8_t *out, int channels,
				 int np)
{
	const int words = mf_requant_words(cfg->rq.mode);
	const int rest = channels % cfg->block;

	MF_KEEP(x);
	MF_KEEP(w);
	MF_KEEP(entry);
	MF_KEEP(out);
	if (cfg->sized) {
		mf_dot_dsp_pixels_sized(cfg, x, w, entry, out, channels, np);
		return;
	}
	for (int c = 0; c < channels - rest; c += cfg->block) {
		w = mf_dot_dsp_block(cfg, x, w, entry, out + c, np, cfg->block);
		entry += cfg->block * words;
	}
	if (rest != 0) {
		mf_dot_dsp_block(cfg, x, w, entry, out + channels - rest, np, rest);
	}
}

/**
 * @brief Widen @p n values of @p np pixels into words; the last group of four is filled up with
 * whatever comes (its weights are zero), without reading past the values.
 */
MF_INLINE uint32_t *mf_dot_dsp_widen(uint32_t *to, const int8_t *x0, const int8_t *x1, int n,
				     int np)
{
	const int8_t *end = x0 + (n & ~3);

	while (MF_HAS_STEPS && np > 1 && x0 != end) {
		MF_WIDEN_2X4(to, x0, x1);
	}
	while (x0 != end) {
		uint32_t v0 = mf_load_u32(x0);
		uint32_t v1 = np > 1 ? mf_load_u32(x1) : 0;

		to[0] = mf_sxtb16(v0);
		to[np] = mf_sxtb16_ror8(v0);
		if (np > 1) {
			to[1] = mf_sxtb16(v1);
			to[3] = mf_sxtb16_ror8(v1);
		}
		to += 2 * np;
		x0 += 4;
		x1 += 4;
	}
	if (n % 4 != 0) {
		MF_UNROLL
		for (int p = 0; p < np; p++) {
			const int8_t *x = p == 0 ? x0 : x1;
			uint32_t even = (uint16_t)x[0];
			uint32_t odd = n % 4 > 1 ? (uint16_t)x[1] : 0;

			if (n % 4 > 2) {
				even |= (uint32_t)(int32_t)x[2] << 16;
			}
			to[p] = even;
			to[np + p] = odd;
		}
		to += 2 * np;
	}
	return to;
}

#endif /* MCUFUSE_DOT_DSP_H_ */
