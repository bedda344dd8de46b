/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise 3x3 convolution whose sizes are variables, with dual 16-bit multiplications: one copy of
 * the code serves layers of any shape, strides 1 and 2.
 *
 * For each channel the row is walked once from left to right. A column of the window is a pair, rows 0 and 1
 * in one word, and the value of row 2; it is loaded once and serves every output that it belongs to:
 *
 *     column x:   output x - 2 <- tap 2, done    output x - 1 <- tap 1    output x <- tap 0
 *
 * Rows that are padding are treated as in depthwise_conv2d_dsp.h.
 */
#ifndef MCUFUSE_DEPTHWISE_CONV2D_SIZED_DSP_H_
#define MCUFUSE_DEPTHWISE_CONV2D_SIZED_DSP_H_

#include <mcufuse/depthwise_conv2d_dsp.h>

/** @brief What all layers that share the code have in common. */
struct mf_depthwise_conv2d_sized_dsp_cfg {
	uint8_t stride_w; /**< 1 or 2 */
	uint8_t rq_mode;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Shape and constants of a layer. */
struct mf_depthwise_conv2d_sized_dsp_data {
	const int32_t *weights; /**< in the order of depthwise_conv2d_dsp.h */
	const int32_t *requant; /**< entries of requant.h */
	uint16_t in_c;
	uint16_t out_w;
	bool pad_left;  /**< one column of padding */
	bool pad_right; /**< one column of padding that is read */
	uint8_t rq_shift;
	int8_t in_zero;
	int8_t out_zero;
};

/** @brief A column of the window. */
struct mf_depthwise_sized_column {
	uint32_t pair; /**< rows 0 and 1 */
	uint32_t last; /**< row 2 */
};

/** @brief A channel's weights. */
struct mf_depthwise_sized_taps {
	uint32_t pair[3]; /**< of rows 0 and 1, for each column */
	uint32_t last01;  /**< of row 2, columns 0 and 1 */
	uint32_t last2;   /**< of row 2, column 2 */
};

/** @brief What is walked: row 0, and where rows 1 and 2 stand from there on. */
struct mf_depthwise_sized_walk {
	const int8_t *at;
	ptrdiff_t second;
	ptrdiff_t third;
	int step;
};

/** @brief The next column. */
MF_INLINE struct mf_depthwise_sized_column
mf_depthwise_sized_next(struct mf_depthwise_sized_walk *walk)
{
	const int8_t *at = walk->at;
	struct mf_depthwise_sized_column column = {
		mf_pack_halves((uint32_t)at[0], (uint32_t)at[walk->second]),
		(uint32_t)at[walk->third],
	};

	walk->at = at + walk->step;
	return column;
}

/** @brief @p acc plus the products of a column of the input and column @p k of the window. */
MF_INLINE uint32_t mf_depthwise_sized_add(const struct mf_depthwise_sized_taps *taps, int k,
					  struct mf_depthwise_sized_column x, uint32_t acc)
{
	acc = mf_smlad(x.pair, taps->pair[k], acc);
	return k == 0   ? mf_smlabb(x.last, taps->last01, acc)
	       : k == 1 ? mf_smlabt(x.last, taps->last01, acc)
			: mf_smlabb(x.last, taps->last2, acc);
}

/** @brief One row of one channel. */
MF_INLINE void mf_depthwise_sized_channel(const struct mf_depthwise_conv2d_sized_dsp_data *d,
					  const struct mf_requant_cfg *rq, int stride,
					  struct mf_depthwise_sized_walk walk,
					  const struct mf_depthwise_sized_taps *taps,
					  uint32_t start, const int32_t *entry, int8_t *out)
{
	const struct mf_depthwise_sized_column zero = {
		mf_pack_constant((uint32_t)(int32_t)d->in_zero),
		(uint32_t)(int32_t)d->in_zero,
	};
	const bool right = d->pad_right;
	const int8_t *end = out + (d->out_w - (right ? 1 : 0)) * walk.step;
	struct mf_depthwise_sized_column x = zero;
	uint32_t sum;
	uint32_t next = 0;

	if (!d->pad_left) {
		x = mf_depthwise_sized_next(&walk);
	}
	sum = mf_depthwise_sized_add(taps, 0, x, start);
	if (stride == 1) {
		x = mf_depthwise_sized_next(&walk);
		next = mf_depthwise_sized_add(taps, 0, x, start);
		sum = mf_depthwise_sized_add(taps, 1, x, sum);
	}
	while (out != end) {
		uint32_t done;

		if (stride == 2) {
			x = mf_depthwise_sized_next(&walk);
			sum = mf_depthwise_sized_add(taps, 1, x, sum);
		}
		x = mf_depthwise_sized_next(&walk);
		done = mf_depthwise_sized_add(taps, 2, x, sum);
		if (stride == 2) {
			sum = mf_depthwise_sized_add(taps, 0, x, start);
		} else {
			sum = mf_depthwise_sized_add(taps, 1, x, next);
			next = mf_depthwise_sized_add(taps, 0, x, start);
		}
		*out = (int8_t)mf_requant(rq, entry, (int32_t)done);
		out += walk.step;
	}
	if (right) {
		if (stride == 2) {
			x = mf_depthwise_sized_next(&walk);
			sum = mf_depthwise_sized_add(taps, 1, x, sum);
		}
		sum = mf_depthwise_sized_add(taps, 2, zero, sum);
		*out = (int8_t)mf_requant(rq, entry, (int32_t)sum);
	}
}

/** @brief One output row. */
MF_INLINE void
mf_depthwise_conv2d_sized_row_s8_dsp(const struct mf_depthwise_conv2d_sized_dsp_cfg *cfg,
				     const struct mf_depthwise_conv2d_sized_dsp_data *data,
				     const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const struct mf_requant_cfg table = MF_REQUANT_SIZED(cfg, data);
	const bool unpack = cfg->rq_mode % MF_REQUANT_UNIFORM == MF_REQUANT_HIGH;
	struct mf_requant_cfg rq = table;
	const uint32_t zeros = mf_pack_constant((uint32_t)(int32_t)data->in_zero);
	const uint32_t *w = (const uint32_t *)data->weights;
	const int32_t *entry = mf_requant_entries(cfg->rq_mode, data->requant);
	struct mf_depthwise_rows rows;
	struct mf_depthwise_sized_walk walk;

	(void)tick;
	(void)scratch;
	if (unpack) {
		rq.mode = MF_REQUANT_HIGH_WIDE;
	}
	mf_depthwise_rows(in, &rows);
	walk.at = rows.at[0];
	walk.second = rows.at[1] - rows.at[0];
	walk.third = rows.at[2] - rows.at[0];
	walk.step = data->in_c;
	for (int c = 0; c < data->in_c; c++) {
		struct mf_depthwise_sized_taps taps;
		uint32_t start = (uint32_t)mf_requant_start(&table, entry);
		int32_t wide[3];
		uint32_t masked[3];
		const uint32_t *words = w;

		if (!rows.keep.all) {
			memcpy(masked, w, sizeof(masked));
			start = mf_depthwise_pad_rows(&rows.keep, masked, zeros, start);
			words = masked;
		}
		taps.pair[0] = mf_sxtb16(words[0]);
		taps.pair[1] = mf_sxtb16_ror8(words[0]);
		taps.pair[2] = mf_sxtb16(words[1]);
		taps.last01 = mf_sxtb16_ror8(words[1]);
		taps.last2 = words[2];
		if (unpack) {
			mf_requant_unpack(&table, entry, wide);
		}
		mf_depthwise_sized_channel(data, &rq, cfg->stride_w, walk, &taps, start,
					   unpack ? wide : entry, out + c);
		walk.at++;
		w += 3;
		entry += mf_requant_words(cfg->rq_mode);
	}
}

#endif /* MCUFUSE_DEPTHWISE_CONV2D_SIZED_DSP_H_ */
