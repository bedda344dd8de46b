/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Maximum and average over windows; padding is left out.
 */
#ifndef MCUFUSE_POOL_H_
#define MCUFUSE_POOL_H_

#include <mcufuse/lanes.h>
#include <mcufuse/operand.h>
#include <mcufuse/vector_loops.h>

/** @brief Shape and arithmetic; compile-time constants. */
struct mf_pool_cfg {
	int32_t in_w;
	int32_t out_w;
	int32_t channels;
	int32_t kernel_h;
	int32_t kernel_w;
	int32_t stride_w;
	int32_t left; /**< columns of padding */
	int32_t lo;   /**< least output */
	int32_t hi;   /**< greatest output */
	/* average only, from here on */
	bool divide;         /**< sum / count, halves away from zero, instead of a requantization */
	int32_t entries;     /**< of @c requant: 1 if all windows count the same */
	int32_t least_count; /**< the count of the first entry of @c requant */
	int rq_mode;
	int rq_shift;
};

/** @brief Constants of one layer. */
struct mf_pool_data {
	const int32_t *requant; /**< average: an entry for each count, see requant.h; else NULL */
	int32_t in_zero;
	int32_t out_zero;
};

/** @brief The part of a window that lies inside the map. */
struct mf_pool_window {
	const int8_t *const *rows; /**< its first row */
	int32_t offset;            /**< of its first column, bytes */
	int32_t height;
	int32_t width;
};

/** @brief Skips the rows of padding; returns how many rows are left from *@p rows on. */
MF_INLINE int32_t mf_pool_rows(const struct mf_pool_cfg *cfg, const int8_t *const **rows)
{
	int32_t first = 0;
	int32_t count = 0;

	while (first < cfg->kernel_h && (*rows)[first] == NULL) {
		first++;
	}
	while (first + count < cfg->kernel_h && (*rows)[first + count] != NULL) {
		count++;
	}
	*rows += first;
	return count;
}

/** @brief The window of output column @p column. */
MF_INLINE struct mf_pool_window mf_pool_window(const struct mf_pool_cfg *cfg,
					       const int8_t *const *rows, int32_t height,
					       int32_t column)
{
	int32_t x = column * cfg->stride_w - cfg->left;
	int32_t from = x < 0 ? 0 : x;
	int32_t to = x + cfg->kernel_w > cfg->in_w ? cfg->in_w : x + cfg->kernel_w;

	return (struct mf_pool_window){rows, from * cfg->channels, height, to - from};
}

