/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Pixels times channels: the inner loops of convolution and fully connected layers.
 *
 * A block multiplies the windows of `np` pixels (1 or 2) with `nb` output channels at once, so that
 * each value that is loaded serves several multiplications. Weights stand in reading order:
 *
 *     w[k][0..nb-1] for k = 0..depth-1, block after block
 *
 * All blocks of a layer have the same number of channels, except the last one. In a `sized` layer, where
 * only the run knows the sizes, all have: weights and table are filled up with channels that are
 * computed and dropped; the depth is a multiple of 4.
 */
#ifndef MCUFUSE_DOT_H_
#define MCUFUSE_DOT_H_

#include <mcufuse/requant.h>

#if defined(__thumb2__) && !MF_HAS_DSP && MF_OPTIMIZED
#define MF_HAS_DOT_STEP 1

/**
 * @brief One step of two pixels, @p distance (1 to 4,095, a constant) bytes apart, and four channels.
 *
 * In assembly: GCC 12 given the same in C spills two of the sums.
 */
#define MF_DOT_STEP_2X4(a, x, w, distance)                                                         \
	do {                                                                                       \
		int32_t x0_, x1_, w_;                                                              \
		__asm__("ldrsb %[x0], [%[px]], #1\n\t"                                             \
			"ldrsb %[w], [%[pw]], #1\n\t"                                              \
			"ldrsb %[x1], [%[px], %[d]]\n\t"                                           \
			"mla %[a00], %[x0], %[w], %[a00]\n\t"                                      \
			"mla %[a10], %[x1], %[w], %[a10]\n\t"                                      \
			"ldrsb %[w], [%[pw]], #1\n\t"                                              \
			"mla %[a01], %[x0], %[w], %[a01]\n\t"                                      \
			"mla %[a11], %[x1], %[w], %[a11]\n\t"                                      \
			"ldrsb %[w], [%[pw]], #1\n\t"                                              \
			"mla %[a02], %[x0], %[w], %[a02]\n\t"                                      \
			"mla %[a12], %[x1], %[w], %[a12]\n\t"                                      \
			"ldrsb %[w], [%[pw]], #1\n\t"                                              \
			"mla %[a03], %[x0], %[w], %[a03]\n\t"                                      \
			"mla %[a13], %[x1], %[w], %[a13]"                                          \
			: [a00] "+r"(a[0][0]), [a01] "+r"(a[0][1]), [a02] "+r"(a[0][2]),           \
			  [a03] "+r"(a[0][3]), [a10] "+r"(a[1][0]), [a11] "+r"(a[1][1]),           \
			  [a12] "+r"(a[1][2]), [a13] "+r"(a[1][3]), [px] "+r"(x), [pw] "+r"(w),    \
			  [x0] "=&r"(x0_), [x1] "=&r"(x1_), [w] "=&r"(w_)                          \
			: [d] "i"((distance) - 1)                                                  \
			: "memory");                                                               \
	} while (false)
#else
#define MF_HAS_DOT_STEP                    0
#define MF_DOT_STEP_2X4(a, x, w, distance) (void)(a), (void)(x), (void)(w)
#endif

/** Pixels of a block. Armv6-M reaches eight registers: four sums, a value, a weight and two pointers. */
#if defined(__ARM_ARCH_6M__)
#define MF_DOT_PIXELS 1
#else
#define MF_DOT_PIXELS 2
#endif

/** Most output channels of a block. */
#define MF_DOT_CHANNELS 8

/** @brief What a layer's blocks have in common; compile-time constants. */
struct mf_dot_cfg {
	bool sized;   /**< depth, out_step, rq.shift and the channels are variables */
	int block;    /**< output channels of a full block */
	int depth;    /**< values of a window */
	int distance; /**< from a value of the first pixel's window to the second's, bytes */
	int out_step; /**< from the first pixel's output to the second's, bytes */
	struct mf_requant_cfg rq;
};

/** @brief Steps of the inner loop that are written out: few left-over steps, small code. */
MF_INLINE int mf_dot_unroll(int depth)
{
	if (depth <= 9) {
		return depth;
	}
	if (depth % 9 == 0 && depth % 8 != 0) {
		return 9;
	}
	for (int n = 8; n >= 4; n--) {
		if (depth % n == 0) {
			return n;
		}
	}
	return 4;
}

/** @brief One step: value @p k of the windows times its weights. */
MF_INLINE void mf_dot_step(int32_t acc[2][MF_DOT_CHANNELS], const int8_t *x, const int8_t *w,
			   int distance, int np, int nb)
{
	int32_t x0, x1;

	if (np == 1) {
		MF_IN_ORDER();
	}
	x0 = x[0];
	x1 = np > 1 ? x[distance] : 0;

	MF_UNROLL
	for (int j = 0; j < nb; j++) {
		int32_t v = w[j];

		acc[0][j] += x0 * v;
		if (np > 1) {
			acc[1][j] += x1 * v;
		}
	}
}

/**
 * @brief The inner loop of a sized layer; returns the next weights.
 *
 * The depth is a multiple of 4; windows of two pixels alternate word by word, so that the distance is constant.
 */
