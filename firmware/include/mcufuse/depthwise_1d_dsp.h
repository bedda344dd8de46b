/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise convolution one column wide with dual 16-bit multiplications: one copy of the code
 * serves layers of any shape.
 *
 * Four channels and two rows of the window at a time. The words of the rows are sorted into halves before
 * they are widened, so that each halfword pair holds both rows of one channel:
 *
 *     a0 a1 a2 a3     a0 a1 b0 b1     a0 b0, a1 b1
 *     b0 b1 b2 b3     a2 a3 b2 b3     a2 b2, a3 b3
 *
 * Where the channels are not a multiple of four, the last block overlaps the one before.
 */
#ifndef MCUFUSE_DEPTHWISE_1D_DSP_H_
#define MCUFUSE_DEPTHWISE_1D_DSP_H_

#include <mcufuse/requant.h>
#include <mcufuse/steps_dsp.h>

/** Channels of a block. */
#define MF_DEPTHWISE_1D_BLOCK 4

/** @brief What all layers that share the code have in common. */
struct mf_depthwise_1d_dsp_cfg {
	bool pad; /**< some windows reach beyond the map */
	uint8_t rq_mode;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Shape and constants of a layer; at least four channels. */
struct mf_depthwise_1d_dsp_data {
	/** For each block and two rows of the window its weights w[row][channel] as bytes:
	 * 00 01 10 11, 02 03 12 13; after an odd number of rows one of zeros.
	 */
	const int32_t *weights;
	const int32_t *requant; /**< entries of requant.h, one for each channel */
	uint16_t in_c;
	uint16_t out_w;
	uint8_t k_h;
	uint8_t stride_w;
	uint8_t rq_shift;
	int8_t in_zero;
	int8_t out_zero;
};

/** @brief Four values of a row at @p offset; @p zeros if the row is padding. */
MF_INLINE uint32_t mf_depthwise_1d_load(const int8_t *row, int offset, bool pad, uint32_t zeros)
{
	return pad && row == NULL ? zeros : mf_load_u32(row + offset);
}

/** @brief Two rows (values @p a and @p b) times their weights at @p w. */
MF_INLINE void mf_depthwise_1d_rows(uint32_t acc[MF_DEPTHWISE_1D_BLOCK], uint32_t a, uint32_t b,
				    const uint32_t *w)
{
	const uint32_t low = mf_pack_halves(a, b);
	const uint32_t high = mf_pack_high_halves(a, b);

	acc[0] = mf_smlad(mf_sxtb16(low), mf_sxtb16(w[0]), acc[0]);
	acc[1] = mf_smlad(mf_sxtb16_ror8(low), mf_sxtb16_ror8(w[0]), acc[1]);
	acc[2] = mf_smlad(mf_sxtb16(high), mf_sxtb16(w[1]), acc[2]);
	acc[3] = mf_smlad(mf_sxtb16_ror8(high), mf_sxtb16_ror8(w[1]), acc[3]);
}

/** @brief Four channels of one output, read from the rows at @p offset; returns the next weights. */
MF_INLINE const uint32_t *mf_depthwise_1d_block(const struct mf_depthwise_1d_dsp_cfg *cfg,
						const struct mf_depthwise_1d_dsp_data *d,
						const struct mf_requant_cfg *rq,
						const int8_t *const *in, int offset,
						const uint32_t *w, const int32_t *entry,
						int8_t *out)
{
	const uint32_t zeros = (uint8_t)d->in_zero * 0x01010101u;
	const int words = mf_requant_words(rq->mode);
	const int8_t *const *end = in + (d->k_h & ~1);
	uint32_t acc[MF_DEPTHWISE_1D_BLOCK];

	MF_UNROLL
	for (int j = 0; j < MF_DEPTHWISE_1D_BLOCK; j++) {
		acc[j] = (uint32_t)mf_requant_start(rq, entry + j * words);
	}
	while (MF_HAS_STEPS && !cfg->pad && in != end) {
		MF_STEP_1D(acc, in, offset, w);
	}
	while (in != end) {
		const uint32_t a = mf_depthwise_1d_load(in[0], offset, cfg->pad, zeros);
		const uint32_t b = mf_depthwise_1d_load(in[1], offset, cfg->pad, zeros);

		mf_depthwise_1d_rows(acc, a, b, w);
		in += 2;
		w += 2;
	}
	if (d->k_h % 2 != 0) {
		mf_depthwise_1d_rows(acc, mf_depthwise_1d_load(in[0], offset, cfg->pad, zeros), 0,
				     w);
		w += 2;
	}
	MF_UNROLL
	for (int j = 0; j < MF_DEPTHWISE_1D_BLOCK; j++) {
		out[j] = (int8_t)mf_requant(rq, entry + j * words, (int32_t)acc[j]);
	}
	return w;
}

/** @brief One output row. */
MF_INLINE void mf_depthwise_1d_row_s8_dsp(const struct mf_depthwise_1d_dsp_cfg *cfg,
					  const struct mf_depthwise_1d_dsp_data *data,
					  const int8_t *const *in, int8_t *out, int tick,
					  void *scratch)
{
	const struct mf_depthwise_1d_dsp_data d = *data; /* stores to `out` cannot change it */
	const struct mf_requant_cfg rq = MF_REQUANT_SIZED(cfg, &d);
	const int32_t *entries = mf_requant_entries(cfg->rq_mode, d.requant);
	const int words = mf_requant_words(cfg->rq_mode);
	const int last = d.in_c - MF_DEPTHWISE_1D_BLOCK;

	(void)tick;
	(void)scratch;
	for (int p = 0; p < d.out_w; p++) {
		const uint32_t *w = (const uint32_t *)d.weights;
		const int from = p * d.stride_w * d.in_c;

		for (int c = 0;; c = MF_MIN(c + MF_DEPTHWISE_1D_BLOCK, last)) {
			w = mf_depthwise_1d_block(cfg, &d, &rq, in, from + c, w,
						  entries + c * words, out + c);
			if (c == last) {
				break;
			}
		}
		out += d.in_c;
	}
}

#endif /* MCUFUSE_DEPTHWISE_1D_DSP_H_ */
