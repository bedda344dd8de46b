/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise 3x3 convolution with dual 16-bit multiplications, strides 1 and 2.
 *
 * For each channel the row is walked once from left to right. A column of the window is a pair, rows
 * 0 and 1 in one word, and the value of row 2; it is loaded once and serves every output that it
 * belongs to. Two accumulators are open at a time:
 *
 *     column x:   output x - 2 <- tap 2, done    output x - 1 <- tap 1    output x <- tap 0
 *
 * A row that is padding is replaced by one that is not and its weights by 0; what it contributes,
 * zero point times weights, is added at the start.
 */
#ifndef MCUFUSE_DEPTHWISE_CONV2D_DSP_H_
#define MCUFUSE_DEPTHWISE_CONV2D_DSP_H_

#include <mcufuse/requant.h>

#define MF_DEPTHWISE_STRIP_DSP 6
/** Outputs of a strip of wider rows. */
#define MF_DEPTHWISE_WIDE_DSP  4

/** @brief Shape of a depthwise 3x3 convolution. */
struct mf_depthwise_conv2d_dsp_cfg {
	uint16_t in_c;
	uint16_t out_w;
	uint8_t stride_w; /**< 1 or 2 */
	int8_t in_zero;
	bool pad_left;  /**< one column of padding */
	bool pad_right; /**< one column of padding that is read */
	uint8_t rq_mode;
	uint8_t rq_shift;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Constants of a layer. */
struct mf_depthwise_conv2d_dsp_data {
	/** For each channel the weights w[row][column] as bytes: 00 01 10 11, 02 20 12 21;
	 * then 22 as a halfword and 0.
	 */
	const int32_t *weights;
	const int32_t *requant; /**< entries of requant.h */
	int8_t out_zero;
};

/** @brief Rows that are padding: masks of a channel's weight words. */
struct mf_depthwise_keep {
	bool all; /**< none is padding */
	uint32_t words[3];
};

/** @brief The rows of a window. */
struct mf_depthwise_rows {
	const int8_t *at[3]; /**< one that is not padding in place of each that is */
	struct mf_depthwise_keep keep;
};

/** @brief Find the rows to read. */
MF_UNUSED static void mf_depthwise_rows(const int8_t *const *in, struct mf_depthwise_rows *rows)
{
	const int8_t *any = in[1] != NULL ? in[1] : in[0] != NULL ? in[0] : in[2];
	struct mf_depthwise_keep keep = {true, {UINT32_MAX, UINT32_MAX, UINT32_MAX}};

	MF_UNROLL
	for (int i = 0; i < 3; i++) {
		rows->at[i] = in[i] != NULL ? in[i] : any;
		if (in[i] == NULL) {
			keep.all = false;
			keep.words[0] &= i == 0 ? 0xffff0000u : i == 1 ? 0x0000ffffu : 0xffffffffu;
			keep.words[1] &= i == 0 ? 0xffffff00u : i == 1 ? 0xff00ffffu : 0x00ff00ffu;
			keep.words[2] &= i == 2 ? 0 : 0xffffffffu;
		}
	}
	rows->keep = keep;
}

/**
 * @brief Take the weights of padded rows out of @p w.
 *
 * @return the start value, padding's contribution included
 */
MF_UNUSED static uint32_t mf_depthwise_pad_rows(const struct mf_depthwise_keep *keep, uint32_t w[3],
						uint32_t zeros, uint32_t start)
{
	MF_UNROLL
	for (int i = 0; i < 2; i++) {
		const uint32_t out = w[i] & ~keep->words[i];

		start = mf_smlad(mf_sxtb16(out), zeros, start);
		start = mf_smlad(mf_sxtb16_ror8(out), zeros, start);
		w[i] &= keep->words[i];
	}
	start = mf_smlad(w[2] & ~keep->words[2], zeros, start);
	w[2] &= keep->words[2];
	return start;
}

/** @brief Where the outputs of a strip lie. */
struct mf_depthwise_strip {
	int n;      /**< outputs */
	bool left;  /**< the first column is padding */
	bool right; /**< the last column is padding */
};

/** @brief The word of rows 0 and 1 at column @p j of a strip, or the value of row 2. */
MF_INLINE uint32_t mf_depthwise_column(const struct mf_depthwise_conv2d_dsp_cfg *cfg,
				       const struct mf_depthwise_strip *strip, const int8_t *first,
				       const int8_t *second, bool pair, int j)
{
	const int x = (j - (strip->left ? 1 : 0)) * cfg->in_c;
	const int last = (strip->n - 1) * cfg->stride_w + 2;
	const uint32_t zero = (uint32_t)(int32_t)cfg->in_zero;

	if ((strip->left && j == 0) || (strip->right && j == last)) {
		return pair ? mf_pack_constant(zero) : zero;
	}
	return pair ? mf_pack_halves((uint32_t)first[x], (uint32_t)second[x]) : (uint32_t)first[x];
}

/** @brief Add the products of rows 0 and 1 of a strip. */
MF_INLINE void mf_depthwise_first_rows(const struct mf_depthwise_conv2d_dsp_cfg *cfg,
				       const struct mf_depthwise_strip *strip, const uint32_t *w,
				       const int8_t *first, const int8_t *second, uint32_t *sum)
{
	const uint32_t taps[3] = {mf_sxtb16(w[0]), mf_sxtb16_ror8(w[0]), mf_sxtb16(w[1])};

	MF_UNROLL
	for (int j = 0; j < (strip->n - 1) * cfg->stride_w + 3; j++) {
		uint32_t column;

		MF_IN_ORDER();
		column = mf_depthwise_column(cfg, strip, first, second, true, j);
		MF_UNROLL
		for (int k = 0; k < 3; k++) {
			if (j >= k && (j - k) % cfg->stride_w == 0 &&
			    (j - k) / cfg->stride_w < strip->n) {
				const int o = (j - k) / cfg->stride_w;

				sum[o] = mf_smlad(column, taps[k], sum[o]);
			}
		}
	}
}

/** @brief Add the products of row 2 of a strip. */
MF_INLINE void mf_depthwise_last_row(const struct mf_depthwise_conv2d_dsp_cfg *cfg,
				     const struct mf_depthwise_strip *strip, const uint32_t *w,
				     const int8_t *row, uint32_t *sum)
{
	const uint32_t taps01 = mf_sxtb16_ror8(w[1]);
	const uint32_t tap2 = w[2];

	MF_UNROLL
	for (int j = 0; j < (strip->n - 1) * cfg->stride_w + 3; j++) {
		uint32_t column;

		MF_IN_ORDER();
		column = mf_depthwise_column(cfg, strip, row, row, false, j);
		MF_UNROLL
		for (int k = 0; k < 3; k++) {
			if (j >= k && (j - k) % cfg->stride_w == 0 &&
			    (j - k) / cfg->stride_w < strip->n) {
				const int o = (j - k) / cfg->stride_w;

				sum[o] = k == 0   ? mf_smlabb(column, taps01, sum[o])
					 : k == 1 ? mf_smlabt(column, taps01, sum[o])
						  : mf_smlabb(column, tap2, sum[o]);
			}
		}
	}
}

/** @brief One strip of one channel; rows are given from its first column (that is not padding) on. */
MF_INLINE void mf_depthwise_strip_dsp(const struct mf_depthwise_conv2d_dsp_cfg *cfg,
				      const struct mf_requant_cfg *rq,
				      const struct mf_depthwise_strip *strip, const uint32_t *w,
				      uint32_t start, const int8_t *const row[3],
				      const int32_t *entry, int8_t *out)
{
	uint32_t sum[MF_DEPTHWISE_STRIP_DSP];

	MF_UNROLL
	for (int o = 0; o < strip->n; o++) {
		sum[o] = start;
	}
	mf_depthwise_first_rows(cfg, strip, w, row[0], row[1], sum);
	mf_depthwise_last_row(cfg, strip, w, row[2], sum);
	MF_IN_ORDER();
	MF_UNROLL
	for (int o = 0; o < strip->n; o++) {
		sum[o] = (uint32_t)mf_requant(rq, entry, (int32_t)sum[o]);
	}
	MF_UNROLL
	for (int o = 0; o < strip->n; o++) {
		out[o * cfg->in_c] = (int8_t)sum[o];
	}
}

/** @brief One row of one channel. */
MF_INLINE void mf_depthwise_walk(const struct mf_depthwise_conv2d_dsp_cfg *cfg,
				 const struct mf_requant_cfg *rq, const uint32_t *w, uint32_t start,
				 const int8_t *const row[3], const int32_t *entry, int8_t *out)
{
	const int n = cfg->out_w <= MF_DEPTHWISE_STRIP_DSP ? cfg->out_w : MF_DEPTHWISE_WIDE_DSP;
	const int last = (cfg->out_w - 1) / n * n;
	const struct mf_depthwise_strip left = {n, cfg->pad_left, cfg->pad_right && last == 0};
	const struct mf_depthwise_strip inner = {n, false, false};
	const struct mf_depthwise_strip right = {cfg->out_w - last, false, cfg->pad_right};
	const int first = cfg->pad_left ? cfg->in_c : 0;
	const int8_t *at[3] = {row[0], row[1], row[2]};

	mf_depthwise_strip_dsp(cfg, rq, &left, w, start, at, entry, out);
	for (int p = n; p < cfg->out_w; p += n) {
		out += n * cfg->in_c;
		MF_UNROLL
		for (int i = 0; i < 3; i++) {
			at[i] += n * cfg->stride_w * cfg->in_c - (p == n ? first : 0);
		}
		if (p < last) {
			mf_depthwise_strip_dsp(cfg, rq, &inner, w, start, at, entry, out);
		}
	}
	if (last > 0) {
		mf_depthwise_strip_dsp(cfg, rq, &right, w, start, at, entry, out);
	}
}

/** @brief One output row. */
MF_INLINE void mf_depthwise_conv2d_row_s8_dsp(const struct mf_depthwise_conv2d_dsp_cfg *cfg,
					      const struct mf_depthwise_conv2d_dsp_data *data,
					      const int8_t *const *in, int8_t *out, int tick,
					      void *scratch)
{
	const struct mf_requant_cfg rq = MF_REQUANT_CFG(cfg, data);
	const uint32_t zeros = mf_pack_constant((uint32_t)(int32_t)cfg->in_zero);
	struct mf_depthwise_rows rows;
	const int8_t *row[3];
	bool whole;
	const uint32_t *w = (const uint32_t *)data->weights;
	const int32_t *entry = mf_requant_entries(cfg->rq_mode, data->requant);

	(void)tick;
	(void)scratch;
	MF_KEEP(w);
	MF_KEEP(entry);
	MF_KEEP(out);
	mf_depthwise_rows(in, &rows);
	whole = rows.keep.all;
	MF_UNROLL
	for (int i = 0; i < 3; i++) {
		row[i] = rows.at[i];
	}
	for (int c = 0; c < cfg->in_c; c++) {
		uint32_t start = (uint32_t)mf_requant_start(&rq, entry);
		uint32_t masked[3];
		const uint32_t *taps = w;

		if (!whole) {
			memcpy(masked, w, sizeof(masked));
			start = mf_depthwise_pad_rows(&rows.keep, masked, zeros, start);
			taps = masked;
		}
		mf_depthwise_walk(cfg, &rq, taps, start, row, entry, out);
		MF_UNROLL
		for (int i = 0; i < 3; i++) {
			row[i]++;
		}
		w += 3;
		entry += mf_requant_words(rq.mode);
		out++;
	}
}

#endif /* MCUFUSE_DEPTHWISE_CONV2D_DSP_H_ */