#if MF_HAS_DSP
/** @brief The greater of each of four signed bytes. */
MF_INLINE uint32_t mf_pool_max4(uint32_t a, uint32_t b)
{
	uint32_t result;

	__asm__("ssub8 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(result) : "r"(a), "r"(b) : "cc");
	return result;
}

/** @brief Maximum of four channels. */
MF_INLINE void mf_pool_max_four(const struct mf_pool_cfg *cfg, const struct mf_pool_window *window,
				int32_t c, int8_t *out)
{
	uint32_t best = 0x80808080u;
	uint32_t limit_lo = (uint8_t)cfg->lo * 0x01010101u;
	uint32_t limit_hi = (uint8_t)~cfg->hi * 0x01010101u;

	for (int32_t r = 0; r < window->height; r++) {
		const int8_t *x = window->rows[r] + window->offset + c;

		for (int32_t k = 0; k < window->width; k++) {
			uint32_t word;

			memcpy(&word, x + k * cfg->channels, sizeof(word));
			best = mf_pool_max4(best, word);
		}
	}
	if (cfg->lo > -128) {
		best = mf_pool_max4(best, limit_lo);
	}
	if (cfg->hi < 127) {
		best = ~mf_pool_max4(~best, limit_hi); /* ~x turns the order of signed bytes */
	}
	memcpy(out + c, &best, sizeof(best));
}
#endif

/** @brief Maximum of one channel. */
MF_INLINE void mf_pool_max_one(const struct mf_pool_cfg *cfg, const struct mf_pool_window *window,
			       int32_t c, int8_t *out)
{
	int32_t best = -128;

	for (int32_t r = 0; r < window->height; r++) {
		const int8_t *x = window->rows[r] + window->offset + c;

		for (int32_t k = 0; k < window->width; k++) {
			int32_t v = x[k * cfg->channels];

			best = v > best ? v : best;
		}
	}
	out[c] = (int8_t)mf_clamp(best, cfg->lo, cfg->hi);
}

/** @brief Maximum of all channels of a window. */
MF_INLINE void mf_pool_max_pixel(const struct mf_pool_cfg *cfg, const struct mf_pool_window *window,
				 int8_t *out)
{
	const struct mf_vector_window all = {window->rows, window->offset, window->height,
					     window->width, cfg->channels};
	int32_t c = mf_vector_max(&all, cfg->lo, cfg->hi, out);

#if MF_HAS_DSP
	for (; c + 4 <= cfg->channels; c += 4) {
		mf_pool_max_four(cfg, window, c, out);
	}
#endif
	for (; c < cfg->channels; c++) {
		mf_pool_max_one(cfg, window, c, out);
	}
}

/** @brief One row of maxima: @p in holds kernel_h rows, NULL where there is padding. */
MF_INLINE void mf_max_pool2d_row_s8(const struct mf_pool_cfg *cfg, const struct mf_pool_data *data,
				    const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const int8_t *const *rows = in;
	const int32_t height = mf_pool_rows(cfg, &rows);

	(void)data;
	(void)tick;
	(void)scratch;
	for (int32_t column = 0; column < cfg->out_w; column++) {
		struct mf_pool_window window = mf_pool_window(cfg, rows, height, column);

		if (window.width == cfg->kernel_w && height == cfg->kernel_h) {
			window.width = cfg->kernel_w; /* a constant, so that the loops unroll */
			window.height = cfg->kernel_h;
			mf_pool_max_pixel(cfg, &window, out);
		} else {
			mf_pool_max_pixel(cfg, &window, out);
		}
		out += cfg->channels;
	}
}

/** @brief The output for the sum of a window. */
MF_INLINE int8_t mf_pool_mean(const struct mf_pool_cfg *cfg, const struct mf_requant_cfg *rq,
			      const int32_t *entry, int32_t zero, int32_t sum, int32_t count)
{
	if (cfg->divide) {
		sum = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
		return (int8_t)mf_clamp(sum, cfg->lo, cfg->hi);
	}
	return mf_operand_requant(rq, entry, sum - zero * count);
}

/** @brief Average of all channels of a window. */
MF_INLINE void mf_pool_mean_pixel(const struct mf_pool_cfg *cfg, const struct mf_pool_data *data,
				  const struct mf_pool_window *window, int8_t *out)
{
	const struct mf_requant_cfg rq = {.mode = cfg->rq_mode,
					  .shift = cfg->rq_shift,
					  .lo = cfg->lo,
					  .hi = cfg->hi,
					  .out_zero = data->out_zero};
	const int32_t zero = data->in_zero;
	const int32_t count = window->height * window->width;
	const int32_t index = cfg->entries == 1 ? 0 : count - cfg->least_count;
	int32_t entry[MF_OPERAND_ENTRY] = {0};
	int32_t c = 0;

	if (!cfg->divide) {
		mf_operand_entry(&rq, data->requant + index * mf_requant_words(rq.mode), entry);
	}
	if (MF_LANES && cfg->kernel_h * cfg->kernel_w <= MF_LANES_LIMIT) {
		for (; c + 4 <= cfg->channels; c += 4) {
			struct mf_lanes sum = {0, 0};

			for (int32_t r = 0; r < window->height; r++) {
				const int8_t *x = window->rows[r] + window->offset + c;

				for (int32_t k = 0; k < window->width; k++) {
					mf_lanes_add(&sum, x + k * cfg->channels);
				}
			}
			MF_UNROLL
			for (int k = 0; k < 4; k++) {
				out[c + k] = mf_pool_mean(cfg, &rq, entry, zero,
							  mf_lanes_get(&sum, k, count), count);
			}
		}
	}
	for (; c < cfg->channels; c++) {
		int32_t sum = 0;

		for (int32_t r = 0; r < window->height; r++) {
			const int8_t *x = window->rows[r] + window->offset + c;

			for (int32_t k = 0; k < window->width; k++) {
				sum += x[k * cfg->channels];
			}
		}
		out[c] = mf_pool_mean(cfg, &rq, entry, zero, sum, count);
	}
}

/** @brief One row of averages: @p in holds kernel_h rows, NULL where there is padding. */
MF_INLINE void mf_avg_pool2d_row_s8(const struct mf_pool_cfg *cfg, const struct mf_pool_data *data,
				    const int8_t *const *in, int8_t *out, int tick, void *scratch)
{
	const int8_t *const *rows = in;
	const int32_t height = mf_pool_rows(cfg, &rows);

	(void)tick;
	(void)scratch;
	for (int32_t column = 0; column < cfg->out_w; column++) {
		struct mf_pool_window window = mf_pool_window(cfg, rows, height, column);

		if (window.width == cfg->kernel_w && height == cfg->kernel_h) {
			window.width =
				cfg->kernel_w; /* constants: the division becomes a product */
			window.height = cfg->kernel_h;
			mf_pool_mean_pixel(cfg, data, &window, out);
		} else {
			mf_pool_mean_pixel(cfg, data, &window, out);
		}
		out += cfg->channels;
	}
}

#endif /* MCUFUSE_POOL_H_ */
