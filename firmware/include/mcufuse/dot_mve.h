/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Pixels times channels with vectors of sixteen bytes (MVE).
 *
 * A block is `np` pixels (1 or 2) times four channels. Weights stand in reading order, block after
 * block, in runs of sixteen values; the first run is shorter when the window is no multiple of them:
 *
 *     [run][channel 0..3 of the block][16 values]
 *
 * The last block is filled up with channels that are computed and dropped; behind the weights stand
 * as many zeros as a load of sixteen may reach.
 */
#ifndef MCUFUSE_DOT_MVE_H_
#define MCUFUSE_DOT_MVE_H_

#include <mcufuse/vector.h>

/** @brief What a layer's blocks have in common; compile-time constants. */
struct mf_dot_mve_cfg {
	int depth;    /**< values of a window */
	int distance; /**< from the first pixel's window to the second's, bytes */
	int out_step; /**< from the first pixel's output to the second's, bytes */
	struct mf_requant_cfg rq;
};

/** @brief One run of @p n values of @p np pixels; returns the next weights. */
MF_INLINE const int8_t *mf_dot_mve_run(int32_t acc[2][MF_VECTOR_LANES], const int8_t *x,
				       const int8_t *w, int distance, int n, int np)
{
	const struct mf_bytes x0 = mf_bytes_load(x, n);
	const struct mf_bytes x1 = np > 1 ? mf_bytes_load(x + distance, n) : x0;

	MF_UNROLL
	for (int j = 0; j < MF_VECTOR_LANES; j++) {
		const struct mf_bytes v = mf_bytes_load(w + j * n, n);

		acc[0][j] = mf_bytes_dot(acc[0][j], x0, v);
		if (np > 1) {
			acc[1][j] = mf_bytes_dot(acc[1][j], x1, v);
		}
	}
	return w + MF_VECTOR_LANES * n;
}

/** @brief @p np pixels times four channels, of which @p nb are stored; returns the next weights. */
MF_INLINE const int8_t *mf_dot_mve_block(const struct mf_dot_mve_cfg *cfg, const int8_t *x,
					 const int8_t *w, const int32_t *table, int8_t *out, int np,
					 int nb)
{
	const int first = cfg->depth % 16 != 0 ? cfg->depth % 16 : 16;
	const int8_t *end = x + cfg->depth;
	int32_t acc[2][MF_VECTOR_LANES] = {{0}};

#if MF_HAS_VECTOR_RUNS
	if (mf_vector_mode(cfg->rq.mode)) {
		const int8_t *second = x + cfg->distance;
		int32x4_t sum[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};

		if (np > 1) {
			MF_VECTOR_RUNS_2X4(sum[0], sum[1], x, second, w, first,
					   (cfg->depth - 1) / 16);
		} else {
			MF_VECTOR_RUNS_1X4(sum[0], x, w, first, (cfg->depth - 1) / 16);
		}
		mf_vector_store(&cfg->rq, table, sum, out, cfg->out_step, np, nb);
		return w;
	}
#endif
	w = mf_dot_mve_run(acc, x, w, cfg->distance, first, np);
	for (x += first; x != end; x += 16) {
		w = mf_dot_mve_run(acc, x, w, cfg->distance, 16, np);
	}
	mf_vector_requant(&cfg->rq, table, acc, out, cfg->out_step, np, nb);
	return w;
}

/** @brief @p np pixels times @p channels channels. */
MF_INLINE void mf_dot_mve_pixels(const struct mf_dot_mve_cfg *cfg, const int8_t *x, const int8_t *w,
				 const int32_t *table, int8_t *out, int channels, int np)
{
	const bool whole = channels % MF_VECTOR_LANES == 0;

	MF_KEEP(x);
	MF_KEEP(w);
	MF_KEEP(table);
	MF_KEEP(out);
	for (int c = 0; c < channels; c += MF_VECTOR_LANES) {
		const int n = whole ? MF_VECTOR_LANES : MF_MIN(channels - c, MF_VECTOR_LANES);

		w = mf_dot_mve_block(cfg, x, w, table, out + c, np, n);
		table += 3 * MF_VECTOR_LANES;
	}
}

#endif /* MCUFUSE_DOT_MVE_H_ */