MF_INLINE const int8_t *mf_dot_walk_sized(const struct mf_dot_cfg *cfg,
					  int32_t acc[2][MF_DOT_CHANNELS], const int8_t *x,
					  const int8_t *w, int np, int nb)
{
	const int8_t *end = x + cfg->depth * np;

	do {
		if (MF_HAS_DOT_STEP && np == 2 && nb == 4) {
			MF_UNROLL
			for (int k = 0; k < 4; k++) {
				MF_DOT_STEP_2X4(acc, x, w, 4);
			}
			x += 4;
			continue;
		}
		MF_UNROLL
		for (int k = 0; k < 4; k++) {
			mf_dot_step(acc, x + k, w + k * nb, 4, np, nb);
		}
		x += 4 * np;
		w += 4 * nb;
	} while (x != end);
	return w;
}

/** @brief The inner loop for a constant depth; returns the next weights. */
MF_INLINE const int8_t *mf_dot_walk(const struct mf_dot_cfg *cfg, int32_t acc[2][MF_DOT_CHANNELS],
				    const int8_t *x, const int8_t *w, int np, int nb)
{
	const int unroll = mf_dot_unroll(cfg->depth);
	const int rest = cfg->depth % unroll;
	const bool step = MF_HAS_DOT_STEP && np == 2 && nb == 4 && cfg->distance < 4096 &&
			  __builtin_constant_p(cfg->distance);
	const int8_t *end = x + (cfg->depth - rest);

	do {
		if (step) {
			MF_UNROLL
			for (int k = 0; k < unroll; k++) {
				MF_DOT_STEP_2X4(acc, x, w, cfg->distance);
			}
		} else {
			MF_UNROLL
			for (int k = 0; k < unroll; k++) {
				mf_dot_step(acc, x + k, w + k * nb, cfg->distance, np, nb);
			}
			x += unroll;
			w += unroll * nb;
		}
	} while (x != end);
	MF_UNROLL
	for (int k = 0; k < 8; k++) {
		if (k < rest && step) {
			MF_DOT_STEP_2X4(acc, x, w, cfg->distance);
		} else if (k < rest) {
			mf_dot_step(acc, x + k, w + k * nb, cfg->distance, np, nb);
		}
	}
	return step ? w : w + rest * nb;
}

/** @brief @p np pixels times @p nb channels, requantized into @p out; returns the next weights. */
MF_INLINE const int8_t *mf_dot_block(const struct mf_dot_cfg *cfg, const int8_t *x, const int8_t *w,
				     const int32_t *entry, int8_t *out, int np, int nb)
{
	const struct mf_requant_cfg rq = cfg->rq;
	const int words = mf_requant_words(rq.mode);
	int32_t acc[2][MF_DOT_CHANNELS];

	MF_UNROLL
	for (int j = 0; j < nb; j++) {
		acc[0][j] = mf_requant_start(&rq, entry + j * words);
		acc[1][j] = acc[0][j];
	}
	w = cfg->sized ? mf_dot_walk_sized(cfg, acc, x, w, np, nb)
		       : mf_dot_walk(cfg, acc, x, w, np, nb);
	MF_UNROLL
	for (int j = 0; j < nb; j++) {
		int32_t y[2];

		MF_UNROLL
		for (int p = 0; p < np; p++) {
			y[p] = mf_requant(&rq, entry + j * words, acc[p][j]);
		}
		MF_UNROLL
		for (int p = 0; p < np; p++) {
			out[p * cfg->out_step + j] = (int8_t)y[p];
		}
	}
	return w;
}

/** @brief As mf_dot_pixels() for a sized layer. */
MF_INLINE void mf_dot_pixels_sized(const struct mf_dot_cfg *cfg, const int8_t *x, const int8_t *w,
				   const int32_t *entry, int8_t *out, int channels, int np)
{
	int8_t spare[2 * MF_DOT_CHANNELS];

	for (int c = channels; c > 0; c -= cfg->block) {
		struct mf_dot_cfg block = *cfg;
		int8_t *to = out;

		if (c < cfg->block) {
			block.out_step = cfg->block;
			to = spare;
		}
		w = mf_dot_block(&block, x, w, entry, to, np, cfg->block);
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
MF_INLINE void mf_dot_pixels(const struct mf_dot_cfg *cfg, const int8_t *x, const int8_t *w,
			     const int32_t *entry, int8_t *out, int channels, int np)
{
	const int words = mf_requant_words(cfg->rq.mode);
	const int rest = channels % cfg->block;

	MF_KEEP(x);
	MF_KEEP(w);
	MF_KEEP(entry);
	MF_KEEP(out);
	if (cfg->sized) {
		mf_dot_pixels_sized(cfg, x, w, entry, out, channels, np);
		return;
	}
	for (int c = 0; c < channels - rest; c += cfg->block) {
		w = mf_dot_block(cfg, x, w, entry, out + c, np, cfg->block);
		entry += cfg->block * words;
	}
	if (rest != 0) {
		mf_dot_block(cfg, x, w, entry, out + channels - rest, np, rest);
	}
}

#endif /* MCUFUSE_DOT_H_ */
