/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Mean over height and width: sums in the state, the output with the last row.
 *
 * The state is, if all values of a channel fit a 16-bit lane (@c narrow), two words for four channels
 * and an int16_t for each channel that is left over; else an int32_t for each channel.
 */
#ifndef MCUFUSE_MEAN_H_
#define MCUFUSE_MEAN_H_

#include <mcufuse/lanes.h>
#include <mcufuse/operand.h>
#include <mcufuse/vector_loops.h>

/** @brief Shape and arithmetic; compile-time constants. */
struct mf_mean_cfg {
	int32_t height;
	int32_t width;
	int32_t channels;
	bool narrow; /**< height * width <= MF_LANES_LIMIT */
	bool divide; /**< sum / count, halves away from zero, instead of a requantization */
	int rq_mode;
	int rq_shift;
	int32_t rq_lo;
	int32_t rq_hi;
};

/** @brief Constants of one layer. */
struct mf_mean_data {
	const int32_t *requant; /**< one entry, see requant.h; NULL if @c divide */
	int32_t out_zero;
};

/** @brief What turns sums into outputs. */
struct mf_mean_scale {
	struct mf_requant_cfg rq;
	int32_t entry[MF_OPERAND_ENTRY];
};

/** @brief The layer's scale in registers. */
MF_INLINE struct mf_mean_scale mf_mean_scale(const struct mf_mean_cfg *cfg,
					     const struct mf_mean_data *data)
{
	struct mf_mean_scale scale = {.rq = {.mode = cfg->rq_mode,
					     .shift = cfg->rq_shift,
					     .lo = cfg->rq_lo,
					     .hi = cfg->rq_hi,
					     .out_zero = data->out_zero}};

	if (!cfg->divide) {
		mf_operand_entry(&scale.rq, data->requant, scale.entry);
	}
	return scale;
}

/** @brief The output for a channel's sum. */
MF_INLINE int8_t mf_mean_result(const struct mf_mean_cfg *cfg, const struct mf_mean_scale *scale,
				int32_t sum)
{
	const int32_t count = cfg->height * cfg->width;

	if (cfg->divide) {
		sum = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
		return (int8_t)mf_clamp(sum, cfg->rq_lo, cfg->rq_hi);
	}
	return mf_operand_requant(&scale->rq, scale->entry, sum);
}

/** @brief Sum of one channel of a row. */
MF_INLINE int32_t mf_mean_channel(const struct mf_mean_cfg *cfg, const int8_t *x, int32_t sum)
{
	MF_UNROLL_4
	for (int32_t i = 0; i < cfg->width; i++) {
		sum += x[i * cfg->channels];
	}
	return sum;
}

/** @brief A row with the sums in 16 bits. */
MF_INLINE void mf_mean_narrow(const struct mf_mean_cfg *cfg, const struct mf_mean_data *data,
			      const int8_t *x, int8_t *out, int tick, void *state)
{
	struct mf_lanes *lanes = state;
	int16_t *rest = (int16_t *)(lanes + cfg->channels / 4);
	const int32_t count = cfg->height * cfg->width;
	const bool last = tick == cfg->height - 1;
	const struct mf_mean_scale scale = mf_mean_scale(cfg, data);

	if (mf_vector_sums(x, cfg->width, cfg->channels, tick == 0, state) == cfg->channels) {
		const int16_t *sums = state;

		for (int32_t c = 0; last && c < cfg->channels; c++) {
			out[c] = mf_mean_result(cfg, &scale, sums[c]);
		}
		return;
	}
	for (int32_t c = 0; c < cfg->channels / 4; c++) {
		struct mf_lanes sum = {0, 0};

		if (tick != 0) {
			sum = lanes[c];
		}
		MF_UNROLL_4
		for (int32_t i = 0; i < cfg->width; i++) {
			mf_lanes_add(&sum, x + i * cfg->channels);
		}
		x += 4;
		if (!last) {
			lanes[c] = sum;
			continue;
		}
		MF_UNROLL
		for (int k = 0; k < 4; k++) {
			*out++ = mf_mean_result(cfg, &scale, mf_lanes_get(&sum, k, count));
		}
	}
	for (int32_t c = 0; c < cfg->channels % 4; c++) {
		int32_t sum = mf_mean_channel(cfg, x + c, tick != 0 ? rest[c] : 0);

		if (last) {
			*out++ = mf_mean_result(cfg, &scale, sum);
		} else {
			rest[c] = (int16_t)sum;
		}
	}
}

/** @brief A row with the sums one by one; they stand in 16 bits where that is enough. */
MF_INLINE void mf_mean_wide(const struct mf_mean_cfg *cfg, const struct mf_mean_data *data,
			    const int8_t *x, int8_t *out, int tick, void *state)
{
	int32_t *sums = state;
	int16_t *short_sums = state;
	const bool last = tick == cfg->height - 1;
	const struct mf_mean_scale scale = mf_mean_scale(cfg, data);

	for (int32_t c = 0; c < cfg->channels; c++) {
		int32_t sum = 0;

		if (tick != 0) {
			sum = cfg->narrow ? short_sums[c] : sums[c];
		}
		sum = mf_mean_channel(cfg, x + c, sum);
		if (last) {
			out[c] = mf_mean_result(cfg, &scale, sum);
		} else if (cfg->narrow) {
			short_sums[c] = (int16_t)sum;
		} else {
			sums[c] = sum;
		}
	}
}

/** @brief One row; the last one writes @p out. @p state keeps the sums from tick to tick. */
MF_INLINE void mf_mean_row_s8(const struct mf_mean_cfg *cfg, const struct mf_mean_data *data,
			      const int8_t *const *in, int8_t *out, int tick, void *state)
{
	if (cfg->narrow) {
		mf_mean_narrow(cfg, data, in[0], out, tick, state);
	} else {
		mf_mean_wide(cfg, data, in[0], out, tick, state);
	}
}

#endif /* MCUFUSE_MEAN_H_ */
